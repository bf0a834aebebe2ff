//! TLS: whom the guard trusts, and as whom it shows itself.

use std::sync::Arc;

use guard_core::{ConfigError, StoreError};
use redis::{ConnectionAddr, ConnectionInfo, RedisError};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Error, RootCertStore,
    StreamOwned,
};

use crate::endpoint::Endpoint;
use crate::error::{classify, no_tls};
use crate::socket::BoundedSocket;
use crate::wire::Stream;

const CA: &str = "tls_ca_certificate";
const CLIENT: &str = "tls_client_certificate";

/// What is set for connections by TLS, in PEM.
#[derive(Clone, Default)]
pub(crate) struct TlsSettings {
    pub(crate) ca_certificate: Option<Vec<u8>>,
    pub(crate) client: Option<ClientPem>,
}

/// A certificate with its intermediates, and its private key.
#[derive(Clone)]
pub(crate) struct ClientPem {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl TlsSettings {
    /// The first of the settings that are made.
    pub(crate) const fn any(&self) -> Option<&'static str> {
        match self {
            Self {
                ca_certificate: Some(_),
                ..
            } => Some(CA),
            Self {
                client: Some(_), ..
            } => Some(CLIENT),
            _ => None,
        }
    }

    /// Makes sure that nothing is set for connections whose settings came with their pool.
    pub(crate) fn are_the_pools(&self, info: &ConnectionInfo) -> Result<(), ConfigError> {
        if let Some(setting) = self.any() {
            return Err(ConfigError::setting(
                setting,
                "a pool and its client bring their own certificates",
            ));
        }
        if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            ensure_provider();
        }
        Ok(())
    }

    /// The server at this address, with these settings. Certificates that are part of the address are left to the
    /// client library: nobody else can read them.
    pub(crate) fn apply(&self, info: ConnectionInfo) -> Result<Endpoint, ConfigError> {
        let ConnectionAddr::TcpTls {
            insecure,
            tls_params,
            ..
        } = info.addr()
        else {
            return match self.any() {
                Some(setting) => Err(ConfigError::setting(
                    setting,
                    "it is for addresses of the form rediss://…",
                )),
                None => Ok(Endpoint::new(info)),
            };
        };
        if *insecure || (tls_params.is_some() && self.any().is_none()) {
            ensure_provider();
            return Ok(Endpoint::new(info));
        }
        Ok(Endpoint::new(info).with_tls(Some(self.config()?)))
    }

    /// What rustls has to know. Made once, since that takes long; what is wrong with it is said of the setting.
    fn config(&self) -> Result<Arc<ClientConfig>, ConfigError> {
        let mut roots = RootCertStore::empty();
        if let Some(pem) = &self.ca_certificate {
            for certificate in certificates(CA, pem)? {
                roots
                    .add(certificate)
                    .map_err(|error| ConfigError::setting(CA, error.to_string()))?;
            }
        } else {
            // Without any, nobody is trusted, and the first connection says so.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let provider = match CryptoProvider::get_default() {
            Some(provider) => Arc::clone(provider),
            None => Arc::new(ring::default_provider()),
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| ConfigError::setting("address", error.to_string()))?
            .with_root_certificates(roots);
        let Some(client) = &self.client else {
            return Ok(Arc::new(config.with_no_client_auth()));
        };
        let chain = certificates(CLIENT, &client.certificate)?;
        // What is wrong with a private key is nobody's business.
        let key = PrivateKeyDer::from_pem_slice(&client.key)
            .map_err(|_| ConfigError::setting(CLIENT, "the key is not a private key in PEM"))?;
        config
            .with_client_auth_cert(chain, key)
            .map(Arc::new)
            .map_err(|_| {
                ConfigError::setting(CLIENT, "the key is not the certificate's, or of no use")
            })
    }
}

/// Begins to speak TLS with `host` on a socket that leads there.
pub(crate) fn shake_hands(
    host: &str,
    config: &Arc<ClientConfig>,
    mut socket: BoundedSocket,
) -> Result<Stream, StoreError> {
    const STEP: &str = "shaking hands";
    let name = ServerName::try_from(host.to_owned()).map_err(|error| {
        StoreError::permanent("no certificate can be for this host name").with_source(error)
    })?;
    let mut client = ClientConnection::new(Arc::clone(config), name)
        .map_err(|error| classify(STEP, error.into()))?;
    while client.is_handshaking() {
        client.complete_io(&mut socket).map_err(|error| {
            let error = RedisError::from(error);
            if error.is_timeout() {
                no_tls(STEP, error)
            } else {
                classify(STEP, error)
            }
        })?;
    }
    Ok(Stream::Tls(Box::new(StreamOwned::new(client, socket))))
}

fn certificates(
    setting: &'static str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    match CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>() {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(ConfigError::setting(
            setting,
            "there is no certificate in PEM in it",
        )),
    }
}

/// Sees to it that rustls knows by whose cryptography it works. A process in which nobody has chosen, and where
/// several are linked, would panic at its first connection.
fn ensure_provider() {
    if CryptoProvider::get_default().is_none() {
        // An error says that somebody else was quicker.
        let _ = ring::default_provider().install_default();
    }
}

/// Why a TLS connection is refused for good, and what to do; `None` if `error` is something else.
pub(crate) fn refusal(error: &RedisError) -> Option<String> {
    let reason = match rustls_error(error)? {
        Error::InvalidCertificate(why) => distrust(why),
        Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            // What its authority, or one of the same name, did not sign.
            | AlertDescription::DecryptError
            | AlertDescription::HandshakeFailure,
        ) => format!("the server does not accept our certificate, or misses one (see `{CLIENT}`)"),
        Error::InvalidMessage(_) => "the server does not speak TLS at this port".to_owned(),
        Error::PeerIncompatible(_) | Error::AlertReceived(AlertDescription::ProtocolVersion) => {
            "the server speaks no TLS version or cipher that is safe".to_owned()
        }
        _ => return None,
    };
    Some(reason)
}

fn distrust(why: &CertificateError) -> String {
    match why {
        // The signature is bad if an authority of the same name is trusted.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            format!("the server's certificate is signed by nobody who is trusted here (see `{CA}`)")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the server's certificate is for another host name than the address's".to_owned()
        }
        why => format!("the server's certificate is not accepted: {why}"),
    }
}

/// The client library keeps it inside an error of the socket.
fn rustls_error(error: &RedisError) -> Option<&Error> {
    use std::error::Error as _;
    use std::sync::Arc;
    let inner: &Arc<dyn std::error::Error + Send + Sync> = error.source()?.downcast_ref()?;
    match inner.downcast_ref::<std::io::Error>() {
        Some(io) => io.get_ref()?.downcast_ref(),
        None => inner.downcast_ref(),
    }
}

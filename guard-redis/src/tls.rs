//! TLS: whom the guard trusts, and as whom it shows itself.

use guard_core::ConfigError;
use redis::{Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, RedisError, TlsCertificates};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, CertificateError, ClientConfig, Error, RootCertStore};

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

    /// The address with these settings.
    pub(crate) fn apply(self, info: ConnectionInfo) -> Result<ConnectionInfo, ConfigError> {
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return match self.any() {
                Some(setting) => Err(ConfigError::setting(
                    setting,
                    "it is for addresses of the form rediss://…",
                )),
                None => Ok(info),
            };
        }
        ensure_provider();
        if self.any().is_none() {
            return Ok(info);
        }
        self.check()?;
        let certificates = TlsCertificates {
            client_tls: self.client.map(|client| ClientTlsConfig {
                client_cert: client.certificate,
                client_key: client.key,
            }),
            root_cert: self.ca_certificate,
        };
        Client::build_with_tls(info, certificates)
            .map(|client| client.get_connection_info().clone())
            .map_err(|error| ConfigError::setting(CA, error.category()))
    }

    /// Finds now what would else fail at each connection, and says which setting it is.
    fn check(&self) -> Result<(), ConfigError> {
        let mut roots = RootCertStore::empty();
        if let Some(pem) = &self.ca_certificate {
            for certificate in certificates(CA, pem)? {
                roots
                    .add(certificate)
                    .map_err(|error| ConfigError::setting(CA, error.to_string()))?;
            }
        }
        let Some(client) = &self.client else {
            return Ok(());
        };
        let chain = certificates(CLIENT, &client.certificate)?;
        // What is wrong with a private key is nobody's business.
        let key = PrivateKeyDer::from_pem_slice(&client.key)
            .map_err(|_| ConfigError::setting(CLIENT, "the key is not a private key in PEM"))?;
        ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map(drop)
            .map_err(|_| {
                ConfigError::setting(CLIENT, "the key is not the certificate's, or of no use")
            })
    }
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

//! TLS: whom the guard trusts, and as whom it shows itself.

use std::sync::Arc;

use guard_core::{ConfigError, StoreError};
use redis::{ConnectionAddr, ConnectionInfo, RedisError};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    StreamOwned,
};

use crate::connection::endpoint::Endpoint;
use crate::connection::socket::BoundedSocket;
use crate::connection::wire::Stream;
use crate::protocol::error::{classify, no_tls};
use crate::protocol::tls_error::{CA, CLIENT};

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

    /// The server at this address, with these settings.
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
        if tls_params.is_some() {
            let reason =
                format!("its certificates cannot be read out of it: use `{CA}` and `{CLIENT}`");
            return Err(ConfigError::setting("address", reason));
        }
        let config = self.config(*insecure)?;
        Ok(Endpoint::new(info).with_tls(Some(config)))
    }

    /// What rustls has to know. Made once, since that takes long; what is wrong with it is said of the setting.
    fn config(&self, insecure: bool) -> Result<Arc<ClientConfig>, ConfigError> {
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
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| ConfigError::setting("address", error.to_string()))?;
        let config = if insecure {
            let anybody = Arc::new(Anybody(provider));
            config.dangerous().with_custom_certificate_verifier(anybody)
        } else {
            config.with_root_certificates(roots)
        };
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

/// Trusts whoever answers: the address ends in `#insecure`.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

//! Why a TLS connection is refused for good, and what to do.

use redis::RedisError;
use rustls::{AlertDescription, CertificateError, Error};

/// The settings of the builder that the reasons name.
pub(crate) const CA: &str = "tls_ca_certificate";
pub(crate) const CLIENT: &str = "tls_client_certificate";

/// The reason, in words; `None` if `error` is something else.
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

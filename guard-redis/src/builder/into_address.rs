//! What an address can be given as.

use redis::{
    ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisError, RedisResult,
};
use url::Url;

/// What the address of a server can be given as: a URL, as text or parsed, or what the client library makes of one.
pub trait IntoAddress {
    /// The address, and who we are there.
    ///
    /// # Errors
    ///
    /// When it cannot be read. What the error says shows nothing of it.
    fn into_address(self) -> RedisResult<ConnectionInfo>;
}

impl IntoAddress for &str {
    fn into_address(self) -> RedisResult<ConnectionInfo> {
        check(self)?;
        self.into_connection_info()
    }
}

impl IntoAddress for String {
    fn into_address(self) -> RedisResult<ConnectionInfo> {
        self.as_str().into_address()
    }
}

impl IntoAddress for Url {
    fn into_address(self) -> RedisResult<ConnectionInfo> {
        self.as_str().into_address()
    }
}

impl IntoAddress for ConnectionInfo {
    fn into_address(self) -> RedisResult<ConnectionInfo> {
        Ok(self)
    }
}

impl IntoAddress for ConnectionAddr {
    fn into_address(self) -> RedisResult<ConnectionInfo> {
        self.into_connection_info()
    }
}

impl<T: Into<String>> IntoAddress for (T, u16) {
    fn into_address(self) -> RedisResult<ConnectionInfo> {
        self.into_connection_info()
    }
}

/// Finds a password that ends the host early: what is left of it would be taken for a port or a host, looked up, and
/// shown.
fn check(url: &str) -> RedisResult<()> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Ok(());
    };
    let beyond = rest.find(['/', '?', '#']).map_or("", |end| &rest[end..]);
    if scheme.contains("unix") || !beyond.contains('@') {
        return Ok(());
    }
    Err(RedisError::from((
        ErrorKind::InvalidClientConfig,
        "there is an @ behind the host: in a user or password, write / ? # and @ percent-encoded, as %2F %3F %23 and %40",
    )))
}

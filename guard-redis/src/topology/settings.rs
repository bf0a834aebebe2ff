//! What the builder was told of connections.

use std::sync::Arc;

use guard_core::{Budget, ConfigError};
use redis::{ConnectionInfo, RedisConnectionInfo};

use crate::connection::endpoint::Endpoint;
use crate::connection::open_connection::OpenConnection;
use crate::connection::pool::Pool;
use crate::connection::route::Route;
#[cfg(feature = "tls-rustls")]
use crate::connection::tls::TlsSettings;
use crate::wakeups::server_wakeups::Common;

/// What the builder was told of connections.
pub(crate) struct Settings {
    pub(crate) credentials: Option<Credentials>,
    pub(crate) database: Option<i64>,
    pub(crate) pool_size: u32,
    /// How many replicas must acknowledge a write.
    pub(crate) min_replicas: u32,
    #[cfg(feature = "tls-rustls")]
    pub(crate) tls: TlsSettings,
    pub(crate) common: Common,
}

/// Who we are to a server.
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl Settings {
    /// The time for opening.
    pub(crate) fn budget(&self) -> Budget {
        Budget::new(self.common.operation_timeout)
    }

    /// The connections to one server, or to one master at a time, of which `first` is open.
    pub(crate) fn pool(&self, route: Arc<dyn Route>, first: Option<OpenConnection>) -> Pool {
        let Common {
            operation_timeout,
            unanswered,
            ..
        } = &self.common;
        Pool::new(
            route,
            self.pool_size,
            first,
            *operation_timeout,
            Arc::clone(unanswered),
        )
    }

    /// A pool and its manager bring these.
    pub(crate) fn are_left_to_the_manager(&self) -> Result<(), ConfigError> {
        let set = [
            ("credentials", self.credentials.is_some()),
            ("database", self.database.is_some()),
        ];
        let set = set.into_iter().find_map(|(name, set)| set.then_some(name));
        #[cfg(feature = "tls-rustls")]
        let set = set.or(self.tls.any());
        match set {
            Some(name) => Err(ConfigError::setting(
                name,
                "the pool's connection manager brings its own",
            )),
            None => Ok(()),
        }
    }

    /// An address with the credentials, the database and the certificates that were set.
    pub(crate) fn endpoint(&self, info: ConnectionInfo) -> Result<Endpoint, ConfigError> {
        let settings = self.redis_settings(info.redis_settings().clone())?;
        self.secure(info.set_redis_settings(settings))
    }

    /// An address with the certificates that were set.
    #[cfg(feature = "tls-rustls")]
    pub(crate) fn secure(&self, info: ConnectionInfo) -> Result<Endpoint, ConfigError> {
        self.tls.apply(info)
    }

    #[cfg(not(feature = "tls-rustls"))]
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "as above")]
    pub(crate) fn secure(&self, info: ConnectionInfo) -> Result<Endpoint, ConfigError> {
        Ok(Endpoint::new(info))
    }

    /// The credentials and the database that were set, instead of those that are there.
    pub(crate) fn redis_settings(
        &self,
        mut settings: RedisConnectionInfo,
    ) -> Result<RedisConnectionInfo, ConfigError> {
        if let Some(Credentials { user, password }) = &self.credentials {
            settings = settings.set_username(user).set_password(password);
        }
        if let Some(database) = self.database {
            settings = settings.set_db(database);
        }
        let database = settings.db();
        if database < 0 {
            let reason = format!("{database} is negative, the minimum is 0");
            return Err(ConfigError::setting("database", reason));
        }
        Ok(settings)
    }
}

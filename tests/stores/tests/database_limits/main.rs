//! How guards on databases end, and what their settings may be. The tests count the threads of this process, so they
//! have a target of their own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ends;
mod settings;

use guard_store_tests::database::{Database, GuardBuilder};

/// Makes a test of each scene, for each database.
macro_rules! scenes {
    ($($scene:ident),+ $(,)?) => {
        mod postgres {
            $(#[test]
            fn $scene() {
                super::$scene::<guard_store_tests::postgres_server::Postgres>();
            })+
        }
        mod mariadb {
            $(#[test]
            fn $scene() {
                super::$scene::<guard_store_tests::mariadb_server::MariaDb>();
            })+
        }
    };
}
pub(crate) use scenes;

fn key(value: &str) -> guard_core::SandboxIsolationKey {
    guard_core::SandboxIsolationKey::new(guard_core::IsolationScope::Agent, value).unwrap()
}

fn builder<D: Database>(address: &str) -> GuardBuilder<D> {
    GuardBuilder::new(address)
}

//! No part of a password shows: in no error, no `Debug`, no look-up of a host.

use std::time::Duration;

use guard_core::ConfigError;
use guard_store_tests::database::Database;
use guard_store_tests::everything_said;
use guard_store_tests::logged::{everything, listen};
use log::LevelFilter;

use super::builder;

/// Pieces of passwords, which stand nowhere else; numbers could be ports.
const PIECES: [[&str; 4]; 2] = [
    ["qzj", "xkw", "vqh", "jzx"],
    ["4927", "5813", "6719", "7283"],
];

/// What stands between the pieces, unescaped.
const BETWEEN: [&str; 16] = [
    "@", "/", "?", "#", ":", "@/", "/@", "?@", "#@", "://", "%", "%zz", "[", "\\", " ", "\n",
];

/// Every way to write an address in which a password was not escaped, or an address in the place of a part of one.
fn nasty(scheme: &str, [a, b, c, d]: [&str; 4]) -> Vec<String> {
    let mut addresses = Vec::new();
    for between in BETWEEN {
        let password = format!("{a}{between}{b}{between}{c}");
        // Nobody listens there, and nobody has to be asked where it is.
        for (user, end) in [
            ("app:", "@127.0.0.1:1/db"),
            ("app:123", "@127.0.0.1:1"),
            (":", "@127.0.0.1:1/"),
        ] {
            addresses.push(format!("{scheme}://{user}{password}{end}"));
            addresses.push(format!("{scheme}://{user}{password}{end}?{d}={d}"));
        }
        addresses.push(format!("{scheme}://app:12/{password}@127.0.0.1:1"));
        addresses.push(format!("{scheme}://127.0.0.1:1/db?password={password}"));
        addresses.push(format!("{scheme}:/app:{password}@127.0.0.1:1"));
        addresses.push(format!("{scheme}:app:{password}@127.0.0.1:1"));
        addresses.push(format!("{scheme}s://app:{password}@127.0.0.1:1"));
        addresses.push(format!("{scheme}://{scheme}://app:{password}@127.0.0.1:1"));
        addresses.push(format!(
            "jdbc:{scheme}://127.0.0.1:1/?user=app&password={password}"
        ));
        addresses.push(format!("host={scheme}://app:{password}@127.0.0.1:1"));
        addresses.push(format!("host=app:{password}@127.0.0.1 port=1 user=app"));
        addresses.push(format!(
            "host=127.0.0.1 port=1 user=app dbname={scheme}://app:{password}@h"
        ));
        addresses.push(format!(
            "host=127.0.0.1 port=1 user=app password={password}"
        ));
        addresses.push(format!(
            "host=127.0.0.1 port=1 user=app password='{password}"
        ));
        addresses.push(format!("host=127.0.0.1 port={password} user=app"));
    }
    addresses
}

pub fn no_part_of_a_password_shows_whatever_the_address<D: Database>() {
    listen(LevelFilter::Trace);
    let mut refused = 0;
    let addresses = PIECES.map(|pieces| nasty(D::SCHEME, pieces));
    for address in addresses.concat() {
        let timeout = Duration::from_millis(200);
        let guard = builder::<D>(&address).operation_timeout(timeout).build();
        let error = guard.unwrap_err();
        let said = format!("{}{}", everything_said(&error), D::shown(&address));
        for piece in PIECES.concat() {
            assert!(!said.contains(piece), "{address:?}: {said}");
        }
        refused += usize::from(matches!(error, ConfigError::InvalidSetting { .. }));
    }
    assert!(refused > 100, "{refused}");
    let logged = everything();
    for piece in PIECES[0] {
        assert!(!logged.contains(piece), "{piece}");
    }
}

pub fn an_ambiguous_password_is_refused_with_the_remedy<D: Database>() {
    for password in ["s3cr@t/pass", "123/pass", "123?pass", "123#pass", "p@ss"] {
        let address = format!("{}://app:{password}@localhost/db", D::SCHEME);
        let error = builder::<D>(&address).build().unwrap_err();
        assert!(
            matches!(
                &error,
                ConfigError::InvalidSetting {
                    setting: "address",
                    ..
                }
            ),
            "{error:?}"
        );
        assert!(error.to_string().contains("percent-encoded"), "{error}");
    }
    // Escaped, it is a password like any other: it goes on to the server, where nobody listens.
    let address = format!("{}://app:s3cr%40t%2Fp%3F%23@127.0.0.1:1", D::SCHEME);
    let error = builder::<D>(&address).build().unwrap_err();
    assert!(matches!(error, ConfigError::Connect { .. }), "{error:?}");
}

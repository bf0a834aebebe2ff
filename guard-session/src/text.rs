//! Addresses that users wrote.

use std::net::IpAddr;

/// What is wrong with an address whose user and password cannot be told from the rest.
const UNESCAPED: &str = "it has an `@`, `/`, `?` or `#` that may belong to the user or the password and is not percent-encoded \
     (`%40`, `%2F`, `%3F`, `%23`)";

/// Makes sure that nobody has to guess where the password of a URL ends: what a client library takes for the host
/// would be looked up and shown. What is no URL passes.
///
/// # Errors
///
/// What is wrong, without a word of the address.
pub fn check_url(address: &str) -> Result<(), &'static str> {
    let Some((_, rest)) = address.split_once("://") else {
        return Ok(());
    };
    if rest.contains(char::is_control) {
        return Err("it has a control character that is not percent-encoded");
    }
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(authority);
    let ambiguous = behind.contains(['@', '#'])
        || authority.matches('@').count() > 1
        // A second address inside of the first.
        || rest.contains("://");
    if ambiguous { Err(UNESCAPED) } else { Ok(()) }
}

/// Whether `host` is made as names and numbers of hosts are; anything else may be a part of a password that was not
/// escaped.
#[must_use]
pub fn is_host(host: &str) -> bool {
    let is_name = |text: &str| {
        let made_so = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        !text.is_empty() && text.chars().all(made_so)
    };
    // An address may be followed by the name of an interface.
    match host.split_once('%') {
        Some((address, interface)) => address.parse::<IpAddr>().is_ok() && is_name(interface),
        None => host.parse::<IpAddr>().is_ok() || is_name(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_whose_password_might_end_elsewhere_is_refused() {
        for address in [
            "x://app:s3cr@t@h",
            "x://app:s3cr@t/pass@h",
            "x://app:12/3@h",
            "x://app:12?3@h",
            "x://app:12#3@h",
            "x://h/d?password=s3cr@t",
            "x://h#t",
            "x://y://app:s3cret@h",
            "x://app:s3\ncret@h",
        ] {
            assert!(check_url(address).is_err(), "{address}");
        }
        for address in [
            "x://app:s3cr%40t%2Fpass@h:1/d?a=b",
            "x://app:s:3$c!r'e\"t@[::1]:1/d",
            "x://h1:1,h2:2/d",
            "host=h password=s3cr@t/#?",
        ] {
            assert_eq!(check_url(address), Ok(()), "{address}");
        }
    }

    #[test]
    fn a_host_is_a_name_or_a_number() {
        for host in [
            "h",
            "db-1.example.org",
            "a_b",
            "10.0.0.1",
            "::1",
            "fe80::1%eth0",
            "bücher.example",
        ] {
            assert!(is_host(host), "{host}");
        }
        for host in [
            "",
            "app:s3cret",
            "s3cret@h",
            "a b",
            "a/b",
            "[::1]",
            "a%b",
            "::1%",
            "a\nb",
        ] {
            assert!(!is_host(host), "{host}");
        }
    }
}

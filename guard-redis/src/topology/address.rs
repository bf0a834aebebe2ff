//! Addresses: as they are shown, and as servers tell them of each other.

use redis::{ConnectionAddr, ConnectionInfo};

/// The address of `host` and `port`, reached in the way of `like`.
#[cfg(any(feature = "sentinel", feature = "cluster"))]
pub(crate) fn at(like: &ConnectionAddr, host: String, port: u16) -> ConnectionAddr {
    match like {
        ConnectionAddr::TcpTls {
            insecure,
            tls_params,
            ..
        } => ConnectionAddr::TcpTls {
            host,
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        },
        _ => ConnectionAddr::Tcp(host, port),
    }
}

/// Addresses without credentials.
#[cfg(any(feature = "sentinel", feature = "cluster"))]
pub(crate) fn list(servers: &[ConnectionInfo]) -> String {
    let servers: Vec<_> = servers.iter().map(shown).collect();
    servers.join(", ")
}

/// An address without credentials.
pub(crate) fn shown(info: &ConnectionInfo) -> String {
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => format!("redis://{}", place(host, *port)),
        ConnectionAddr::TcpTls { host, port, .. } => format!("rediss://{}", place(host, *port)),
        other => format!("unix://{other}"),
    }
}

/// A host and a port as they are written in a URL.
fn place(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

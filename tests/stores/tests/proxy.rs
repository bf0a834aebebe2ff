//! The proxy does what the fault tests rely on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::proxy::{Direction, Proxy};
use guard_conformance::{PATIENCE, eventually};

const A_WHILE: Duration = Duration::from_millis(60);

/// A server that answers each byte with two, and tells what it got.
fn server() -> (u16, Receiver<u8>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, tell) = (client.unwrap(), tell.clone());
            thread::spawn(move || {
                let mut byte = [0];
                while client.read_exact(&mut byte).is_ok() {
                    let _ = tell.send(byte[0]);
                    let _ = client.write_all(&[byte[0]; 2]);
                }
            });
        }
    });
    (port, told)
}

fn client(proxy: &Proxy) -> TcpStream {
    let client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

/// What comes before the connection's end.
fn rest(mut client: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _ = client.read_to_end(&mut bytes);
    bytes
}

fn answers(client: &mut TcpStream, request: &[u8]) -> Vec<u8> {
    client.write_all(request).unwrap();
    let mut reply = vec![0; 2 * request.len()];
    client.read_exact(&mut reply).unwrap();
    reply
}

#[test]
fn bytes_pass_both_ways_and_are_counted() {
    let (port, _told) = server();
    let proxy = Proxy::to(port);
    assert_eq!(answers(&mut client(&proxy), b"ab"), b"aabb");
    assert_eq!(proxy.forwarded(Direction::Request), 2);
    assert_eq!(proxy.forwarded(Direction::Reply), 4);
}

#[test]
fn a_cut_comes_after_exactly_so_many_bytes_either_way_and_once() {
    let (port, told) = server();
    let proxy = Proxy::to(port);
    for bytes in 0..=2 {
        let mut cut = client(&proxy);
        proxy.cut_after(Direction::Request, bytes);
        cut.write_all(b"abc").unwrap();
        rest(cut);
        assert!(proxy.has_cut());
        for byte in &b"abc"[..bytes] {
            assert_eq!(told.recv_timeout(PATIENCE).unwrap(), *byte);
        }
        assert!(told.recv_timeout(A_WHILE).is_err());
    }
    for bytes in 0..=5 {
        let mut cut = client(&proxy);
        proxy.cut_after(Direction::Reply, bytes);
        cut.write_all(b"abc").unwrap();
        assert_eq!(rest(cut), b"aabbcc"[..bytes]);
    }
    assert_eq!(answers(&mut client(&proxy), b"d"), b"dd");
}

#[test]
fn a_cut_for_good_ends_every_connection_and_refuses_more_until_it_heals() {
    let (port, _told) = server();
    let proxy = Proxy::to(port);
    let (mut one, mut other) = (client(&proxy), client(&proxy));
    assert_eq!(answers(&mut other, b"a"), b"aa");
    proxy.cut_for_good_after(Direction::Reply, 1);
    one.write_all(b"b").unwrap();
    assert_eq!(rest(one), b"b");
    assert!(rest(other).is_empty());
    eventually("the port refuses", || {
        let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port()));
        refused.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    });
    proxy.heal();
    assert_eq!(answers(&mut client(&proxy), b"c"), b"cc");
}

#[test]
fn a_black_hole_keeps_everything_and_gives_it_back() {
    let (port, told) = server();
    let proxy = Proxy::to(port);
    let mut before = client(&proxy);
    assert_eq!(answers(&mut before, b"a"), b"aa");
    told.recv().unwrap();
    proxy.black_hole(true);
    let mut during = client(&proxy);
    before.write_all(b"b").unwrap();
    during.write_all(b"c").unwrap();
    assert!(told.recv_timeout(A_WHILE).is_err());
    // One client goes away; what it sent still arrives.
    drop(during);
    proxy.black_hole(false);
    let mut arrived = [(); 2].map(|()| told.recv_timeout(PATIENCE).unwrap());
    arrived.sort_unstable();
    assert_eq!(arrived, *b"bc");
}

#[test]
fn held_back_bytes_are_delivered_after_their_client_has_gone() {
    let (port, told) = server();
    let proxy = Proxy::to(port);
    let (mut held, mut other) = (client(&proxy), client(&proxy));
    proxy.hold_next();
    held.write_all(b"a").unwrap();
    eventually("the first client is held back", || proxy.is_holding());
    assert_eq!(answers(&mut other, b"b"), b"bb");
    assert_eq!(told.recv().unwrap(), b'b');
    proxy.cut_held_client();
    assert!(rest(held).is_empty());
    assert!(told.recv_timeout(A_WHILE).is_err());
    proxy.deliver();
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), b'a');
}

#[test]
fn a_delay_delays_and_a_refusal_leaves_what_is_connected() {
    let (port, _told) = server();
    let proxy = Proxy::to(port);
    let mut client = client(&proxy);
    proxy.delay(A_WHILE);
    let before = Instant::now();
    assert_eq!(answers(&mut client, b"a"), b"aa");
    assert!(before.elapsed() >= 2 * A_WHILE);
    proxy.refuse(true);
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).is_err());
    proxy.heal();
    assert_eq!(answers(&mut client, b"b"), b"bb");
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).is_ok());
}

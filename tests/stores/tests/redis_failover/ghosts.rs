//! A command that is held back on its way to a master, and arrives when that server is the master again.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

use guard_conformance::eventually;
use guard_conformance::proxy::Proxy;
use guard_redis::{SandboxExecutionGuard, Wakeups};
use guard_store_tests::redis_server::RedisServer;

use crate::{alone, builder, key};

/// Long enough for a ghost to come.
const A_WHILE: Duration = Duration::from_millis(100);

/// Says what it is told to, and leaves the servers alone.
struct Oracle {
    port: u16,
    master: Arc<AtomicU16>,
}

impl Oracle {
    fn start(master: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let master = Arc::new(AtomicU16::new(master));
        let known = Arc::clone(&master);
        thread::spawn(move || {
            for client in listener.incoming() {
                let known = Arc::clone(&known);
                thread::spawn(move || answer(client.unwrap(), &known));
            }
        });
        Self { port, master }
    }

    fn says(&self, master: u16) {
        self.master.store(master, Ordering::Relaxed);
    }
}

/// Answers each command: the last word of the one that matters is the name of the master.
fn answer(mut client: TcpStream, master: &AtomicU16) {
    let lines = BufReader::new(client.try_clone().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        let answer = match line.as_str() {
            "leases" => {
                let port = master.load(Ordering::Relaxed).to_string();
                format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len())
            }
            "CLIENT" => "-ERR unknown command\r\n".to_owned(),
            _ => continue,
        };
        client.write_all(answer.as_bytes()).unwrap();
    }
}

/// A command of an entry that has given up is held back on its way to the first server, while sentinels name the
/// second one by now. `meanwhile` comes before the first server can be reached.
fn held_back_on_its_way_to_an_earlier_master(meanwhile: impl FnOnce(&Proxy, &RedisServer)) {
    let _alone = alone();
    let (first, second) = (RedisServer::start(), RedisServer::start());
    let proxy = Proxy::to(first.port());
    let oracle = Oracle::start(proxy.port());
    let address = format!("sentinel leases redis://127.0.0.1:{}", oracle.port);
    let guard = builder(&address).wakeups(Wakeups::Polling).pool_size(1);
    let guard = guard.build().unwrap();
    guard.try_enter(&key("warm")).unwrap().close();

    proxy.hold_next();
    oracle.says(second.port());
    // It learns the new master too late for this one.
    let error = guard.try_enter_now(&key("a")).unwrap_err();
    assert!(error.is_transient() && proxy.is_holding(), "{error:?}");
    meanwhile(&proxy, &second);
    eventually("only we are connected to the first server", || {
        first.cli(&["CLIENT", "LIST"]).lines().count() == 1
    });
    oracle.says(proxy.port());
    proxy.deliver();
    thread::sleep(A_WHILE);
    for server in [&first, &second] {
        assert_eq!(server.cli(&["KEYS", "*"]), "");
    }
}

#[test]
fn a_command_that_is_under_way_to_an_earlier_master_is_ended_there() {
    held_back_on_its_way_to_an_earlier_master(|_, _| {});
}

/// So does a firewall, or a service whose server is not ready.
#[test]
fn a_server_that_refuses_connections_is_not_taken_for_gone() {
    held_back_on_its_way_to_an_earlier_master(|proxy, second| {
        // Before the guard has ended the connection: it tries again and again.
        proxy.refuse(true);
        let releases = || {
            let info = second.cli(&["INFO", "commandstats"]);
            info.lines().any(|line| line.contains("cmdstat_evalsha"))
        };
        eventually("the slot is freed on the second server", releases);
        thread::sleep(A_WHILE);
        proxy.refuse(false);
    });
}

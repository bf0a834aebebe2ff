//! Several servers: a master with replicas and sentinels, and a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use guard_redis::{RedisGuardBuilder, RedisSandboxExecutionGuard};

use crate::certificates::Certificates;
use crate::redis_server::{RedisServer, Setup};
use guard_conformance::{PATIENCE, eventually};

/// A builder for an address as the servers of a test tell it: a URL, `sentinel MASTER URL…` or `cluster URL…`.
pub fn builder(address: &str) -> RedisGuardBuilder {
    let words: Vec<&str> = address.split(' ').collect();
    match words.as_slice() {
        ["sentinel", master, urls @ ..] => {
            RedisSandboxExecutionGuard::sentinel(urls.iter().copied(), *master)
        }
        ["cluster", urls @ ..] => RedisSandboxExecutionGuard::cluster(urls.iter().copied()),
        _ => RedisSandboxExecutionGuard::builder(address),
    }
}

/// What the sentinels call the master.
pub const MASTER: &str = "leases";

/// How long a server may be silent before the others take it for dead.
pub const DOWN_AFTER: Duration = Duration::from_secs(1);

const SENTINELS: usize = 3;
/// Replicas of the master of the sentinels.
pub const REPLICAS: u32 = 2;
/// Masters of the cluster; each has a replica.
const MASTERS: usize = 3;

/// Replicas that hang on at once and soon notice what happens.
const REPLICATION: [&str; 6] = [
    "--repl-diskless-sync-delay",
    "0",
    "--repl-ping-replica-period",
    "1",
    "--repl-timeout",
    "5",
];

/// What servers are started with that copy from each other.
fn setup(arguments: &[&str], tls: Tls<'_>) -> Setup {
    let arguments = REPLICATION.iter().chain(arguments);
    Setup {
        arguments: arguments.map(|&it| it.to_owned()).collect(),
        tls: tls.cloned(),
        ..Setup::default()
    }
}

/// The certificates, if all servers speak TLS. They must be for `127.0.0.1`.
pub type Tls<'a> = Option<&'a Arc<Certificates>>;

/// The value of one line of the server's `INFO`; empty while the server comes, goes or turns into a replica and
/// so cuts connections.
fn info(server: &RedisServer, section: &str, name: &str) -> String {
    let text = server.redis_cli(&["INFO", section]).unwrap_or_default();
    let line = |line: &str| {
        Some(
            line.trim()
                .strip_prefix(name)?
                .strip_prefix(':')?
                .to_owned(),
        )
    };
    text.lines().find_map(line).unwrap_or_default()
}

/// The values of a field in an answer whose lines are names and values in turn.
fn fields<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = text.lines().zip(text.lines().skip(1));
    lines
        .filter(move |(field, _)| *field == name)
        .map(|(_, value)| value)
}

/// A master, two replicas, and three sentinels that watch over them.
#[derive(Debug)]
pub struct Sentinels {
    sentinels: Vec<RedisServer>,
    servers: Vec<RedisServer>,
}

impl Sentinels {
    /// Starts them all; the replicas are in step and the sentinels know each other.
    ///
    /// # Panics
    ///
    /// When that does not work.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(None)
    }

    /// The same, by TLS if there are certificates.
    ///
    /// # Panics
    ///
    /// When that does not work.
    #[must_use]
    pub fn start_with(tls: Tls<'_>) -> Self {
        let start = |arguments: &[&str]| RedisServer::start_with(setup(arguments, tls));
        let master = start(&[]);
        let port = master.port().to_string();
        let mut servers = vec![master];
        servers.extend((0..REPLICAS).map(|_| start(&["--replicaof", "127.0.0.1", &port])));
        for replica in servers.iter().skip(1) {
            eventually("the replica is in step", || in_step(replica));
        }
        let orders = format!(
            "sentinel monitor {MASTER} 127.0.0.1 {port} 2\n\
             sentinel down-after-milliseconds {MASTER} {}\n\
             sentinel failover-timeout {MASTER} 3000\n\
             sentinel parallel-syncs {MASTER} {REPLICAS}\n",
            DOWN_AFTER.as_millis()
        );
        let sentinel = |_| {
            RedisServer::start_with(Setup {
                sentinel: Some(orders.clone()),
                tls: tls.cloned(),
                ..Setup::default()
            })
        };
        let sentinels: Vec<_> = (0..SENTINELS).map(sentinel).collect();
        let this = Self { sentinels, servers };
        this.settle();
        this
    }

    /// Waits until everybody knows everybody and the replicas are in step.
    ///
    /// # Panics
    ///
    /// When that takes too long.
    pub fn settle(&self) {
        // A sentinel names a new master before it has ended the failover, and cannot begin another one until then.
        for sentinel in &self.sentinels {
            eventually("the sentinel knows the others, and all is well", || {
                let master = sentinel.cli(&["SENTINEL", "MASTER", MASTER]);
                let replicas = sentinel.cli(&["SENTINEL", "REPLICAS", MASTER]);
                let is = |name, value: &str| fields(&master, name).eq([value]);
                is("port", &self.master_server().port().to_string())
                    && is("flags", "master")
                    && is("num-other-sentinels", &(SENTINELS - 1).to_string())
                    && fields(&replicas, "flags")
                        .filter(|it| *it == "slave")
                        .count()
                        == REPLICAS as usize
            });
        }
        let master = self.master_server();
        let replicas = || self.servers.iter().filter(|it| it.port() != master.port());
        eventually("all replicas are in step", || replicas().all(in_step));
        replicas().for_each(|replica| wait_for_copy(master, replica));
    }

    /// What [`builder`] is told of them.
    #[must_use]
    pub fn address(&self) -> String {
        format!("sentinel {MASTER} {}", self.urls().join(" "))
    }

    /// The sentinels' URLs.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.sentinels.iter().map(RedisServer::url).collect()
    }

    /// The sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// The master and its replicas, in whatever order.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// One of the servers.
    pub fn server(&mut self, index: usize) -> &mut RedisServer {
        &mut self.servers[index]
    }

    /// One of the sentinels.
    pub fn sentinel(&mut self, index: usize) -> &mut RedisServer {
        &mut self.sentinels[index]
    }

    /// Which server the first sentinel calls the master.
    ///
    /// # Panics
    ///
    /// When it names none of them.
    #[must_use]
    pub fn master(&self) -> usize {
        let answer = self.sentinels[0].cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]);
        let port = answer.lines().nth(1).unwrap_or_default();
        let named = |server: &RedisServer| server.port().to_string() == port;
        let index = self.servers.iter().position(named);
        index.unwrap_or_else(|| panic!("the sentinel answers {answer:?}"))
    }

    /// The server that is the master.
    #[must_use]
    pub fn master_server(&self) -> &RedisServer {
        &self.servers[self.master()]
    }

    /// Starts a server that was killed again, as a replica of the new master, and waits until all is well.
    ///
    /// # Panics
    ///
    /// When that does not work.
    pub fn rejoin(&mut self, index: usize) {
        self.servers[index].restart();
        // The sentinels do it, too, but take their time.
        self.follow(index, self.master());
        self.settle();
    }

    /// Waits until another server than `old` is the master, for the sentinels and for itself.
    ///
    /// # Panics
    ///
    /// When that takes too long.
    pub fn wait_for_another_than(&self, old: usize) -> usize {
        let start = Instant::now();
        let is_another = || {
            let master = self.master();
            master != old && info(&self.servers[master], "replication", "role") == "master"
        };
        while !is_another() {
            if start.elapsed() > PATIENCE {
                let logs: Vec<_> = self.sentinels.iter().map(RedisServer::log).collect();
                panic!(
                    "the sentinels make no other master: {}",
                    logs.join("\n---\n")
                );
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.master()
    }

    /// Lets the sentinels make another server the master while the old one lives, and does not understand when they
    /// tell it, some ten seconds later. Answers which the old one is.
    ///
    /// # Panics
    ///
    /// When they refuse, or take too long.
    #[must_use]
    pub fn fail_over(&self) -> usize {
        let old = self.master();
        let deaf = ["ACL", "SETUSER", "default", "-slaveof", "-replicaof"];
        assert_eq!(self.servers[old].cli(&deaf), "OK");
        let answer = self.sentinels[0].cli(&["SENTINEL", "FAILOVER", MASTER]);
        assert_eq!(answer, "OK");
        self.wait_for_another_than(old);
        old
    }

    /// Makes sure that a master which was replaced does not know yet.
    ///
    /// # Panics
    ///
    /// When it does.
    pub fn assert_not_told(&self, old: usize) {
        let role = self.servers[old].cli(&["ROLE"]);
        assert!(role.starts_with("master"), "it was told: {role}");
    }

    /// Makes `new` the master by hand, as the sentinels would, but for the news.
    ///
    /// # Panics
    ///
    /// When they refuse.
    pub fn promote(&self, new: usize) {
        let new = &self.servers[new];
        assert_eq!(new.cli(&["REPLICAOF", "NO", "ONE"]), "OK");
        let port = new.port().to_string();
        for sentinel in &self.sentinels {
            assert_eq!(sentinel.cli(&["SENTINEL", "REMOVE", MASTER]), "OK");
            let monitor = ["SENTINEL", "MONITOR", MASTER, "127.0.0.1", &port, "2"];
            assert_eq!(sentinel.cli(&monitor), "OK");
        }
    }

    /// Makes `replica` copy from `master` by hand, and waits until it has all.
    ///
    /// # Panics
    ///
    /// When that does not work.
    pub fn follow(&self, replica: usize, master: usize) {
        let (replica, master) = (&self.servers[replica], &self.servers[master]);
        let port = master.port().to_string();
        let answer = replica.cli(&["REPLICAOF", "127.0.0.1", &port]);
        assert!(answer.starts_with("OK"), "{answer}");
        eventually("the replica is in step", || {
            info(replica, "replication", "master_port") == port && in_step(replica)
        });
        wait_for_copy(master, replica);
    }

    /// Makes a server a replica by hand without ending its connections, as the sentinels would. Its master does not
    /// exist, so it keeps what it has and learns nothing new.
    ///
    /// # Panics
    ///
    /// When it refuses.
    pub fn demote(&self, old: usize) {
        let nowhere = ["REPLICAOF", "127.0.0.1", "1"];
        assert_eq!(self.servers[old].cli(&nowhere), "OK");
    }
}

fn in_step(replica: &RedisServer) -> bool {
    info(replica, "replication", "master_link_status") == "up"
}

/// Waits until a replica has all that its master had when this began. Being connected is not enough: what was
/// written while it was loading comes later.
fn wait_for_copy(master: &RedisServer, replica: &RedisServer) {
    let offset = |server, name| info(server, "replication", name).parse::<u64>().ok();
    let mut wanted = None;
    eventually("the master tells how much it has", || {
        wanted = offset(master, "master_repl_offset");
        wanted.is_some()
    });
    eventually("the replica has what its master has", || {
        offset(replica, "slave_repl_offset") >= wanted
    });
}

/// Three masters and a replica of each.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<RedisServer>,
}

impl Cluster {
    /// Starts them all; the replicas are in step and everybody knows who has which hash slots.
    ///
    /// # Panics
    ///
    /// When that does not work.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(None)
    }

    /// The same, by TLS if there are certificates.
    ///
    /// # Panics
    ///
    /// When that does not work.
    #[must_use]
    pub fn start_with(tls: Tls<'_>) -> Self {
        let timeout = DOWN_AFTER.as_millis().to_string();
        let node = |_| {
            let own = [
                "--cluster-enabled",
                "yes",
                "--cluster-node-timeout",
                &timeout,
            ];
            RedisServer::start_with(Setup {
                bus: true,
                ..setup(&own, tls)
            })
        };
        let this = Self {
            nodes: (0..2 * MASTERS).map(node).collect(),
        };
        let (first, others) = this.nodes.split_first().expect("nodes");
        let port = first.port().to_string();
        for node in others {
            node.cli(&["CLUSTER", "MEET", "127.0.0.1", &port]);
        }
        for (index, node) in this.nodes.iter().take(MASTERS).enumerate() {
            let [first, end] = [index, index + 1].map(|it| it * 16_384 / MASTERS);
            let slots: Vec<String> = (first..end).map(|slot| slot.to_string()).collect();
            let mut command = vec!["CLUSTER", "ADDSLOTS"];
            command.extend(slots.iter().map(String::as_str));
            assert_eq!(node.cli(&command), "OK");
            assert!(
                node.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])
                    .len()
                    < 100
            );
        }
        for (replica, master) in this.nodes[MASTERS..].iter().zip(&this.nodes) {
            let id = master.cli(&["CLUSTER", "MYID"]);
            eventually("the replica has heard of its master", || {
                replica.cli(&["CLUSTER", "REPLICATE", &id]) == "OK"
            });
        }
        this.settle();
        this
    }

    /// Waits until the replicas are in step and all nodes have the same view of a cluster that works.
    ///
    /// # Panics
    ///
    /// When that takes too long.
    pub fn settle(&self) {
        eventually("all nodes agree", || {
            let views: Vec<_> = self.nodes.iter().map(view).collect();
            let whole = |node| is_whole(node) && followed(node);
            views.windows(2).all(|pair| pair[0] == pair[1]) && self.nodes.iter().all(whole)
        });
        for replica in &self.nodes {
            let port = info(replica, "replication", "master_port");
            let named = |master: &&RedisServer| master.port().to_string() == port;
            if let Some(master) = self.nodes.iter().find(named) {
                wait_for_copy(master, replica);
            }
        }
    }

    /// What [`builder`] is told of them.
    #[must_use]
    pub fn address(&self) -> String {
        format!("cluster {}", self.urls().join(" "))
    }

    /// The nodes that are masters.
    #[must_use]
    pub fn masters(&self) -> Vec<&RedisServer> {
        let nodes = self.nodes.iter();
        nodes
            .filter(|node| info(node, "replication", "role") == "master")
            .collect()
    }

    /// The nodes' URLs.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }

    /// The nodes.
    #[must_use]
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// One of the nodes.
    pub fn node(&mut self, index: usize) -> &mut RedisServer {
        &mut self.nodes[index]
    }

    /// Waits until another node than `old` has the hash slot of a key, as `witness` sees it.
    ///
    /// # Panics
    ///
    /// When that takes too long.
    pub fn wait_for_another_than(&self, old: usize, key: &str, witness: usize) {
        eventually("a replica has taken over", || {
            self.master_of(key, witness) != old && is_whole(&self.nodes[witness])
        });
    }

    /// The node that has the hash slot of a key, as `witness` sees it.
    ///
    /// # Panics
    ///
    /// When nobody has.
    #[must_use]
    pub fn master_of(&self, key: &str, witness: usize) -> usize {
        let witness = &self.nodes[witness];
        let slot: u16 = witness
            .cli(&["CLUSTER", "KEYSLOT", key])
            .parse()
            .expect("a hash slot");
        let of_slot = |&(&(first, last), _): &(&(u16, u16), &u16)| (first..=last).contains(&slot);
        let view = view(witness);
        let (_, port) = view.iter().find(of_slot).expect("somebody has the slot");
        let named = |node: &RedisServer| node.port() == *port;
        self.nodes.iter().position(named).expect("one of ours")
    }
}

/// The port of the master of each range of hash slots.
fn view(node: &RedisServer) -> BTreeMap<(u16, u16), u16> {
    // One server a line: id, address, flags, master, ping, pong, epoch, link, ranges.
    let text = node.cli(&["CLUSTER", "NODES"]);
    let mut view = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let port = fields[1]
            .split_once(':')
            .and_then(|(_, it)| it.split_once('@'));
        let port = port
            .and_then(|(port, _)| port.parse().ok())
            .unwrap_or_default();
        for range in fields.iter().skip(8).filter(|it| !it.starts_with('[')) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let slots = (
                first.parse().expect("a slot"),
                last.parse().expect("a slot"),
            );
            view.insert(slots, port);
        }
    }
    view
}

fn is_whole(node: &RedisServer) -> bool {
    let text = node.cli(&["CLUSTER", "INFO"]);
    let line = |it: &str| text.lines().any(|line| line.trim() == it);
    line("cluster_state:ok") && line("cluster_slots_ok:16384")
}

/// Whether a master has its replica, and a replica its master.
fn followed(node: &RedisServer) -> bool {
    if info(node, "replication", "role") == "master" {
        info(node, "replication", "slave0").contains("state=online")
    } else {
        in_step(node)
    }
}

//! The rules for users with sentinels and in a cluster.

use std::time::Duration;

use guard_conformance::measure::alone;
use guard_conformance::{PATIENCE, Waiting, eventually};
use guard_redis::{
    CloseOutcome, ConfigError, RedisGuardBuilder, RedisSandboxExecutionGuard,
    SandboxExecutionGuard, Wakeups,
};
use guard_store_tests::logged::{listen, warnings};
use guard_store_tests::redis_server::RedisServer;
use guard_store_tests::redis_topologies::{Cluster, Sentinels, builder};
use guard_store_tests::{acl, everything_said};
use log::LevelFilter::Warn;

use crate::{OPERATION_TIMEOUT, PREFIX, key};

/// No test lasts that long: a slot that comes free does so because somebody freed it.
const TTL: Duration = Duration::from_secs(600);

fn guard_of(address: &str) -> RedisGuardBuilder {
    builder(&acl::as_user(address))
        .key_prefix(PREFIX)
        .lease_ttl(TTL)
        .operation_timeout(OPERATION_TIMEOUT)
}

/// The rule for one server and what is needed beside it, but for one word.
fn rule(further: &[String], without: &str) -> Vec<String> {
    let all = acl::rule(PREFIX).into_iter().chain(further.iter().cloned());
    all.filter(|word| word != without).collect()
}

/// How leases close, if nothing fails.
const WELL: &[CloseOutcome] = &[CloseOutcome::Released];
/// A command may have gone unanswered at the old master, which cannot be asked any more: then the release is not final
/// yet, but the slot is free.
const AFTER_A_FAILOVER: &[CloseOutcome] = &[CloseOutcome::Released, CloseOutcome::Deferred];

/// Slots of one guard are waited for, with the wake-ups' help, by another one; the leases close in one of these ways.
fn wait_for_each_other(
    guards: &[RedisSandboxExecutionGuard; 2],
    values: &[&str],
    closes: &[CloseOutcome],
) {
    let [ours, theirs] = guards;
    for value in values {
        let lease = ours.try_enter(&key(value)).unwrap();
        let waiting = {
            let (theirs, key) = (theirs.clone(), key(value));
            Waiting::start(move || theirs.try_enter_for(&key, PATIENCE))
        };
        lease.renew().unwrap();
        assert!(closes.contains(&lease.close()));
        let lease = waiting.result().unwrap();
        assert!(closes.contains(&lease.close()));
    }
}

/// A master with sentinels, and users of both.
struct Watched(Sentinels);

impl Watched {
    /// Users by the page's rules, but for one word.
    fn without(word: &str) -> Self {
        let servers = Sentinels::start();
        for server in servers.servers() {
            acl::make_user(server, &rule(&acl::of_masters(), word));
        }
        let watched = Self(servers);
        watched.make_users_of_sentinels_without(word);
        watched
    }

    fn make_users_of_sentinels_without(&self, word: &str) {
        let rule = acl::of_sentinels().into_iter();
        let rule: Vec<_> = rule.filter(|it| it != word).collect();
        for sentinel in self.0.sentinels() {
            acl::make_user(sentinel, &rule);
        }
    }

    fn guard(&self, wakeups: Wakeups) -> Result<RedisSandboxExecutionGuard, ConfigError> {
        guard_of(&self.0.address())
            .credentials(acl::USER, acl::SECRET)
            .outage_tolerance(PATIENCE)
            .min_replicas(1)
            .pool_size(1)
            .wakeups(wakeups)
            .build()
    }

    /// Closes a lease over a connection to a master that was demoted without a word, and has lost the lease, while
    /// the new one has it.
    fn close_at_a_demoted_master(&self) -> CloseOutcome {
        let guard = self.guard(Wakeups::Polling).unwrap();
        let servers = &self.0;
        let (old, new) = (
            servers.master(),
            (servers.master() + 1) % servers.servers().len(),
        );
        let slot = guard.slot(&key("closed"));
        let lease = guard.try_enter(&key("closed")).unwrap();
        eventually("the replica has the lease", || {
            servers.servers()[new].cli(&["EXISTS", slot.as_str()]) == "1"
        });
        servers.promote(new);
        assert_eq!(servers.servers()[old].cli(&["DEL", slot.as_str()]), "1");
        servers.demote(old);
        lease.close()
    }
}

#[test]
fn the_rules_for_sentinel_suffice_also_for_a_failover() {
    let _alone = alone();
    listen(Warn);
    let mut watched = Watched::without("nothing");
    let guards = [(); 2].map(|()| watched.guard(Wakeups::Tracking).unwrap());
    wait_for_each_other(&guards, &["a", "b"], WELL);
    let lease = guards[0].try_enter(&key("a")).unwrap();
    let old = watched.0.master();
    watched.0.server(old).kill();
    // The one replica that is left follows another master now.
    wait_for_each_other(&guards, &["b"], AFTER_A_FAILOVER);
    assert_eq!(lease.close(), CloseOutcome::Released);
    assert!(!is_warned_of_silence(), "{:?}", warnings());
}

fn is_warned_of_silence() -> bool {
    let is_it = |warning: &String| warning.contains("the sentinels do not tell");
    warnings().iter().any(is_it)
}

#[test]
fn without_the_rights_to_listen_to_sentinels_a_warning_tells() {
    let _alone = alone();
    let watched = Watched::without("nothing");
    for word in ["+subscribe", "&+switch-master"] {
        listen(Warn);
        watched.make_users_of_sentinels_without(word);
        let guard = watched.guard(Wakeups::Tracking).unwrap();
        eventually(word, is_warned_of_silence);
        guard.try_enter(&key(word)).unwrap().close();
    }
}

#[test]
fn without_the_right_to_ask_sentinels_nobody_finds_the_master() {
    let _alone = alone();
    let watched = Watched::without("+sentinel|get-master-addr-by-name");
    let error = everything_said(&watched.guard(Wakeups::Polling).unwrap_err());
    assert!(error.contains("NOPERM"), "{error}");
    assert!(!error.contains(acl::SECRET), "{error}");
}

#[test]
fn without_the_right_to_ask_for_the_role_a_demoted_master_is_believed() {
    let _alone = alone();
    for (without, expected) in [
        ("nothing", CloseOutcome::Released),
        ("+role", CloseOutcome::AlreadyGone),
    ] {
        let watched = Watched::without(without);
        assert_eq!(watched.close_at_a_demoted_master(), expected, "{without}");
    }
}

/// A cluster, and users of all its nodes by the page's rule, but for one word.
fn cluster(without: &str) -> Cluster {
    let cluster = Cluster::start();
    for node in cluster.nodes() {
        acl::make_user(node, &rule(&acl::of_nodes(), without));
    }
    cluster
}

/// Begins to move the hash slot of a key, of which there is nothing, to another master.
fn begin_to_move(cluster: &Cluster, slot: &str) {
    let from = cluster.master_of(slot, 0);
    let (from, to) = (&cluster.nodes()[from], &cluster.nodes()[(from + 1) % 3]);
    let hash_slot = from.cli(&["CLUSTER", "KEYSLOT", slot]);
    let set = |node: &RedisServer, state, other: &RedisServer| {
        let other = other.cli(&["CLUSTER", "MYID"]);
        assert_eq!(
            node.cli(&["CLUSTER", "SETSLOT", &hash_slot, state, &other]),
            "OK"
        );
    };
    set(to, "IMPORTING", from);
    set(from, "MIGRATING", to);
}

#[test]
fn the_rule_for_a_cluster_suffices_also_for_moves_and_a_failover() {
    let _alone = alone();
    let mut cluster = cluster("nothing");
    let guard = || guard_of(&cluster.address()).outage_tolerance(PATIENCE);
    let guards = [(); 2].map(|()| guard().min_replicas(1).build().unwrap());
    // One slot at each of the masters, at least.
    let values = ["0", "1", "2", "3", "4", "5"];
    wait_for_each_other(&guards, &values, WELL);
    let guards = [(); 2].map(|()| guard().build().unwrap());
    begin_to_move(&cluster, guards[0].slot(&key("0")).as_str());
    wait_for_each_other(&guards, &["0"], WELL);
    let old = cluster.master_of(guards[0].slot(&key("1")).as_str(), 5);
    cluster.node(old).kill();
    wait_for_each_other(&guards, &["1"], AFTER_A_FAILOVER);
}

#[test]
fn without_the_right_to_ask_for_hash_slots_nobody_finds_the_masters() {
    let _alone = alone();
    let error = guard_of(&cluster("+cluster|slots").address())
        .build()
        .unwrap_err();
    let error = everything_said(&error);
    assert!(error.contains("NOPERM"), "{error}");
    assert!(!error.contains(acl::SECRET), "{error}");
}

#[test]
fn without_the_right_to_follow_a_move_nobody_enters_a_free_slot_of_it() {
    let _alone = alone();
    let cluster = cluster("+asking");
    let guard = guard_of(&cluster.address()).build().unwrap();
    guard.try_enter(&key("0")).unwrap().close();
    begin_to_move(&cluster, guard.slot(&key("0")).as_str());
    let error = everything_said(&guard.try_enter(&key("0")).unwrap_err());
    assert!(error.contains("NOPERM"), "{error}");
    assert!(!error.contains(acl::SECRET), "{error}");
}

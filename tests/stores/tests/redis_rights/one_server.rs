//! The rule for users of one server. The tests read the log.

use std::error::Error;
use std::time::Duration;

use guard_conformance::measure::alone;
use guard_conformance::proxy::Proxy;
use guard_conformance::{PATIENCE, Waiting};
use guard_core::{Budget, LeaseStore, LeaseToken, LeaseTtl, OwnerLabel};
use guard_redis::{CloseOutcome, RedisSandboxExecutionGuard, SandboxExecutionGuard};
use guard_store_tests::logged::{everything, listen, warnings};
use guard_store_tests::redis_server::RedisServer;
use guard_store_tests::{acl, everything_said, replicas};
use log::LevelFilter::Trace;

use crate::{OPERATION_TIMEOUT, PREFIX, key};

/// Values of keys whose counters have their names by each rule.
const VALUES: [&str; 3] = ["plain", "{tagged}", "}{"];

struct Scene {
    proxy: Proxy,
    server: RedisServer,
    _replicas: Vec<RedisServer>,
}

/// What did not work, in the user's words.
struct Complaint(String);

impl<E: Error + 'static> From<E> for Complaint {
    fn from(error: E) -> Self {
        Self(everything_said(&error))
    }
}

fn demand(what: &str, is_so: bool) -> Result<(), Complaint> {
    if is_so {
        Ok(())
    } else {
        Err(Complaint(format!("in vain: {what}")))
    }
}

impl Scene {
    fn new() -> Self {
        let (server, replicas) = replicas::start(1);
        // Worth a warning, if the user may know of it.
        assert_eq!(
            server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]),
            "OK"
        );
        Self {
            proxy: Proxy::to(server.port()),
            server,
            _replicas: replicas,
        }
    }

    /// Everything that a guard can do, as a user with these rights; what did not work, and what was warned of.
    fn try_out(&self, rule: &[String]) -> Vec<String> {
        listen(Trace);
        let url = acl::user(&self.server, rule, self.proxy.url());
        // A database of one's own.
        let url = format!("{}1", url.strip_suffix('0').unwrap());
        let mut complaints = Vec::new();
        for fencing in [false, true] {
            // Nobody knows the scripts yet.
            self.server.cli(&["SCRIPT", "FLUSH"]);
            self.server.cli(&["FLUSHALL"]);
            if let Err(Complaint(complaint)) = self.use_all(&url, fencing) {
                complaints.push(complaint);
            }
            self.proxy.heal();
        }
        let mut warnings = warnings();
        let evictions = |warning: &String| warning.contains("maxmemory-policy");
        if !warnings.iter().any(evictions) {
            complaints.push("no warning of evictions".to_owned());
        }
        warnings.retain(|warning| !evictions(warning));
        complaints.append(&mut warnings);
        complaints
    }

    fn use_all(&self, url: &str, fencing: bool) -> Result<(), Complaint> {
        let guard = RedisSandboxExecutionGuard::builder(url)
            .key_prefix(PREFIX)
            .fencing(fencing)
            .min_replicas(1)
            .operation_timeout(OPERATION_TIMEOUT)
            .outage_tolerance(Duration::ZERO)
            .retry_interval(Duration::from_millis(20))
            // So that only an end of the connection makes a release final.
            .ghost_window(Duration::from_secs(600))
            .build()?;
        for value in VALUES {
            let key = key(value);
            let lease = guard.try_enter(&key)?;
            lease.renew()?;
            demand("the holder is told", guard.holder(&key)?.is_some())?;
            demand(
                "the slot is released",
                lease.close() == CloseOutcome::Released,
            )?;
        }
        self.pass_on(&guard)?;
        self.be_woken(&guard)?;
        self.outlive_silence(&guard)
    }

    /// A slot is handed over inside the process.
    fn pass_on(&self, guard: &RedisSandboxExecutionGuard) -> Result<(), Complaint> {
        let lease = guard.try_enter(&key("passed on"))?;
        let waiting = {
            let guard = guard.clone();
            Waiting::start(move || guard.try_enter_for(&key("passed on"), PATIENCE))
        };
        demand(
            "the slot is passed on",
            lease.close() == CloseOutcome::Released,
        )?;
        drop(waiting.result()?);
        Ok(())
    }

    /// A slot that somebody else holds is waited for.
    fn be_woken(&self, guard: &RedisSandboxExecutionGuard) -> Result<(), Complaint> {
        let slot = guard.slot(&key("woken"));
        let cli = |arguments: &[&str]| self.server.cli(&[&["-n", "1"], arguments].concat());
        cli(&["SET", slot.as_str(), "foreign", "PX", "600000"]);
        demand(
            "the slot is held",
            guard.try_enter_now(&key("woken"))?.is_none(),
        )?;
        let waiting = {
            let guard = guard.clone();
            Waiting::start(move || guard.try_enter_for(&key("woken"), PATIENCE))
        };
        cli(&["DEL", slot.as_str()]);
        drop(waiting.result()?);
        Ok(())
    }

    /// A command without an answer is made harmless at once.
    fn outlive_silence(&self, guard: &RedisSandboxExecutionGuard) -> Result<(), Complaint> {
        let (store, slot) = (guard.store(), guard.slot(&key("silence")));
        let token = LeaseToken::generate(&OwnerLabel::default());
        let ttl = LeaseTtl::new(Duration::from_secs(600), Duration::MAX).unwrap();
        self.proxy.hold_next();
        // Something of the wake-ups may be what is held back: then this is granted.
        let _ = store.acquire(&slot, &token, ttl, Budget::new(OPERATION_TIMEOUT));
        store.release(&slot, &token, Budget::new(PATIENCE))?;
        demand("nothing is in doubt", !store.in_doubt(&token))
    }
}

#[test]
fn the_rule_of_the_page_suffices() {
    let _alone = alone();
    let complaints = Scene::new().try_out(&acl::rule(PREFIX));
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[test]
fn each_word_of_the_rule_is_needed() {
    let _alone = alone();
    let (scene, rule) = (Scene::new(), acl::rule(PREFIX));
    let mut needless = Vec::new();
    for (index, word) in rule.iter().enumerate() {
        let mut rest = rule.clone();
        rest.remove(index);
        let complaints = scene.try_out(&rest);
        println!("without {word}: {complaints:#?}");
        for complaint in &complaints {
            assert!(!complaint.contains(acl::SECRET), "{complaint}");
        }
        if complaints.is_empty() {
            needless.push(word.clone());
        }
    }
    assert!(needless.is_empty(), "{needless:?}");
    let log = everything();
    assert!(log.contains(PREFIX) && !log.contains(acl::SECRET), "{log}");
}

#[test]
fn fewer_replicas_than_asked_for_are_warned_of_if_the_server_tells() {
    let _alone = alone();
    let (server, _replicas) = replicas::start(1);
    let warnings_with = |min_replicas, rule: &[String]| {
        listen(Trace);
        let guard = RedisSandboxExecutionGuard::builder(acl::user(&server, rule, server.url()))
            .min_replicas(min_replicas);
        drop(guard.build().unwrap());
        warnings()
    };
    let rule = acl::rule(PREFIX);
    for enough in [0, 1] {
        assert!(warnings_with(enough, &rule).is_empty());
    }
    let warned = warnings_with(2, &rule);
    let [warning] = &warned[..] else {
        panic!("{warned:?}");
    };
    let expected = "`min_replicas` is 2, but the Redis server has 1 connected replicas";
    assert!(warning.contains(expected), "{warning}");
    let untold: Vec<_> = rule.into_iter().filter(|it| it != "+info").collect();
    assert!(warnings_with(2, &untold).is_empty());
}

/// What the two rights that a guard can do without cost.
#[test]
fn without_the_rights_to_track_and_to_kill_a_guard_works_and_says_so() {
    let _alone = alone();
    let (scene, rule) = (Scene::new(), acl::rule(PREFIX));
    let without = |lacking: &str| {
        let rest: Vec<_> = rule
            .iter()
            .filter(|word| *word != lacking)
            .cloned()
            .collect();
        assert!(rest.len() < rule.len(), "{lacking}");
        scene.try_out(&rest)
    };
    // Once a guard, of which there are two.
    let complaints = without("+client|tracking");
    assert_eq!(complaints.len(), 2, "{complaints:#?}");
    for complaint in complaints {
        assert!(complaint.contains("waiting polls"), "{complaint}");
    }
    let complaints = without("+client|kill");
    assert_eq!(complaints.len(), 2, "{complaints:#?}");
    for complaint in complaints {
        assert!(complaint.contains("`ghost_window`"), "{complaint}");
    }
}

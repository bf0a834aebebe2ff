//! TLS: who is refused, when, and what it says.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use guard_conformance::{PATIENCE, Waiting};
use guard_redis::{
    ConfigError, RedisGuardBuilder, RedisSandboxExecutionGuard, SandboxExecutionGuard,
};
use guard_store_tests::certificates::Certificates;
use guard_store_tests::everything_said;
use guard_store_tests::redis_server::{RedisServer, Setup};

use crate::{OPERATION_TIMEOUT, SLACK, entry_to_a_stopped, key};

const PASSWORD: &str = "correct-horse";

/// A server that wants certificates, and whatever it takes to be let in.
struct Scene {
    server: RedisServer,
    certificates: Arc<Certificates>,
}

impl Scene {
    fn new() -> Self {
        let certificates = Arc::new(Certificates::new(&["localhost"]));
        let server = RedisServer::start_with(Setup {
            password: Some(PASSWORD.to_owned()),
            tls: Some(Arc::clone(&certificates)),
            ..Setup::default()
        });
        Self {
            server,
            certificates,
        }
    }

    fn url(&self, host: &str) -> String {
        format!("rediss://:{PASSWORD}@{host}:{}/0", self.server.port())
    }

    /// A builder that trusts the server.
    fn trusting(&self, host: &str) -> RedisGuardBuilder {
        RedisSandboxExecutionGuard::builder(self.url(host))
            .tls_ca_certificate(self.certificates.pem("ca.pem"))
    }

    /// A builder that is let in.
    fn builder(&self) -> RedisGuardBuilder {
        introduced(self.trusting("localhost"), &self.certificates)
    }
}

/// A builder that shows a certificate.
fn introduced(builder: RedisGuardBuilder, certificates: &Certificates) -> RedisGuardBuilder {
    builder.tls_client_certificate(
        certificates.pem("client.pem"),
        certificates.pem("client.key"),
    )
}

/// The builder is refused at once, for good, and says why and no secret.
#[track_caller]
fn assert_refused(builder: RedisGuardBuilder, expected: &str) {
    let before = Instant::now();
    let shown = format!("{builder:?} {builder:#?}");
    let error = builder.build().expect_err(expected);
    assert!(before.elapsed() < SLACK, "{:?}", before.elapsed());
    assert!(!error.is_transient(), "{error:?}");
    assert!(matches!(error, ConfigError::Connect { .. }), "{error:?}");
    let text = everything_said(&error);
    assert!(text.contains(expected), "{expected:?} not in {text}");
    assert_tells_no_secret(&(shown + &text));
}

fn assert_tells_no_secret(text: &str) {
    for secret in [PASSWORD, "PRIVATE KEY"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn a_server_of_an_unknown_authority_is_refused() {
    let scene = Scene::new();
    let (other, same_name) = (
        Certificates::by("somebody else", &["localhost"]),
        Certificates::new(&["localhost"]),
    );
    let builder = || RedisSandboxExecutionGuard::builder(scene.url("localhost"));
    let expected = "signed by nobody who is trusted here (see `tls_ca_certificate`)";
    for other in [other, same_name] {
        assert_refused(builder().tls_ca_certificate(other.pem("ca.pem")), expected);
    }
    // Those whom the operating system trusts did not sign it, either.
    assert_refused(introduced(builder(), &scene.certificates), expected);
}

#[test]
fn a_server_of_another_name_is_refused() {
    let scene = Scene::new();
    let builder = introduced(scene.trusting("127.0.0.1"), &scene.certificates);
    assert_refused(builder, "for another host name");
}

#[test]
fn a_guard_without_the_certificate_that_the_server_wants_is_refused() {
    let scene = Scene::new();
    let (other, same_name) = (
        Certificates::by("somebody else", &[]),
        Certificates::new(&[]),
    );
    let expected = "(see `tls_client_certificate`)";
    // Often: the refusal may come while a command is being sent.
    for _ in 0..20 {
        assert_refused(scene.trusting("localhost"), expected);
        for other in [&other, &same_name] {
            assert_refused(introduced(scene.trusting("localhost"), other), expected);
        }
    }
}

#[test]
fn the_right_certificates_let_in_and_are_in_no_debug_output() {
    let scene = Scene::new();
    let builder = scene.builder();
    let shown = format!("{builder:?}");
    let guard = builder.build().unwrap();
    let lease = guard.try_enter(&key("a")).unwrap();
    let store = guard.store();
    assert_tells_no_secret(&format!("{shown} {guard:?} {store:?} {lease:?}"));
}

#[test]
fn certificates_that_are_none_are_refused_by_name() {
    let scene = Scene::new();
    let other = Certificates::new(&[]);
    let own = |name| scene.certificates.pem(name);
    let (ca, client) = ("tls_ca_certificate", "tls_client_certificate");
    let with = |certificate: Vec<u8>, key: Vec<u8>| {
        scene
            .trusting("localhost")
            .tls_client_certificate(certificate, key)
    };
    let plain = || RedisSandboxExecutionGuard::builder("redis://127.0.0.1/");
    for (builder, expected) in [
        (scene.trusting("localhost").tls_ca_certificate(""), ca),
        (scene.trusting("localhost").tls_ca_certificate("no PEM"), ca),
        (
            scene
                .trusting("localhost")
                .tls_ca_certificate(own("client.key")),
            ca,
        ),
        (with(own("client.pem"), own("client.pem")), client),
        (with(own("client.key"), own("client.key")), client),
        (with(own("client.pem"), other.pem("client.key")), client),
        (with(own("client.pem"), Vec::new()), client),
        (plain().tls_ca_certificate(own("ca.pem")), ca),
        (introduced(plain(), &scene.certificates), client),
    ] {
        let error = builder.build().expect_err(expected);
        let ConfigError::InvalidSetting { setting, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(*setting, expected, "{error}");
        assert_tells_no_secret(&everything_said(&error));
    }
}

#[test]
fn a_server_that_never_answers_the_greeting_costs_the_operation_timeout() {
    let scene = Scene::new();
    // One takes the connection and does nothing, the other does not even take it.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let deaf = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    thread::spawn(move || silent.incoming().collect::<Vec<_>>());
    for port in [port, deaf.local_addr().unwrap().port()] {
        for host in ["localhost", "127.0.0.1"] {
            let url = format!("rediss://:{PASSWORD}@{host}:{port}/1");
            let builder = RedisSandboxExecutionGuard::builder(url)
                .tls_ca_certificate(scene.certificates.pem("ca.pem"))
                .operation_timeout(OPERATION_TIMEOUT);
            let before = Instant::now();
            let error = builder.build().expect_err("nobody answers");
            let took = before.elapsed();
            assert!(took < OPERATION_TIMEOUT + SLACK, "{took:?}");
            assert!(error.is_transient(), "{error:?}");
            let text = everything_said(&error);
            assert!(text.contains("does the server speak TLS"), "{text}");
            assert_tells_no_secret(&text);
        }
    }
}

#[test]
fn a_server_without_tls_and_a_guard_without_it_fail_in_time() {
    let (scene, plain) = (Scene::new(), RedisServer::start());
    let plain_port = format!("rediss://:{PASSWORD}@localhost:{}/0", plain.port());
    let tls_port = scene.url("localhost").replace("rediss", "redis");
    for url in [plain_port, tls_port] {
        let builder = RedisSandboxExecutionGuard::builder(url);
        let before = Instant::now();
        let error = builder
            .operation_timeout(OPERATION_TIMEOUT)
            .build()
            .expect_err("one side speaks TLS, the other does not");
        assert!(before.elapsed() < OPERATION_TIMEOUT + SLACK);
        assert_tells_no_secret(&everything_said(&error));
    }
}

#[test]
fn a_stopped_server_costs_the_operation_timeout_and_a_restart_costs_nothing() {
    let mut scene = Scene::new();
    let guard = scene
        .builder()
        .operation_timeout(OPERATION_TIMEOUT)
        .outage_tolerance(Duration::ZERO)
        .build()
        .unwrap();
    drop(guard.try_enter(&key("a")).unwrap());
    let error = entry_to_a_stopped(&scene.server, &guard);
    assert_tells_no_secret(&everything_said(&error));

    drop(guard.try_enter_for(&key("b"), PATIENCE).unwrap());
    scene.server.restart();
    drop(guard.try_enter(&key("b")).unwrap());
}

#[test]
fn a_pool_brings_its_own_certificates_also_for_wakeups() {
    let scene = Scene::new();
    let manager = scene.builder().connection_manager().unwrap();
    let pool = r2d2::Pool::builder().max_size(2).build(manager).unwrap();
    let guard = RedisSandboxExecutionGuard::from_pool(pool)
        .retry_interval(PATIENCE)
        .build()
        .unwrap();
    let slot = guard.slot(&key("a"));
    scene.server.cli(&["SET", slot.as_str(), "foreign"]);
    let waiting = {
        let guard = guard.clone();
        Waiting::start(move || guard.try_enter(&key("a")))
    };
    scene.server.cli(&["DEL", slot.as_str()]);
    let freed = Instant::now();
    assert!(waiting.result().unwrap().is_held());
    assert!(freed.elapsed() < PATIENCE / 2, "woken by the server");
}

#[test]
fn an_insecure_address_trusts_whoever_answers_and_no_other_does() {
    let scene = Scene::new();
    let url = format!("{}#insecure", scene.url("127.0.0.1"));
    let insecure = RedisSandboxExecutionGuard::builder(url);
    let guard = introduced(insecure, &scene.certificates).build().unwrap();
    drop(guard.try_enter(&key("a")).unwrap());
    let strict = introduced(scene.trusting("127.0.0.1"), &scene.certificates);
    assert_refused(strict, "another host name");
}

#[test]
fn an_address_that_carries_certificates_is_refused_with_the_settings_to_use() {
    let scene = Scene::new();
    let client = scene.certificates.client(&scene.url("localhost"));
    let error = RedisSandboxExecutionGuard::builder(client.get_connection_info().clone())
        .build()
        .expect_err("they cannot be read");
    let said = error.to_string();
    assert!(said.contains("tls_ca_certificate"), "{said}");
    assert!(said.contains("tls_client_certificate"), "{said}");
    assert!(!said.contains(PASSWORD), "{said}");
}

//! Tokens of other programs, which may be anything.

use guard_redis::SandboxExecutionGuard;
use guard_store_tests::redis_server::RedisServer;

use crate::{builder, key};

#[test]
fn a_holder_whose_token_is_no_text_is_told_and_can_be_ended() {
    let server = RedisServer::start();
    let guard = builder(&server.url()).build().unwrap();
    let slot = guard.slot(&key("a"));
    let mut connection = redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap();
    for token in [&b"\xff\xfe\0a"[..], b"", b"\0", b"\r\n"] {
        redis::cmd("SET")
            .arg(slot.as_str())
            .arg(token)
            .exec(&mut connection)
            .unwrap();
        assert!(guard.try_enter_now(&key("a")).unwrap().is_none());
        assert!(guard.holder(&key("a")).unwrap().is_some(), "{token:?}");
        assert!(
            guard.force_release(&key("a")).unwrap().is_some(),
            "{token:?}"
        );
        assert_eq!(server.cli(&["EXISTS", slot.as_str()]), "0", "{token:?}");
    }
}

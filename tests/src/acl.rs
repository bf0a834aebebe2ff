//! The rule for users that the Redis store's page gives.

use crate::redis_server::RedisServer;

const PAGE: &str = include_str!("../../guard-redis/README.md");
/// The user of the page's rule, and the key prefix that it is written for.
const USER: &str = "sandbox-guard";
const PREFIX: &str = "agentscope:sandbox:lock:";
const PASSWORD: &str = ">PASSWORD";

/// The password of the users that are made here.
pub const SECRET: &str = "correct-horse";

/// The words of the page's rule, but for the user's name and password, for another key prefix.
///
/// # Panics
///
/// When the page has no such rule.
#[must_use]
pub fn rule(prefix: &str) -> Vec<String> {
    let command = format!("ACL SETUSER {USER} on {PASSWORD}");
    let (_, rest) = PAGE.split_once(&command).expect("the page gives the rule");
    let (rule, _) = rest.split_once("```").expect("its block ends");
    let words: Vec<_> = rule
        .split_whitespace()
        .map(|word| word.replace(PREFIX, prefix))
        .collect();
    assert!(words.len() > 10, "{words:?}");
    words
}

/// Makes a user by a rule; answers the URL for it.
///
/// # Panics
///
/// When the server does not take the rule.
#[must_use]
pub fn user(server: &RedisServer, rule: &[String], url: String) -> String {
    let password = format!(">{SECRET}");
    let mut command = vec!["ACL", "SETUSER", USER, "reset", "on", &password];
    command.extend(rule.iter().map(String::as_str));
    assert_eq!(server.cli(&command), "OK");
    url.replace("redis://", &format!("redis://{USER}:{SECRET}@"))
}

//! The rules for users that the Redis store's pages give.

use crate::redis_server::RedisServer;

const PAGE: &str = include_str!("../../../guard-redis/README.md");
const SENTINEL: &str = include_str!("../../../guard-redis/docs/sentinel.md");
const CLUSTER: &str = include_str!("../../../guard-redis/docs/cluster.md");

/// The user of the pages' rules.
pub const USER: &str = "sandbox-guard";
/// The key prefix that they are written for.
const PREFIX: &str = "agentscope:sandbox:lock:";
/// The password of the users that are made here.
pub const SECRET: &str = "correct-horse";

/// The words of the rule for one server, for another key prefix.
#[must_use]
pub fn rule(prefix: &str) -> Vec<String> {
    let words = words(PAGE, 0).into_iter();
    words.map(|word| word.replace(PREFIX, prefix)).collect()
}

/// The words of the rule for sentinels.
#[must_use]
pub fn of_sentinels() -> Vec<String> {
    words(SENTINEL, 0)
}

/// What a server that sentinels watch over needs beside the rule for one server.
#[must_use]
pub fn of_masters() -> Vec<String> {
    words(SENTINEL, 1)
}

/// What a node of a cluster needs beside the rule for one server.
#[must_use]
pub fn of_nodes() -> Vec<String> {
    words(CLUSTER, 0)
}

/// The words of one of a page's rules, but for the user's name and password.
fn words(page: &str, index: usize) -> Vec<String> {
    let command = format!("ACL SETUSER {USER} ");
    let rule = page.split(&command).nth(index + 1);
    let (rule, _) = rule
        .and_then(|rest| rest.split_once("```"))
        .expect("the page gives the rule in a block");
    let rule = rule.trim_start_matches("on >PASSWORD");
    rule.split_whitespace().map(str::to_owned).collect()
}

/// Makes a user by a rule; answers the URL for it.
///
/// # Panics
///
/// When the server does not take the rule.
#[must_use]
pub fn user(server: &RedisServer, rule: &[String], url: String) -> String {
    make_user(server, rule);
    as_user(&url)
}

/// Makes a user by a rule.
///
/// # Panics
///
/// When the server does not take the rule.
pub fn make_user(server: &RedisServer, rule: &[String]) {
    let password = format!(">{SECRET}");
    let mut command = vec!["ACL", "SETUSER", USER, "reset", "on", &password];
    command.extend(rule.iter().map(String::as_str));
    assert_eq!(server.cli(&command), "OK");
}

/// The address for the user.
#[must_use]
pub fn as_user(address: &str) -> String {
    address.replace("redis://", &format!("redis://{USER}:{SECRET}@"))
}

//! The readers of `data/key-vectors.tsv` and `data/advisory-vectors.tsv`.

use guard_core::{IsolationScope, RuntimeContext, SlotName};

const VECTORS: &str = include_str!("../data/key-vectors.tsv");
const ADVISORY: &str = include_str!("../data/advisory-vectors.tsv");

/// What a row expects instead of a name when the input is refused.
const ERROR: &str = "!error";

/// A key and the names that come of it.
#[derive(Debug)]
pub(crate) struct SlotRow {
    /// `None` is the default prefix.
    pub(crate) prefix: Option<String>,
    pub(crate) scope: IsolationScope,
    pub(crate) value: String,
    /// The slot's name; `None` if the prefix or the value is refused.
    pub(crate) slot: Option<String>,
    /// The name of the slot's fence counter.
    pub(crate) counter: Option<String>,
}

/// What a slot's lock is called in databases.
#[derive(Debug)]
pub struct AdvisoryRow {
    /// The slot.
    pub slot: SlotName,
    /// The number of its lock in PostgreSQL.
    pub number: i64,
    /// The name of its lock in MySQL.
    pub name: String,
}

/// What slots' locks are called in databases.
///
/// # Panics
///
/// When a row is not of its form.
#[must_use]
pub fn advisory_rows() -> Vec<AdvisoryRow> {
    let rows = ADVISORY.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let fields: Vec<_> = line.split('\t').collect();
        let [slot, number, name] = fields[..] else {
            panic!("an advisory row has three fields: {fields:?}")
        };
        AdvisoryRow {
            slot: SlotName::from_store(&unescape(slot)),
            number: number.parse().expect("a number"),
            name: unescape(name),
        }
    })
    .collect()
}

/// A call's context and the key that it resolves to.
#[derive(Debug)]
pub(crate) struct ResolveRow {
    pub(crate) scope: Option<IsolationScope>,
    pub(crate) context: RuntimeContext,
    pub(crate) agent_id: Option<String>,
    pub(crate) expected: Resolved,
}

/// What a context resolves to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    Key(String),
    Nothing,
    Refused,
}

pub(crate) fn slot_rows() -> Vec<SlotRow> {
    let row = |fields: Vec<&str>| {
        let [prefix, scope, value, slot, counter] = fields[..] else {
            panic!("a slot row has five fields: {fields:?}")
        };
        SlotRow {
            prefix: optional(prefix),
            scope: self::scope(scope).expect("a slot row has a scope"),
            value: unescape(value),
            slot: name(slot),
            counter: name(counter),
        }
    };
    rows("slot").map(row).collect()
}

pub(crate) fn resolve_rows() -> Vec<ResolveRow> {
    let row = |fields: Vec<&str>| {
        let [scope, user, session, agent, expected] = fields[..] else {
            panic!("a resolve row has five fields: {fields:?}")
        };
        let mut context = RuntimeContext::new();
        if let Some(user) = optional(user) {
            context = context.with_user_id(user);
        }
        if let Some(session) = optional(session) {
            context = context.with_session_id(session);
        }
        ResolveRow {
            scope: self::scope(scope),
            context,
            agent_id: optional(agent),
            expected: match expected {
                "none" => Resolved::Nothing,
                ERROR => Resolved::Refused,
                key => Resolved::Key(unescape(key)),
            },
        }
    };
    rows("resolve").map(row).collect()
}

fn rows(kind: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(move |line| {
        let mut fields = line.split('\t');
        (fields.next() == Some(kind)).then(|| fields.collect())
    })
}

fn optional(field: &str) -> Option<String> {
    (field != "-").then(|| unescape(field))
}

fn name(field: &str) -> Option<String> {
    (field != ERROR).then(|| unescape(field))
}

fn scope(field: &str) -> Option<IsolationScope> {
    match field {
        "-" => None,
        "session" => Some(IsolationScope::Session),
        "user" => Some(IsolationScope::User),
        "agent" => Some(IsolationScope::Agent),
        "global" => Some(IsolationScope::Global),
        other => panic!("no scope: {other:?}"),
    }
}

/// Resolves `\t \n \r \0 \\` and `\u{..}`.
fn unescape(field: &str) -> String {
    let mut text = String::new();
    let mut rest = field;
    while let Some((before, escape)) = rest.split_once('\\') {
        text.push_str(before);
        let mut chars = escape.chars();
        let plain = match chars.next() {
            Some('t') => '\t',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('0') => '\0',
            Some('\\') => '\\',
            Some('u') => {
                let (digits, behind) = escape[2..].split_once('}').expect("a closed \\u{..}");
                let number = u32::from_str_radix(digits, 16).expect("hexadecimal digits");
                text.push(char::from_u32(number).expect("a character"));
                rest = behind;
                continue;
            }
            other => panic!("no escape: {other:?}"),
        };
        text.push(plain);
        rest = chars.as_str();
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read() {
        let rows = VECTORS
            .lines()
            .filter(|line| !line.starts_with('#'))
            .count();
        assert_eq!(slot_rows().len() + resolve_rows().len(), rows);
    }

    #[test]
    fn escapes_are_resolved() {
        assert_eq!(unescape(r"a\\n\n\u{540D}\0b"), "a\\n\n\u{540D}\0b");
    }
}

//! What is known of a cluster: which server is the master of which hash slot.

use std::collections::HashMap;
use std::fmt;

use guard_core::NodeId;
use redis::Value;

use crate::protocol::fencing_counter::HASH_SLOTS;

/// Where a server of the cluster listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Address {
    /// Reads what a redirection names, `host:port`. Without a host it is that of `asked`, the server that
    /// redirects.
    pub(crate) fn parse(text: &str, asked: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        Some(Self::new(host, port, asked))
    }

    fn new(host: &str, port: u16, asked: &Self) -> Self {
        let unknown = host.is_empty() || host == "?";
        let host = if unknown { &asked.host } else { host };
        Self {
            host: host.to_owned(),
            port,
        }
    }
}

/// A range of hash slots and the servers that have it, the master first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Range {
    first: u16,
    last: u16,
    servers: Vec<Address>,
}

/// Reads the answer to `CLUSTER SLOTS`; `None` if it is none, or nothing to go by: a server that knows of no hash slot,
/// since it was reset or has left the cluster, and one that names two masters for the same.
pub(crate) fn read(answer: &Value, asked: &Address) -> Option<Vec<Range>> {
    let Value::Array(rows) = answer else {
        return None;
    };
    let ranges: Vec<Range> = rows
        .iter()
        .map(|row| read_range(row, asked))
        .collect::<Option<_>>()?;
    let mut bounds: Vec<_> = ranges.iter().map(|it| (it.first, it.last)).collect();
    bounds.sort_unstable();
    let are_apart = bounds.is_sorted_by(|one, other| one.1 < other.0);
    (!ranges.is_empty() && are_apart).then_some(ranges)
}

fn read_range(row: &Value, asked: &Address) -> Option<Range> {
    let Value::Array(row) = row else {
        return None;
    };
    let [Value::Int(first), Value::Int(last), servers @ ..] = row.as_slice() else {
        return None;
    };
    let servers: Option<Vec<Address>> = servers.iter().map(|it| read_server(it, asked)).collect();
    let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
    let is_range = first <= last && last < HASH_SLOTS;
    is_range.then_some(Range {
        first,
        last,
        servers: servers.filter(|servers| !servers.is_empty())?,
    })
}

/// The host may be null: that of the server that was asked.
fn read_server(server: &Value, asked: &Address) -> Option<Address> {
    let Value::Array(server) = server else {
        return None;
    };
    let [host, Value::Int(port), ..] = server.as_slice() else {
        return None;
    };
    let host = match host {
        Value::BulkString(host) => str::from_utf8(host).ok()?,
        _ => "",
    };
    let port = u16::try_from(*port).ok().filter(|port| *port != 0)?;
    Some(Address::new(host, port, asked))
}

/// The masters by hash slot.
pub(crate) struct Map {
    masters: Vec<Option<Address>>,
    /// The number of each server's shard: a master and its replicas. It stays over a failover.
    shards: HashMap<Address, u64>,
    last_shard: u64,
}

impl Map {
    pub(crate) fn new() -> Self {
        Self {
            masters: vec![None; usize::from(HASH_SLOTS)],
            shards: HashMap::new(),
            last_shard: 0,
        }
    }

    /// Takes over what a server of the cluster has told.
    pub(crate) fn update(&mut self, ranges: &[Range]) {
        self.masters.fill(None);
        let mut shards = HashMap::new();
        for range in ranges {
            let Some(master) = range.servers.first() else {
                continue;
            };
            // The master's own number, or that of the replicas whose master it has become.
            let known = range.servers.iter().find_map(|it| self.shards.get(it));
            let number = shards.get(master).or(known).copied().unwrap_or_else(|| {
                self.last_shard += 1;
                self.last_shard
            });
            for server in &range.servers {
                shards.insert(server.clone(), number);
            }
            let slots = usize::from(range.first)..=usize::from(range.last);
            if let Some(masters) = self.masters.get_mut(slots) {
                masters.fill(Some(master.clone()));
            }
        }
        self.shards = shards;
    }

    /// Notes that a hash slot has moved.
    pub(crate) fn moved(&mut self, hash_slot: u16, to: &Address) {
        if let Some(master) = self.masters.get_mut(usize::from(hash_slot)) {
            *master = Some(to.clone());
        }
    }

    pub(crate) fn master(&self, hash_slot: u16) -> Option<&Address> {
        self.masters.get(usize::from(hash_slot))?.as_ref()
    }

    /// The shard that has a hash slot; 0 if nobody knows.
    pub(crate) fn shard(&self, hash_slot: u16) -> NodeId {
        let master = self.master(hash_slot);
        let number = master.and_then(|master| self.shards.get(master));
        NodeId(number.copied().unwrap_or_default())
    }

    /// The servers that have hash slots.
    pub(crate) fn masters(&self) -> Vec<Address> {
        let mut masters: Vec<Address> = Vec::new();
        for master in self.masters.iter().flatten() {
            if !masters.contains(master) {
                masters.push(master.clone());
            }
        }
        masters
    }

    /// All servers, masters and replicas.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &Address> {
        self.shards.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Address {
        Address {
            host: "h".to_owned(),
            port,
        }
    }

    fn range(first: u16, last: u16, ports: &[u16]) -> Range {
        Range {
            first,
            last,
            servers: ports.iter().copied().map(address).collect(),
        }
    }

    #[test]
    fn the_answer_to_cluster_slots_is_read_with_and_without_hosts() {
        let text = "*1\r\n*4\r\n:0\r\n:5460\r\n\
            *4\r\n$9\r\n127.0.0.1\r\n:30001\r\n$2\r\nid\r\n*0\r\n\
            *4\r\n$-1\r\n:30004\r\n$2\r\nid\r\n*0\r\n";
        let answer = redis::parse_redis_value(text.as_bytes()).unwrap();
        let ranges = read(&answer, &address(1)).unwrap();
        let servers = ranges[0].servers.iter().map(Address::to_string);
        assert_eq!(servers.collect::<Vec<_>>(), ["127.0.0.1:30001", "h:30004"]);
        assert_eq!((ranges[0].first, ranges[0].last), (0, 5460));
        assert!(read(&Value::Okay, &address(1)).is_none());
    }

    #[test]
    fn an_answer_without_hash_slots_or_with_two_masters_for_one_is_none() {
        let row = |first, last, port| {
            format!("*3\r\n:{first}\r\n:{last}\r\n*2\r\n$1\r\nh\r\n:{port}\r\n")
        };
        let is_read = |rows: &[String]| {
            let text = format!("*{}\r\n{}", rows.len(), rows.concat());
            let answer = redis::parse_redis_value(text.as_bytes()).unwrap();
            read(&answer, &address(1)).is_some()
        };
        assert!(is_read(&[row(100, 16_383, 2), row(0, 99, 1)]));
        for bad in [
            vec![],
            vec![row(0, 100, 1), row(100, 16_383, 2)],
            vec![row(0, 16_383, 1), row(7, 7, 2)],
            vec![row(9, 8, 1)],
            vec![row(0, 16_384, 1)],
            vec![row(0, 16_383, 0)],
            vec!["*2\r\n:0\r\n:16383\r\n".to_owned()],
        ] {
            assert!(!is_read(&bad), "{bad:?}");
        }
    }

    #[test]
    fn a_redirection_may_leave_the_host_out() {
        let parse = |text| Address::parse(text, &address(1)).map(|it| it.to_string());
        assert_eq!(parse("10.0.0.2:7000").as_deref(), Some("10.0.0.2:7000"));
        assert_eq!(parse("::1:7000").as_deref(), Some("::1:7000"));
        assert_eq!(parse(":7000").as_deref(), Some("h:7000"));
        assert_eq!(parse("nothing"), None);
        assert_eq!(parse(":0"), None);
    }

    #[test]
    fn a_shard_keeps_its_number_when_a_replica_takes_over() {
        let mut map = Map::new();
        assert_eq!(map.master(0), None);
        map.update(&[range(0, 99, &[1, 4]), range(100, 16_383, &[2, 5])]);
        let (first, second) = (map.shard(0), map.shard(100));
        assert_ne!(first, second);
        map.update(&[range(0, 99, &[4]), range(100, 16_383, &[2, 5])]);
        assert_eq!((map.shard(0), map.shard(100)), (first, second));
        map.update(&[range(0, 99, &[4, 1]), range(100, 16_383, &[2, 5])]);
        assert_eq!((map.shard(0), map.shard(16_383)), (first, second));
        assert_eq!(map.master(99), Some(&address(4)));
    }

    #[test]
    fn a_hash_slot_that_has_moved_belongs_to_its_new_masters_shard() {
        let mut map = Map::new();
        map.update(&[range(0, 99, &[1]), range(100, 16_383, &[2])]);
        map.moved(7, &address(2));
        assert_eq!(map.shard(7), map.shard(100));
        assert_eq!(map.master(6), Some(&address(1)));
        map.moved(8, &address(9));
        assert_eq!(map.shard(8), NodeId(0));
        assert_eq!(map.servers().count(), 2);
    }
}

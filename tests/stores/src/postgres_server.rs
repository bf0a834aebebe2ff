//! A real PostgreSQL server of one's own, whose sessions carry advisory locks.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use guard_core::{ConfigError, LeaseStore, SlotName};
use guard_postgres::{PostgresSandboxExecutionGuard, lock_number};
use rustix::process::Pid;
use tempfile::TempDir;

use crate::daemon::{Daemon, Program, is_root, output};
use crate::database::{Database, GuardBuilder};

/// The user that servers run as when the tests run as root, which PostgreSQL refuses.
const USER: &str = "postgres";

const INSTALL: &str = "on Debian: apt-get install postgresql";

/// What a server is started with.
#[derive(Debug)]
pub struct Postgres {
    arguments: Vec<String>,
}

/// A PostgreSQL server on a free port that lets everybody in; it is stopped when this is dropped.
pub type PostgresServer = Daemon<Postgres>;

impl Program for Postgres {
    const NAME: &'static str = "postgres";

    /// Ends all its backends, stopped ones too.
    const END: &'static str =
        "kill -CONT $server $(cat /proc/$server/task/$server/children); kill -QUIT $server";

    fn command(server: &PostgresServer) -> Command {
        let mut command = as_server_user(&tool("postgres"));
        command.arg("-D").arg(server.path("data"));
        command.args([
            "-p",
            &server.port().to_string(),
            "-h",
            "127.0.0.1",
            "-k",
            "",
        ]);
        command.args(["--fsync=off", "--max_connections=200"]);
        command.args(["--logging_collector=on", "--log_filename=log"]);
        command.arg(format!("--log_directory={}", server.path("").display()));
        command.args(&server.program.arguments);
        command
    }

    /// That a server is ours tells where its data is.
    fn is_up(server: &PostgresServer) -> bool {
        let ours = server.path("data");
        let data = server.try_sql("SHOW data_directory");
        data.is_ok_and(|data| ours == Path::new(data.trim()))
    }

    /// Its backends.
    fn children(first: Pid) -> Vec<Pid> {
        let pid = first.as_raw_nonzero();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let pids = children.split_whitespace();
        pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
            .collect()
    }
}

impl Database for Postgres {
    type Guard = PostgresSandboxExecutionGuard;

    const SCHEME: &'static str = "postgres";
    const ADMINISTRATOR: &'static str = "postgres";
    const DATABASE: &'static str = "/postgres";
    const EXECUTE: &'static str = "-c";
    const INSTALL: &'static str = INSTALL;
    const CLIENT: &'static str = "psql";

    const SESSIONS: &'static str = "(SELECT pid AS id, application_name AS owner, \
         wait_event = 'advisory' AS waits, query_start AS statement \
         FROM pg_stat_activity) AS sessions";
    const OWN_ID: &'static str = "SELECT pg_backend_pid()";

    const IMPATIENT: &'static [&'static str] = &[
        "idle_session_timeout=300",
        "statement_timeout=300",
        "lock_timeout=100",
    ];
    const LISTEN_EVERYWHERE: &'static str = "listen_addresses=*";
    const UNREADABLE: &'static [&'static str] = &["", "nonsense", "postgres://["];

    fn start_with(settings: &[&str]) -> PostgresServer {
        let directory = directory_of_server_user();
        let mut initdb = as_server_user(&tool("initdb"));
        initdb.args(["--auth=trust", "--username=postgres", "--encoding=UTF8"]);
        initdb.args(["--locale=C", "--no-sync", "--pgdata"]);
        initdb.arg(directory.path().join("data"));
        if let Err(error) = output(&mut initdb, INSTALL) {
            panic!("initdb: {error}");
        }
        let arguments = settings.iter().map(|setting| format!("--{setting}"));
        let arguments = arguments.collect();
        Daemon::launch(Self { arguments }, directory)
    }

    fn client(server: &PostgresServer) -> Command {
        psql(&server.url())
    }

    fn build(builder: GuardBuilder<Self>) -> Result<Self::Guard, ConfigError> {
        PostgresSandboxExecutionGuard::builder(&builder.address)
            .settings(builder.config)
            .pool_size(builder.pool_size)
            .wait_connections(builder.wait_connections)
            .build()
    }

    fn shown(address: &str) -> String {
        format!("{:?}", PostgresSandboxExecutionGuard::builder(address))
    }

    fn store(guard: &Self::Guard) -> Arc<dyn LeaseStore> {
        Arc::new(guard.store().clone())
    }

    fn try_lock(slot: &SlotName) -> String {
        format!("SELECT pg_try_advisory_lock({})::int", lock_number(slot))
    }

    fn lock(slot: &SlotName) -> String {
        let number = lock_number(slot);
        format!("SELECT (pg_advisory_lock({number}) IS NOT NULL)::int")
    }

    fn unlock(slot: &SlotName) -> String {
        format!("SELECT pg_advisory_unlock({})::int", lock_number(slot))
    }

    fn holder(slot: &SlotName) -> String {
        let number = lock_number(slot).cast_unsigned();
        format!(
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 \
             AND classid = {} AND objid = {}",
            number >> 32,
            number & u64::from(u32::MAX)
        )
    }

    fn description(session: &str) -> String {
        format!("backend {session} from 127.0.0.1")
    }

    fn end(session: &str) -> String {
        format!("SELECT pg_terminate_backend({session})")
    }

    fn read_only(server: &PostgresServer, read_only: bool) {
        server.sql(&format!(
            "ALTER SYSTEM SET default_transaction_read_only = {read_only}"
        ));
        server.sql("SELECT pg_reload_conf()");
    }

    fn aborted_handshakes(_: &PostgresServer) -> usize {
        0
    }

    fn create_user(name: &str, password: &str, sessions: u32) -> String {
        format!("CREATE ROLE {name} LOGIN PASSWORD '{password}' CONNECTION LIMIT {sessions}")
    }
}

impl PostgresServer {
    /// A standby that follows this server.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    #[must_use]
    pub fn standby(&self) -> Self {
        let directory = directory_of_server_user();
        let mut copy = as_server_user(&tool("pg_basebackup"));
        copy.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
        copy.args(["--dbname", &self.url(), "--pgdata"]);
        copy.arg(directory.path().join("data"));
        if let Err(error) = output(&mut copy, INSTALL) {
            panic!("pg_basebackup: {error}");
        }
        let arguments = Vec::new();
        Daemon::launch(Postgres { arguments }, directory)
    }
}

/// A `psql` on the server, pooler or proxy at `url` that prints bare values.
#[must_use]
pub fn psql(url: &str) -> Command {
    let mut command = Command::new("psql");
    command.args(["-X", "-A", "-t", "-q", url]);
    command
}

/// A program of the newest PostgreSQL that is installed. Debian keeps them off the path.
fn tool(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let numbers = versions.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let newest: Option<u32> = numbers.max();
    let path = newest.map_or_else(
        || PathBuf::from("/usr/bin"),
        |version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin")),
    );
    let path = path.join(name);
    assert!(path.exists(), "`{name}` is not installed; {INSTALL}");
    path
}

/// A program, run as a user that PostgreSQL accepts.
pub(crate) fn as_server_user(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    command.arg(program);
    command
}

/// A temporary directory that belongs to that user.
pub(crate) fn directory_of_server_user() -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    if is_root() {
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let entry = passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            let found = fields.next() == Some(USER);
            let (user, group) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            found.then_some((user, group))
        });
        let (user, group) = entry.unwrap_or_else(|| panic!("there is no user {USER}; {INSTALL}"));
        chown(directory.path(), Some(user), Some(group)).expect("root may");
        let owner = fs::metadata(directory.path()).expect("it is there").uid();
        assert_eq!(owner, user);
    }
    directory
}

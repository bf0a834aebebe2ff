//! A real MariaDB server of one's own, whose sessions carry named locks.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use guard_core::{ConfigError, LeaseStore, SlotName};
use guard_mysql::{MySqlSandboxExecutionGuard, lock_name};

use crate::daemon::{Daemon, Program, is_root, output};
use crate::database::{Database, GuardBuilder};

/// Small, quick and without InnoDB: locks need no table.
const SETTINGS: [&str; 3] = [
    "--no-defaults",
    "--innodb=OFF",
    "--default-storage-engine=Aria",
];

const INSTALL: &str = "on Debian: apt-get install mariadb-server";

/// What a server is started with.
#[derive(Debug)]
pub struct MariaDb {
    arguments: Vec<String>,
}

/// A MariaDB server on a free port whose `root` needs no password; it is stopped when this is dropped.
pub type MariaDbServer = Daemon<MariaDb>;

impl Program for MariaDb {
    const NAME: &'static str = "mariadbd";

    fn command(server: &MariaDbServer) -> Command {
        let option = |name, file| format!("--{name}={}", server.path(file).display());
        let mut command = Command::new(tool("mariadbd"));
        command.args(SETTINGS).args(as_user());
        command.args([option("datadir", "data"), option("log-error", "log")]);
        command.args([option("pid-file", "pid"), option("socket", "socket")]);
        command.args([option("tmpdir", ""), format!("--port={}", server.port())]);
        command.args(["--bind-address=127.0.0.1", "--max-connections=200"]);
        // Where sessions tell their names.
        command.arg("--performance-schema=ON");
        command.args(&server.program.arguments);
        command
    }

    /// That a server is ours tells where its data is.
    fn is_up(server: &MariaDbServer) -> bool {
        let ours = server.path("data");
        let data = server.try_sql("SELECT @@datadir");
        data.is_ok_and(|data| ours == Path::new(data.trim()))
    }
}

impl Database for MariaDb {
    type Guard = MySqlSandboxExecutionGuard;

    const SCHEME: &'static str = "mysql";
    const ADMINISTRATOR: &'static str = "root";
    const DATABASE: &'static str = "";
    const EXECUTE: &'static str = "-e";
    const INSTALL: &'static str = INSTALL;
    const CLIENT: &'static str = "mysql";

    const SESSIONS: &'static str = "(SELECT ID AS id, ATTR_VALUE AS owner, \
         STATE = 'User lock' AS waits, QUERY_ID AS statement \
         FROM information_schema.PROCESSLIST LEFT JOIN performance_schema.session_connect_attrs \
         ON PROCESSLIST_ID = ID AND ATTR_NAME = 'program_name') AS sessions";
    const OWN_ID: &'static str = "SELECT CONNECTION_ID()";

    const IMPATIENT: &'static [&'static str] = &[
        "wait-timeout=1",
        "interactive-timeout=1",
        "max-statement-time=0.3",
        "lock-wait-timeout=1",
        "autocommit=OFF",
    ];
    const LISTEN_EVERYWHERE: &'static str = "bind-address=127.0.0.1,::1";
    const UNREADABLE: &'static [&'static str] = &[
        "",
        "nonsense",
        "mysql://[",
        "postgres://root@h/d",
        "mysql://root@h?unknown=1",
    ];

    fn start_with(settings: &[&str]) -> MariaDbServer {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut install = Command::new(tool("mariadb-install-db"));
        install.args(SETTINGS).args(as_user());
        install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
        let data = directory.path().join("data");
        install.arg(format!("--datadir={}", data.display()));
        // Servers that share a folder for this remove each other's files.
        install.env("TMPDIR", directory.path());
        if let Err(error) = output(&mut install, INSTALL) {
            panic!("mariadb-install-db: {error}");
        }
        let arguments = settings.iter().map(|setting| format!("--{setting}"));
        let arguments = arguments.collect();
        Daemon::launch(Self { arguments }, directory)
    }

    fn client(server: &MariaDbServer) -> Command {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--batch", "--unbuffered", "--raw"]);
        command.args(["--skip-column-names", "--default-character-set=utf8mb4"]);
        command.args(["--user=root", "--host=127.0.0.1"]);
        command.arg(format!("--port={}", server.port()));
        command
    }

    fn build(builder: GuardBuilder<Self>) -> Result<Self::Guard, ConfigError> {
        MySqlSandboxExecutionGuard::builder(&builder.address)
            .settings(builder.config)
            .pool_size(builder.pool_size)
            .wait_connections(builder.wait_connections)
            .build()
    }

    fn shown(address: &str) -> String {
        format!("{:?}", MySqlSandboxExecutionGuard::builder(address))
    }

    fn store(guard: &Self::Guard) -> Arc<dyn LeaseStore> {
        Arc::new(guard.store().clone())
    }

    fn try_lock(slot: &SlotName) -> String {
        format!("SELECT GET_LOCK({}, 0)", literal(&lock_name(slot)))
    }

    fn lock(slot: &SlotName) -> String {
        format!("SELECT GET_LOCK({}, 30)", literal(&lock_name(slot)))
    }

    fn unlock(slot: &SlotName) -> String {
        format!("SELECT RELEASE_LOCK({})", literal(&lock_name(slot)))
    }

    fn holder(slot: &SlotName) -> String {
        let name = literal(&lock_name(slot));
        format!("SELECT COALESCE(IS_USED_LOCK({name}), '')")
    }

    fn description(session: &str) -> String {
        format!("connection {session} of root@")
    }

    fn end(session: &str) -> String {
        format!("KILL {session}")
    }

    fn aborted_handshakes(server: &MariaDbServer) -> usize {
        let count = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
                     WHERE VARIABLE_NAME = 'ABORTED_CONNECTS'";
        server.sql(count).parse().expect("a number")
    }

    /// The password is not stored as text; accounts of other hosts are not met.
    fn read_only(server: &MariaDbServer, read_only: bool) {
        server.sql(&format!("SET GLOBAL read_only = {read_only}"));
    }

    fn create_user(name: &str, password: &str, sessions: u32) -> String {
        format!(
            "CREATE USER {name}@127.0.0.1 IDENTIFIED BY '{password}' \
             WITH MAX_USER_CONNECTIONS {sessions}"
        )
    }
}

impl MariaDbServer {
    /// The URL of the server's socket.
    #[must_use]
    pub fn socket_url(&self) -> String {
        let path = self.path("socket").display().to_string();
        format!("mysql://root@localhost?socket={}", path.replace('/', "%2F"))
    }
}

/// A text without anything that needs an escape.
#[must_use]
pub fn literal(text: &str) -> String {
    let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("_utf8mb4 X'{digits}'")
}

/// The server has to be told that it may run as root.
fn as_user() -> Option<&'static str> {
    is_root().then_some("--user=root")
}

/// A program of MariaDB. Debian keeps the server off the path of users.
fn tool(name: &str) -> PathBuf {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/bin"];
    let mut paths = folders
        .iter()
        .map(|folder| PathBuf::from(folder).join(name));
    let found = paths.find(|path| path.exists());
    found.unwrap_or_else(|| panic!("`{name}` is not installed; {INSTALL}"))
}

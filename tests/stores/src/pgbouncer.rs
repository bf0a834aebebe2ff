//! A real PgBouncer of one's own, in front of a PostgreSQL server.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use crate::daemon::{Daemon, Program, output};
use crate::database::Database as _;
use crate::postgres_server::{
    Postgres, PostgresServer, as_server_user, directory_of_server_user, psql,
};

const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// What a pooler is started with.
#[derive(Debug)]
pub struct Pooler {
    server: u16,
    settings: String,
}

/// A PgBouncer on a free port; it is stopped when this is dropped.
pub type PgBouncer = Daemon<Pooler>;

impl Program for Pooler {
    const NAME: &'static str = "pgbouncer";

    fn command(pooler: &PgBouncer) -> Command {
        let Pooler { server, settings } = &pooler.program;
        let settings = format!(
            "[databases]\n\
             postgres = host=127.0.0.1 port={server} user=postgres dbname=postgres\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {}\nunix_socket_dir =\n\
             auth_type = any\nadmin_users = {}\nlogfile = {}\n{settings}\n",
            pooler.port(),
            Postgres::ADMINISTRATOR,
            pooler.path("log").display()
        );
        let file = pooler.path("pgbouncer.ini");
        fs::write(&file, settings).expect("a file in a directory of one's own");
        let mut command = as_server_user(Path::new(PROGRAM));
        command.arg(file);
        command
    }

    fn is_up(pooler: &PgBouncer) -> bool {
        TcpStream::connect(("127.0.0.1", pooler.port())).is_ok()
    }
}

impl PgBouncer {
    /// Starts a pooler in `mode` (`session`, `transaction`, `statement`).
    #[must_use]
    pub fn start(server: &PostgresServer, mode: &str) -> Self {
        Self::start_with(server, mode, "")
    }

    /// Starts a pooler with a line of settings of its own.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[must_use]
    pub fn start_with(server: &PostgresServer, mode: &str, setting: &str) -> Self {
        assert!(
            Path::new(PROGRAM).exists(),
            "`pgbouncer` is not installed; on Debian: apt-get install pgbouncer"
        );
        let pooler = Pooler {
            server: server.port(),
            settings: format!("pool_mode = {mode}\n{setting}"),
        };
        Self::launch(pooler, directory_of_server_user())
    }

    /// Goes on in another mode, with the connections that are there, too: from the end of their next statement on.
    ///
    /// # Panics
    ///
    /// When the pooler refuses.
    pub fn set_mode(&self, mode: &str) {
        let console = Postgres::address(Postgres::ADMINISTRATOR, self.port(), "/pgbouncer");
        let set = format!("SET pool_mode = '{mode}'");
        output(psql(&console).args(["-c", &set]), Postgres::INSTALL).expect("an administrator");
    }

    /// The URL of the server behind the pooler.
    #[must_use]
    pub fn url(&self) -> String {
        Postgres::url(self.port())
    }
}

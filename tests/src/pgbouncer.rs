//! A real PgBouncer of one's own, in front of a PostgreSQL server.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::fixture::eventually;
use crate::postgres_server::{
    PostgresServer, as_server_user, directory_of_server_user, free_port, url,
};

const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// Ends the pooler when the pipe to this shell is closed, however the test process ended.
const WATCHER: &str = r#""$@" >/dev/null 2>&1 </dev/null & pooler=$!
read -r _; kill -9 $pooler; wait $pooler"#;

/// A PgBouncer on a free port; it is stopped when this is dropped.
#[derive(Debug)]
pub struct PgBouncer {
    watcher: Child,
    port: u16,
    // After the process, whose directory it is.
    _directory: TempDir,
}

impl PgBouncer {
    /// Starts a pooler in `mode` (`session`, `transaction`, `statement`).
    ///
    /// # Panics
    ///
    /// When it cannot be started.
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
        let directory = directory_of_server_user();
        let (port, file) = (free_port(), directory.path().join("pgbouncer.ini"));
        let settings = format!(
            "[databases]\n\
             postgres = host=127.0.0.1 port={} user=postgres dbname=postgres\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = {mode}\n{setting}\n",
            server.port()
        );
        fs::write(&file, settings).expect("a file in a directory of one's own");
        let pooler = as_server_user(Path::new(PROGRAM));
        let watcher = Command::new("sh")
            .args(["-c", WATCHER, "pgbouncer-watcher"])
            .arg(pooler.get_program())
            .args(pooler.get_args())
            .arg(&file)
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh starts");
        let this = Self {
            watcher,
            port,
            _directory: directory,
        };
        eventually("pgbouncer listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        this
    }

    /// The URL of the server behind the pooler.
    #[must_use]
    pub fn url(&self) -> String {
        url(self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        // An error would only say that it is gone already.
        let _ = self.watcher.wait();
    }
}

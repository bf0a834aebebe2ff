//! A proxy for MySQL that shares its sessions with the server among its clients, as such proxies do when they multiplex.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

const OK: u8 = 0;
const EOF: u8 = 0xFE;
const ERROR: u8 = 0xFF;
const QUIT: u8 = 1;

/// The bytes before each packet: three of its length and its number.
const HEADER: usize = 4;

/// A multiplexing proxy on a port of its own, for clients that want no end after the columns of an answer, such as
/// `mysql_async`. Its threads end with their clients.
#[derive(Debug)]
pub struct Multiplexer {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: u16,
    size: usize,
    /// How far every client's session is from the one that it began with.
    shift: AtomicUsize,
    /// Protects the sessions with the server. A statement is under way with the lock held: one at a time.
    sessions: Mutex<Vec<Session>>,
}

#[derive(Debug)]
struct Session {
    stream: TcpStream,
    clients: usize,
}

impl Multiplexer {
    /// Starts a proxy to the server on port `server` with `size` sessions at most. A client gets one that nobody uses,
    /// a new one, or the last of them.
    ///
    /// # Panics
    ///
    /// Without a free port.
    #[must_use]
    pub fn start(server: u16, size: usize) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            server,
            size,
            shift: AtomicUsize::new(0),
            sessions: Mutex::default(),
        });
        let weak = Arc::downgrade(&shared);
        thread::spawn(move || {
            while let (Ok((client, _)), Some(shared)) = (listener.accept(), weak.upgrade()) {
                // An error is the end of the client or of the server.
                thread::spawn(move || shared.serve(client));
            }
        });
        Self { port, shared }
    }

    /// From now on every client has its neighbour's session.
    pub fn shift(&self) {
        self.shared.shift.fetch_add(1, Ordering::SeqCst);
    }

    /// The port to connect to.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Multiplexer {
    fn drop(&mut self) {
        for session in self.shared.sessions.lock().expect("no panic").drain(..) {
            // One that has ended already is as good.
            let _ = session.stream.shutdown(Shutdown::Both);
        }
        // The acceptor finds out that there is nobody any more.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        let mut session = TcpStream::connect((Ipv4Addr::LOCALHOST, self.server))?;
        client.set_nodelay(true)?;
        session.set_nodelay(true)?;
        // The greeting, and answers until one side has the last word.
        pass(&mut session, &mut client)?;
        loop {
            pass(&mut client, &mut session)?;
            match pass(&mut session, &mut client)? {
                OK => break,
                ERROR => return Ok(()),
                _ => {}
            }
        }
        let own = {
            let mut sessions = self.sessions.lock().expect("no panic");
            let idle = sessions.iter().position(|session| session.clients == 0);
            let own = idle.unwrap_or_else(|| {
                if sessions.len() < self.size {
                    sessions.push(Session {
                        stream: session,
                        clients: 0,
                    });
                }
                sessions.len() - 1
            });
            sessions[own].clients += 1;
            own
        };
        let ended = self.pass_statements(&mut client, own);
        if let Some(session) = self.sessions.lock().expect("no panic").get_mut(own) {
            session.clients -= 1;
        }
        ended
    }

    /// Until the client leaves.
    fn pass_statements(&self, client: &mut TcpStream, own: usize) -> io::Result<()> {
        loop {
            let statement = packet(client)?;
            if statement[HEADER] == QUIT {
                return Ok(());
            }
            let mut sessions = self.sessions.lock().expect("no panic");
            let count = sessions.len().max(1);
            let index = (own + self.shift.load(Ordering::SeqCst)) % count;
            let session = sessions.get_mut(index).ok_or(io::ErrorKind::NotConnected)?;
            session.stream.write_all(&statement)?;
            answer(&mut session.stream, client)?;
        }
    }
}

/// Passes on all that answers one statement.
fn answer(session: &mut TcpStream, client: &mut TcpStream) -> io::Result<()> {
    let first = pass(session, client)?;
    if matches!(first, OK | ERROR) {
        return Ok(());
    }
    // So many columns, and then rows until an end.
    for _ in 0..first {
        pass(session, client)?;
    }
    while !matches!(pass(session, client)?, EOF | ERROR) {}
    Ok(())
}

/// Passes on one packet; answers its first byte.
fn pass(from: &mut TcpStream, to: &mut TcpStream) -> io::Result<u8> {
    let packet = packet(from)?;
    to.write_all(&packet)?;
    Ok(packet[HEADER])
}

/// A packet with its header. Ours are never empty.
fn packet(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; HEADER];
    from.read_exact(&mut packet)?;
    let length = usize::from(packet[0]) | usize::from(packet[1]) << 8;
    packet.resize(HEADER + length, 0);
    from.read_exact(&mut packet[HEADER..])?;
    Ok(packet)
}

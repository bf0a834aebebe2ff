//! Hearing from a sentinel that another server is the master now. The old one may live on: sentinels take some ten
//! seconds to tell it.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use guard_core::{Budget, ConfigError, LOG_TARGET};
use redis::Msg;

use crate::connection::dial::dial;
use crate::connection::open_sockets::OpenSockets;
use crate::topology::sentinel::sentinels::Sentinels;
use crate::topology::server::Server;
use crate::wakeups::subscription::{Audience, End, persist, read, subscribe};
use crate::wakeups::worker::{Stop, Worker};

/// Where a sentinel says that it goes by another master now: the master's name, and both addresses.
const CHANNEL: &str = "+switch-master";

const THREAD_NAME: &str = "guard-sentinels";

/// Who listens.
struct News {
    sentinels: Arc<Sentinels>,
    server: Weak<Server>,
    operation_timeout: Duration,
    /// The thread's.
    sockets: Arc<OpenSockets>,
}

/// Starts to listen on a server's behalf, until the answer is dropped.
pub(crate) fn listen(
    server: &Arc<Server>,
    sentinels: Arc<Sentinels>,
    operation_timeout: Duration,
    grace: Duration,
) -> Result<Worker, ConfigError> {
    let worker = Worker::new(THREAD_NAME, grace);
    let news = News {
        sentinels,
        server: Arc::downgrade(server),
        operation_timeout,
        sockets: Arc::clone(worker.sockets()),
    };
    match worker.start(move |stop| news.work(stop)) {
        Ok(()) => Ok(worker),
        Err(error) => Err(ConfigError::thread(THREAD_NAME, error)),
    }
}

impl News {
    /// Listens to one sentinel after the other until the thread is asked to end.
    fn work(&self, stop: &Stop) {
        let mut turn = self.sentinels.first.load(Ordering::Relaxed);
        let told = Cell::new(false);
        let listen = || {
            let end = self.listen(turn, stop);
            turn += 1;
            end
        };
        persist(stop, "news of the sentinels", listen, |why| {
            if !told.replace(true) {
                log::warn!(
                    target: LOG_TARGET,
                    "a master that was replaced while it lives is noticed late, the sentinels do not tell: {why}"
                );
            }
        });
    }

    fn listen(&self, turn: usize, stop: &Stop) -> End {
        let sentinels = &*self.sentinels;
        let index = turn % sentinels.sentinels.len();
        let sentinel = &Arc::new(sentinels.sentinels[index].within(&self.sockets));
        let budget = Budget::new(self.operation_timeout);
        let mut connection = match dial(sentinel, budget) {
            Ok(connection) => connection,
            Err(error) => return End::Failed(error),
        };
        if let Err(failure) = subscribe(&mut connection, CHANNEL, budget) {
            return failure.into();
        }
        // What it said before is not repeated.
        match sentinels.ask(sentinel, budget) {
            Ok(master) if sentinels.is_another(&master) => self.distrust(),
            Ok(_) => {}
            Err(error) => return End::Failed(error),
        }
        let reader = Reader { news: self, index };
        read(&mut connection, stop, &reader, self.operation_timeout)
    }

    fn distrust(&self) {
        if let Some(server) = self.server.upgrade() {
            log::debug!(target: LOG_TARGET, "the sentinels name another master: connecting again");
            server.distrust();
        }
    }
}

/// Reads what one sentinel says.
struct Reader<'a> {
    news: &'a News,
    index: usize,
}

impl Audience for Reader<'_> {
    fn hear(&self, message: &Msg) {
        let sentinels = &self.news.sentinels;
        let said: String = message.get_payload().unwrap_or_default();
        if said.split(' ').next() == Some(&*sentinels.master_name) {
            // It knows more than the others, until they have heard of it.
            sentinels.first.store(self.index, Ordering::Relaxed);
            self.news.distrust();
        }
    }
}

//! Opening, with a database that does with each place what the test says.

use std::error::Error as _;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;

/// What becomes of a handshake with the server at a port.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Opened,
    Refused,
    Silent,
    AnsweredLate,
}

/// How many handshakes began, and how many are under way; at each port.
#[derive(Default)]
struct Seen {
    begun: [AtomicUsize; 3],
    under_way: AtomicUsize,
    most: AtomicUsize,
}

struct Scripted {
    fates: Arc<Mutex<[Fate; 3]>>,
    seen: Arc<Seen>,
}

const LATE: Duration = Duration::from_millis(700);

impl Dial for Scripted {
    type Session = u16;

    const SILENCE: Duration = Duration::MAX;

    async fn dial(&self, target: &Target) -> Result<u16, StoreError> {
        let Target::Address(address) = target else {
            return Err(StoreError::permanent("no socket"));
        };
        let port = usize::from(address.port());
        self.seen.begun[port].fetch_add(1, Ordering::SeqCst);
        let under_way = self.seen.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.seen.most.fetch_max(under_way, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let fate = self.fates.lock()[port];
        match fate {
            Fate::Silent => pending().await,
            Fate::AnsweredLate => tokio::time::sleep(LATE).await,
            Fate::Opened | Fate::Refused => {}
        }
        self.seen.under_way.fetch_sub(1, Ordering::SeqCst);
        if fate == Fate::Refused {
            let cause = io::Error::other(format!("cause {port}"));
            return Err(StoreError::transient(format!("port {port}")).with_source(cause));
        }
        Ok(address.port())
    }
}

struct Scene {
    opener: Opener<Scripted>,
    fates: Arc<Mutex<[Fate; 3]>>,
    seen: Arc<Seen>,
}

const TIMEOUT: Duration = Duration::from_millis(400);

fn scene<const PLACES: usize>(given: [Fate; PLACES]) -> Scene {
    let mut fates = [Fate::Opened; 3];
    fates[..PLACES].copy_from_slice(&given);
    let (fates, seen) = (Arc::new(Mutex::new(fates)), Arc::new(Seen::default()));
    let dial = Scripted {
        fates: Arc::clone(&fates),
        seen: Arc::clone(&seen),
    };
    let place = |port: usize| Place::Host("127.0.0.1".to_owned(), u16::try_from(port).unwrap());
    let places = (0..PLACES).map(place).collect();
    let opener = Opener::start("opener", dial, places, TIMEOUT).unwrap();
    Scene {
        opener,
        fates,
        seen,
    }
}

impl Scene {
    fn open(&self) -> Result<u16, StoreError> {
        self.opener.open(Budget::new(TIMEOUT))
    }

    fn begun(&self, port: usize) -> usize {
        self.seen.begun[port].load(Ordering::SeqCst)
    }
}

#[test]
fn a_silent_place_takes_its_share_only_and_is_tried_last_afterwards() {
    let scene = scene([Fate::Silent, Fate::Silent, Fate::Opened]);
    assert_eq!(scene.open().unwrap(), 2);
    for _ in 0..5 {
        assert_eq!(scene.open().unwrap(), 2);
    }
    assert_eq!((scene.begun(0), scene.begun(1)), (1, 1));
}

#[test]
fn a_refusal_leads_to_the_next_place_and_the_order_stays() {
    let scene = scene([Fate::Refused, Fate::Opened]);
    for _ in 0..3 {
        assert_eq!(scene.open().unwrap(), 1);
    }
    assert_eq!(scene.begun(0), 3);
}

#[test]
fn an_error_tells_each_place_once_and_keeps_the_cause() {
    let scene = scene([Fate::Refused, Fate::Refused]);
    let error = scene.open().unwrap_err();
    let last = error.source().unwrap();
    let cause = last.source().unwrap();
    assert!(
        error.is_transient() && error.to_string().contains("port 0"),
        "{error}"
    );
    assert!(!error.to_string().contains("port 1"), "{error}");
    assert_eq!(last.to_string(), "port 1");
    assert_eq!(cause.to_string(), "cause 1");
}

#[test]
fn one_attempt_is_made_for_all_while_opening_fails() {
    let scene = scene([Fate::Refused]);
    scene.open().unwrap_err();
    scene.seen.most.store(0, Ordering::SeqCst);
    let before = scene.begun(0);
    thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| scene.open().unwrap_err());
        }
    });
    assert_eq!(scene.seen.most.load(Ordering::SeqCst), 1);
    assert!(scene.begun(0) - before <= 5, "{}", scene.begun(0));
    scene.fates.lock()[0] = Fate::Opened;
    thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| scene.open().unwrap());
        }
    });
}

#[test]
fn a_server_that_answers_nobody_has_few_handshakes_to_answer() {
    let scene = scene([Fate::Silent]);
    let begin = Instant::now();
    let callers = || {
        while begin.elapsed() < 5 * TIMEOUT {
            let error = scene.open().unwrap_err();
            assert!(error.is_transient(), "{error}");
        }
    };
    callers();
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(callers);
        }
    });
    let begun = scene.begun(0);
    assert!((2..=5).contains(&begun), "{begun}");
    assert_eq!(
        scene.seen.under_way.load(Ordering::SeqCst),
        begun,
        "none is given up"
    );
}

#[test]
fn a_handshake_that_outlives_its_caller_serves_the_next() {
    let scene = scene([Fate::AnsweredLate]);
    let before = Instant::now();
    scene.open().unwrap_err();
    while scene.open().is_err() {
        assert!(before.elapsed() < 10 * LATE);
    }
    assert!(scene.begun(0) <= 3, "{}", scene.begun(0));
}

#[test]
fn who_waits_is_told_at_once_that_all_has_ended() {
    let scene = scene([Fate::Silent]);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| scene.opener.open(Budget::new(Duration::MAX)));
        while scene.begun(0) == 0 {
            thread::yield_now();
        }
        scene.opener.stop();
        waiting.join().unwrap().unwrap_err();
    });
    scene.open().unwrap_err();
}

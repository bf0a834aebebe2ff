//! The clock of leases counts the time that a machine was suspended.
//!
//! A machine cannot be suspended in a test. A process that moves into a time namespace whose boot-time clock is an
//! hour ahead sees the same: that clock has jumped, while the monotonic one has gone on. Only a process with a single
//! thread may move, so this target has no test harness.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use guard_core::{Clock as _, SystemClock};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const HOUR: Duration = Duration::from_secs(3600);

fn main() {
    let name = "a_lease_counts_the_time_that_the_machine_was_suspended";
    if !rustix::process::geteuid().is_root() {
        println!("test {name} ... ignored, it needs root to move into a time namespace");
        return;
    }
    let mut ahead = Command::new("unshare")
        .args([
            "--time",
            "--boottime",
            "3600",
            "sh",
            "-c",
            "echo; exec sleep 60",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("`unshare` of util-linux");
    let mut ready = [0];
    let said = ahead.stdout.as_mut().map(|out| out.read_exact(&mut ready));
    let namespace = File::open(format!("/proc/{}/ns/time", ahead.id()));

    let (clock, monotonic) = (SystemClock.now(), Instant::now());
    let moved = namespace.as_ref().map(|namespace| {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Time))
    });
    let passed = SystemClock.now().saturating_duration_since(clock);
    let passed_monotonic = monotonic.elapsed();
    let _ = ahead.kill();
    let _ = ahead.wait();

    said.unwrap().expect("`unshare` can make a time namespace");
    moved.expect("its namespace").expect("a move into it");
    assert!(passed_monotonic < HOUR, "the namespace is as expected");
    assert!(passed >= HOUR, "{passed:?} have passed");
    assert!(passed < HOUR + passed_monotonic + Duration::from_secs(60));
    println!("test {name} ... ok");
}

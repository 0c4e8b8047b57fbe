//! A process that has no descriptor left.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::iter;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use kern::{Time, VirtualClock};
use mbuf::{Live, MbufPool, Mbufq, PoolConfig};
use mbuma::device::frame_stream::FrameStream;
use mbuma::device::{Budget, Device};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::is_alone;

const FRAME_LEN: u32 = 60;
const ALL: Budget = Budget {
    frames: 1000,
    bytes: usize::MAX,
};

/// A frame, with its length in front.
fn on_wire() -> Vec<u8> {
    [&FRAME_LEN.to_be_bytes()[..], &[7; FRAME_LEN as usize]].concat()
}

fn received(device: &FrameStream) -> usize {
    let mut rx = Mbufq::new();
    while device.receive(&mut rx, ALL).expect("no end") {}
    rx.len()
}

/// Whether the device's descriptor is readable.
fn is_ready(device: &FrameStream) -> bool {
    let mut fds = [PollFd::new(device, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).expect("a poll") > 0
}

/// Breaks if a peer for which there is no descriptor keeps the device's own readable, so that its worker spins, or is
/// never accepted.
#[test]
fn a_peer_without_a_descriptor_waits_and_wakes_no_worker() {
    if !is_alone(64) {
        return;
    }
    let pool = MbufPool::new(PoolConfig::default()).expect("a pool");
    let clock = Arc::new(VirtualClock::new(Time::ZERO));
    let name = format!("mbuma-frames-{}-few", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("a listener");
    let device = FrameStream::listen(listener, 1500, clock.clone(), &pool).expect("a device");
    let mut peer = UnixStream::connect(&path).expect("a peer");
    let null = || File::open("/dev/null");
    let taken: Vec<_> = iter::from_fn(|| null().ok()).collect();
    assert!(is_ready(&device) && received(&device) == 0);
    for _ in 0..3 {
        assert!(!is_ready(&device), "a worker would spin");
        let again = device.next_deadline().expect("it will try again");
        // Before its time the device does not try.
        clock.set(again - Duration::from_nanos(1));
        assert_eq!(received(&device), 0);
        assert_eq!(device.next_deadline(), Some(again));
        clock.set(again);
        assert_eq!(received(&device), 0);
        assert!(device.next_deadline() > Some(again));
    }
    drop(taken);
    clock.set(device.next_deadline().expect("it will try again"));
    assert_eq!(received(&device), 0);
    assert_eq!(device.next_deadline(), None);
    peer.write_all(&on_wire()).expect("a frame");
    assert!(is_ready(&device));
    assert_eq!(received(&device), 1);
    // The listener is watched again: another machine is refused.
    let mut second = UnixStream::connect(&path).expect("a peer");
    assert!(is_ready(&device) && received(&device) == 0);
    assert_eq!(second.read(&mut [0]).expect("an end"), 0);
    fs::remove_file(path).expect("the name");
    drop(device);
    assert_eq!(pool.live(), Live::NONE);
}

//! Parts that the tests of UNIX-domain sockets share: a stack, bytes, and the balance at the end.

#![allow(dead_code, unreachable_pub, unused_imports)] // each test binary uses its part

pub(crate) use super::count::Count;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kern::{Giant, Random, Time, VirtualClock};
use mbuf::{Chain, Live};
use mbuma::unix::{Message, Passed};
use mbuma::{Config, Stack, UnixStream};

/// Longer than any test takes: a wait that ends with this has hung.
pub const HUNG: Option<Duration> = Some(Duration::from_secs(60));

/// The stack's Giant: over all of it if `MBUMA_GIANT` is set, so that the same tests run under it too.
pub fn giant() -> Arc<Giant> {
    Arc::new(Giant::new(std::env::var_os("MBUMA_GIANT").is_some()))
}

/// A stack. When it goes, nothing may be left: no socket, none in flight, no buffer.
pub struct UnixStack(Stack);

impl Deref for UnixStack {
    type Target = Stack;

    fn deref(&self) -> &Stack {
        &self.0
    }
}

impl Drop for UnixStack {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let stats = self.unix().stats();
        assert_eq!((stats.sockets, stats.in_flight), (0, 0), "sockets are left");
        assert_eq!(self.pool().live(), Live::NONE, "buffers are left");
    }
}

/// A stack, with `tune` applied to its configuration.
pub fn stack_with(tune: impl FnOnce(&mut Config)) -> UnixStack {
    let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
    let mut config = Config::new(clock, Random::from_seed(2));
    config.giant = giant();
    tune(&mut config);
    UnixStack(Stack::new(config).expect("address space"))
}

pub fn stack() -> UnixStack {
    stack_with(|_| {})
}

/// `len` bytes that differ from place to place.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + (i >> 8) * 7) as u8).collect()
}

pub fn chain(stack: &Stack, bytes: &[u8]) -> Chain {
    Chain::from_slice(stack.pool(), bytes).expect("buffers")
}

pub fn message(stack: &Stack, bytes: &[u8]) -> Message {
    Message::new(chain(stack, bytes))
}

/// An object that counts its drop.
pub struct Dropped(pub Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A counter for [`Dropped`].
pub fn drops() -> Arc<AtomicUsize> {
    Arc::default()
}

pub fn count(drops: &AtomicUsize) -> usize {
    drops.load(Ordering::SeqCst)
}

/// An object on its way.
pub fn object(drops: &Arc<AtomicUsize>) -> Box<dyn std::any::Any + Send> {
    Box::new(Dropped(Arc::clone(drops)))
}

/// A name that the tests use.
pub const NAME: &[u8] = b"\0any bytes\xff";

/// Sends one byte over a stream, and an object or socket with it.
pub fn give(stack: &Stack, via: &UnixStream, what: impl Into<Passed>) {
    let sent = via.send_with(message(stack, b"x").with(what));
    sent.map_err(|(e, _)| e).expect("there is room");
}

/// Receives one byte, and the one thing that came with it.
pub fn take(via: &UnixStream) -> Passed {
    let received = via.recv_with(1).expect("it is there").expect("no end");
    let [thing] = <[Passed; 1]>::try_from(received.rights).expect("one thing");
    thing
}

/// The stream that [`take`] received.
pub fn take_stream(via: &UnixStream) -> UnixStream {
    match take(via) {
        Passed::Stream(stream) => stream,
        other => panic!("{other:?}"),
    }
}

//! The stack in the middle: it sends the client's data on to the server.
//!
//! | work | moved by | copies |
//! |---|---|---|
//! | [`Work::Splice`] | the stack, at the end of the batch that brought it | none |
//! | [`Work::HandOn`] | a program, by reference | none |
//! | [`Work::Copy`] | a program, through a buffer of 64 KiB | two |
//!
//! The program polls, so it is not charged for wakeups, which a program that sleeps would need.

use crate::harness::inlet::Inlet;
use mbuma::socket::StreamRelay;
use mbuma::{Stack, TcpStream};

/// The work of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Splice,
    HandOn,
    Copy,
}

/// The proxy's stack with its connections.
pub(crate) struct Proxy {
    job: Job,
    inlets: [Inlet; 2],
    stack: Stack,
    turns: u32,
}

/// The connections, and how data gets from one to the other.
enum Job {
    // Kept only so that they live.
    Splice(#[cfg_attr(not(test), expect(dead_code))] Vec<StreamRelay<TcpStream>>),
    HandOn(Vec<[TcpStream; 2]>),
    Copy(Vec<[TcpStream; 2]>, Box<[u8]>),
}

impl Proxy {
    /// A proxy between the two connections of each pair.
    pub(crate) fn new(
        stack: Stack,
        inlets: [Inlet; 2],
        pairs: Vec<[TcpStream; 2]>,
        work: Work,
    ) -> Self {
        let relay = |[from, to]: [TcpStream; 2]| from.relay(to, None).expect("neither is spliced");
        let job = match work {
            Work::Splice => Job::Splice(pairs.into_iter().map(relay).collect()),
            Work::HandOn => Job::HandOn(pairs),
            Work::Copy => Job::Copy(pairs, vec![0; CHUNK].into_boxed_slice()),
        };
        Self {
            job,
            inlets,
            stack,
            turns: 0,
        }
    }

    /// Takes in the packets that arrived, and lets the program do its part.
    pub(crate) fn turn(&mut self) {
        self.inlets.iter_mut().for_each(Inlet::run);
        match &mut self.job {
            Job::Splice(_) => (),
            Job::HandOn(pairs) => {
                for [a, b] in pairs {
                    hand_on(a, b);
                    hand_on(b, a);
                }
            }
            Job::Copy(pairs, buf) => {
                for [a, b] in pairs {
                    copy(a, b, buf);
                    copy(b, a, buf);
                }
            }
        }
        self.turns += 1;
        if self.turns.is_multiple_of(TURNS_A_TICK) {
            let _ = self.stack.poll();
        }
    }

    /// Bytes that splices moved; `None` if programs do.
    #[cfg(test)]
    pub(crate) fn spliced(&self) -> Option<u64> {
        match &self.job {
            Job::Splice(relays) => Some(relays.iter().map(|relay| relay.moved()[0]).sum()),
            _ => None,
        }
    }
}

/// Moves the data that `from` received and `to` has room for.
fn hand_on(from: &TcpStream, to: &TcpStream) {
    let room = to.send_space();
    if room > 0
        && let Ok(data) = from.recv_chain(room)
        && !data.is_empty()
    {
        let sent = to.send_chain(data);
        assert!(sent.is_ok(), "there was room");
    }
}

/// The same through a buffer.
fn copy(from: &TcpStream, to: &TcpStream, buf: &mut [u8]) {
    let room = to.send_space().min(buf.len());
    if room > 0
        && let Ok(n) = from.recv(&mut buf[..room])
    {
        let mut rest = &buf[..n];
        while !rest.is_empty() {
            let sent = to.send(rest).expect("there was room");
            rest = &rest[sent..];
        }
    }
}

/// Bytes that a program reads at once.
const CHUNK: usize = 64 << 10;
/// Nothing is lost here, so no timer is needed: timers may be late by so many turns.
const TURNS_A_TICK: u32 = 256;

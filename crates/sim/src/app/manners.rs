//! The behaviour of one side of a connection, and its report.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use kern::Time;
use mbuma::SocketError;

use crate::pattern::Pattern;

/// How one side behaves.
#[derive(Debug, Clone, Copy)]
pub struct Manners {
    /// The pattern to send, and its length.
    pub sends: (Pattern, u64),
    /// The pattern to expect, and its length.
    pub expects: (Pattern, u64),
    /// The most bytes of one write.
    pub write_max: usize,
    /// The time between two writes.
    pub pause: Duration,
    /// Sends chains instead of slices.
    pub chains: bool,
    /// Small segments do not wait (no Nagle).
    pub nodelay: bool,
    /// How it reads.
    pub reading: Reading,
    /// It sends only after the peer's end of file, as an answer to the whole request.
    pub answers: bool,
    /// How it goes.
    pub leave: Leave,
    /// Asks a silent peer.
    pub keepalive: Option<Duration>,
}

/// How one side reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// At once.
    Eager,
    /// This many bytes, each time that this interval has passed.
    Slow {
        /// Bytes.
        bytes: usize,
        /// Time.
        every: Duration,
    },
    /// Nothing from this offset on, until this time.
    Stops {
        /// The place.
        at: u64,
        /// The time.
        until: Time,
    },
}

/// How one side goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Sends a FIN after its last byte, and waits for the peer's FIN.
    HalfClose,
    /// It closes once it has sent and received everything, without waiting for the peer's end.
    Close,
    /// It resets the connection once it has sent and received this many bytes together.
    Abort(u64),
}

/// How the connection ended for one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Everything sent, everything received.
    Finished,
    /// With this error.
    Failed(SocketError),
    /// By its own reset.
    Aborted,
}

/// The report of one side.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The side exists: it is connecting, or was accepted.
    pub started: bool,
    /// Bytes handed to the socket.
    pub sent: u64,
    /// Bytes received and found right.
    pub received: u64,
    /// How it ended, if it did.
    pub ending: Option<Ending>,
    /// A violation of a rule, if there was one.
    pub violation: Option<String>,
}

/// A report, shared between the side that writes it and its readers.
pub type SharedReport = Rc<RefCell<Report>>;

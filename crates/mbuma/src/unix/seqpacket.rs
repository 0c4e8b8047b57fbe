//! Sequenced packets: a connection whose messages keep their boundaries, as its users see it.
//!
//! Locks: none.

use std::net::Shutdown;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mbuf::Chain;

use super::connected::connected;
use super::connection::UnixConnection;
use super::error::UnixError;
use super::message::{Message, ReceivedMessage};
use super::name::Name;
use super::pcb::{Handle, Role};
use super::state::UnixState;
use crate::config::Credentials;
use crate::park::Wait;

/// One side of a connection of records, each of which is received whole and separately. Clones are handles on the same
/// socket; the drop of the last one closes it.
///
/// # Example
/// ```
/// use mbuma::unix::Message;
/// use mbuma::{Config, Stack};
///
/// let stack = Stack::new(Config::from_system())?;
/// let (left, right) = stack.unix().seqpacket_pair();
/// // A connection goes to the other side, with a word about it.
/// let (ours, theirs) = stack.unix().pair();
/// let word = mbuf::Chain::from_slice(stack.pool(), b"yours")?;
/// left.send_with(Message::new(word).with(theirs)).map_err(|(e, _)| e)?;
///
/// let received = right.recv_with(64)?.expect("the other side is open");
/// assert_eq!(received.data.to_vec(), b"yours");
/// assert_eq!(received.rights.len(), 1);
/// drop(received);
/// assert_eq!(ours.recv(&mut [0; 8])?, 0); // its peer was dropped with the message
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "SOCK_SEQPACKET")]
#[derive(Clone)]
pub struct UnixSeqpacket(pub(super) Handle);

impl UnixSeqpacket {
    /// Copies a record to the peer.
    ///
    /// # Errors
    /// `WouldBlock` if the peer has not read enough; `BrokenPipe`; `Reset`, once; `TooBig`; `NoBufs`.
    pub fn send(&self, bytes: &[u8]) -> Result<(), UnixError> {
        self.copy_in(bytes, Wait::No)
    }

    /// As [`UnixSeqpacket::send`], waiting for room.
    ///
    /// # Errors
    /// `TimedOut` when the time is over; `BrokenPipe`; `Reset`, once; `TooBig`; `NoBufs`.
    pub fn send_blocking(&self, bytes: &[u8], timeout: Option<Duration>) -> Result<(), UnixError> {
        self.copy_in(bytes, Wait::Yes(timeout))
    }

    fn copy_in(&self, bytes: &[u8], wait: Wait) -> Result<(), UnixError> {
        if bytes.len() > self.unix().config.record_max {
            return Err(UnixError::TooBig);
        }
        let data = Chain::from_slice(&self.unix().pool, bytes)?;
        self.give(Message::new(data), wait).map_err(|(e, _)| e)
    }

    fn give(&self, message: Message, wait: Wait) -> Result<(), (UnixError, Message)> {
        if message.data.len() > self.unix().config.record_max {
            return Err((UnixError::TooBig, message));
        }
        let sent = self.connection().send(self.unix(), message, wait);
        sent.map_err(|(e, message)| {
            // After the peer's end there may be a reset and a closed direction; the reset is reported first.
            let reset = e == UnixError::BrokenPipe && self.connection().take_reset();
            (if reset { UnixError::Reset } else { e }, message)
        })
    }
}

connected!(UnixSeqpacket, Seqpacket);

//! What mbuma and the process it forks say to each other while a guest is set up.
//!
//! ```text
//!   run:     child  UserNamespace ->        attach:  child  Ready + TAP ->
//!            parent <- Mapped
//!            child  Ready + TAP ->
//!            parent <- Go
//!            child  (execs, which closes its end)
//!   At any point instead:  child  Failed ->
//! ```
//!
//! Called by: launch, attach, child. Calls: sys::scm.
//! Invariants: both ends are close-on-exec, so that the end of the conversation is COMMAND's begin.
//! Locks: none.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::{Deserialize, Serialize};

use crate::errors::Failure;
use crate::sys::scm;
use crate::sys::tap::Offloads;

/// One end of the conversation.
pub(crate) struct Channel(OwnedFd);

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Message {
    /// The child has its user namespace, and waits for its id maps.
    UserNamespace,
    /// The parent wrote them.
    Mapped,
    /// The guest is configured; the TAP comes along.
    Ready {
        /// What the kernel agreed to.
        offloads: Offloads,
        /// The Ethernet address of the guest's side.
        mac: [u8; 6],
        /// Steps that failed and can be done without.
        warnings: Vec<Failure>,
    },
    /// The stack is up: become COMMAND.
    Go,
    /// The child gave up.
    Failed(Failure),
}

/// Room for any message: the longest has a handful of warnings.
const MESSAGE_LEN_MAX: usize = 4096;

impl Channel {
    /// Makes both ends.
    pub(crate) fn pair() -> io::Result<(Channel, Channel)> {
        scm::pair().map(|(a, b)| (Channel(a), Channel(b)))
    }

    /// Says something, and hands over a descriptor if there is one.
    pub(crate) fn send(&self, message: &Message, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        scm::send(self.0.as_fd(), &serde_json::to_vec(message)?, fd)
    }

    /// Waits for the other end; `None` when it is closed and everything it said was heard.
    pub(crate) fn recv(&self) -> io::Result<Option<(Message, Option<OwnedFd>)>> {
        let mut bytes = [0; MESSAGE_LEN_MAX];
        let (len, fd) = match scm::recv(self.0.as_fd(), &mut bytes) {
            // The other end closed with something of ours unread: it ended, no more and no less.
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            other => other?,
        };
        match bytes.get(..len) {
            None | Some([]) => Ok(None),
            Some(text) => Ok(Some((serde_json::from_slice(text)?, fd))),
        }
    }
}

#[cfg(test)]
mod tests;

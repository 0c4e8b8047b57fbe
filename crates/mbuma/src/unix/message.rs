//! A message: bytes, the sockets and objects that go with them, and the sender.

use mbuf::Chain;

use super::name::Name;
use super::rights::Passed;
use crate::config::Credentials;

/// A message to send: bytes and rights.
#[doc(alias = "msghdr")]
#[derive(Debug, Default)]
pub struct Message {
    /// The bytes. On a stream, a message with rights needs at least one byte.
    pub data: Chain,
    /// The sockets and objects to pass, [`RIGHTS_MAX`](super::RIGHTS_MAX) at most.
    pub rights: Vec<Passed>,
}

impl Message {
    /// A message of bytes without rights.
    pub fn new(data: Chain) -> Self {
        let rights = Vec::new();
        Self { data, rights }
    }

    /// Adds one socket or object.
    #[must_use]
    pub fn with(mut self, passed: impl Into<Passed>) -> Self {
        self.rights.push(passed.into());
        self
    }
}

/// A received message.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ReceivedMessage {
    /// The bytes.
    pub data: Chain,
    /// The sockets and objects that the sender passed.
    pub rights: Vec<Passed>,
    /// The datagram or record had more bytes than the caller asked for; they are dropped.
    #[doc(alias = "MSG_TRUNC")]
    pub truncated: bool,
    /// The sender of a datagram.
    pub sender: Option<Sender>,
}

/// The sender of a datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// Its name, if it has one.
    pub name: Option<Name>,
    /// The credentials of its socket.
    #[doc(alias = "SCM_CREDS")]
    #[doc(alias = "SCM_CREDENTIALS")]
    pub credentials: Credentials,
    /// The socket.
    pub(super) id: u64,
}

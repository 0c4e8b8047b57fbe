//! A message on its way: bytes, the objects that go with them, and the sender.

use mbuf::Chain;

use super::name::Name;
use super::rights::Passed;
use crate::config::Credentials;

/// A message to send: bytes and rights.
#[doc(alias = "msghdr")]
#[derive(Debug, Default)]
pub struct Message {
    /// The bytes. A stream needs at least one if anything is to go with them.
    pub data: Chain,
    /// The sockets and objects to pass, [`RIGHTS_MAX`](super::RIGHTS_MAX) at most.
    pub rights: Vec<Passed>,
}

impl Message {
    /// A message of bytes, with nothing beside them.
    pub fn new(data: Chain) -> Self {
        let rights = Vec::new();
        Self { data, rights }
    }

    /// The same with one thing more.
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
    /// There were more bytes in the datagram or record than were asked for; they are gone.
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

//! Messages between mbuma and the processes that it forks.
//!
//! ```text
//!   run:     child  UserNamespace ->        attach:  child  Ready + TAP ->
//!            parent <- Mapped
//!            child  OwnFiles + mounts ->    run:     guard  Started + pidfd ->
//!            child  Ready + TAP ->                   guard  Conversation + the child's channel ->
//!            parent <- Go                            parent <- Hold + a descriptor
//!            child  (execs, which closes             guard  Changed ->     (COMMAND stopped or ended)
//!                    its end)                        parent <- End         (or its end closes)
//!            helper ReplacedAgain + a mount ->
//!   both:    gateway process  Up ->  (the stack answers)
//!            monitor <- Ended        (the guest; deliver its last data)
//!            monitor <- Stop         (at once; as if its end closes)
//!            monitor <- Publish + socket, Unpublish
//!            monitor <- NameServers  (the host's have changed)
//!            monitor <- OpenOutward + socket   (a port of the guest's loopback)
//!            monitor <- GuestJoined + TAP, GuestLeft     (of a network)
//!            gateway process  Lingers ->  (again and again after Ended: it delivers the last data)
//!            gateway process  Done -> (and ends)
//!   pasta:   agent  Listening + lists ->
//!            monitor: Bind ->  agent  Bound + sockets ->
//!   At any point instead, from a child:  Failed ->
//! ```
//!
//! Invariants: both ends are close-on-exec, so the channel closes when COMMAND begins; one process holds each end, so
//! the other process notices its end. Locks: none.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::{Deserialize, Serialize};

use crate::args::Publish;
use crate::errors::Failure;
use crate::file_watch::WatchedFile;
use crate::guests::{GuestId, GuestSpec};
use crate::network::message::NetworkMessage;
use crate::ports::{OutwardSpec, PortSpec, PublishedId};
use crate::sys::process::{self, Change, Pid};
use crate::sys::scm;
use crate::sys::tap::Offloads;

/// One end of the channel.
pub(crate) struct Channel(OwnedFd);

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ChannelMessage {
    /// The child has its user namespace, and waits for its id maps.
    UserNamespace,
    /// The parent wrote them.
    Mapped,
    /// These files of the host are replaced in the guest; a second, detached mount of each comes along.
    OwnFiles(Vec<WatchedFile>),
    /// The file of this number was replaced again; the next second mount of it comes along.
    ReplacedAgain(usize),
    /// The guest is configured; the TAP comes along, a descriptor a queue.
    Ready {
        /// The offloads that the kernel agreed to.
        offloads: Offloads,
        /// The guest's side.
        interface: ConfiguredInterface,
        /// Steps that failed and are not necessary.
        warnings: Vec<Failure>,
    },
    /// The stack is up: execute COMMAND.
    Go,
    /// The child gave up.
    Failed(Failure),
    /// The guard has forked the process that becomes COMMAND; a descriptor of that process comes along.
    Started(Pid),
    /// The parent's end of the channel with that process comes along.
    Conversation,
    /// COMMAND stopped or ended.
    Changed(Change),
    /// Hold the descriptor that comes along.
    Hold,
    /// End COMMAND's remaining processes, asking first.
    End,
    /// The gateway process: the stack answers, and all ports are bound.
    Up,
    /// The guest has ended: deliver the data that it sent.
    Ended,
    /// Stop serving, whatever the guest is doing.
    Stop,
    /// One more published port; the sockets of its addresses come along.
    Publish(Vec<PortSpec>),
    /// A port of the guest's loopback leads to the host's; its sockets come along.
    OpenOutward(OutwardSpec),
    /// This port, published or outward, is closed.
    Unpublish(PublishedId),
    /// The agent: the kernel's lists of sockets come along, and the range of ports that the kernel chooses from.
    Listening(u16, u16),
    /// Open this port of the guest's loopback.
    Bind(Publish),
    /// The sockets come along, or the number of the error.
    Bound(Option<i32>),
    /// The host's resolv.conf names these from now on.
    NameServers(Vec<SocketAddr>),
    /// A network has one guest more; its TAP comes along.
    GuestJoined(GuestSpec),
    /// A network has lost this guest.
    GuestLeft(GuestId),
    /// The gateway process has made the change that the monitor asked for, or the number of the error.
    Answered(Option<i32>),
    /// Between a network's process and those that join it or look at it.
    Network(NetworkMessage),
    /// The gateway process still delivers the data of a guest that has ended.
    Lingers,
    /// The gateway process ends with this exit code.
    Done(u8),
}

/// The result of making the guest's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConfiguredInterface {
    /// Its Ethernet address.
    pub(crate) mac: [u8; 6],
    /// The guest's kernel takes packets for its 127.0.0.1 from the interface.
    pub(crate) loopback: bool,
    /// It has an IPv6 address, or may give itself one.
    pub(crate) ip6: bool,
    /// Its owner configures it, not mbuma.
    pub(crate) is_owners: bool,
}

/// Room for any message: the longest lists the guests of a network.
const MESSAGE_LEN_MAX: usize = 32 << 10;

/// Forks a process that does `f`, with an end of a channel whose other end stays here.
///
/// # Errors
/// As [`process::fork_into`].
pub(crate) fn fork(f: impl FnOnce(Channel) -> u8) -> io::Result<(Pid, Channel)> {
    let (ours, theirs) = Channel::pair()?;
    let mut ours = Some(ours);
    let pid = process::fork_into(|| {
        // With a copy of our end, that process would not notice our end.
        ours = None;
        f(theirs)
    })?;
    ours.map(|ours| (pid, ours))
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EPIPE))
}

impl From<OwnedFd> for Channel {
    /// Takes over an end that another process handed on.
    fn from(fd: OwnedFd) -> Channel {
        Channel(fd)
    }
}

impl AsFd for Channel {
    /// Readable when there is a message, or when the other end is closed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Channel {
    /// Makes both ends.
    pub(crate) fn pair() -> io::Result<(Channel, Channel)> {
        scm::pair().map(|(a, b)| (Channel(a), Channel(b)))
    }

    /// Sends a message, and a descriptor if there is one.
    pub(crate) fn send(
        &self,
        message: &ChannelMessage,
        fd: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        self.send_all(message, fd.as_slice())
    }

    /// Sends a message with descriptors.
    pub(crate) fn send_all(
        &self,
        message: &ChannelMessage,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        scm::send(self.0.as_fd(), &serde_json::to_vec(message)?, fds)
    }

    /// Waits for a message; `None` if the other end is closed and all its messages were received.
    pub(crate) fn recv(&self) -> io::Result<Option<(ChannelMessage, Option<OwnedFd>)>> {
        let heard = self.recv_all()?;
        Ok(heard.map(|(message, fds)| (message, fds.into_iter().next())))
    }

    /// The same, for a message with several descriptors.
    pub(crate) fn recv_all(&self) -> io::Result<Option<(ChannelMessage, Vec<OwnedFd>)>> {
        let mut bytes = [0; MESSAGE_LEN_MAX];
        let is_reset = |e: &io::Error| e.kind() == io::ErrorKind::ConnectionReset;
        let mut received = scm::recv(self.0.as_fd(), &mut bytes);
        // The other end closed with a message of ours unread. The kernel reports that once, before the messages that
        // the other end had sent.
        if received.as_ref().is_err_and(is_reset) {
            received = scm::recv(self.0.as_fd(), &mut bytes);
        }
        let (len, fds) = match received {
            Err(e) if is_reset(&e) => return Ok(None),
            other => other?,
        };
        match bytes.get(..len) {
            None | Some([]) => Ok(None),
            Some(text) => Ok(Some((serde_json::from_slice(text)?, fds))),
        }
    }
}

#[cfg(test)]
mod tests;

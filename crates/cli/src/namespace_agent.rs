//! A process in the guest's namespaces, which opens listening sockets at the guest's loopback when the monitor asks.
//!
//! ```text
//!   agent    Listening + the kernel's lists of sockets ->    once
//!   monitor  <- Bind                                         a port
//!   agent    Bound + the sockets ->                          one a version of IP; or why there is none
//! ```
//! A process that has entered a user namespace can't come back, and the monitor's own sockets belong to the host's
//! network.
//!
//! Invariants: it parses nothing of a guest or a network; it keeps one capability, to bind low ports; it holds no file
//! of the host; it ends when the monitor's end of the channel closes.
//! Locks: none.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::args::{OutwardRequest, Publish, PublishRequest};
use crate::channel::{Channel, ChannelMessage};
use crate::errors::{EXIT_OWN_FAILURE, Error};
use crate::listening::ListeningPorts;
use crate::ports;
use crate::sandbox::{self, Kept};
use crate::sys::fd::{self, LetGo};

/// The time that an answer may take: root of the guest may stop the process.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The monitor's handle of the process: dropping this ends it.
pub(crate) struct NamespaceAgent {
    channel: Channel,
    guest: ListeningPorts,
}

impl NamespaceAgent {
    /// Receives the first message of a process that runs [`main`].
    pub(crate) fn meet(channel: Channel) -> Result<NamespaceAgent, Error> {
        let failed = Error::io("listing the ports of the guest");
        match channel.recv_all() {
            Ok(Some((ChannelMessage::Listening(first, last), lists))) => Ok(NamespaceAgent {
                channel,
                guest: ListeningPorts::from_parts(lists, first..=last),
            }),
            Ok(_) => Err(failed(io::ErrorKind::NotFound.into())),
            Err(e) => Err(failed(e)),
        }
    }

    /// The ports on which the guest's programs listen.
    pub(crate) fn guest(&self) -> &ListeningPorts {
        &self.guest
    }

    /// Sockets that are bound to a port of the guest's loopback; a TCP one listens.
    ///
    /// # Errors
    /// The port is in use; or TimedOut or UnexpectedEof: the process is stopped or has ended, and must not be asked
    /// again.
    pub(crate) fn bind(&self, asked: &OutwardRequest) -> io::Result<Vec<OwnedFd>> {
        let publish = Publish {
            host: (Ipv4Addr::LOCALHOST, asked.guest_port).into(),
            guest_addr: None,
            guest_port: asked.host_port,
            proto: asked.proto,
            interface: None,
        };
        self.channel.send(&ChannelMessage::Bind(publish), None)?;
        let answered = fd::poll(&[self.channel.as_fd()], Some(ANSWER_MAX))?;
        if !answered.contains(&true) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match self.channel.recv_all()? {
            Some((ChannelMessage::Bound(None), sockets)) => Ok(sockets),
            Some((ChannelMessage::Bound(Some(errno)), _)) => {
                Err(io::Error::from_raw_os_error(errno))
            }
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// The process itself, which is in the guest's namespaces, up to its exit code.
pub(crate) fn main(channel: &Channel) -> u8 {
    match serve(channel) {
        Ok(()) => 0,
        // The monitor finds the channel closed.
        Err(_) => EXIT_OWN_FAILURE,
    }
}

fn serve(channel: &Channel) -> io::Result<()> {
    {
        let lists = ListeningPorts::open()?;
        let (fds, ephemeral) = lists.parts();
        let listening = ChannelMessage::Listening(*ephemeral.start(), *ephemeral.end());
        channel.send_all(&listening, &fds)?;
    }
    fd::close_all_but(&[channel.as_fd()])?;
    fd::let_go(LetGo::All)?;
    sandbox::keep_only(Kept::LowPorts);
    while let Some((message, _)) = channel.recv()? {
        if let ChannelMessage::Bind(publish) = message {
            answer(channel, publish)?;
        }
    }
    Ok(())
}

fn answer(channel: &Channel, publish: Publish) -> io::Result<()> {
    let both = PublishRequest {
        publish,
        both: true,
    };
    match ports::bind_all(&both) {
        Ok(sockets) => {
            let fds: Vec<_> = sockets.iter().map(|(_, socket)| socket.as_fd()).collect();
            channel.send_all(&ChannelMessage::Bound(None), &fds)
        }
        Err((_, e)) => {
            let errno = e.raw_os_error().unwrap_or(libc::EIO);
            channel.send(&ChannelMessage::Bound(Some(errno)), None)
        }
    }
}

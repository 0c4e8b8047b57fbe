//! The gateway process, from the fork to its exit code: all code that parses the guest's packets.
//!
//! Invariants: of the monitor's descriptors it keeps those of [`Handed`] and the standard three; it ends with the
//! monitor.
//! Locks: none here.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;

use crate::args::NetOpts;
use crate::channel::{Channel, ChannelMessage};
use crate::errors::Error;
use crate::gateway;
use crate::guest::Guest;
use crate::guests::{GuestChange, JoinedGuest};
use crate::lifecycle::{GuestState, Lifecycle, ServiceChange};
use crate::ports::{OutwardPort, PortChange, PublishedPort};
use crate::say;
use crate::sys::fd;
use crate::sys::process;

/// Its name in `ps`.
const NAME: &CStr = c"mbuma-gateway";

/// The descriptors and values that the monitor hands over.
pub(super) struct Handed {
    pub(super) guest: Guest,
    /// Where `mbuma netstat` asks.
    pub(super) control: Option<UnixListener>,
    /// The ports that are published from the beginning.
    pub(super) ports: Vec<PublishedPort>,
    pub(super) monitor: Channel,
}

impl Handed {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let control = self.control.iter().map(AsFd::as_fd);
        let ports = self.ports.iter().map(|port| port.socket.as_fd());
        let link = self.guest.link.fds().into_iter();
        let given = link.chain(control).chain(ports);
        given.chain([self.monitor.as_fd()]).collect()
    }
}

/// Serves the guest. Returns the exit code, and reports it to the monitor.
pub(super) fn main(handed: Handed, net: &NetOpts) -> u8 {
    let prepared = prepare(&handed, net);
    let Handed {
        guest,
        control,
        ports,
        monitor,
    } = handed;
    let mut lifecycle = ByMonitor {
        monitor,
        changes: Vec::new(),
    };
    let sockets = gateway::Sockets { control, ports };
    let served = prepared.and_then(|()| gateway::serve(guest, net, sockets, &mut lifecycle));
    let code = match served {
        Ok(summary) => {
            summary.report(net.stats);
            0
        }
        Err(e) => {
            say(&e.to_string());
            e.exit_code()
        }
    };
    // If the monitor has ended, no process receives the message.
    let _ = lifecycle.monitor.send(&ChannelMessage::Done(code), None);
    code
}

/// Closes the monitor's descriptors, but those to which a capture goes: a shell makes /dev/fd/63 of
/// `--pcap >(wireshark)`.
fn prepare(handed: &Handed, net: &NetOpts) -> Result<(), Error> {
    let paths = net.pcap.iter().chain(&net.tcp_trace);
    let written = paths.filter_map(|path| fd::left_open(path));
    let kept: Vec<_> = handed.fds().into_iter().chain(written).collect();
    let closed = fd::close_all_but(&kept);
    closed.map_err(Error::io("closing descriptors"))?;
    process::die_with_parent().map_err(Error::io("asking to end with the monitor"))?;
    // It is no error if the name can't be set.
    let _ = process::set_name(NAME);
    Ok(())
}

/// The service lasts until the monitor asks for its end, or ends.
struct ByMonitor {
    monitor: Channel,
    /// Received, and not taken yet.
    changes: Vec<ServiceChange>,
}

impl Lifecycle for ByMonitor {
    fn up(&mut self) -> Result<(), Error> {
        let said = self.monitor.send(&ChannelMessage::Up, None);
        said.map_err(Error::io("telling the monitor that the network is up"))
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.monitor.as_fd()]
    }

    fn check(&mut self) -> Result<GuestState, Error> {
        let failed = |e| Error::io("hearing the monitor")(e);
        let mut state = GuestState::Running;
        while fd::is_ready(self.monitor.as_fd()).map_err(failed)? {
            let change = match self.monitor.recv_all() {
                Ok(Some((ChannelMessage::Ended, _))) => {
                    state = GuestState::Ended;
                    continue;
                }
                Ok(Some((ChannelMessage::Stop, _)) | None) => return Ok(GuestState::StopRequested),
                Ok(Some((message, fds))) => change_of(message, fds),
                // Only changes have descriptors.
                Err(e) if e.raw_os_error() == Some(libc::EMFILE) => Some(ServiceChange::Lost(e)),
                Err(e) => return Err(failed(e)),
            };
            self.changes.extend(change);
        }
        Ok(state)
    }

    fn lingers(&mut self) {
        // The end of the monitor is noticed by its channel.
        let _ = self.monitor.send(&ChannelMessage::Lingers, None);
    }

    fn take_changes(&mut self) -> Vec<ServiceChange> {
        std::mem::take(&mut self.changes)
    }

    fn report(&mut self, made: io::Result<()>) {
        let refused = made.err().map(|e| e.raw_os_error().unwrap_or(libc::EINVAL));
        // The end of the monitor is noticed by its channel.
        let _ = self.monitor.send(&ChannelMessage::Answered(refused), None);
    }
}

/// The change for which the monitor asks, with the descriptors that came along.
fn change_of(message: ChannelMessage, fds: Vec<OwnedFd>) -> Option<ServiceChange> {
    Some(match message {
        ChannelMessage::Publish(specs) => {
            let ports = specs.into_iter().zip(fds);
            let ports = ports.map(|(spec, socket)| PublishedPort { spec, socket });
            ServiceChange::Port(PortChange::Add(ports.collect()))
        }
        ChannelMessage::OpenOutward(spec) => {
            let port = OutwardPort { spec, sockets: fds };
            ServiceChange::Port(PortChange::AddOutward(port))
        }
        ChannelMessage::Unpublish(id) => ServiceChange::Port(PortChange::Remove(id)),
        ChannelMessage::GuestJoined(spec) => match fds.into_iter().next() {
            Some(tap) => ServiceChange::Guest(GuestChange::Joined(JoinedGuest { spec, tap })),
            None => ServiceChange::Lost(io::ErrorKind::InvalidData.into()),
        },
        ChannelMessage::GuestLeft(id) => ServiceChange::Guest(GuestChange::Left(id)),
        ChannelMessage::NameServers(list) => ServiceChange::NameServers(list),
        _ => return None,
    })
}

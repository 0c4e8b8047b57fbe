//! `mbuma serve`: a file server on the stack, with an interface of its own in a namespace or on the host.
//!
//! In a namespace it works like `attach`, without a gateway. On the host a forked helper makes the interface, or opens
//! an existing one, as `attach`'s helper does in a namespace, and the server lasts until a signal.
//!
//! Invariants: the host gets one interface, which is removed when mbuma ends, with an address of each version of IP
//! that the server has. No packet reaches a socket of the host: the stack answers for its own addresses only, and sends
//! nothing on. Locks: none.

use std::os::fd::{AsFd, BorrowedFd};

use crate::announce;
use crate::args::serve::{ServeArgs, ServePlace};
use crate::args::{AttachArgs, NetOpts};
use crate::attach::{self, Announcement};
use crate::channel::{self, Channel};
use crate::errors::{Error, Failure, SetupStep};
use crate::guest::{self, Guest};
use crate::lifecycle::{GuestState, Lifecycle};
use crate::monitor;
use crate::sandbox::{self, Kept};
use crate::signals::SignalFd;

/// Serves until a signal, or until its namespace ends.
pub(crate) fn run(args: ServeArgs) -> Result<u8, Error> {
    let ServePlace {
        inside,
        ifname,
        net,
        url,
    } = args.into_place()?;
    match inside {
        Some(target) => {
            let attach = AttachArgs {
                target,
                ifname,
                ready_fd: None,
                exit_fd: None,
                userns_path: None,
                outlives_target: false,
                net,
            };
            attach::serve(&attach, Announcement::of_url(url))
        }
        None => on_host(ServePlace {
            inside: None,
            ifname,
            net,
            url,
        }),
    }
}

/// With an interface of the host.
fn on_host(place: ServePlace) -> Result<u8, Error> {
    let (signals, _) = SignalFd::open().map_err(Error::io("taking over the signals"))?;
    let guest = interface_here(&place.ifname, &place.net)?;
    let places = place.url.at(&guest.ends);
    let mut lifecycle = UntilAsked::new(signals, "serving at", places);
    monitor::serve(guest, &place.net, &mut lifecycle)
}

/// Makes an interface of the host, or opens an existing one without changes.
pub(crate) fn interface_here(ifname: &str, net: &NetOpts) -> Result<Guest, Error> {
    let forked = channel::fork(|channel| helper_main(ifname, net, &channel));
    let (_, channel) = forked.map_err(Failure::at(SetupStep::Child))?;
    guest::receive(&channel, ifname, net)
}

/// The helper, from the fork to its exit code.
fn helper_main(ifname: &str, net: &NetOpts, channel: &Channel) -> u8 {
    sandbox::keep_only(Kept::NetworkSetup);
    let made = guest::make_interface(ifname, net);
    guest::answer(channel, made.map_err(Failure::on_host))
}

/// A server without a namespace lasts until a signal asks.
pub(crate) struct UntilAsked {
    signals: SignalFd,
    /// To be announced when it serves.
    verb: &'static str,
    places: Vec<String>,
}

impl UntilAsked {
    /// Announces `places` when it serves.
    pub(crate) fn new(signals: SignalFd, verb: &'static str, places: Vec<String>) -> UntilAsked {
        UntilAsked {
            signals,
            verb,
            places,
        }
    }
}

impl Lifecycle for UntilAsked {
    fn up(&mut self) -> Result<(), Error> {
        for place in self.places.drain(..) {
            announce(self.verb, &place);
        }
        Ok(())
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.signals.as_fd()]
    }

    fn check(&mut self) -> Result<GuestState, Error> {
        Ok(match self.signals.take_in()? {
            true => GuestState::StopRequested,
            false => GuestState::Running,
        })
    }
}

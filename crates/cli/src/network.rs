//! `mbuma run --network NAME`, and `mbuma network`: guests of one user on one bridge, with names for each other.
//!
//! ```text
//!   run --network n      run --network n            each: COMMAND, guard, and a TAP that it hands over
//!        '---------.  .---------'
//!              network's process --- gateway process    one for each network: stack, bridge, host sockets
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`joined`] | a run's side: joins, hands the TAP over |
//! | [`host`] | the network's process, which the first run starts, and which ends with the last guest |
//! | [`place`] | where it listens |
//! | [`message`] | what the two say |
//! | [`verbs`] | `mbuma network ls`, `inspect`, `rm` |
//!
//! Invariants: COMMAND starts when its network serves it, and ends when the network does.
//! Locks: none here.

mod addresses;
mod host;
mod joined;
pub(crate) mod message;
mod place;
mod shared_options;
mod verbs;

use std::io;
use std::os::fd::AsFd;

use crate::args::{FamilyOpts, NetOpts, RunArgs};
use crate::errors::Error;
use crate::guest::{Guest, GuestLink};
use crate::launch;
use crate::lifecycle::{GuestState, Lifecycle};
use crate::ports;
use crate::sandbox::{self, Kept, NO_SANDBOX};
use crate::say;
use crate::signals::SignalFd;
use crate::sys::fd;
use joined::JoinedNetwork;
pub(crate) use verbs::run as manage;

/// Runs COMMAND in the network called `name` to its end, and gives the status to exit with.
pub(crate) fn run(args: &RunArgs, name: &str) -> Result<u8, Error> {
    // First of all, because it may fork the network's process.
    let joined = JoinedNetwork::join(name, &args.net, args.hostname.as_deref())?;
    let args = in_network(args, &joined);
    let (signals, inherited) = SignalFd::open().map_err(Error::io("taking over the signals"))?;
    let (guest, child, files) = launch::start(&args, &signals, inherited)?;
    hand_over(guest, &joined)?;
    publish(&args.net, &joined)?;
    match args.net.no_sandbox {
        // The process of the network has no standard error.
        true => say(NO_SANDBOX),
        false => sandbox::keep_only(Kept::Signals),
    }
    let mut command = launch::CommandEnds::new(child, signals, &args.command, files);
    command.up()?;
    wait(&mut command, &joined)?;
    Ok(command.end())
}

/// The arguments with the values that the network gives.
fn in_network(args: &RunArgs, joined: &JoinedNetwork) -> RunArgs {
    let net = NetOpts {
        cidr: joined.network,
        families: FamilyOpts::of(true, joined.network6),
        mtu: Some(joined.mtu),
        // The bridge takes the frames of all guests in one thread.
        workers: 1,
        network: true,
        ..args.net.clone()
    };
    let mut search = args.search.clone();
    if search.is_empty() {
        // A name of one label is that of another guest, so programs should append no domain.
        search.push(".".to_owned());
    }
    RunArgs {
        net,
        search,
        ..args.clone()
    }
}

/// Binds the guest's ports here, so that an error is this command's, and hands them over.
fn publish(net: &NetOpts, joined: &JoinedNetwork) -> Result<(), Error> {
    for request in net.published() {
        let bound = ports::bind_all(&request);
        let bound = bound.map_err(|(publish, source)| Error::Publish { publish, source })?;
        for (publish, socket) in bound {
            joined.publish(publish, socket)?;
        }
    }
    Ok(())
}

fn hand_over(guest: Guest, joined: &JoinedNetwork) -> Result<(), Error> {
    let taps = match guest.link {
        GuestLink::Taps(taps) => taps,
        GuestLink::Machines(_) | GuestLink::SharedMemory(_) | GuestLink::Network => Vec::new(),
    };
    let tap = taps.into_iter().next();
    let missing = || Error::io("handing the TAP over")(io::ErrorKind::NotFound.into());
    let ip6 = guest.ends.v6.is_some();
    joined.attach(guest.offloads, ip6, tap.ok_or_else(missing)?)
}

/// Waits for the end of COMMAND.
fn wait(command: &mut launch::CommandEnds<'_>, joined: &JoinedNetwork) -> Result<(), Error> {
    while command.check()? == GuestState::Running {
        let mut fds = command.fds();
        fds.push(joined.as_fd());
        fd::poll(&fds, None).map_err(Error::io("waiting for COMMAND"))?;
        if joined.is_gone().map_err(Error::io("polling"))? {
            let gone =
                io::Error::other("its process has ended (`mbuma network rm --force` ends it)");
            return Err(Error::io("keeping the network")(gone));
        }
    }
    Ok(())
}

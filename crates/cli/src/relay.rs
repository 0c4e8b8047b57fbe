//! `mbuma relay`: connections of one interface continue over another, by splices inside of the stack.
//!
//! ```text
//!   as started:  helpers make the interfaces, hand the TAPs over, end
//!                forks -------------> relay process: one stack, both TAPs; gives its rights up
//!                waits for signals,      says Up when clients may connect
//!                the namespaces' ends,
//!                or its end
//! ```
//!
//! Invariants: the process that reads packets holds the TAPs and its channel; it ends with the one that was started.
//! Locks: none.

mod connections;
mod relay_process;

use std::os::fd::{AsFd, BorrowedFd};

use crate::announce;
use crate::args::relay::{RelayArgs, RelayInterface};
use crate::attach::{self, HeldNetwork};
use crate::channel::ChannelMessage;
use crate::errors::Error;
use crate::guest::Guest;
use crate::sandbox::{self, Kept};
use crate::serve;
use crate::serving_process::ServingProcess;
use crate::signals::SignalFd;
use crate::sys::fd;

/// One side's interface, ready for a stack.
struct MadeInterface {
    wanted: RelayInterface,
    guest: Guest,
}

/// Relays until it is asked to end, or a namespace has ended.
pub(crate) fn run(args: &RelayArgs) -> Result<u8, Error> {
    // An error there is one of the options, and must come before an interface is made.
    args.check().map_err(Error::Usage)?;
    let (signals, _) = SignalFd::open().map_err(Error::io("taking over the signals"))?;
    let mut held = Vec::new();
    let mut made = Vec::new();
    let wanted = [
        Some(&args.listen.interface),
        args.connect.interface.as_ref(),
    ];
    for wanted in wanted.into_iter().flatten() {
        let net = wanted.net(args);
        let guest = match &wanted.inside {
            Some(target) => {
                let (guest, network) = attach::interface_in(target, &wanted.ifname, &net)?;
                held.push(network);
                guest
            }
            None => serve::interface_here(&wanted.ifname, &net)?,
        };
        let wanted = wanted.clone();
        made.push(MadeInterface { wanted, guest });
    }
    let process = ServingProcess::start(|monitor| relay_process::main(made, args, monitor));
    let process = process.map_err(Error::io("starting the process that relays"))?;
    if !args.no_sandbox {
        sandbox::keep_only(Kept::Signals);
    }
    let watch = RelayWatch {
        signals,
        held,
        process,
    };
    watch.run(args)
}

/// The process that was started, while the other one relays.
struct RelayWatch {
    signals: SignalFd,
    held: Vec<HeldNetwork>,
    process: ServingProcess,
}

impl RelayWatch {
    /// Until the other process has ended: its exit code.
    fn run(mut self, args: &RelayArgs) -> Result<u8, Error> {
        loop {
            let polled = fd::poll(&self.fds(), None);
            polled.map_err(Error::io("waiting for events"))?;
            if self.signals.take_in()? || self.held.iter_mut().any(HeldNetwork::has_ended) {
                // The end of the process is noticed by its channel.
                let _ = self.process.channel.send(&ChannelMessage::Stop, None);
                self.held.clear();
            }
            while let Some(message) = self.process.hear("relaying in a process of its own")? {
                match message {
                    ChannelMessage::Up => {
                        for at in args.listen.addrs() {
                            announce("relaying from", &at.to_string());
                        }
                    }
                    ChannelMessage::Done(code) => return Ok(code),
                    _ => {}
                }
            }
        }
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let own = [self.signals.as_fd(), self.process.channel.as_fd()];
        let held = self.held.iter().flat_map(HeldNetwork::fds);
        own.into_iter().chain(held).collect()
    }
}

//! `mbuma vm`: a network for a virtual machine, whose frames come by a UNIX-domain socket, or lie in memory that it
//! shares.
//!
//! There is no interface and no namespace: the machine's kernel gets by DHCP the values that `run` configures.
//!
//! Invariants: the socket's name is removed when mbuma ends. Locks: none.

use crate::args::vm::VmArgs;
use crate::errors::Error;
use crate::guest::{Guest, GuestEnd, GuestLink};
use crate::monitor::{self, SocketName};
use crate::serve::UntilAsked;
use crate::signals::SignalFd;
use crate::sys::tap::Offloads;

/// The interface's name in captures and figures.
const IFNAME: &str = "vm0";

/// Serves until a signal asks.
pub(crate) fn run(args: &VmArgs) -> Result<u8, Error> {
    let (signals, _) = SignalFd::open().map_err(Error::io("taking over the signals"))?;
    let net = args.net();
    let doing = format!("listening at {}", args.socket.display());
    let (listener, name) = SocketName::listen(&args.socket).map_err(Error::io(&doing))?;
    let guest = Guest {
        link: match args.vhost_user {
            true => GuestLink::SharedMemory(listener),
            false => GuestLink::Machines(listener),
        },
        // In a stream each frame is whole.
        offloads: match args.vhost_user {
            true => Offloads::ALL,
            false => Offloads::default(),
        },
        // No kernel was told to take packets for its 127.0.0.1.
        loopback: false,
        is_owners: true,
        mtu: net.mtu(),
        // The machine has an Ethernet address of its own choice.
        ends: GuestEnd::new(IFNAME, [0; 6], &net, true),
    };
    let place = args.socket.display().to_string();
    let mut lifecycle = UntilAsked::new(signals, "listening at", vec![place]);
    let served = monitor::serve(guest, &net, &mut lifecycle);
    drop(name);
    served
}

//! TAP devices by name: open, and not attached to a stack yet.
//!
//! Locks: none.

use std::io;
use std::os::fd::OwnedFd;

use kern::sys::tap;

use super::{Tap, TapOptions};
use crate::error::Error;

/// A TAP device that is open, with its offloads agreed on with the kernel: give it to
/// [`Stack::add_interface`](crate::Stack::add_interface). Dropping it ends a device that it made.
#[derive(Debug)]
pub struct OpenTap {
    pub(crate) name: String,
    pub(crate) queues: Vec<OwnedFd>,
    pub(crate) options: TapOptions,
}

impl Tap {
    /// Opens the TAP device called `name` of the caller's network namespace, with as many queues as the machine has
    /// CPUs for this process. A device that is not there is made. The kernel shares one that was made for several
    /// queues between all programs that open it.
    ///
    /// # Errors
    /// [`Error::Device`], which names the remedy.
    pub fn open(name: &str) -> Result<OpenTap, Error> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Self::open_queues(name, cpus)
    }

    /// Opens a TAP device as [`Tap::open`] does, with `queues` queues, or with fewer where the kernel allows no more.
    ///
    /// # Errors
    /// As [`Tap::open`].
    pub fn open_queues(name: &str, queues: usize) -> Result<OpenTap, Error> {
        let opened = open(name, queues.max(1));
        opened.map_err(|source| Error::Device {
            name: name.to_owned(),
            source,
        })
    }
}

fn open(name: &str, queues: usize) -> io::Result<OpenTap> {
    let made = tap::create(tap::open()?, name, queues);
    let queues = match made {
        // It is there already: `ip tuntap add` made it, for this user.
        Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {
            tap::adopt(tap::open()?, name, queues)?
        }
        made => made?,
    };
    let offloads = queues.first().map(|tap| tap::set_offloads(tap, true));
    let agreed = offloads.ok_or(io::ErrorKind::NotFound)?;
    let mtu = u16::try_from(tap::mtu(name)?).unwrap_or(u16::MAX);
    Ok(OpenTap {
        name: name.to_owned(),
        queues,
        options: TapOptions {
            mtu,
            offloads: agreed,
        },
    })
}

//! Serving a guest: the place where the stack and its forwarding go.
//!
//! Until they do, the guest's frames are counted and dropped, and published ports are held.
//!
//! Called by: launch, attach. Calls: sys::fd, the TAP.
//! Invariants: [`Until::up`] comes after everything that can fail at the start.
//! Locks: none.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use serde::Serialize;

use crate::args::{NetOpts, Proto, Publish, StatsFormat};
use crate::errors::Error;
use crate::guest::{Guest, GuestEnd};
use crate::sys::fd;
use crate::sys::tap::Offloads;
use crate::until::{Until, Verdict};

/// The longest that one read of a TAP gives: a header and a packet of 64 KiB.
const FRAME_LEN_MAX: usize = 10 + 14 + 65536;

/// What went through.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    guest: GuestEnd,
    mtu: u16,
    offloads: Offloads,
    frames_in: u64,
    bytes_in: u64,
}

/// Serves `guest` until `until` says stop.
pub(crate) fn serve(guest: Guest, opts: &NetOpts, until: &mut dyn Until) -> Result<Summary, Error> {
    let _held = opts
        .publish
        .iter()
        .map(hold)
        .collect::<Result<Vec<_>, _>>()?;
    let Guest {
        tap,
        offloads,
        mtu,
        ends,
    } = guest;
    let mut tap = File::from(tap);
    let mut summary = Summary {
        guest: ends,
        mtu,
        offloads,
        frames_in: 0,
        bytes_in: 0,
    };
    until.up()?;
    loop {
        let mut fds = until.fds();
        fds.push(tap.as_fd());
        let ready = fd::poll(&fds, None).map_err(Error::io("polling"))?;
        if ready.last() == Some(&true) {
            summary
                .drain(&mut tap)
                .map_err(Error::io("reading the TAP"))?;
        }
        if until.check()? == Verdict::Stop {
            return Ok(summary);
        }
    }
}

/// Listens on a published port.
fn hold(publish: &Publish) -> Result<OwnedFd, Error> {
    let bound = match publish.proto {
        Proto::Tcp => TcpListener::bind(publish.host).map(OwnedFd::from),
        Proto::Udp => UdpSocket::bind(publish.host).map(OwnedFd::from),
    };
    bound.map_err(|source| Error::Publish {
        publish: *publish,
        source,
    })
}

impl Summary {
    /// Counts what the guest sent.
    fn drain(&mut self, tap: &mut File) -> io::Result<()> {
        let mut frame = vec![0; FRAME_LEN_MAX];
        loop {
            match tap.read(&mut frame) {
                Ok(len) => {
                    self.frames_in += 1;
                    self.bytes_in += len as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
    }

    /// Prints what `--stats` asked for, on standard error.
    pub(crate) fn report(&self, format: Option<StatsFormat>) {
        let text = match format {
            None => return,
            Some(StatsFormat::Text) => format!(
                "{} frames, {} bytes from the guest",
                self.frames_in, self.bytes_in
            ),
            Some(StatsFormat::Json) => serde_json::to_string(self).unwrap_or_default(),
        };
        // A closed standard error is no reason to fail.
        let _ = writeln!(io::stderr(), "{text}");
    }
}

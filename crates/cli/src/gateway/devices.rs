//! The devices of the guest's interface, a queue for each worker, and the capture of their frames.
//!
//! Locks: none.

use std::io;
use std::iter;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kern::{Clock, Time};
use mbuf::MbufPool;
use mbuma::device::Device;
use mbuma::device::capture::Capture;
use mbuma::device::frame_stream::FrameStream;
use mbuma::device::tap::{Tap, TapOptions};
use mbuma::device::vhost_user::VhostUser;

use super::capture_file::CaptureFile;
use super::network_link::NetworkLink;
use super::notice;
use crate::errors::Error;
use crate::guest::GuestLink;
use crate::say;
use crate::sys::fd;
use crate::sys::tap::Offloads;

/// Devices that are open and belong to no stack yet.
pub(super) enum GuestDevices {
    Taps(Vec<Tap>),
    Machines(Box<FrameStream>),
    SharedMemory(Box<VhostUser>),
    Network(Arc<NetworkLink>),
}

impl GuestDevices {
    /// Makes devices of the link's descriptors.
    pub(super) fn open(
        link: GuestLink,
        mtu: u16,
        offloads: Offloads,
        clock: &Arc<dyn Clock>,
        pool: &MbufPool,
    ) -> io::Result<GuestDevices> {
        let options = TapOptions { mtu, offloads };
        match link {
            GuestLink::Taps(taps) => {
                let taps = taps.into_iter();
                let taps = taps.map(|fd| Tap::from_fd(fd, options, pool));
                Ok(GuestDevices::Taps(taps.collect()))
            }
            GuestLink::Machines(listener) => {
                let device = FrameStream::listen(listener, mtu, Arc::clone(clock), pool)?;
                device.set_refusal_waker(RefusedMachine::waker(clock));
                Ok(GuestDevices::Machines(Box::new(device)))
            }
            GuestLink::SharedMemory(listener) => {
                let device = VhostUser::listen(listener, mtu, Arc::clone(clock), pool)?;
                device.set_refusal_waker(RefusedMachine::waker(clock));
                Ok(GuestDevices::SharedMemory(Box::new(device)))
            }
            GuestLink::Network => {
                let link = NetworkLink::new(mtu, clock, pool)?;
                Ok(GuestDevices::Network(Arc::new(link)))
            }
        }
    }

    /// The descriptor that tells worker `index` of frames.
    pub(super) fn fd(&self, index: usize) -> BorrowedFd<'_> {
        match self {
            GuestDevices::Taps(taps) => taps[index].as_fd(),
            GuestDevices::Machines(device) => device.as_fd(),
            GuestDevices::SharedMemory(device) => device.as_fd(),
            GuestDevices::Network(link) => link.as_fd(),
        }
    }

    /// The bridge, where there is one.
    pub(super) fn network(&self) -> Option<Arc<NetworkLink>> {
        match self {
            GuestDevices::Network(link) => Some(Arc::clone(link)),
            GuestDevices::Taps(_) | GuestDevices::Machines(_) | GuestDevices::SharedMemory(_) => {
                None
            }
        }
    }

    /// A device for each queue. Every frame of all of them goes to the file at `pcap` as well, if there is one.
    pub(super) fn queues(
        self,
        name: &str,
        pcap: Option<&Path>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Vec<Arc<dyn Device>>, Error> {
        match self {
            GuestDevices::Taps(taps) => queues(taps.into_iter(), name, pcap, clock),
            GuestDevices::Machines(device) => queues(iter::once(*device), name, pcap, clock),
            GuestDevices::SharedMemory(device) => queues(iter::once(*device), name, pcap, clock),
            GuestDevices::Network(link) => queues(iter::once(link), name, pcap, clock),
        }
    }
}

/// Says that a machine was refused.
struct RefusedMachine {
    clock: Arc<dyn Clock>,
    /// The time of the next line, in nanoseconds, at the earliest. Relaxed: one worker drives the device.
    next: AtomicU64,
}

impl RefusedMachine {
    fn waker(clock: &Arc<dyn Clock>) -> Waker {
        Waker::from(Arc::new(RefusedMachine {
            clock: Arc::clone(clock),
            next: AtomicU64::new(0),
        }))
    }
}

impl Wake for RefusedMachine {
    fn wake(self: Arc<Self>) {
        let now = self.clock.now();
        if now.as_nanos() < self.next.load(Ordering::Relaxed) || !fd::may_write(&io::stderr()) {
            return;
        }
        let next = now + notice::PAUSE;
        self.next.store(next.as_nanos(), Ordering::Relaxed);
        say("a second machine was refused: each needs an `mbuma vm` of its own");
    }
}

fn queues<D: Device + 'static>(
    devices: impl Iterator<Item = D>,
    name: &str,
    pcap: Option<&Path>,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<Arc<dyn Device>>, Error> {
    match pcap {
        None => Ok(devices.map(|device| Arc::new(device) as _).collect()),
        Some(path) => captured(devices, name, path, clock),
    }
}

fn captured<D: Device + 'static>(
    mut devices: impl Iterator<Item = D>,
    name: &str,
    path: &Path,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<Arc<dyn Device>>, Error> {
    let doing = format!("writing {}", path.display());
    let file = CaptureFile::create(path).map_err(Error::io(&doing))?;
    let Some(first) = devices.next() else {
        return Ok(Vec::new());
    };
    let first = Capture::new(first, name, file, Arc::clone(clock), epoch(&**clock));
    let first = first.map_err(Error::io(&doing))?;
    let others: Vec<_> = devices.map(|queue| first.with_queue(queue)).collect();
    let all = iter::once(first).chain(others);
    Ok(all.map(|queue| Arc::new(queue) as _).collect())
}

/// The time of day at which `clock` read zero.
fn epoch(clock: &dyn Clock) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    // A machine without a clock of its own lives in 1970.
    now.unwrap_or_default()
        .saturating_sub(clock.now() - Time::ZERO)
}

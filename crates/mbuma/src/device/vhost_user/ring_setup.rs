//! A ring of the front-end: its set-up so far, and the ring itself while it is started.
//!
//! Descriptors of the front-end are not trusted: the kick is watched and never read, and the descriptor for calls does
//! not block, unless the front-end clears that flag again.
//!
//! Invariants: the kick is in the device's set as long as it is here.
//! Locks: none.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::{ioctl_fionbio, write};
use vm_memory::GuestMemoryMmap;

use super::features::Features;
use super::memory::SharedMemory;
use super::message::Refused;
use super::vring::{RingBroken, RingPlace, Vring};

/// The number of kicks in the device's set; the ring itself shows the work.
pub(super) const KICK: u64 = 2;

/// One ring.
#[derive(Debug, Default)]
pub(super) struct RingSetup {
    pub(super) size: u32,
    /// The index of the first chain to be taken.
    base: u16,
    /// The addresses of its parts in the front-end's process.
    user: Option<UserPlace>,
    pub(super) enabled: bool,
    kick: Option<Kick>,
    call: Option<OwnedFd>,
    error: Option<OwnedFd>,
    started: Option<Vring>,
}

/// The addresses of a ring's parts in the front-end's process.
#[derive(Debug, Clone, Copy)]
pub(super) struct UserPlace {
    pub(super) descriptors: u64,
    pub(super) used: u64,
    pub(super) available: u64,
}

/// An eventfd that the driver's kicks go to. Each kick makes the set readable once.
#[derive(Debug)]
struct Kick {
    file: OwnedFd,
    set: Arc<OwnedFd>,
}

impl RingSetup {
    /// The ring and its memory, if it is to be used.
    pub(super) fn live<'a>(
        &'a mut self,
        memory: &'a Option<SharedMemory>,
        features: Features,
    ) -> Option<(&'a mut Vring, &'a GuestMemoryMmap)> {
        let enabled = self.enabled || features.starts_enabled();
        let ring = self.started.as_mut().filter(|_| enabled)?;
        Some((ring, memory.as_ref()?.mapped()))
    }

    /// It stops here, and goes on here when it is started again.
    pub(super) fn set_base(&mut self, base: u32) -> Result<(), Refused> {
        self.base = u16::try_from(base).map_err(|_| Refused)?;
        Ok(())
    }

    /// It lies there. A ring that is started goes on there.
    pub(super) fn set_place(
        &mut self,
        user: UserPlace,
        memory: &Option<SharedMemory>,
    ) -> Result<(), Refused> {
        self.user = Some(user);
        match memory {
            Some(memory) => self.follow(memory),
            None => Ok(()),
        }
    }

    /// The memory is another, or the ring lies somewhere else.
    pub(super) fn follow(&mut self, memory: &SharedMemory) -> Result<(), Refused> {
        let place = self.place(memory);
        let Some(ring) = &mut self.started else {
            return Ok(());
        };
        let moved = place.and_then(|place| ring.move_to(memory.mapped(), place).ok());
        if moved.is_none() {
            self.break_down();
            return Err(Refused);
        }
        Ok(())
    }

    fn place(&self, memory: &SharedMemory) -> Option<RingPlace> {
        let user = self.user?;
        Some(RingPlace {
            descriptors: memory.guest_address(user.descriptors)?,
            available: memory.guest_address(user.available)?,
            used: memory.guest_address(user.used)?,
        })
    }

    /// Starts it.
    pub(super) fn start(
        &mut self,
        kick: OwnedFd,
        set: &Arc<OwnedFd>,
        memory: &Option<SharedMemory>,
        features: Features,
    ) -> Result<(), Refused> {
        // The one before leaves the set first.
        self.kick = None;
        self.kick = Some(Kick::watch(kick, set)?);
        if self.started.is_some() {
            return Ok(());
        }
        let memory = memory.as_ref().ok_or(Refused)?;
        let place = self.place(memory).ok_or(Refused)?;
        let event_index = features.has_event_index();
        let ring = Vring::new(memory.mapped(), place, self.size, self.base, event_index);
        self.started = Some(ring.map_err(|RingBroken| Refused)?);
        Ok(())
    }

    /// Stops it; gives the index of the next chain.
    pub(super) fn stop(&mut self) -> u16 {
        self.kick = None;
        self.call = None;
        if let Some(ring) = self.started.take() {
            self.base = ring.next_available();
        }
        self.base
    }

    /// Says where the driver is called. It is called once: a call to the one before may have been lost.
    pub(super) fn set_call(&mut self, call: Option<OwnedFd>) {
        self.call = call.inspect(do_not_block);
        self.signal();
    }

    /// Sets the descriptor for errors of the ring.
    pub(super) fn set_error(&mut self, error: Option<OwnedFd>) {
        self.error = error.inspect(do_not_block);
    }

    /// Calls the driver if it has requested that.
    pub(super) fn call(&mut self, memory: &Option<SharedMemory>) -> Result<(), RingBroken> {
        let (Some(ring), Some(memory)) = (&mut self.started, memory) else {
            return Ok(());
        };
        if ring.wants_call(memory.mapped())? {
            self.signal();
        }
        Ok(())
    }

    fn signal(&self) {
        self.call.iter().for_each(add_one);
    }

    /// Stops the ring until it is set up again, and notifies the front-end.
    pub(super) fn break_down(&mut self) {
        self.kick = None;
        self.started = None;
        self.error.iter().for_each(add_one);
    }
}

impl Kick {
    /// Adds a descriptor of the front-end to the set. It is edge-triggered, so it need not be read, and a descriptor
    /// that is no eventfd can't block a thread.
    fn watch(file: OwnedFd, set: &Arc<OwnedFd>) -> Result<Self, Refused> {
        let once = EventFlags::IN | EventFlags::ET;
        let added = epoll::add(&**set, file.as_fd(), EventData::new_u64(KICK), once);
        added.map_err(|_| Refused)?;
        Ok(Self {
            file,
            set: Arc::clone(set),
        })
    }
}

impl Drop for Kick {
    /// The front-end has the same file open: closing it here would leave it in the set.
    fn drop(&mut self) {
        let _ = epoll::delete(&*self.set, self.file.as_fd());
    }
}

/// If a file does not support this, only its front-end has a disadvantage.
fn do_not_block(file: &OwnedFd) {
    let _ = ioctl_fionbio(file, true);
}

/// Signals an eventfd. If its count is full, it was signalled before.
fn add_one(file: &OwnedFd) {
    let _ = write(file, &1_u64.to_ne_bytes());
}

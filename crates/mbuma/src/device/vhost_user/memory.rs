//! The memory that a virtual machine shares: parts of files that are mapped here, each with its address in the machine.
//!
//! A part has an address in the machine and one in the front-end's process: descriptors of buffers use the former,
//! rings the latter.
//!
//! The front-end can still shorten a file that was long enough when it was mapped, if it was not sealed against that.
//! The next access then ends this process by SIGBUS.
//!
//! Invariants: a part is as long as its file at least, when it is mapped; no two overlap.
//! Locks: none. Sources: QEMU's docs/interop/vhost-user.rst, "Memory regions description".

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::fstat;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap};

use super::message::Refused;

/// Parts at most, as the protocol has it.
pub(super) const REGIONS_MAX: usize = 8;

/// Where a part lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct RegionPlace {
    /// Its address in the machine.
    pub(super) guest: u64,
    /// Its length in bytes.
    pub(super) len: u64,
    /// Its address in the front-end's process.
    pub(super) user: u64,
    /// Where it begins in its file.
    pub(super) offset: u64,
}

/// All parts.
#[derive(Debug)]
pub(super) struct SharedMemory {
    mapped: GuestMemoryMmap,
    places: Vec<RegionPlace>,
}

impl SharedMemory {
    /// Maps a part of each file.
    ///
    /// # Errors
    /// Parts overlap, reach behind the ends of their files or of the address space, or cannot be mapped.
    pub(super) fn map(places: &[RegionPlace], files: Vec<OwnedFd>) -> Result<Self, Refused> {
        if places.len() != files.len() {
            return Err(Refused);
        }
        let regions = places
            .iter()
            .zip(files)
            .map(|(place, file)| place.map(file));
        let mut regions = regions.collect::<Result<Vec<_>, _>>()?;
        regions.sort_by_key(vm_memory::GuestMemoryRegion::start_addr);
        Ok(Self {
            mapped: GuestMemoryMmap::from_regions(regions).map_err(|_| Refused)?,
            places: places.to_vec(),
        })
    }

    /// The machine's address for the front-end's address `user`.
    pub(super) fn guest_address(&self, user: u64) -> Option<GuestAddress> {
        self.places.iter().find_map(|place| {
            let within = user.checked_sub(place.user)?;
            (within < place.len).then_some(GuestAddress(place.guest + within))
        })
    }

    /// The parts by their addresses in the machine.
    pub(super) fn mapped(&self) -> &GuestMemoryMmap {
        &self.mapped
    }
}

impl RegionPlace {
    fn map(&self, file: OwnedFd) -> Result<GuestRegionMmap, Refused> {
        let size = u64::try_from(fstat(&file).map_err(|_| Refused)?.st_size);
        let end = self.offset.checked_add(self.len);
        if self.len == 0 || end.is_none_or(|end| size.is_ok_and(|size| end > size)) {
            return Err(Refused);
        }
        let file = FileOffset::new(File::from(file), self.offset);
        let len = usize::try_from(self.len).map_err(|_| Refused)?;
        let mapped = GuestRegionMmap::from_range(GuestAddress(self.guest), len, Some(file));
        mapped.map_err(|_| Refused)
    }
}

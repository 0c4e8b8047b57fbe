//! A bare mbuf with a list of pages, twice: the list in a record of its own, as FreeBSD had it until 2020, and the
//! list in the mbuf, as since then (seed 001).
//!
//! ```text
//!   separate   mbuf, 256 B                         inline   mbuf, 256 B
//!     | head, 40 | idle, 40 | ext: list, 40 |...|     | head, 40 | list, 40 | ext, 40 | pages, header, |
//!                                |                                                    | trailer: 136   |
//!                                v
//!              record, 192 B, from a zone of its own
//!              | list, 40 | pages, header, trailer: 136 |
//! ```
//!
//! The two differ only in the place of the list: same zones' allocator, same fields, same order of writes, and the
//! same count of the pages' source, one atomic operation to build and one to free. Both leave out the other work of
//! our own mbufs (checks, other kinds of storage).
//! Invariant: an mbuf of a row was built by this design and is freed once.
//! Source: seed 001; sys/mbuf.h of FreeBSD 12.1 and 13.

use super::super::design::{Design, HEADER, PAGE, PAGES, RECORD, Spec, TRAILER};
use super::super::design::{of_bytes, of_pages};
use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use uma::RawZone;

/// The common header of every mbuf.
#[repr(C)]
struct Head {
    next: Option<NonNull<Mbuf>>,
    nextpkt: Option<NonNull<Mbuf>>,
    data: usize,
    len: u32,
    flags: u32,
    zone: usize,
}

/// The reference to the pages.
#[repr(C)]
struct Ext {
    /// The list, where that is beside the mbuf.
    list: Option<NonNull<u8>>,
    refs: *const AtomicU32,
    free: usize,
    arg: usize,
    size: u64,
}

/// The list's head.
#[repr(C)]
struct List {
    first_off: u16,
    last_len: u16,
    npages: u8,
    header_len: u8,
    trailer_len: u8,
    record_type: u8,
    seqno: u64,
    _spare: [u64; 3],
}

/// The list itself.
#[repr(C)]
struct Body {
    pages: [u64; PAGES],
    header: [u8; 24],
    trailer: [u8; 64],
    _spare: [u8; 8],
}

#[repr(C, align(256))]
struct Mbuf {
    head: Head,
    list: List,
    ext: Ext,
    body: Body,
}

/// The list in a record of its own: a zone of whole cache lines.
#[repr(C, align(64))]
struct Record {
    list: List,
    body: Body,
}

const _: () = assert!(size_of::<Mbuf>() == 256 && offset_of!(Mbuf, ext) == 80);
const _: () = assert!(size_of::<Record>() == 192);

/// Where the list is.
pub(crate) trait Place {
    /// In a record of its own.
    const SEPARATE: bool;
}

/// In a record of its own.
pub(crate) struct Separate;

impl Place for Separate {
    const SEPARATE: bool = true;
}

/// In the mbuf.
pub(crate) struct Inline;

impl Place for Inline {
    const SEPARATE: bool = false;
}

/// Bare mbufs with lists at a place.
pub(crate) struct Bare<P> {
    mbufs: RawZone,
    records: RawZone,
    /// References to the owner of the pages.
    refs: Box<AtomicU32>,
    place: PhantomData<P>,
}

/// A row of mbufs.
#[derive(Default)]
pub(crate) struct Row {
    first: Option<NonNull<Mbuf>>,
    last: Option<NonNull<Mbuf>>,
}

impl<P: Place> Bare<P> {
    /// The list of a live mbuf.
    #[inline(always)]
    fn list(m: &Mbuf) -> (&List, &Body) {
        match m.ext.list.filter(|_| P::SEPARATE) {
            Some(record) => {
                // SAFETY: a live mbuf's record lives, and is not written once it is built.
                let record = unsafe { record.cast::<Record>().as_ref() };
                (&record.list, &record.body)
            }
            None => (&m.list, &m.body),
        }
    }

    /// Gives an mbuf back, with its list and its reference.
    ///
    /// # Safety
    /// The mbuf is live, was built by this design, and is not used again.
    #[inline(always)]
    unsafe fn free_one(&self, m: NonNull<Mbuf>) {
        // SAFETY: live, by the caller.
        let ext = unsafe { &m.as_ref().ext };
        // SAFETY: the count lives as long as the design.
        let refs = unsafe { &*ext.refs };
        if refs.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
        }
        if let Some(record) = ext.list {
            // SAFETY: from this zone; it goes with its mbuf.
            unsafe { self.records.free(record) };
        }
        // SAFETY: from this zone, by the caller.
        unsafe { self.mbufs.free(m.cast()) };
    }
}

fn layout<T>() -> Layout {
    Layout::new::<T>()
}

impl<P: Place> Design for Bare<P> {
    type Record = NonNull<u8>;
    type Sndbuf = Row;

    fn new(records: usize) -> Self {
        let zone = |name, layout| RawZone::builder(name, layout).limit(records + 1).build();
        Self {
            mbufs: zone("lab_mbuf", layout::<Mbuf>()).expect("there is address space"),
            records: zone("lab_ext_pgs", layout::<Record>()).expect("there is address space"),
            refs: Box::new(AtomicU32::new(1)),
            place: PhantomData,
        }
    }

    #[inline]
    fn build(&mut self, spec: &Spec) -> NonNull<u8> {
        let item = self.mbufs.alloc().expect("the zone has room for all");
        let record = P::SEPARATE.then(|| self.records.alloc().expect("as above"));
        self.refs.fetch_add(1, Ordering::Relaxed);
        // SAFETY: 256 bytes without another owner, and initialised: zones hand out initialised pages, and every field
        // may have any value.
        let m = unsafe { item.cast::<Mbuf>().as_mut() };
        m.head = Head {
            next: None,
            nextpkt: None,
            data: 0,
            len: (HEADER + RECORD + TRAILER) as u32,
            flags: 1,
            zone: 0,
        };
        m.ext = Ext {
            list: record,
            refs: &raw const *self.refs,
            free: 0,
            arg: 0,
            size: (PAGES * PAGE) as u64,
        };
        let (list, body) = match record {
            Some(record) => {
                // SAFETY: as above, 192 bytes.
                let record = unsafe { record.cast::<Record>().as_mut() };
                (&mut record.list, &mut record.body)
            }
            None => (&mut m.list, &mut m.body),
        };
        *list = List {
            first_off: spec.first_off as u16,
            last_len: (spec.first_off + RECORD - (PAGES - 1) * PAGE) as u16,
            npages: PAGES as u8,
            header_len: HEADER as u8,
            trailer_len: TRAILER as u8,
            record_type: 23,
            seqno: spec.number,
            _spare: [0; 3],
        };
        body.pages = spec.pages;
        body.header[..HEADER].copy_from_slice(&spec.header);
        body.trailer[..TRAILER].copy_from_slice(&spec.trailer);
        item
    }

    fn append(&self, to: &mut Row, record: NonNull<u8>) {
        let m = record.cast::<Mbuf>();
        match to.last {
            Some(mut last) => {
                // SAFETY: a live mbuf of this row, which no other code reads.
                unsafe { last.as_mut() }.head.next = Some(m);
            }
            None => to.first = Some(m),
        }
        to.last = Some(m);
    }

    #[inline]
    fn walk(&self, sndbuf: &Row) -> u64 {
        let (mut sum, mut next) = (0u64, sndbuf.first);
        while let Some(m) = next {
            // SAFETY: live, in a row of this design, and not written meanwhile.
            let m = unsafe { m.as_ref() };
            let (list, body) = Self::list(m);
            sum = sum.wrapping_add(walked(list, body));
            next = m.head.next;
        }
        sum
    }

    #[inline]
    fn free(&self, sndbuf: Row) {
        let mut next = sndbuf.first;
        while let Some(m) = next {
            // SAFETY: live, in a row of this design.
            next = unsafe { m.as_ref() }.head.next;
            // SAFETY: the row goes here, and with it this mbuf.
            unsafe { self.free_one(m) };
        }
    }

    fn mbufs(&self, sndbuf: &Row) -> usize {
        let after = |m: &NonNull<Mbuf>| {
            // SAFETY: live, in a row of this design.
            unsafe { m.as_ref() }.head.next
        };
        std::iter::successors(sndbuf.first, after).count()
    }

    fn overhead(&self) -> usize {
        let record = if P::SEPARATE { size_of::<Record>() } else { 0 };
        size_of::<Mbuf>() + record
    }

    fn live(&self) -> usize {
        self.mbufs.live() + self.records.live()
    }
}

/// The sum of one record.
#[inline(always)]
fn walked(list: &List, body: &Body) -> u64 {
    let mut sum = of_bytes(&body.header[..usize::from(list.header_len)]);
    let count = usize::from(list.npages);
    for (at, &page) in body.pages[..count].iter().enumerate() {
        let off = if at == 0 {
            usize::from(list.first_off)
        } else {
            0
        };
        let end = match at + 1 == count {
            true => usize::from(list.last_len),
            false => PAGE,
        };
        sum = sum.wrapping_add(of_pages(page, off, end - off));
    }
    sum.wrapping_add(of_bytes(&body.trailer[..usize::from(list.trailer_len)]))
}

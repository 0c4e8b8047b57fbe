//! Tags: values beside a packet, which one layer writes and a later one reads.
//!
//! ```text
//!   Pkt.tags --> | next | kind | value |--> | next | kind | value |     64 bytes each, of their zone
//! ```
//!
//! A tag is a value of any small type, found by that type: layers need not agree on cookies and numbers, and a type
//! that is private to a crate can't be read or removed by another. A packet has one of a type at most. Tags go with the
//! packet header: moved with it, copied when it is copied, dropped with the packet or when the header is taken off.
//!
//! Invariants: `value` holds a value of the type that `kind` is of; a list has a kind once.
//! Source: seed 004, section 6 (tags of their own zone), mbuf_tags(9).

use core::any::TypeId;
use core::mem::{self, MaybeUninit};
use core::ptr::{self, NonNull};

use crate::error::NoBufs;
use crate::pool::Zones;

/// Bytes of the largest value that a tag holds.
pub const TAG_LEN: usize = 48;
/// The strictest alignment of a value that a tag holds.
const TAG_ALIGN: usize = 16;
/// Bytes of a tag.
pub(crate) const TAG_SIZE: usize = size_of::<RawTag>();

/// A value that can be put on a packet (mbuf_tags(9), seed 004 section 6): of any type of at most [`TAG_LEN`] bytes
/// that can be copied with the packet and go to other threads with it.
#[doc(alias = "m_tag")]
pub trait Tag: Clone + Send + Sync + 'static {}

impl<T: Clone + Send + Sync + 'static> Tag for T {}

/// One tag.
#[repr(C, align(16))]
struct RawTag {
    next: Option<Tags>,
    kind: &'static TagKind,
    value: [MaybeUninit<u8>; TAG_LEN],
}

const _: () = assert!(size_of::<RawTag>() == 64);

/// The operations on a value of any type.
struct TagKind {
    id: fn() -> TypeId,
    /// Writes a copy of the first into the second.
    clone: unsafe fn(*const u8, *mut u8),
    drop: unsafe fn(*mut u8),
}

impl TagKind {
    const fn of<T: Tag>() -> &'static Self {
        const {
            assert!(size_of::<T>() <= TAG_LEN, "a tag's value is small");
            assert!(
                align_of::<T>() <= TAG_ALIGN,
                "a tag's value is aligned to 16 bytes at most"
            );
        }
        const {
            &Self {
                id: TypeId::of::<T>,
                clone: clone::<T>,
                drop: drop_value::<T>,
            }
        }
    }
}

/// # Safety
/// `from` is a `T`, and `to` is room for one.
unsafe fn clone<T: Clone>(from: *const u8, to: *mut u8) {
    // SAFETY: as the caller says.
    let value = unsafe { &*from.cast::<T>() }.clone();
    // SAFETY: as the caller says.
    unsafe { to.cast::<T>().write(value) };
}

/// # Safety
/// `value` is a `T` that is not used again.
unsafe fn drop_value<T>(value: *mut u8) {
    // SAFETY: as the caller says.
    unsafe { value.cast::<T>().drop_in_place() };
}

/// A list of tags. Its owner must pass it to [`free`], or it leaks: the list has no reference to its zone.
#[repr(transparent)]
pub(crate) struct Tags(NonNull<RawTag>);

impl Tags {
    fn raw(&self) -> &RawTag {
        // SAFETY: a live tag of this list, which is not written while `self` is borrowed.
        unsafe { self.0.as_ref() }
    }

    fn raw_mut(&mut self) -> &mut RawTag {
        // SAFETY: a live tag of ours, reached only through `self`.
        unsafe { self.0.as_mut() }
    }

    fn is<T: Tag>(&self) -> bool {
        (self.raw().kind.id)() == TypeId::of::<T>()
    }

    /// Where the value is.
    fn value(&self) -> *mut u8 {
        // From the tag's own address, not from a reference to it, through which it could not be written.
        self.0
            .as_ptr()
            .cast::<u8>()
            .wrapping_add(mem::offset_of!(RawTag, value))
    }

    /// Gives the memory back, without dropping the value, and returns the next tag.
    fn release(mut self, zones: &Zones) -> Option<Self> {
        let next = self.raw_mut().next.take();
        // SAFETY: from this zone, and not used again.
        unsafe { zones.tags().free(self.0.cast()) };
        next
    }
}

/// A tag without a value: its memory goes back if none is made.
struct Unwritten<'a> {
    tag: Option<Tags>,
    zones: &'a Zones,
}

impl<'a> Unwritten<'a> {
    #[track_caller]
    fn alloc(zones: &'a Zones, kind: &'static TagKind) -> Result<Self, NoBufs> {
        let item = zones.tags().alloc()?;
        let raw = RawTag {
            next: None,
            kind,
            value: [MaybeUninit::uninit(); TAG_LEN],
        };
        // SAFETY: the zone has given room for one, which has no other owner.
        unsafe { item.cast().write(raw) };
        let tag = Some(Tags(item.cast()));
        Ok(Self { tag, zones })
    }

    /// Where the value goes.
    fn value(&mut self) -> *mut u8 {
        self.tag.as_ref().map_or(ptr::null_mut(), Tags::value)
    }

    /// The tag, which has a value now.
    fn written(mut self) -> Tags {
        self.tag.take().expect("only this and the drop take it")
    }
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        if let Some(tag) = self.tag.take() {
            tag.release(self.zones);
        }
    }
}

/// The value of type `T`.
pub(crate) fn get<T: Tag>(tags: Option<&Tags>) -> Option<&T> {
    let mut next = tags;
    while let Some(tag) = next {
        if tag.is::<T>() {
            // SAFETY: the kind says that it is a `T`; it lives as long as the list is borrowed.
            return Some(unsafe { &*tag.value().cast::<T>() });
        }
        next = tag.raw().next.as_ref();
    }
    None
}

/// The value of type `T`, to change.
pub(crate) fn get_mut<T: Tag>(tags: Option<&mut Tags>) -> Option<&mut T> {
    let mut next = tags;
    while let Some(tag) = next {
        if tag.is::<T>() {
            // SAFETY: as in `get`, and the list is borrowed uniquely.
            return Some(unsafe { &mut *tag.value().cast::<T>() });
        }
        next = tag.raw_mut().next.as_mut();
    }
    None
}

/// Puts a value before the others, which have none of its type.
#[track_caller]
pub(crate) fn push<T: Tag>(tags: &mut Option<Tags>, zones: &Zones, value: T) -> Result<(), NoBufs> {
    let mut fresh = Unwritten::alloc(zones, TagKind::of::<T>())?;
    // SAFETY: room for a `T`, as the kind promises.
    unsafe { fresh.value().cast::<T>().write(value) };
    let mut tag = fresh.written();
    tag.raw_mut().next = tags.take();
    *tags = Some(tag);
    Ok(())
}

/// Takes the value of type `T` out.
pub(crate) fn take<T: Tag>(tags: &mut Option<Tags>, zones: &Zones) -> Option<T> {
    let mut place = tags;
    while !place.as_ref()?.is::<T>() {
        place = &mut place.as_mut()?.raw_mut().next;
    }
    let found = place.take()?;
    // SAFETY: the kind says that it is a `T`; the memory is given back as if it were empty.
    let value = unsafe { found.value().cast::<T>().read() };
    *place = found.release(zones);
    Some(value)
}

/// A list with copies of all values. On failure, the copies so far are dropped.
#[track_caller]
pub(crate) fn copy(tags: Option<&Tags>, zones: &Zones) -> Result<Option<Tags>, NoBufs> {
    let (mut copies, mut next) = (TagCopies { tags: None, zones }, tags);
    while let Some(tag) = next {
        let kind = tag.raw().kind;
        let mut fresh = Unwritten::alloc(zones, kind)?;
        // SAFETY: the value is of this kind, and there is room for another.
        unsafe { (kind.clone)(tag.value(), fresh.value()) };
        copies.push(fresh.written());
        next = tag.raw().next.as_ref();
    }
    Ok(copies.tags.take())
}

/// The copies so far, which are dropped if the rest can't be made.
struct TagCopies<'a> {
    tags: Option<Tags>,
    zones: &'a Zones,
}

impl TagCopies<'_> {
    fn push(&mut self, mut tag: Tags) {
        tag.raw_mut().next = self.tags.take();
        self.tags = Some(tag);
    }
}

impl Drop for TagCopies<'_> {
    fn drop(&mut self) {
        free(&mut self.tags, self.zones);
    }
}

/// Drops all values and gives their memory back.
pub(crate) fn free(tags: &mut Option<Tags>, zones: &Zones) {
    while let Some(tag) = tags.take() {
        let (kind, value) = (tag.raw().kind, tag.value());
        // SAFETY: a value of this kind, which is not used again: the tag is off the list.
        unsafe { (kind.drop)(value) };
        *tags = tag.release(zones);
    }
}

//! The general allocators: the system's malloc, and jemalloc, mimalloc and snmalloc where they are built in.
//!
//! Called through `GlobalAlloc`, the way in which a Rust program that chose them would, as values: this program's own
//! allocator is the system's. They run no constructor.

use crate::alloc::design::{ALIGN, Absent, Block, Design, out_of_memory};
use std::alloc::{GlobalAlloc, Layout, System};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A general allocator, asked for items of one size.
pub(crate) struct General<A> {
    layout: Layout,
    which: PhantomData<A>,
}

/// Which one.
pub(crate) trait Which: Send + Sync + 'static {
    /// What it is called.
    const NAME: &'static str;
    /// What a program would put into `#[global_allocator]`.
    type Alloc: GlobalAlloc;
    /// That value.
    const ALLOC: Self::Alloc;

    /// Gives memory back, where it has to be told to.
    fn reclaim() {}
}

impl<A: Which> Design for General<A> {
    type Item = Block;

    fn new(size: usize) -> Result<Self, Absent> {
        let layout = Layout::from_size_align(size, ALIGN).map_err(|e| Absent(e.to_string()))?;
        Ok(Self {
            layout,
            which: PhantomData,
        })
    }

    #[inline]
    fn alloc(&self) -> Block {
        // SAFETY: sizes are not zero (checked when they are parsed).
        let item = unsafe { A::ALLOC.alloc(self.layout) };
        match NonNull::new(item) {
            Some(item) => Block(item),
            None => out_of_memory(A::NAME),
        }
    }

    #[inline]
    unsafe fn free(&self, item: Block) {
        // SAFETY: it came from the same allocator with the same layout.
        unsafe { A::ALLOC.dealloc(item.0.as_ptr(), self.layout) };
    }

    fn bytes(item: &mut Block) -> NonNull<u8> {
        item.0
    }

    fn reclaim(&self) {
        A::reclaim();
    }
}

/// The system's malloc.
pub(crate) struct Malloc;

impl Which for Malloc {
    const NAME: &'static str = "malloc";
    type Alloc = System;
    const ALLOC: System = System;
}

/// The system's malloc, told every now and then to give memory back.
#[cfg(target_env = "gnu")]
pub(crate) struct MallocTrim;

#[cfg(target_env = "gnu")]
impl Which for MallocTrim {
    const NAME: &'static str = "malloc-trim";
    type Alloc = System;
    const ALLOC: System = System;

    fn reclaim() {
        // SAFETY: it takes a number and may be called from any thread.
        unsafe { libc::malloc_trim(0) };
    }
}

/// jemalloc (FreeBSD's own malloc, too).
#[cfg(feature = "peers")]
pub(crate) struct Jemalloc;

#[cfg(feature = "peers")]
impl Which for Jemalloc {
    const NAME: &'static str = "jemalloc";
    type Alloc = tikv_jemallocator::Jemalloc;
    const ALLOC: Self::Alloc = tikv_jemallocator::Jemalloc;
}

/// mimalloc.
#[cfg(feature = "peers")]
pub(crate) struct Mimalloc;

#[cfg(feature = "peers")]
impl Which for Mimalloc {
    const NAME: &'static str = "mimalloc";
    type Alloc = mimalloc::MiMalloc;
    const ALLOC: Self::Alloc = mimalloc::MiMalloc;
}

/// snmalloc.
#[cfg(feature = "peers")]
pub(crate) struct Snmalloc;

#[cfg(feature = "peers")]
impl Which for Snmalloc {
    const NAME: &'static str = "snmalloc";
    type Alloc = snmalloc_rs::SnMalloc;
    const ALLOC: Self::Alloc = snmalloc_rs::SnMalloc;
}

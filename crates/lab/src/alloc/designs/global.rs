//! The general allocators: the system's malloc, and jemalloc, mimalloc and snmalloc where they are built in.
//!
//! By default two of them keep too few items for each thread to serve a batch of 64 from the thread's cache; they are
//! set to keep more, so that each runs at its best. glibc takes that from the environment at the start of a process
//! ([`TUNABLES`]), jemalloc from a string that the program defines.
//!
//! Called through `GlobalAlloc`, the way in which a Rust program that chose them would, as values: this program's own
//! allocator is the system's. They run no constructor.

use crate::alloc::design::{ALIGN, Absent, Block, Design, out_of_memory};
use std::alloc::{GlobalAlloc, Layout, System};
use std::env;
#[cfg(feature = "peers")]
use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// A general allocator, for items of one size.
pub(crate) struct General<A> {
    layout: Layout,
    which: PhantomData<A>,
}

/// Which one.
pub(crate) trait Which: Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// The value that a program would put into `#[global_allocator]`.
    type Alloc: GlobalAlloc;
    /// That value.
    const ALLOC: Self::Alloc;

    /// Gives memory back, if the design does so only on a call.
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

/// glibc's settings, and the environment variable for them.
pub const TUNABLES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=2000");

/// glibc's settings in this process.
pub(crate) fn malloc_settings() -> &'static str {
    static TOLD: OnceLock<String> = OnceLock::new();
    TOLD.get_or_init(|| {
        let told = env::var(TUNABLES.0).unwrap_or_default();
        told.replace("glibc.malloc.", "")
    })
}

/// The system's malloc.
pub(crate) struct Malloc;

impl Which for Malloc {
    const NAME: &'static str = "malloc";
    type Alloc = System;
    const ALLOC: System = System;
}

/// The system's malloc, with a call now and then that gives memory back.
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

/// jemalloc's settings. It reads this at the first allocation.
#[cfg(feature = "peers")]
#[used]
#[unsafe(export_name = "_rjem_malloc_conf")]
static JEMALLOC_CONF: Option<&'static u8> = Some(&b"tcache_nslots_small_min:1000\0"[0]);

#[cfg(feature = "peers")]
unsafe extern "C" {
    fn _rjem_mallctl(
        name: *const c_char,
        old: *mut c_void,
        old_len: *mut usize,
        new: *mut c_void,
        new_len: usize,
    ) -> c_int;
}

/// The settings that jemalloc reports, to check that it has read them.
#[cfg(feature = "peers")]
pub(crate) fn jemalloc_settings() -> &'static str {
    static TOLD: OnceLock<String> = OnceLock::new();
    TOLD.get_or_init(|| {
        let (mut slots, mut len) = (0_u32, size_of::<u32>());
        // SAFETY: the name ends in a zero, and there are `len` bytes for the answer, which is an unsigned int.
        let error = unsafe {
            _rjem_mallctl(
                c"opt.tcache_nslots_small_min".as_ptr(),
                (&raw mut slots).cast(),
                &raw mut len,
                std::ptr::null_mut(),
                0,
            )
        };
        match error {
            0 => format!("tcache_nslots_small_min:{slots}"),
            _ => "as it is".to_owned(),
        }
    })
}

#[cfg(not(feature = "peers"))]
pub(crate) fn jemalloc_settings() -> &'static str {
    ""
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

#[cfg(all(test, feature = "peers"))]
mod tests {
    #[test]
    fn jemalloc_reports_its_settings() {
        // Breaks if the linker drops the string, and jemalloc runs with its defaults.
        assert_eq!(super::jemalloc_settings(), "tcache_nslots_small_min:1000");
    }
}

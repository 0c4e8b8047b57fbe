//! DPDK's mempool with a cache of 512 for each thread; and its network buffers, which come from one
//! (`dpdk/pktmbuf.rs`). In batches items are got and put 64 at once, as DPDK's users do.
//!
//! Getting and putting are inline functions in DPDK's headers, so they must be compiled. That happens at the first use
//! of the design: with `cc`, if pkg-config finds libdpdk, into a library in the temporary directory, which is loaded
//! and then removed. So neither the build nor the program needs DPDK, and the figures are those of its own code. One
//! thread's loops are in C, as a DPDK program would have them; across threads each item costs a call.
//!
//! Its memory is in huge pages where the machine has enough free ones, and the notes say so.
//!
//! Invariants: a library is never unloaded (DPDK's own threads run in it); a thread is registered before its first
//! item. Locks: a `OnceLock` around the set-up.

use crate::alloc::design::{Absent, Block, Design, out_of_memory};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, io, mem, process, thread};

mod pktmbuf;

pub(crate) use pktmbuf::Pktmbuf;

/// A mempool.
pub(crate) struct Mempool {
    pool: NonNull<c_void>,
    shim: &'static Shim,
}

// SAFETY: a mempool is made for use by many threads.
unsafe impl Send for Mempool {}
// SAFETY: as above.
unsafe impl Sync for Mempool {}

/// The functions of `dpdk.c`.
struct Shim {
    create: unsafe extern "C" fn(*const c_char, c_uint, c_uint) -> *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
    enter: unsafe extern "C" fn() -> c_int,
    leave: unsafe extern "C" fn(),
    get: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    put: unsafe extern "C" fn(*mut c_void, *mut c_void),
    free_count: unsafe extern "C" fn(*mut c_void) -> c_uint,
    gets: unsafe extern "C" fn(*mut c_void, u64) -> c_int,
    pairs: unsafe extern "C" fn(*mut c_void, u64) -> c_int,
    batches: unsafe extern "C" fn(*mut c_void, u64, c_uint) -> c_int,
    pkt_create: unsafe extern "C" fn(*const c_char, c_uint, c_uint) -> *mut c_void,
    pkt_get: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    pkt_put: unsafe extern "C" fn(*mut c_void),
    pkt_data: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    pkt_gets: unsafe extern "C" fn(*mut c_void, u64) -> c_int,
    pkt_pairs: unsafe extern "C" fn(*mut c_void, u64) -> c_int,
    pkt_batches: unsafe extern "C" fn(*mut c_void, u64, c_uint) -> c_int,
}

/// Items of a pool: those that the cases have in flight, and all caches full.
const ITEMS: c_uint = (1 << 15) - 1;

impl Design for Mempool {
    type Item = Block;

    fn new(size: usize) -> Result<Self, Absent> {
        let shim = shim()?;
        let pool = pool(shim.create, size)?;
        Ok(Self { pool, shim })
    }

    #[inline]
    fn alloc(&self) -> Block {
        // SAFETY: the pool lives as long as this.
        match NonNull::new(unsafe { (self.shim.get)(self.pool.as_ptr()) }) {
            Some(item) => Block(item.cast()),
            None => out_of_memory("dpdk"),
        }
    }

    #[inline]
    unsafe fn free(&self, item: Block) {
        // SAFETY: the caller says that it came from this pool.
        unsafe { (self.shim.put)(self.pool.as_ptr(), item.0.as_ptr().cast()) };
    }

    fn bytes(item: &mut Block) -> NonNull<u8> {
        item.0
    }

    fn enter(&self) {
        // SAFETY: DPDK is set up. A thread that gets no number works without a cache.
        unsafe { (self.shim.enter)() };
    }

    fn leave(&self) {
        // SAFETY: a thread that is not registered may say so, too.
        unsafe { (self.shim.leave)() };
    }

    fn taken(&self) -> Option<usize> {
        None
    }

    fn gets(&self, n: u64) {
        // SAFETY: the pool lives as long as this.
        if unsafe { (self.shim.gets)(self.pool.as_ptr(), n) } != 0 {
            out_of_memory("dpdk");
        }
    }

    fn pairs(&self, n: u64) {
        // SAFETY: the pool lives as long as this.
        if unsafe { (self.shim.pairs)(self.pool.as_ptr(), n) } != 0 {
            out_of_memory("dpdk");
        }
    }

    fn batches<const LIVE: usize>(&self, n: u64) {
        // SAFETY: the pool lives as long as this.
        if unsafe { (self.shim.batches)(self.pool.as_ptr(), n, LIVE as c_uint) } != 0 {
            out_of_memory("dpdk");
        }
    }
}

impl Drop for Mempool {
    fn drop(&mut self) {
        // SAFETY: the pool is not used any more.
        let free = unsafe { (self.shim.free_count)(self.pool.as_ptr()) };
        debug_assert_eq!(free, ITEMS, "items are missing from the pool");
        // SAFETY: as above.
        unsafe { (self.shim.destroy)(self.pool.as_ptr()) };
    }
}

/// A pool of items of `size` bytes, by one of the functions that make them.
fn pool(
    create: unsafe extern "C" fn(*const c_char, c_uint, c_uint) -> *mut c_void,
    size: usize,
) -> Result<NonNull<c_void>, Absent> {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let name = format!("lab{}", MADE.fetch_add(1, Ordering::Relaxed));
    let name = CString::new(name).map_err(|e| Absent(e.to_string()))?;
    let size = c_uint::try_from(size).map_err(|e| Absent(e.to_string()))?;
    // SAFETY: the name ends in a zero, and DPDK is set up.
    let pool = unsafe { create(name.as_ptr(), ITEMS, size) };
    NonNull::new(pool).ok_or_else(|| Absent("DPDK made no pool".to_owned()))
}

/// Bytes of free huge pages that the pools of a block need.
const HUGE_ENOUGH: usize = 512 << 20;

/// Whether the machine has enough free huge pages for the pools.
fn has_huge_pages() -> bool {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    free_huge(&info) >= HUGE_ENOUGH
}

/// Bytes of free huge pages, as /proc/meminfo has them.
fn free_huge(info: &str) -> usize {
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<usize>().ok()
    };
    let kib = field("Hugepagesize:").zip(field("HugePages_Free:"));
    kib.map_or(0, |(size, free)| size * free * 1024)
}

/// A note on DPDK's memory for readers of its figures.
pub(crate) fn settings() -> &'static str {
    match has_huge_pages() {
        true => "in huge pages",
        false => "no huge pages here",
    }
}

/// The shim, compiled and loaded, and DPDK set up: once.
fn shim() -> Result<&'static Shim, Absent> {
    static SHIM: OnceLock<Result<Shim, Absent>> = OnceLock::new();
    // DPDK pins the thread that sets it up, so another one does.
    let set_up = || {
        thread::spawn(set_up)
            .join()
            .unwrap_or_else(|_| Err(Absent("setting up DPDK failed".to_owned())))
    };
    SHIM.get_or_init(set_up).as_ref().map_err(Clone::clone)
}

fn set_up() -> Result<Shim, Absent> {
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "libdpdk"])
        .output();
    let flags = match flags {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
        _ => {
            return Err(Absent(
                "not installed (apt-get install libdpdk-dev)".to_owned(),
            ));
        }
    };
    let library = env::temp_dir().join(format!("mbuma-lab-dpdk-{}.so", process::id()));
    let loaded = compile(&library, &flags).and_then(|()| load(&library));
    // It stays mapped; if it was never made there is no file to remove.
    let _ = fs::remove_file(&library);
    loaded
}

/// Links only used code: DPDK's libdpdk.pc names a hundred libraries, of which some start threads of their own.
fn compile(library: &Path, flags: &str) -> Result<(), Absent> {
    let source = library.with_extension("c");
    fs::write(&source, include_str!("dpdk.c"))
        .map_err(|e| Absent(format!("writing dpdk.c: {e}")))?;
    let cflags = flags
        .split_whitespace()
        .filter(|flag| !flag.starts_with("-l") && !flag.starts_with("-Wl"));
    let output = Command::new("cc")
        .args(["-O3", "-fPIC", "-shared", "-w"])
        .args(cflags)
        .arg("-march=native")
        .args(["-o".as_ref(), library.as_os_str(), source.as_os_str()])
        .args([
            "-lrte_eal",
            "-lrte_mbuf",
            "-lrte_mempool",
            "-lrte_mempool_ring",
            "-lrte_ring",
        ])
        .output();
    let _ = fs::remove_file(&source);
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Absent(format!(
                "cc failed: {}",
                said.lines().next().unwrap_or_default()
            )))
        }
        Err(error) => Err(Absent(format!("running cc: {error}"))),
    }
}

fn load(library: &Path) -> Result<Shim, Absent> {
    let path =
        CString::new(library.as_os_str().as_encoded_bytes()).map_err(|e| Absent(e.to_string()))?;
    // SAFETY: the path ends in a zero; the library is the one just compiled, whose constructors are DPDK's.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    let handle =
        NonNull::new(handle).ok_or_else(|| Absent("the compiled shim does not load".to_owned()))?;
    // SAFETY: the type is that of the function of this name in dpdk.c.
    let init: unsafe extern "C" fn(c_int) -> c_int = unsafe { symbol(handle, c"lab_init")? };
    // SAFETY: it takes a number, and is called once.
    let error = unsafe { init(c_int::from(has_huge_pages())) };
    if error != 0 {
        let error = io::Error::from_raw_os_error(error);
        return Err(Absent(format!("DPDK does not start: {error}")));
    }
    macro_rules! function {
        ($name:literal) => {
            // SAFETY: the type, that of the field, is that of the function of this name in dpdk.c.
            unsafe { symbol(handle, $name)? }
        };
    }
    Ok(Shim {
        create: function!(c"lab_create"),
        destroy: function!(c"lab_destroy"),
        enter: function!(c"lab_enter"),
        leave: function!(c"lab_leave"),
        get: function!(c"lab_get"),
        put: function!(c"lab_put"),
        free_count: function!(c"lab_free_count"),
        gets: function!(c"lab_gets"),
        pairs: function!(c"lab_pairs"),
        batches: function!(c"lab_batches"),
        pkt_create: function!(c"lab_pkt_create"),
        pkt_get: function!(c"lab_pkt_get"),
        pkt_put: function!(c"lab_pkt_put"),
        pkt_data: function!(c"lab_pkt_data"),
        pkt_gets: function!(c"lab_pkt_gets"),
        pkt_pairs: function!(c"lab_pkt_pairs"),
        pkt_batches: function!(c"lab_pkt_batches"),
    })
}

/// A function of the library.
///
/// # Safety
/// `F` is a function pointer of the type that the function has.
unsafe fn symbol<F: Copy>(library: NonNull<c_void>, name: &CStr) -> Result<F, Absent> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the handle is from dlopen and the name ends in a zero.
    let found = unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) };
    if found.is_null() {
        return Err(Absent("the compiled shim is not whole".to_owned()));
    }
    // SAFETY: the sizes are the same (asserted), and the caller vouches for the type.
    Ok(unsafe { mem::transmute_copy::<*mut c_void, F>(&found) })
}

#[cfg(test)]
mod tests {
    use super::free_huge;

    #[test]
    fn free_huge_pages_are_counted_in_bytes() {
        // Breaks if DPDK runs without the huge pages that there are, or asks for some that are in use.
        let info =
            "HugePages_Total:     400\nHugePages_Free:      300\nHugepagesize:       2048 kB\n";
        assert_eq!(free_huge(info), 300 << 21);
        assert_eq!(free_huge("HugePages_Free:      300\n"), 0);
    }
}

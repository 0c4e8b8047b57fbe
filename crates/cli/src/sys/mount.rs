//! Mounting and unmounting, inside the child's private mount namespace.
//!
//! Invariants: only [`crate::guest`] calls these, after unshare(CLONE_NEWNS), so the host sees nothing.
//! Locks: none.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use super::cvt;

/// Flags of a file system that holds data only: no devices, no set-user-id, no programs.
pub(crate) const DATA_ONLY: libc::c_ulong = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;

/// Keeps mounts made from here on out of every other mount namespace, and theirs out of ours.
pub(crate) fn make_all_private() -> io::Result<()> {
    mount(
        None,
        Path::new("/"),
        None,
        libc::MS_REC | libc::MS_PRIVATE,
        None,
    )
}

/// Mounts a fresh file system of kind `fstype`.
pub(crate) fn mount_new(
    fstype: &str,
    on: &Path,
    flags: libc::c_ulong,
    options: &str,
) -> io::Result<()> {
    mount(
        Some(Path::new(fstype)),
        on,
        Some(fstype),
        flags,
        Some(options),
    )
}

/// Makes `on` another name of `what`.
pub(crate) fn bind(what: &Path, on: &Path) -> io::Result<()> {
    mount(Some(what), on, None, libc::MS_BIND, None)
}

/// Takes away the topmost mount at `path`; mounts bound out of it stay.
pub(crate) fn detach(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `path` is a NUL-terminated string that outlives the call.
    cvt(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) })?;
    Ok(())
}

/// mount(2) with absent arguments as null.
fn mount(
    source: Option<&Path>,
    target: &Path,
    fstype: Option<&str>,
    flags: libc::c_ulong,
    options: Option<&str>,
) -> io::Result<()> {
    let source = source
        .map(|p| CString::new(p.as_os_str().as_bytes()))
        .transpose()?;
    let target = CString::new(target.as_os_str().as_bytes())?;
    let fstype = fstype.map(CString::new).transpose()?;
    let options = options.map(CString::new).transpose()?;
    let or_null = |s: &Option<CString>| s.as_ref().map_or(ptr::null(), |s| s.as_ptr());
    // SAFETY: each pointer is null, which mount(2) allows for these three, or a NUL-terminated
    // string that outlives the call; the kernel writes through none of them.
    cvt(unsafe {
        libc::mount(
            or_null(&source),
            target.as_ptr(),
            or_null(&fstype),
            flags,
            or_null(&options).cast(),
        )
    })?;
    Ok(())
}

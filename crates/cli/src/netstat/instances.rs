//! The sockets of running mbumas: each is called after the process number, and is in a directory that only its user can
//! read.
//!
//! ```text
//!   $XDG_RUNTIME_DIR/mbuma/4711.sock     where that is set, and is the user's own
//!   /tmp/mbuma-1000/4711.sock            else
//!   .../4711.ports                       where `mbuma publish` asks
//! ```
//!
//! In a user namespace, the number in the second name is the one that the user has outside: two users who are both 0 in
//! namespaces of their own need two directories.
//!
//! A socket whose mbuma was killed stays behind, and refuses connections; the next mbuma of its user that starts, or
//! the next netstat of that user, removes it. A socket is made under another name and gets its own name once it
//! listens, so a socket that refuses is never about to listen. Both happen under the directory's lock.
//!
//! Invariants: a directory that others could write to, or that is not the user's, is not used.
//! Locks: the directory's (flock(2)), for a few system calls. A process that does not get the lock continues without
//! it.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use crate::idmap;
use crate::sys::{process, unix};

/// The directories that root searches: those of users with a session, and those of users without.
const SESSIONS: &str = "/run/user";
/// The parent of the directories of users without a session.
const TMP: &str = "/tmp";
/// Bytes of an answer at most: that of a gateway is bounded to less.
const ANSWER_MAX: u64 = 64 << 20;
/// Tries for a directory's lock, which is held for a few system calls at a time.
const LOCK_TRIES: u32 = 20;
/// The time to wait between them.
const LOCK_WAIT: Duration = Duration::from_millis(5);

/// The sockets of an mbuma.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketKind {
    /// Where `mbuma netstat` asks.
    Control,
    /// Where `mbuma publish` asks.
    Ports,
}

impl SocketKind {
    /// The part of its name behind the process number.
    const fn suffix(self) -> &'static str {
        match self {
            SocketKind::Control => ".sock",
            SocketKind::Ports => ".ports",
        }
    }
}

/// A running mbuma.
#[derive(Debug)]
pub(crate) struct Instance {
    /// Its process number.
    pub(crate) pid: i32,
    /// A connection to it, or why there is none although it runs.
    pub(crate) stream: io::Result<UnixStream>,
}

/// The instances that were found, and the places of the search.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// By process number.
    pub(crate) instances: Vec<Instance>,
    /// Where this user's are.
    pub(crate) places: Vec<PathBuf>,
    /// The places that exist and can't be used.
    pub(crate) unusable: Vec<(PathBuf, io::Error)>,
}

/// The number of this mbuma: that of the process that the user started.
static OWN_PID: OnceLock<u32> = OnceLock::new();

/// The number of this mbuma. The gateway process inherits that of the monitor, which reads it before it forks.
pub(crate) fn own_pid() -> u32 {
    *OWN_PID.get_or_init(std::process::id)
}

/// Opens a socket of this process: its listener, and its path.
///
/// # Errors
/// Why the last of the possible places is none.
pub(crate) fn open(kind: SocketKind) -> io::Result<(UnixListener, PathBuf)> {
    in_own_place(|dir, uid| open_in(&dir, uid, kind))
}

/// This user's own directory, the best of the possible ones, made if necessary.
///
/// # Errors
/// Why the last of the possible places is none.
pub(crate) fn own_dir() -> io::Result<PathBuf> {
    in_own_place(|dir, uid| make_own(&dir, uid).map(|()| dir))
}

/// The result of `f` in the first of this user's possible places where it succeeds.
fn in_own_place<T>(f: impl Fn(PathBuf, u32) -> io::Result<T>) -> io::Result<T> {
    let uid = process::ids().0;
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for dir in own_places(uid) {
        match f(dir, uid) {
            Ok(done) => return Ok(done),
            Err(e) => failed = e,
        }
    }
    Err(failed)
}

/// Every mbuma that this user may ask.
pub(crate) fn find(kind: SocketKind) -> Found {
    let uid = process::ids().0;
    let mut found = Found {
        places: own_places(uid),
        ..Found::default()
    };
    for dir in &found.places {
        match look_into(dir, uid, kind) {
            Ok(instances) => found.instances.extend(instances),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => found.unusable.push((dir.clone(), e)),
        }
    }
    if uid == 0 {
        let others = everybodys_places().into_iter();
        // Another directory with such a name is no error.
        let others = others.filter(|dir| !found.places.contains(dir));
        let instances = others.filter_map(|dir| look_into(&dir, uid, kind).ok());
        found.instances.extend(instances.flatten());
    }
    found.instances.sort_by_key(|instance| instance.pid);
    found
}

/// The directories in which this user's sockets may be, the best first.
fn own_places(uid: u32) -> Vec<PathBuf> {
    let session = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // After `su` and `sudo` the variable may be another user's.
    let ours = |dir: &PathBuf| {
        dir.is_absolute() && fs::metadata(dir).is_ok_and(|m| m.is_dir() && m.uid() == uid)
    };
    let session = session.filter(ours).map(|dir| dir.join("mbuma"));
    let tmp = Path::new(TMP).join(format!("mbuma-{}", idmap::outer_uid(uid)));
    session.into_iter().chain([tmp]).collect()
}

/// The directories with the sockets of all users.
fn everybodys_places() -> Vec<PathBuf> {
    let sessions = entries(Path::new(SESSIONS)).into_iter();
    let tmp = entries(Path::new(TMP)).into_iter();
    sessions
        .map(|dir| dir.join("mbuma"))
        .chain(tmp.filter(|dir| is_ours_by_name(dir)))
        .collect()
}

/// Whether a directory is called as those in /tmp are.
fn is_ours_by_name(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str());
    let uid = name.and_then(|name| name.strip_prefix("mbuma-"));
    uid.is_some_and(|uid| uid.parse::<u32>().is_ok())
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    entries.filter_map(|e| Some(e.ok()?.path())).collect()
}

/// Makes this process's socket in `dir`, and `dir` if necessary.
fn open_in(dir: &Path, uid: u32, kind: SocketKind) -> io::Result<(UnixListener, PathBuf)> {
    make_own(dir, uid)?;
    // Held to the end of this function, so that no process takes the new socket for a stale one.
    let lock = hold(dir);
    if lock.is_some() {
        for (_, path) in sockets(dir, kind) {
            remove_if_stale(&path);
        }
    }
    let pid = own_pid();
    let (fresh, path) = (
        dir.join(format!("{pid}.new")),
        dir.join(format!("{pid}{}", kind.suffix())),
    );
    // Only a process with our number, which has ended, can have left one.
    let _ = fs::remove_file(&fresh);
    let listener = unix::listen(&fresh)?;
    // A container that shares /tmp, and not the process numbers, may have one of that name: it keeps it.
    let placed = listener
        .set_nonblocking(true)
        .and_then(|()| fs::hard_link(&fresh, &path));
    let _ = fs::remove_file(&fresh);
    placed?;
    Ok((listener, path))
}

/// Makes `dir` if necessary; it must be this user's.
fn make_own(dir: &Path, uid: u32) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    match owner(dir)? == uid {
        true => Ok(()),
        false => Err(io::Error::other("it belongs to another user")),
    }
}

/// The mbumas whose sockets are in `dir`; those of mbumas that are gone are removed.
fn look_into(dir: &Path, uid: u32, kind: SocketKind) -> io::Result<Vec<Instance>> {
    let owner = owner(dir)?;
    if owner != uid && uid != 0 {
        return Err(io::Error::other("it belongs to another user"));
    }
    let mut instances = Vec::new();
    for (pid, path) in sockets(dir, kind) {
        match ask_for(&path, owner) {
            Ok(stream) => instances.push(Instance {
                pid,
                stream: Ok(stream),
            }),
            Err(e) if is_gone(&e) && owner == uid => tidy(dir, &path),
            // Another user may put a link in the place of the directory: root removes nothing there.
            Err(e) if is_gone(&e) => {}
            Err(e) => instances.push(Instance {
                pid,
                stream: Err(e),
            }),
        }
    }
    Ok(instances)
}

/// The owner of a directory that no other user can read or change.
///
/// Any user may have made the name in /tmp, so a link is not followed, and a directory that others may write to is
/// refused.
fn owner(dir: &Path) -> io::Result<u32> {
    let meta = fs::symlink_metadata(dir)?;
    if !meta.is_dir() {
        return Err(io::Error::other("it is no directory"));
    }
    if meta.mode() & 0o077 != 0 {
        return Err(io::Error::other(
            "it is open to other users (chmod 700 would do)",
        ));
    }
    Ok(meta.uid())
}

/// The sockets in `dir`, with the process numbers that they are called after.
fn sockets(dir: &Path, kind: SocketKind) -> Vec<(i32, PathBuf)> {
    let pid_of = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(kind.suffix())?;
        name.parse().ok().filter(|pid| *pid > 0)
    };
    let all = entries(dir).into_iter();
    all.filter_map(|path| Some((pid_of(&path)?, path)))
        .collect()
}

/// Connects, if the listener is the directory's owner, or root.
fn ask_for(path: &Path, owner: u32) -> io::Result<UnixStream> {
    let stream = unix::connect(path)?;
    let peer = unix::peer_uid(stream.as_fd())?;
    if peer != owner && peer != 0 {
        return Err(io::Error::from(io::ErrorKind::PermissionDenied));
    }
    Ok(stream)
}

/// Sends a request, and takes the answer to its end. No read or write waits for longer than `wait`.
pub(crate) fn exchange(
    mut stream: UnixStream,
    request: &[u8],
    wait: Duration,
) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(wait))?;
    stream.set_write_timeout(Some(wait))?;
    stream.write_all(request)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    // For root, another user's process may have the socket.
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

/// Whether the error of an attempt to connect shows that the socket has no listener any more.
pub(crate) fn is_gone(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
    )
}

/// Removes the socket of an mbuma that was killed.
fn tidy(dir: &Path, path: &Path) {
    if hold(dir).is_some() {
        remove_if_stale(path);
    }
}

/// Removes a socket without a listener. The directory's lock is held, so that no listener appears in between.
fn remove_if_stale(path: &Path) {
    if unix::connect(path).is_err_and(|e| is_gone(&e)) {
        // Another netstat may have been quicker.
        let _ = fs::remove_file(path);
    }
}

/// The directory's lock, until it is dropped. `None` if another process keeps it: that must not stop the caller.
fn hold(dir: &Path) -> Option<File> {
    let file = File::open(dir).ok()?;
    for _ in 0..LOCK_TRIES {
        if file.try_lock().is_ok() {
            return Some(file);
        }
        thread::sleep(LOCK_WAIT);
    }
    None
}

#[cfg(test)]
mod tests;

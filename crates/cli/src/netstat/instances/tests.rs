//! Tests of the directory of the control sockets.

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A directory that goes away.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mbuma-instances-{}-{number}", std::process::id());
        let dir = env::temp_dir().join(name);
        fs::create_dir(&dir).expect("the temporary directory can be written");
        Scratch(dir)
    }

    fn place(&self) -> PathBuf {
        self.0.join("mbuma")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn uid() -> u32 {
    process::ids().0
}

#[test]
fn a_socket_is_found_until_no_process_listens() {
    // Breaks when a running mbuma is not found, or one that was killed still is.
    let scratch = Scratch::new();
    let place = scratch.place();
    let (listener, path) = open_in(&place, uid(), SocketKind::Control).expect("a place");
    let mode = fs::metadata(&place).expect("it was made").mode();
    assert_eq!(mode & 0o777, 0o700);
    let found = look_into(&place, uid(), SocketKind::Control).expect("it can be used");
    let pids: Vec<_> = found.iter().map(|i| (i.pid, i.stream.is_ok())).collect();
    assert_eq!(pids, [(std::process::id().cast_signed(), true)]);
    drop((found, listener));
    assert!(path.exists());
    assert!(
        look_into(&place, uid(), SocketKind::Control)
            .expect("as before")
            .is_empty()
    );
    assert!(!path.exists(), "it was stale");
}

#[test]
fn a_start_removes_what_others_left() {
    // Breaks when a machine on which mbumas are killed fills a directory with sockets, or a start removes
    // the socket of one that runs.
    let scratch = Scratch::new();
    let place = scratch.place();
    drop(open_in(&place, uid(), SocketKind::Control).expect("a place"));
    let (stale, alive) = (place.join("999999999.sock"), place.join("999999998.sock"));
    drop(UnixListener::bind(&stale).expect("a socket"));
    let listener = UnixListener::bind(&alive).expect("a socket");
    fs::write(place.join("notes.txt"), "not ours").expect("a file");
    let opened = open_in(&place, uid(), SocketKind::Control).expect("a place");
    assert!(!stale.exists() && alive.exists());
    assert!(place.join("notes.txt").exists(), "not ours to remove");
    drop((opened, listener));
}

#[test]
fn a_name_that_is_taken_stays_whose_it_is() {
    // Breaks when two instances with the same process id, in containers that share a directory, take the name from each
    // other.
    let scratch = Scratch::new();
    let place = scratch.place();
    let (listener, path) = open_in(&place, uid(), SocketKind::Control).expect("a place");
    let second = open_in(&place, uid(), SocketKind::Control);
    assert!(second.is_err_and(|e| e.kind() == io::ErrorKind::AlreadyExists));
    assert_eq!(entries(&place).len(), 1, "nothing else was left");
    assert!(unix::connect(&path).is_ok());
    drop(listener);
    drop(open_in(&place, uid(), SocketKind::Control).expect("it is stale now"));
}

#[test]
fn a_busy_instance_is_no_stale_one() {
    // Breaks when an mbuma that hangs, its backlog full, loses its socket or stops netstat.
    let scratch = Scratch::new();
    let place = scratch.place();
    let (listener, path) = open_in(&place, uid(), SocketKind::Control).expect("a place");
    let mut waiting = Vec::new();
    let refused = loop {
        match unix::connect(&path) {
            Ok(stream) => waiting.push(stream),
            Err(e) => break e,
        }
    };
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    let found = look_into(&place, uid(), SocketKind::Control).expect("it can be used");
    assert!(matches!(&found[..], [one] if one.stream.is_err()));
    assert!(path.exists());
    drop(listener);
}

#[test]
fn a_place_that_others_can_change_is_not_used() {
    // Breaks when another user's directory, or a link to one, is taken for ours.
    let scratch = Scratch::new();
    let place = scratch.place();
    fs::create_dir(&place).expect("a directory");
    for mode in [0o755, 0o711, 0o770, 0o1777] {
        fs::set_permissions(&place, fs::Permissions::from_mode(mode)).expect("ours");
        assert!(
            open_in(&place, uid(), SocketKind::Control).is_err(),
            "{mode:o}"
        );
        assert!(
            look_into(&place, uid(), SocketKind::Control).is_err(),
            "{mode:o}"
        );
    }
    fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).expect("ours");
    assert!(
        open_in(&place, uid() + 1, SocketKind::Control).is_err(),
        "another user's"
    );
    let link = scratch.0.join("link");
    symlink(&place, &link).expect("a link");
    assert!(open_in(&link, uid(), SocketKind::Control).is_err());
    assert!(entries(&place).is_empty(), "nothing was left in it");
}

#[test]
fn root_removes_nothing_of_another_user() {
    // Breaks when a user who puts a link in the place of the directory leads root's netstat to remove other files.
    const ROOT: u32 = 0;
    let scratch = Scratch::new();
    let place = scratch.place();
    let (listener, path) = open_in(&place, uid(), SocketKind::Control).expect("a place");
    drop(listener);
    if uid() == ROOT {
        chown(&place, Some(65534), None).expect("root may");
    }
    let found = look_into(&place, ROOT, SocketKind::Control).expect("root may read it");
    assert!(found.is_empty() && path.exists());
}

#[test]
fn names_in_tmp_are_told_apart() {
    // Breaks when root's netstat opens directories that are not mbuma's.
    assert!(is_ours_by_name(Path::new("/tmp/mbuma-1000")));
    for name in ["/tmp/mbuma-", "/tmp/mbuma-e2e-1", "/tmp/mbuma", "/tmp/x-1"] {
        assert!(!is_ours_by_name(Path::new(name)), "{name}");
    }
}

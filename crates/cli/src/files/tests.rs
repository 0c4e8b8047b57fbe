use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::names::FEW;
use super::{DirectoryNames, FoundEntry, NamesRoom, ServedTree};

/// A directory with a served one inside; its drop removes it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = std::env::temp_dir().join(format!("mbuma-files-{name}-{}", std::process::id()));
        fs::create_dir_all(dir.join("served/below"))
            .expect("the temporary directory can be written");
        fs::write(dir.join("secret"), "secret").expect("likewise");
        fs::write(dir.join("served/below/file"), "0123456789").expect("likewise");
        Place(dir)
    }

    fn tree(&self) -> ServedTree {
        ServedTree::open(&self.0.join("served")).expect("a directory")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn nothing_outside_of_the_directory_is_opened() {
    // Breaks when a path or a symbolic link leads out of the served directory.
    let place = Place::new("outside");
    let served = place.0.join("served");
    symlink("../secret", served.join("up")).expect("a link");
    symlink(place.0.join("secret"), served.join("absolute")).expect("a link");
    symlink("/", served.join("root")).expect("a link");
    symlink("/proc/self/root", served.join("magic")).expect("a link");
    symlink("below/file", served.join("inside")).expect("a link");
    symlink("..", served.join("below/parent")).expect("a link");
    let tree = place.tree();
    for path in [
        "../secret",
        "up",
        "absolute",
        "root/etc/passwd",
        "magic/etc/passwd",
        "/etc/passwd",
        "below/../../secret",
    ] {
        assert!(tree.find(path.as_bytes()).is_err(), "{path}");
    }
    for path in ["inside", "below/parent/below/file", "below/file"] {
        assert!(
            matches!(tree.find(path.as_bytes()), Ok(FoundEntry::File(_))),
            "{path}"
        );
    }
    assert!(matches!(tree.find(b"below"), Ok(FoundEntry::Directory(_))));
    assert!(
        ServedTree::open(&served.join("below/file")).is_err(),
        "a file is no directory"
    );
}

#[test]
fn a_way_that_may_wait_for_a_disk_is_not_gone() {
    // Breaks when a worker opens a file although it may have to wait for a disk, or a lookup in memory gives another
    // result than one that waits.
    let place = Place::new("memory");
    let mut tree = place.tree();
    tree.find(b"below/file").expect("it is there");
    let kinds = [&b"below/file"[..], b"below", b"none", b"below/file/x"].map(|path| {
        let waiting = tree.find(path).map_err(|e| e.kind());
        // The file system of the temporary directory may be unable to say so.
        if let Ok(found) = tree.find_in_memory(path) {
            let found = found.map_err(|e| e.kind());
            assert_eq!(
                format!("{:?}", found.is_ok()),
                format!("{:?}", waiting.is_ok())
            );
            assert_eq!(found.err(), waiting.err());
        }
    });
    assert_eq!(kinds.len(), 4);
    assert!(
        tree.find_in_memory(b"../secret").is_err(),
        "a thread says so"
    );
    tree.opens_at_once = false;
    let device = tree.device();
    assert_eq!(
        tree.find_in_memory(b"below/file").err(),
        Some(super::NotInMemory { device })
    );
}

#[test]
fn a_fifo_and_a_socket_are_refused_and_not_opened() {
    // Breaks when a request for a FIFO lets the FIFO's writer continue, or a request for a device starts the device: an
    // entry must be opened only after its type is known.
    let place = Place::new("types");
    let below = place.0.join("served/below");
    mknodat(CWD, below.join("fifo"), FileType::Fifo, Mode::RUSR, 0).expect("a FIFO");
    let _socket = UnixListener::bind(below.join("socket")).expect("a short path");
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).expect("a watch");
    inotify::add_watch(&watch, &below, WatchFlags::OPEN).expect("our directory");
    let tree = place.tree();
    for path in [&b"below/fifo"[..], b"below/socket", b"below/file"] {
        let is_file = path.ends_with(b"file");
        let is_right = |found| match found {
            Ok(FoundEntry::File(_)) => is_file,
            Ok(FoundEntry::Other) => !is_file,
            _ => false,
        };
        assert!(is_right(tree.find(path)));
        assert!(tree.find_in_memory(path).is_ok_and(is_right) || !tree.opens_at_once);
    }
    let mut buffer = [MaybeUninit::uninit(); 1024];
    let mut events = inotify::Reader::new(&watch, &mut buffer);
    let mut opened = Vec::new();
    while let Ok(event) = events.next() {
        opened.extend(event.file_name().map(|name| name.to_owned()));
    }
    assert!(
        !opened.is_empty() && opened.iter().all(|name| name == c"file"),
        "{opened:?}"
    );
}

#[test]
fn names_come_in_order_and_hidden_ones_do_not() {
    // Breaks when a listing differs from one request to the next, or shows names that are not served.
    let place = Place::new("names");
    for name in ["c", "a", ".hidden", "b"] {
        fs::write(place.0.join("served").join(name), "").expect("a file");
    }
    let Ok(FoundEntry::Directory(directory)) = place.tree().find(b".") else {
        panic!("no directory");
    };
    let mut names = DirectoryNames::of(directory, &NamesRoom::default()).expect("names");
    let mut found = Vec::new();
    while let Some(name) = names.next() {
        found.push((
            String::from_utf8_lossy(&name.bytes).into_owned(),
            name.is_directory,
        ));
    }
    let expected = [("a", false), ("b", false), ("below", true), ("c", false)];
    assert_eq!(found, expected.map(|(name, is)| (name.to_owned(), is)));
    assert!(!names.has_unread());
}

#[test]
fn listings_without_a_reader_share_bounded_memory() {
    // Breaks when each of many listings keeps a thousand names for a client that does not read, or when a listing that
    // gets little memory loses names, or when memory is not given back.
    const NAMES: usize = 1500;
    const ROOM: u64 = 40 << 10;
    let place = Place::new("many-names");
    for n in 0..NAMES {
        fs::write(place.0.join(format!("served/below/name-{n}")), "").expect("a file");
    }
    let room = NamesRoom::with_max(ROOM);
    let tree = place.tree();
    let listing = || {
        let Ok(FoundEntry::Directory(directory)) = tree.find(b"below") else {
            panic!("no directory");
        };
        DirectoryNames::of(directory, &room).expect("names")
    };
    let mut listings: Vec<_> = (0..30).map(|_| listing()).collect();
    let few = 30 * FEW as u64 * 32;
    let kept: u64 = listings.iter().map(DirectoryNames::kept).sum();
    assert!(kept <= ROOM + few && room.charged() <= ROOM, "{kept}");
    for names in [0, 28].map(|n| listings.swap_remove(n)).iter_mut() {
        let mut found = Vec::new();
        loop {
            found.extend(std::iter::from_fn(|| names.next()).map(|name| name.bytes));
            assert!(names.kept() <= ROOM + FEW as u64 * 32);
            if !names.has_unread() {
                break;
            }
            names.read_more().expect("our directory");
        }
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), NAMES + 1);
    }
    drop(listings);
    assert_eq!(room.charged(), 0);
}

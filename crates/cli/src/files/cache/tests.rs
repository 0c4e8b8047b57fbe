use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::Instant;

use super::*;
use crate::http::coding::Coding;

/// The time of each first request.
const BEGIN: Time = Time::from_secs(1000);

/// A served directory, which the end of the test removes.
struct CachePlace {
    path: PathBuf,
    tree: ServedTree,
    cache: FileCache,
}

impl CachePlace {
    /// With a cache of `files` files and `bytes` bytes.
    fn new(name: &str, files: usize, bytes: u64) -> CachePlace {
        let path = std::env::temp_dir().join(format!("mbuma-cache-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary directory can be written");
        CachePlace {
            tree: ServedTree::open(&path).expect("our directory"),
            cache: FileCache::with_quiet(files, bytes, FileReaders::default(), 0),
            path,
        }
    }

    /// Makes a file of `len` bytes. This cache accepts a file however recent its last change is.
    fn write(&self, name: &str, len: usize) {
        fs::write(self.path.join(name), vec![len as u8; len]).expect("our directory");
    }

    /// The file that a request finds in a new round, `after` the beginning, with all directories in memory. None if
    /// there is no file.
    fn find(&self, name: &str, after: Duration) -> Option<ServedFile> {
        let round = self.cache.round(BEGIN + after);
        // The file system of the temporary directory may be unable to say what is in memory.
        let found = match self
            .cache
            .find_in_memory(&self.tree, name.as_bytes(), round)
        {
            Ok(found) => found,
            Err(_) => self.cache.find_waiting(&self.tree, name.as_bytes(), round),
        };
        match found {
            Ok(FoundEntry::File(file)) => Some(file),
            _ => None,
        }
    }

    fn file(&self, name: &str) -> ServedFile {
        self.find(name, Duration::ZERO).expect("our file")
    }

    /// A file whose bytes were read, in this thread.
    fn filled(&self, name: &str) -> ServedFile {
        let file = self.file(name);
        self.cache.0.fill(&file);
        file
    }

    /// Whether the bytes of the file at this path are kept.
    fn has(&self, name: &str) -> bool {
        self.file(name).contents().is_some()
    }

    fn entries(&self) -> usize {
        let state = self.cache.0.state.lock();
        assert_eq!(state.entries.len(), state.clock.len());
        state.entries.len()
    }

    /// Whether requests find files without looking their paths up.
    fn keeps(&self) -> bool {
        self.tree.find_in_memory(b".").is_ok()
    }
}

impl Drop for CachePlace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[test]
fn a_file_is_opened_once_and_its_changes_are_seen_in_the_next_round() {
    // Breaks when each request opens its file, or a request gets a former state of a file.
    let place = CachePlace::new("once", 16, 0);
    let path = place.path.join("file");
    place.write("file", 10);
    let first = place.file("file");
    let same = |one: &ServedFile, other: &ServedFile| Arc::ptr_eq(one.file(), other.file());
    for n in 1..100 {
        let again = place.find("file", Duration::from_millis(n * 50));
        assert!(same(&first, &again.expect("our file")), "{n}");
    }
    let changes: [(&str, &dyn Fn()); 4] = [
        ("written", &|| place.write("file", 11)),
        ("cut", &|| place.write("file", 3)),
        ("replaced", &|| {
            place.write("new", 4);
            fs::rename(place.path.join("new"), &path).expect("our files");
        }),
        ("rights", &|| {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("our file");
        }),
    ];
    for (what, change) in changes {
        let old = place.file("file");
        // The clock of the file system has coarse ticks.
        let begin = Instant::now();
        while old.has_state() {
            change();
            assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        }
        let new = place.file("file");
        assert!(!same(&old, &new), "{what}");
        assert_eq!(new.len(), fs::metadata(&path).expect("our file").len());
    }
    fs::remove_file(&path).expect("our file");
    assert!(place.find("file", Duration::ZERO).is_none());
    place.write("file", 5);
    assert_eq!(place.file("file").len(), 5);
    assert_eq!(place.entries(), 1);
}

#[test]
fn another_way_to_a_file_is_taken_when_the_old_one_has_been_valid() {
    // Breaks when a link that leads to another directory is never followed, or a path is looked up at each request.
    let place = CachePlace::new("way", 16, 0);
    for (dir, len) in [("one", 1), ("two", 2)] {
        fs::create_dir_all(place.path.join(dir)).expect("our directory");
        place.write(&format!("{dir}/file"), len);
    }
    let link = place.path.join("link");
    symlink("one", &link).expect("our directory");
    let len = |after| place.find("link/file", after).map(|file| file.len());
    assert_eq!(len(Duration::ZERO), Some(1));
    fs::remove_file(&link).expect("our link");
    symlink("two", &link).expect("our directory");
    if place.keeps() {
        assert_eq!(len(VALID - Duration::from_nanos(1)), Some(1));
    }
    assert_eq!(len(VALID), Some(2));
    fs::remove_file(&link).expect("our link");
    symlink("..", &link).expect("our directory");
    assert_eq!(len(2 * VALID), None, "it leads out of the directory");
}

#[test]
fn files_are_as_many_as_they_may_be_and_idle_ones_go() {
    // Breaks when a client that requests each file of a large directory takes all descriptors, or evicts a file that is
    // requested all the time, or a removed file keeps its place on the disk.
    let place = CachePlace::new("many", 8, 0);
    for n in 0..50 {
        place.write(&n.to_string(), 10);
    }
    let first = place.file("0");
    for n in 1..50 {
        place.file(&n.to_string());
        let again = place.file("0");
        assert!(Arc::ptr_eq(first.file(), again.file()), "{n}");
        assert!(place.entries() <= 8);
    }
    assert_eq!(place.entries(), 8);
    place.find("0", IDLE);
    place.cache.0.sweep(BEGIN + IDLE + Duration::from_nanos(1));
    assert_eq!(place.entries(), 1);
    place.cache.0.sweep(BEGIN + 3 * IDLE);
    assert_eq!(place.entries(), 0);
    assert!(
        !place.cache.sweep_later(BEGIN),
        "there is nothing to wait for"
    );
    let none = CachePlace::new("none", 0, 0);
    none.write("file", 10);
    assert_eq!((none.file("file").len(), none.entries()), (10, 0));
}

#[test]
fn bytes_are_as_many_as_they_may_be() {
    // Breaks when bytes are read before there is room for them, or the cache evicts another file than the least
    // recently used one.
    let place = CachePlace::new("bound", 16, 256 << 10);
    let names: Vec<_> = (0..8).map(|n| n.to_string()).collect();
    for name in &names {
        place.write(name, 64 << 10);
        place.filled(name);
        assert!(place.cache.charged() <= 256 << 10);
        // The first is used all the time.
        assert!(place.has("0"));
    }
    assert_eq!(place.cache.charged(), 256 << 10);
    let there: Vec<_> = names.iter().map(|name| place.has(name)).collect();
    assert_eq!(there.iter().filter(|&&there| there).count(), 4, "{there:?}");
    assert!(there[0] && there[7], "{there:?}");
}

#[test]
fn bytes_count_until_the_last_page_is_let_go() {
    // Breaks when clients that take nothing keep bytes of replaced files in memory beyond the bound.
    let place = CachePlace::new("lent", 16, 256 << 10);
    let mut lent = Vec::new();
    for n in 0..6 {
        let name = n.to_string();
        place.write(&name, 64 << 10);
        let file = place.filled(&name);
        match file.contents() {
            Some(FileContents::Sealed(copy)) if n < 4 => {
                lent.push(SendFile::sealed(Arc::clone(copy), 0..1000));
            }
            other => assert!(n >= 4 && other.is_none(), "all is lent"),
        }
    }
    assert_eq!(place.cache.charged(), 256 << 10);
    place.cache.0.sweep(BEGIN + 2 * IDLE);
    assert_eq!(place.cache.charged(), 256 << 10);
    lent.pop();
    assert_eq!(place.cache.charged(), 192 << 10);
    assert!(place.filled("5").contents().is_some());
    drop(lent);
    assert_eq!(place.cache.charged(), 64 << 10);
}

#[test]
fn a_file_that_changes_while_it_is_read_has_no_bytes() {
    // Breaks when a client gets halves of two states of the file.
    let place = CachePlace::new("changes", 16, 1 << 20);
    place.write("file", 48 << 10);
    let file = place.file("file");
    for len in [20 << 10, 50 << 10] {
        place.write("file", len);
        place.cache.0.fill(&file);
        assert!(file.contents().is_none());
    }
    place.write("small", 100);
    let small = place.file("small");
    for len in [90, 110] {
        place.write("small", len);
        assert!(small.read_resident().is_none());
    }
    assert_eq!(place.cache.charged(), 0);
}

#[test]
fn bytes_are_kept_of_files_that_are_asked_for_again() {
    // Breaks when files that are each read once evict others, or the cache keeps a file that may still change without a
    // new modification time.
    let place = CachePlace::new("again", 16, 1 << 20);
    place.write("fresh", 32 << 10);
    let fresh = place.file("fresh");
    let changed = fresh.key().last_change();
    assert!(!fresh.key().is_quiet(changed + QUIET - 1, QUIET));
    assert!(fresh.key().is_quiet(changed + QUIET, QUIET));
    let slow = FileCache::new(16, 1 << 20, FileReaders::default());
    let whole = |file: &ServedFile| ByteRange::whole(file.len());
    let begin = Instant::now();
    for (name, len) in [("file", 32 << 10), ("small", 1 << 10)] {
        let fresh = format!("fresh {name}");
        place.write(&fresh, len);
        let fresh = place.file(&fresh);
        assert!(slow.contents(&fresh).is_none());
        assert!(
            slow.contents(&fresh).is_none(),
            "it was changed a moment ago"
        );
        place.write(name, len);
        let file = place.file(name);
        assert!(place.cache.contents(&file).is_none());
        let read_at_once = place.keeps() && len <= 1 << 10;
        assert_eq!(place.cache.contents(&file).is_some(), read_at_once);
        while len > 1 << 10 && place.cache.contents(&file).is_none() {
            assert!(begin.elapsed() < Duration::from_secs(60), "no bytes");
            std::thread::yield_now();
        }
        let job = place.cache.send(&file, whole(&file));
        let by_reference = job.map(|job| job.is_by_reference());
        assert_eq!(by_reference, (!read_at_once).then_some(len > 1 << 10));
        let part = ByteRange { start: 3, len: 2 };
        let bytes = file.kept(part);
        assert_eq!(bytes, read_at_once.then_some(&[0, 0][..]));
        let behind = ByteRange {
            start: 1023,
            len: 2,
        };
        assert_eq!(file.kept(behind), None);
    }
    let small = u64::from(place.keeps()) << 10;
    assert_eq!(place.cache.charged(), (32 << 10) + small);
}

#[test]
fn a_compressed_file_is_looked_for_again_after_a_second() {
    // Breaks when each request looks for compressed files that do not exist, a compressed file that is made later is
    // never found, or the result for one coding is used for another.
    let place = CachePlace::new("alone", 16, 1 << 20);
    place.write("file", 10);
    let file = place.file("file");
    let at = |after| place.cache.round(BEGIN + after);
    let almost = VALID - Duration::from_nanos(1);
    assert!(!file.is_alone(Coding::Gzip, at(Duration::ZERO)));
    file.note_alone(Coding::Gzip, at(Duration::ZERO));
    assert!(file.is_alone(Coding::Gzip, at(almost)));
    assert!(!file.is_alone(Coding::Brotli, at(almost)));
    assert!(!file.is_alone(Coding::Gzip, at(VALID)));
}

#[test]
fn no_bytes_and_too_many_are_not_kept() {
    // Breaks when one file takes the room of all others, or a cache with a bound of 0 bytes has some.
    let place = CachePlace::new("size", 16, 256 << 10);
    let fits = [0, 1, 64 << 10, (64 << 10) + 1].map(|len| place.cache.0.fits(len));
    assert_eq!(fits, [false, true, true, false]);
    let off = FileCache::new(16, 0, FileReaders::default());
    assert!(!off.0.fits(0) && !off.0.fits(1));
    place.write("large", (64 << 10) + 1);
    let file = place.file("large");
    assert!((0..3).all(|_| place.cache.contents(&file).is_none()));
    assert_eq!(place.cache.0.filling.load(Ordering::Relaxed), 0);
}

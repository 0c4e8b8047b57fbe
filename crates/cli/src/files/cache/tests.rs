use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mbuma::socket::SendFile;

use super::*;

/// A directory that goes with the test.
struct CachePlace(PathBuf);

impl CachePlace {
    fn new(name: &str) -> CachePlace {
        let path = std::env::temp_dir().join(format!("mbuma-cache-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary directory can be written");
        CachePlace(path)
    }

    /// A file of `len` bytes that was changed an hour ago, as far as the cache sees.
    fn file(&self, name: &str, len: usize) -> (Arc<File>, FileKey) {
        let path = self.0.join(name);
        fs::write(&path, vec![len as u8; len]).expect("the temporary directory can be written");
        self.open(name)
    }

    fn open(&self, name: &str) -> (Arc<File>, FileKey) {
        let file = File::open(self.0.join(name)).expect("our file");
        let key = FileKey::of(&rustix::fs::fstat(&file).expect("our file"));
        (Arc::new(file), key)
    }
}

impl Drop for CachePlace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn cache(max: u64) -> FileCache {
    FileCache::new(max, FileReaders::default())
}

/// Makes a copy, in this thread.
fn fill(cache: &FileCache, (file, key): &(Arc<File>, FileKey)) {
    cache.0.fill(file, key);
}

fn has(cache: &FileCache, (file, key): &(Arc<File>, FileKey)) -> bool {
    cache.find(file, key).is_some()
}

#[test]
fn copies_are_as_many_bytes_as_they_may_be() {
    // Breaks when a copy is made before there is room for it, or what goes is not what was not used.
    let place = CachePlace::new("bound");
    let files: Vec<_> = (0..8)
        .map(|n| place.file(&n.to_string(), 64 << 10))
        .collect();
    let cache = cache(256 << 10);
    for file in &files {
        fill(&cache, file);
        assert!(cache.charged() <= 256 << 10);
        // The first is used all the time.
        assert!(has(&cache, &files[0]));
    }
    assert_eq!(cache.charged(), 256 << 10);
    let there: Vec<_> = files.iter().map(|file| has(&cache, file)).collect();
    assert_eq!(there.iter().filter(|&&there| there).count(), 4, "{there:?}");
    assert!(there[0] && there[7], "{there:?}");
}

#[test]
fn a_copy_counts_until_its_last_page_is_let_go() {
    // Breaks when clients that take nothing keep more memory than the bound in copies that others have replaced.
    let place = CachePlace::new("lent");
    let files: Vec<_> = (0..6)
        .map(|n| place.file(&n.to_string(), 64 << 10))
        .collect();
    let cache = cache(256 << 10);
    let mut lent = Vec::new();
    for file in &files[..4] {
        fill(&cache, file);
        let copy = cache.find(&file.0, &file.1).expect("a copy");
        lent.push(SendFile::sealed(copy, 0..1000));
    }
    for file in &files[4..] {
        fill(&cache, file);
        assert!(!has(&cache, file), "all is lent");
        assert_eq!(cache.charged(), 256 << 10);
    }
    lent.pop();
    assert_eq!(cache.charged(), 192 << 10);
    fill(&cache, &files[5]);
    assert!(has(&cache, &files[5]));
    drop(lent);
    assert_eq!(cache.charged(), 64 << 10);
}

#[test]
fn a_file_that_was_changed_has_no_copy() {
    // Breaks when a client gets a state of a file that is over, or half of each of two states.
    let place = CachePlace::new("changed");
    let old = place.file("file", 32 << 10);
    let cache = cache(1 << 20);
    fill(&cache, &old);
    assert!(has(&cache, &old));
    // The same length, and the time of change set back.
    let modified = old.0.metadata().and_then(|file| file.modified());
    let new = loop {
        fs::write(place.0.join("file"), vec![7; 32 << 10]).expect("our file");
        let file = File::options().append(true).open(place.0.join("file"));
        let set = file.and_then(|file| file.set_modified(*modified.as_ref().expect("a time")));
        set.expect("our file");
        let new = place.open("file");
        // The clock of the file system has coarse ticks.
        if new.1 != old.1 {
            break new;
        }
    };
    assert_eq!(new.1.modified, old.1.modified);
    assert!(!has(&cache, &new));
    // One that changes while it is copied.
    let shrinks = place.file("shrinks", 48 << 10);
    fs::write(place.0.join("shrinks"), vec![7; 20 << 10]).expect("our file");
    fill(&cache, &shrinks);
    let grows = place.file("grows", 48 << 10);
    fs::write(place.0.join("grows"), vec![7; 50 << 10]).expect("our file");
    fill(&cache, &grows);
    assert!(!has(&cache, &shrinks) && !has(&cache, &grows));
    assert_eq!(cache.charged(), 32 << 10);
}

#[test]
fn a_file_is_copied_when_it_is_asked_for_again() {
    // Breaks when each file of a large directory that is read once drives others out, or a file that may still change without
    // another time is copied.
    let place = CachePlace::new("again");
    let file = place.file("file", 32 << 10);
    let cache = cache(1 << 20);
    let mut fresh = (Arc::clone(&file.0), file.1);
    fresh.1.changed.0 = now() + 1000;
    for _ in 0..3 {
        assert!(!has(&cache, &fresh));
    }
    assert!(
        cache.0.state.lock().filling.is_empty(),
        "it was changed a moment ago"
    );
    let begin = Instant::now();
    while !has(&cache, &file) {
        assert!(begin.elapsed() < Duration::from_secs(60), "no copy");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(cache.charged(), 32 << 10);
}

#[test]
fn small_and_large_files_are_not_copied() {
    // Breaks when one file takes the place of all others, or each small one a mapping.
    let place = CachePlace::new("size");
    let cache = cache(256 << 10);
    for len in [0, 1, (16 << 10) - 1, (64 << 10) + 1] {
        let mut file = place.file("file", len);
        file.1.modified.0 = 0;
        file.1.changed.0 = 0;
        for _ in 0..3 {
            assert!(!has(&cache, &file));
        }
        assert!(cache.0.state.lock().filling.is_empty());
    }
    let off = FileCache::new(0, FileReaders::default());
    let file = place.file("file", 32 << 10);
    assert!(!has(&off, &file) && !has(&off, &file));
}

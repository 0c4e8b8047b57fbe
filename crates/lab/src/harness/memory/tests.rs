//! Tests of the reading of memory.

use super::*;

#[test]
fn resident_size_follows_touched_pages() {
    // Breaks when the wrong field is read, or kilobytes are taken for bytes.
    let before = Memory::now();
    let touched = vec![1u8; 256 << 20];
    let after = Memory::now();
    std::hint::black_box(&touched);
    // The tests beside this one touch a little, too.
    let grown = after.rss.saturating_sub(before.rss);
    assert!((200 << 20..400 << 20).contains(&grown), "{grown}");
    assert!(after.available.is_some_and(|bytes| bytes > 1 << 20));
}

#[test]
fn memory_fields_are_found_by_whole_name() {
    // Breaks when one name is taken for another that begins alike.
    assert_eq!(field("Rss:   12 kB\nRssFoo: 1 kB", "Rss:"), Some(12 << 10));
    assert_eq!(field("RssFoo: 1 kB", "Rss:"), None);
    assert_eq!(usage_file("7:cpu,cpuacct:/x"), None);
}

//! Paths, ranges, codings, and names on a page.

use proptest::prelude::*;

use crate::http::coding::{self, Coding};
use crate::http::listing;
use crate::http::range::{self, ByteRange, RangeChoice};
use crate::http::status::HttpStatus;
use crate::http::target::FilePath;

fn path(text: &str) -> Result<String, HttpStatus> {
    let path = FilePath::parse(text)?;
    let slash = if path.means_directory() { "/" } else { "" };
    Ok(String::from_utf8_lossy(path.bytes()).into_owned() + slash)
}

#[test]
fn a_path_stays_below_its_directory() {
    // Breaks when a path leads up, into a hidden name, or past the end of a C string.
    assert_eq!(path("/"), Ok("./".into()));
    assert_eq!(path("/a/b"), Ok("a/b".into()));
    assert_eq!(path("//a/./b//"), Ok("a/b/".into()));
    assert_eq!(path("/a%20b/%C3%A9"), Ok("a b/é".into()));
    assert_eq!(path("/.well-known/x"), Ok(".well-known/x".into()));
    for up in ["/..", "/a/../b", "/%2e%2e/", "/%2E./x", "/a/.%2e"] {
        assert_eq!(path(up), Err(HttpStatus::BadRequest), "{up}");
    }
    for broken in ["/%", "/%2", "/%zz", "/%00", "/a%2fb", "/%2F..%2F"] {
        assert_eq!(path(broken), Err(HttpStatus::BadRequest), "{broken}");
    }
    for hidden in [
        "/.git/config",
        "/a/.env",
        "/...",
        "/%2egit",
        "/.well-known.d",
    ] {
        assert_eq!(path(hidden), Err(HttpStatus::NotFound), "{hidden}");
    }
}

proptest! {
    #[test]
    fn no_path_leads_up(text in "/[/.a%2eEfF5c]{0,40}") {
        if let Ok(path) = FilePath::parse(&text) {
            for segment in path.bytes().split(|b| *b == b'/') {
                prop_assert!(!segment.is_empty() && segment != b"..");
                prop_assert!(!segment.starts_with(b".") || path.is_root(), "{:?}", path);
            }
        }
    }

    #[test]
    fn a_name_comes_back_from_its_url(name in prop::collection::vec(1u8.., 1..40)) {
        // Breaks when a link of a listing leads to another file than the name that it shows.
        let odd = name.contains(&b'/') || name.starts_with(b".");
        prop_assume!(!odd);
        let url = format!("/{}", crate::http::target::escaped(&name));
        prop_assert_eq!(FilePath::parse(&url).map(|p| p.bytes().to_vec()), Ok(name));
    }

    #[test]
    fn ranges_are_within_the_file(field in "bytes=[-0-9, ]{0,40}", len in 0u64..200) {
        // Breaks when a range leads past the file's end, or many give more than the file.
        if let RangeChoice::Parts(parts) = range::choose(Some(field.as_bytes()), len) {
            prop_assert!(!parts.is_empty());
            prop_assert!(parts.iter().all(|p| p.len > 0 && p.start + p.len <= len));
            prop_assert!(parts.iter().map(|p| p.len).sum::<u64>() <= len);
        }
    }
}

#[test]
fn ranges_are_those_of_the_standard() {
    // Breaks when an example of RFC 9110 14.1.2 means something else, or a malformed field is not ignored (14.2).
    let choose = |field: &str| range::choose(Some(field.as_bytes()), 10_000);
    let parts = |all: &[(u64, u64)]| {
        let range = |&(start, len): &(u64, u64)| ByteRange { start, len };
        RangeChoice::Parts(all.iter().map(range).collect())
    };
    assert_eq!(choose("bytes=0-499"), parts(&[(0, 500)]));
    assert_eq!(choose("bytes=500-999"), parts(&[(500, 500)]));
    assert_eq!(choose("bytes=-500"), parts(&[(9500, 500)]));
    assert_eq!(choose("bytes=9500-"), parts(&[(9500, 500)]));
    assert_eq!(choose("bytes=0-0,-1"), parts(&[(0, 1), (9999, 1)]));
    assert_eq!(
        choose("Bytes= 0-999 , ,4500-5499, -1000"),
        parts(&[(0, 1000), (4500, 1000), (9000, 1000)])
    );
    assert_eq!(
        choose("bytes=9999-99999999999999999999"),
        parts(&[(9999, 1)])
    );
    assert_eq!(choose("bytes=-99999999999999999999"), parts(&[(0, 10_000)]));
    assert_eq!(choose("bytes=0-1,10000-"), parts(&[(0, 2)]));
    for none in [
        "bytes=10000-",
        "bytes=-0",
        "bytes=99999999999999999999-",
        "bytes=20000-30000",
    ] {
        assert_eq!(choose(none), RangeChoice::Unsatisfiable, "{none}");
    }
    let many = format!("bytes={}", "0-0,".repeat(17));
    let greedy = "bytes=0-,0-,0-";
    for whole in [
        "bytes=",
        "bytes=5-4",
        "bytes=a-b",
        "lines=0-1",
        "bytes=1",
        "bytes=+1-2",
        "bytes",
        &many,
        greedy,
    ] {
        assert_eq!(choose(whole), RangeChoice::Whole, "{whole}");
    }
    assert_eq!(
        range::choose(Some(b"bytes=0-"), 0),
        RangeChoice::Unsatisfiable
    );
    assert_eq!(range::choose(None, 7), RangeChoice::Whole);
}

#[test]
fn codings_are_those_the_client_takes() {
    // Breaks when a client gets a coding that it refuses, or none although it accepts one (RFC 9110 12.5.3).
    use Coding::{Brotli, Gzip, Zstd};
    let accepted = |field: &str| coding::accepted(&[field.as_bytes()]);
    assert_eq!(accepted("gzip, deflate, br, zstd"), [Zstd, Brotli, Gzip]);
    assert_eq!(accepted("br;q=0.5, GZIP"), [Gzip, Brotli]);
    assert_eq!(accepted("*"), [Zstd, Brotli, Gzip]);
    assert_eq!(accepted("*;q=0.1, gzip;q=0"), [Zstd, Brotli]);
    assert_eq!(accepted("gzip;q=wrong, identity, "), []);
    assert_eq!(accepted("x-gzip"), [Gzip]);
    assert_eq!(coding::accepted(&[]), []);
    let two: [&[u8]; 2] = [b"gzip;q=0.5", b"br, gzip;q=0.1"];
    assert_eq!(coding::accepted(&two), [Brotli, Gzip], "one list");
}

#[test]
fn a_name_is_text_on_the_page() {
    // Breaks when a file's name becomes markup, a script, or a link to another host.
    let mut page = String::new();
    listing::push_name(&mut page, b"<script>alert('x')</script>", false);
    listing::push_name(&mut page, b"javascript:x", false);
    listing::push_name(&mut page, b"a\"b\n\xff", true);
    assert!(
        !page.contains("<script") && !page.contains("\"javascript"),
        "{page}"
    );
    assert!(page.contains("href=\"./javascript%3Ax\""), "{page}");
    assert!(
        page.contains("href=\"./a%22b%0A%FF/\">a&quot;b\u{fffd}\u{fffd}/<"),
        "{page}"
    );
}

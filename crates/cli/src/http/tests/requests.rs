//! Heads of requests, whole and in pieces; and bytes that are no head.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::http::conversation::{Conversation, Front};
use crate::http::request::HEAD_MAX;
use crate::http::status::HttpStatus;

const GET: &[u8] = b"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n";

/// The paths of all requests, and the status with which the last was refused, if it was. The parser gets `step` bytes
/// at a time.
fn talk(bytes: &[u8], step: usize) -> (Vec<String>, Option<HttpStatus>) {
    let mut conversation = Conversation::default();
    let mut paths = Vec::new();
    let mut pieces = bytes.chunks(step.clamp(1, HEAD_MAX));
    loop {
        match conversation.front() {
            Front::Request(request) => {
                paths.push(request.path.to_owned());
                let (len, last) = (request.len, !request.keep_alive);
                conversation.done(len, last);
            }
            Front::Refused(status) => return (paths, Some(status)),
            Front::Over => return (paths, None),
            Front::Incomplete => {
                let Some(piece) = pieces.next() else {
                    return (paths, None);
                };
                let (now, later) = piece.split_at(piece.len().min(conversation.room()));
                conversation.add(now);
                assert!(later.is_empty() || conversation.room() == 0);
            }
        }
    }
}

fn status_of(head: &str) -> Option<HttpStatus> {
    talk(head.as_bytes(), usize::MAX).1
}

#[test]
fn requests_follow_one_another() {
    // Breaks when a pipelined request is lost, or the parser takes an empty line before a request for its end (RFC 9112
    // 2.2).
    let all = [GET, b"\r\n", GET, b"HEAD http://x/c HTTP/1.1\nhost: x\n\n"].concat();
    for step in [1, 2, 3, 7, all.len()] {
        let (paths, refused) = talk(&all, step);
        assert_eq!(
            (paths, refused),
            (vec!["/a".into(), "/a".into(), "/c".into()], None)
        );
    }
    let close = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: te, Close\r\n\r\n";
    let (paths, _) = talk(&[close, GET].concat(), 9);
    assert_eq!(paths.len(), 1, "nothing is read after the last request");
    let (paths, _) = talk(&[b"GET / HTTP/1.0\r\n\r\n", GET].concat(), 9);
    assert_eq!(paths.len(), 1, "HTTP/1.0 stays only when it asks for it");
    let (paths, _) = talk(
        &[b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", GET].concat(),
        9,
    );
    assert_eq!(paths.len(), 2);
}

#[test]
fn what_is_no_request_is_refused() {
    // Breaks when the parser accepts an invalid request, or reads another request after one whose end is unknown.
    use HttpStatus as S;
    assert_eq!(
        status_of("GET / HTTP/1.1\r\n\r\n"),
        Some(S::BadRequest),
        "no host"
    );
    let two = "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n";
    assert_eq!(status_of(two), Some(S::BadRequest), "two hosts");
    assert_eq!(
        status_of("POST / HTTP/1.1\r\nHost: a\r\n\r\n"),
        Some(S::MethodNotAllowed)
    );
    assert_eq!(
        status_of("GET a HTTP/1.1\r\nHost: a\r\n\r\n"),
        Some(S::BadRequest)
    );
    assert_eq!(
        status_of("GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
        Some(S::VersionNotSupported)
    );
    assert_eq!(
        status_of("GET / FTP/1.0\r\nHost: a\r\n\r\n"),
        Some(S::BadRequest)
    );
    assert_eq!(
        status_of("\x16\x03\x01\x02"),
        Some(S::BadRequest),
        "TLS is told at once"
    );
    let long = format!("GET /{}", "a".repeat(HEAD_MAX));
    assert_eq!(status_of(&long), Some(S::UriTooLong));
    let long = format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(HEAD_MAX));
    assert_eq!(status_of(&long), Some(S::HeaderFieldsTooLarge));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: a\r\n".repeat(101));
    assert_eq!(status_of(&many), Some(S::HeaderFieldsTooLarge));
    let body = b"GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_eq!(talk(body, 5).0, ["/a"], "a body is not taken for a request");
}

#[test]
fn a_request_without_a_certain_end_is_refused() {
    // Breaks when a proxy that prefers other fields finds another end of a request, so that it passes on a client's
    // body which this server takes for a request (RFC 9112 6.1 and 6.3).
    for fields in [
        "Content-Length: 0\r\nContent-Length: 9",
        "Content-Length: 0, 9",
        "Content-Length: -1",
        "Content-Length: +0",
        "Content-Length: 0x0",
        "Content-Length:",
        "Content-Length: 99999999999999999999",
        "Content-Length: 0\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 0",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: xchunked",
        // Fields that another parser reads otherwise: RFC 9112 2.2, 5.1 and 5.2, RFC 9110 5.5.
        "Content-Length : 9",
        "Transfer-Encoding : chunked",
        "X: a\r\n Content-Length: 9",
        "X: a\r\n\tTransfer-Encoding: chunked",
        "X: a\rContent-Length: 9",
        "X: a\0b",
        " X: a",
        "Content-Length\0: 9",
    ] {
        let head = format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n");
        assert_eq!(status_of(&head), Some(HttpStatus::BadRequest), "{fields}");
    }
    let old = "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(status_of(old), Some(HttpStatus::BadRequest));
    for (fields, requests) in [
        ("Content-Length: 0", 2),
        ("Content-Length: 0, 0\r\ncontent-length: 00", 2),
        ("Content-Length: 9", 1),
        ("Transfer-Encoding: gzip, Chunked", 1),
    ] {
        let head = format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n");
        let (paths, refused) = talk(&[head.as_bytes(), GET].concat(), 7);
        assert_eq!((paths.len(), refused), (requests, None), "{fields}");
    }
}

#[test]
fn a_host_that_is_none_is_refused() {
    // Breaks when a proxy in front finds another site's name in the field than a reader behind it (RFC 9112 3.2).
    let status = |host: &str| status_of(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    for host in [
        "",
        "x",
        "x:",
        "x:80",
        ":80",
        "10.0.2.2",
        "a-b_c.example",
        "%61",
        "[::1]",
        "[fe80::1]:80",
        "[v1.a:b]",
    ] {
        assert_eq!(status(host), None, "{host}");
    }
    for host in [
        "a b", "a,b c", "a/b", "a:b", "a:80:80", "user@a", "a?b", "a#b", "[", "[]", "[::1", "::1",
        "[::1]a", "a[b]", "\u{e9}", "\"a\"",
    ] {
        assert_eq!(status(host), Some(HttpStatus::BadRequest), "{host}");
    }
    let old = "GET / HTTP/1.0\r\nHost: a b\r\n\r\n";
    assert_eq!(status_of(old), Some(HttpStatus::BadRequest));
    assert_eq!(status_of("GET / HTTP/1.0\r\n\r\n"), None);
}

#[test]
fn a_target_with_a_host_has_the_path_behind_it() {
    // Breaks when a query counts as a path, so that a proxy that checks paths reads another one (RFC 3986 3), or a
    // scheme in capitals is refused (3.1).
    let paths = |target: &str| {
        talk(
            format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes(),
            99,
        )
    };
    for (target, path) in [
        ("http://x/a?b://c/d", "/a"),
        ("HTTPS://x/a", "/a"),
        ("http://x", "/"),
        ("http://x?/a", "/"),
        ("http://x#/a", "/"),
        ("/a?http://x/b", "/a"),
    ] {
        assert_eq!(paths(target), (vec![path.to_owned()], None), "{target}");
    }
    for target in [
        "http:///a",
        "http://:80/a",
        "http://user@/a",
        "http://",
        "http://?/a",
        "ftp://x/a",
        "x",
        "?/a",
    ] {
        assert_eq!(paths(target).1, Some(HttpStatus::BadRequest), "{target}");
    }
}

#[test]
fn a_head_that_comes_byte_by_byte_is_searched_once() {
    // Breaks when the parser searches all bytes again at each byte: 16 KiB would cost 128 million steps.
    let mut head = b"GET / HTTP/1.1\r\nHost: x\r\nA: ".to_vec();
    head.resize(HEAD_MAX - 4, b'\n');
    let time = || {
        let begun = std::time::Instant::now();
        let _ = talk(&head, 1);
        begun.elapsed()
    };
    // Other programs on the CPU make some of the runs longer, but not all.
    let best = std::iter::repeat_with(time).take(20).min();
    assert!(best.is_some_and(|time| time.as_millis() < 250), "{best:?}");
}

proptest! {
    #[test]
    fn any_bytes_are_answered_or_waited_for(bytes in vec(any::<u8>(), 0..400), step in 1usize..40) {
        // Breaks when some bytes make the parser panic, or the result depends on the pieces in which they come.
        prop_assert_eq!(talk(&bytes, step), talk(&bytes, 400));
    }

    #[test]
    fn nearly_requests_too(
        parts in vec(prop::sample::select(vec![
            "GET ", "HEAD ", "/", "..", "%2e", "%", " HTTP/1.1", " HTTP/1.0", "\r\n", "\n", "\r", "Host: x",
            "Range: bytes=", "Connection: close", "Content-Length: 1", ":", " ", "\u{0}", "é",
        ]), 0..30),
        step in 1usize..40,
    ) {
        let bytes = parts.concat();
        prop_assert_eq!(talk(bytes.as_bytes(), step), talk(bytes.as_bytes(), HEAD_MAX));
    }
}

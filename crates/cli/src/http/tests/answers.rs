//! Plans of responses: lengths, conditions, dates; and lines of the log.

use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::http::access_log::LoggedRequest;
use crate::http::coding::Coding;
use crate::http::plan::{self, BodyPart, ResponsePlan, Terms};
use crate::http::representation::Representation;
use crate::http::request::{self, HttpRequest};
use crate::http::status::HttpStatus;
use crate::http::target::FilePath;

/// 25 November 2026, 21:40:00.
const THEN: u64 = 1_795_642_800;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn request(head: &str) -> HttpRequest<'_> {
    request::parse(head.as_bytes()).expect("a request")
}

/// Asks for a file of 1000 bytes that was changed long ago, with more fields.
fn ask(fields: &str) -> ResponsePlan {
    ask_for(fields, at(THEN), None)
}

fn ask_for(fields: &str, modified: SystemTime, coding: Option<Coding>) -> ResponsePlan {
    let head = format!("GET /a.html HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
    let path = FilePath::parse("/a.html").expect("a path");
    let file = Representation::of(&path, 1000, modified, coding);
    plan::file(&request(&head), &file, coding.is_some(), at(THEN + 100))
}

fn head(plan: &ResponsePlan) -> String {
    let Some(BodyPart::Bytes(head)) = plan.parts.first() else {
        panic!("no head: {plan:?}");
    };
    String::from_utf8_lossy(head).into_owned()
}

fn field(plan: &ResponsePlan, name: &str) -> Option<String> {
    let head = head(plan);
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(n, _)| *n == name).map(|(_, v)| v.to_owned())
}

/// Bytes behind the head.
fn body_len(plan: &ResponsePlan) -> u64 {
    let head = head(plan);
    let inline = head
        .split_once("\r\n\r\n")
        .map_or(0, |(_, body)| body.len());
    let rest = plan.parts.iter().skip(1).map(|part| match part {
        BodyPart::Bytes(bytes) => bytes.len() as u64,
        BodyPart::File(range) => range.len,
        BodyPart::Names { .. } => 0,
    });
    inline as u64 + rest.sum::<u64>()
}

#[test]
fn a_plan_keeps_its_promise() {
    // Breaks when the length in a head is not that of the body: the next response would begin in the wrong place.
    let cases = [
        "",
        "Range: bytes=0-9\r\n",
        "Range: bytes=0-9,20-29,-5\r\n",
        "Range: bytes=5000-\r\n",
        "If-Match: \"x\"\r\n",
    ];
    let statuses = [200, 206, 206, 416, 412];
    for (fields, status) in cases.into_iter().zip(statuses) {
        let plan = ask(fields);
        assert_eq!(plan.status.code(), status, "{fields}");
        assert!(!plan.last, "{fields}");
        let promised = field(&plan, "Content-Length").expect("a length");
        assert_eq!(promised, body_len(&plan).to_string(), "{fields}");
    }
    let whole = ask("");
    assert_eq!(
        field(&whole, "Content-Type").as_deref(),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(field(&whole, "Accept-Ranges").as_deref(), Some("bytes"));
    let part = ask("Range: bytes=-10\r\n");
    assert_eq!(
        field(&part, "Content-Range").as_deref(),
        Some("bytes 990-999/1000")
    );
    let none = ask("Range: bytes=1000-\r\n");
    assert_eq!(
        field(&none, "Content-Range").as_deref(),
        Some("bytes */1000")
    );
}

#[test]
fn conditions_are_evaluated_in_their_order() {
    // Breaks when a client gets a file that it already has, or 304 for a file that it does not have (RFC 9110 13.2.2).
    let etag = field(&ask(""), "ETag").expect("a tag");
    let date = field(&ask(""), "Last-Modified").expect("a date");
    let code = |fields: String| ask(&fields).status.code();
    assert_eq!(code(format!("If-None-Match: {etag}\r\n")), 304);
    assert_eq!(code(format!("If-None-Match: \"a,b\", W/{etag}\r\n")), 304);
    assert_eq!(code("If-None-Match: *\r\n".into()), 304);
    assert_eq!(code("If-None-Match: \"other\"\r\n".into()), 200);
    assert_eq!(code(format!("If-Modified-Since: {date}\r\n")), 304);
    assert_eq!(
        code("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n".into()),
        200
    );
    assert_eq!(code("If-Modified-Since: Sunday, never\r\n".into()), 200);
    let both = format!("If-None-Match: \"other\"\r\nIf-Modified-Since: {date}\r\n");
    assert_eq!(code(both), 200, "the tag counts, not the date");
    assert_eq!(
        code(format!("If-Match: {etag}\r\nIf-None-Match: {etag}\r\n")),
        304
    );
    assert_eq!(
        code(format!("If-Match: W/{etag}\r\n")),
        412,
        "a weak tag is no match"
    );
    assert_eq!(
        code("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n".into()),
        412
    );
    let join = |by: &str| code(format!("Range: bytes=0-9\r\nIf-Range: {by}\r\n"));
    assert_eq!((join(&etag), join(&date)), (206, 206));
    assert_eq!((join("\"other\""), join(&format!("W/{etag}"))), (200, 200));
    assert_eq!(body_len(&ask(&format!("If-None-Match: {etag}\r\n"))), 0);
}

#[test]
fn a_file_that_may_change_again_has_a_weak_tag() {
    // Breaks when a client joins parts of two states of a file: both changes have the same time.
    let fresh = ask_for("", at(THEN + 100), None);
    let etag = field(&fresh, "ETag").expect("a tag");
    assert!(etag.starts_with("W/"), "{etag}");
    let before = |seconds| UNIX_EPOCH - Duration::from_secs(seconds);
    let old = [1, 2].map(|seconds| field(&ask_for("", before(seconds), None), "ETag"));
    assert_ne!(old[0], old[1], "both were changed before 1970");
    let fields = format!("Range: bytes=0-9\r\nIf-Range: {etag}\r\n");
    assert_eq!(
        ask_for(&fields, at(THEN + 100), None).status,
        HttpStatus::Ok
    );
    let fields = format!("If-None-Match: {etag}\r\n");
    assert_eq!(
        ask_for(&fields, at(THEN + 100), None).status,
        HttpStatus::NotModified
    );
}

#[test]
fn a_compressed_file_is_another_representation() {
    // Breaks when a cache takes the compressed bytes for the plain ones, or gives them to a client that can't read
    // them.
    let plain = ask("");
    let coded = ask_for("", at(THEN), Some(Coding::Brotli));
    assert_ne!(field(&plain, "ETag"), field(&coded, "ETag"));
    assert_eq!(field(&coded, "Content-Encoding").as_deref(), Some("br"));
    assert_eq!(field(&coded, "Vary").as_deref(), Some("Accept-Encoding"));
    assert_eq!(
        field(&coded, "Content-Type").as_deref(),
        Some("text/html; charset=utf-8")
    );
}

#[test]
fn any_file_time_is_written() {
    // Breaks when a file with a time before 1970 or after 9999 makes the server panic.
    for seconds in [0, 253_402_300_799, 253_402_300_800, i64::MAX as u64 / 2] {
        let _ = ask_for(
            "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            at(seconds),
            None,
        );
    }
    let before = UNIX_EPOCH - Duration::from_secs(1);
    let date = field(&ask_for("", before, None), "Last-Modified");
    assert_eq!(date.as_deref(), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
}

#[test]
fn a_listing_ends_as_its_client_understands() {
    // Breaks when a client of HTTP/1.0 gets chunks, or waits for an end that only the connection's end tells.
    let old = request("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let old = plan::listing(&Terms::of(&old, at(THEN)));
    assert!(old.last && old.parts[1..] == [BodyPart::Names { chunked: false }]);
    let new = request("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let new = plan::listing(&Terms::of(&new, at(THEN)));
    assert!(!new.last && new.parts[1..] == [BodyPart::Names { chunked: true }]);
    assert_eq!(field(&new, "Transfer-Encoding").as_deref(), Some("chunked"));
}

#[test]
fn a_log_entry_is_one_line() {
    // Breaks when a client can write lines of its own into the log, or a log reader can't separate the fields.
    let head = "GET /a\"b HTTP/1.1\r\nHost: x\r\nUser-Agent: a\\\x1b\"b\r\n\r\n";
    let line = request::parse(head.as_bytes()).map(|r| LoggedRequest::of(&r));
    // httparse refuses bytes that are no URL or text; all others are escaped.
    let line = line.unwrap_or_else(|_| LoggedRequest::of_none());
    let line = line.line(Ipv4Addr::LOCALHOST.into(), 200, 7, at(THEN));
    assert!(line.starts_with("127.0.0.1 - - [25/Nov/2026:"), "{line}");
    assert!(
        line.lines().count() == 1 && !line.contains('\x1b'),
        "{line}"
    );
    let head = "HEAD /x HTTP/1.1\r\nHost: x\r\nReferer: \"r\"\r\nUser-Agent: é\r\n\r\n";
    let line = LoggedRequest::of(&request(head)).line(Ipv4Addr::LOCALHOST.into(), 404, 0, at(THEN));
    assert!(
        line.ends_with("\"HEAD /x HTTP/1.1\" 404 0 \"\\\"r\\\"\" \"\\xc3\\xa9\"\n"),
        "{line}"
    );
    // A line that is too long for the log would be left out, and with it the client's request.
    let head = format!(
        "GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: {}\r\n\r\n",
        "é".repeat(6000)
    );
    let line =
        LoggedRequest::of(&request(&head)).line(Ipv4Addr::LOCALHOST.into(), 200, 0, at(THEN));
    assert!(line.len() < 1 << 14, "{} bytes", line.len());
}

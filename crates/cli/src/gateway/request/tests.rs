use super::{REQUEST_MAX, Request, Status, head, parse};

fn ok(text: &str) -> Request {
    match parse(text.as_bytes()) {
        Ok(Some(request)) => request,
        other => panic!("{text:?} gave {other:?}"),
    }
}

#[test]
fn usual_requests_are_understood() {
    // Breaks when curl, a browser or Prometheus gets an error for the status page.
    let request = ok("GET / HTTP/1.1\r\nHost: 10.0.2.2\r\nUser-Agent: curl\r\n\r\nGET");
    assert_eq!(
        (request.path.as_str(), request.head_only, request.keep_alive),
        ("/", false, true)
    );
    assert_eq!(request.len, 52);
    assert!(ok("HEAD /metrics?x=1 HTTP/1.1\r\nhost: a\r\n\r\n").head_only);
    assert_eq!(
        ok("GET /metrics?x=1 HTTP/1.1\r\nhost: a\r\n\r\n").path,
        "/metrics"
    );
    assert_eq!(
        ok("GET http://10.0.2.2/metrics HTTP/1.1\r\nHost: a\r\n\r\n").path,
        "/metrics"
    );
    assert_eq!(
        ok("GET http://10.0.2.2 HTTP/1.1\r\nHost: a\r\n\r\n").path,
        "/"
    );
}

#[test]
fn connections_stay_open_as_versions_say() {
    // Breaks when an old client waits for an end that never comes, or a new one is cut off.
    let keeps = |rest: &str| ok(&format!("GET / HTTP/{rest}\r\n\r\n")).keep_alive;
    assert!(!keeps("1.0"));
    assert!(keeps("1.0\r\nConnection: Keep-Alive"));
    assert!(keeps("1.1\r\nHost: a"));
    assert!(!keeps("1.1\r\nHost: a\r\nConnection: foo, close"));
    // A body that is not read would look like the next request.
    assert!(!keeps("1.1\r\nHost: a\r\nContent-Length: 4"));
    assert!(keeps("1.1\r\nHost: a\r\nContent-Length: 0"));
    assert!(!keeps("1.1\r\nHost: a\r\nTransfer-Encoding: chunked"));
}

#[test]
fn what_is_not_understood_has_a_status() {
    // Breaks when a strange request hangs, or is answered as if it were a good one.
    let status = |text: &str| parse(text.as_bytes()).expect_err(text);
    assert_eq!(
        status("POST / HTTP/1.1\r\nHost: a\r\n\r\n"),
        Status::MethodNotAllowed
    );
    assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), Status::BadRequest);
    assert_eq!(
        status("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        Status::BadRequest
    );
    assert_eq!(
        status("GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
        Status::BadRequest
    );
    assert_eq!(
        status("GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
        Status::BadRequest
    );
    assert_eq!(status("\u{16}\u{3}\u{1}"), Status::BadRequest);
    let many = "a: b\r\n".repeat(100);
    assert_eq!(
        status(&format!("GET / HTTP/1.1\r\n{many}\r\n")),
        Status::TooLarge
    );
    let long = "a".repeat(REQUEST_MAX);
    assert_eq!(status(&format!("GET /{long}")), Status::TooLarge);
    assert_eq!(
        status(&format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n")),
        Status::TooLarge
    );
}

#[test]
fn a_request_in_pieces_is_waited_for() {
    // Breaks when a request that comes byte by byte is refused half-way.
    let whole = "GET / HTTP/1.1\r\nHost: 10.0.2.2\r\n\r\n";
    for len in 0..whole.len() {
        assert_eq!(parse(&whole.as_bytes()[..len]), Ok(None), "{len}");
    }
    assert_eq!(ok(whole).len, whole.len());
}

#[test]
fn answers_say_their_length() {
    // Breaks when a client cannot tell where an answer ends, or what it may ask.
    let text = head(Status::MethodNotAllowed, "text/plain", 19, false);
    assert!(
        text.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"),
        "{text}"
    );
    for line in [
        "Content-Length: 19\r\n",
        "Allow: GET, HEAD\r\n",
        "Connection: close\r\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.ends_with("\r\n\r\n"), "{text}");
}

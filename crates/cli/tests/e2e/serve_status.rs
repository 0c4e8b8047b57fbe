//! The status page and the metrics of `mbuma serve`: their figures right after known requests, their form, and who gets
//! them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::common::needs::{guests, programs, root};
use crate::common::{MBUMA, Running, Scratch, number, program};

/// `mbuma serve` with one worker, whose figures are those of the moment; once it serves.
fn serving(scratch: &Scratch, options: &[&str]) -> Running {
    let mut command = program(MBUMA);
    command.arg("serve").arg(scratch.path("site"));
    command.args(["--tap", "srv0", "--address", "192.0.2.2/24"]);
    command.args(["--workers", "1"]).args(options);
    let running = Running::start(command);
    running.wait_for("serving at");
    running
}

/// A connection that is kept alive.
struct Client {
    stream: TcpStream,
    /// All bytes that came.
    received: u64,
    requests: u64,
}

struct Answer {
    head: String,
    body: String,
}

impl Client {
    fn new() -> Client {
        let stream = TcpStream::connect("192.0.2.2:80").expect("it serves");
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).expect("a time");
        Client {
            stream,
            received: 0,
            requests: 0,
        }
    }

    /// Sends a request with further lines, and reads the whole response.
    fn ask(&mut self, method: &str, target: &str, fields: &str) -> Answer {
        write!(
            self.stream,
            "{method} {target} HTTP/1.1\r\nHost: server\r\n{fields}\r\n"
        )
        .expect("a request is small");
        self.requests += 1;
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            self.stream.read_exact(&mut byte).expect("a head");
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("a head is ASCII");
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.map_or(0, |n| n.parse().expect("a length"))];
        if method == "HEAD" {
            body.clear();
        }
        self.stream.read_exact(&mut body).expect("a body");
        self.received += (head.len() + body.len()) as u64;
        let body = String::from_utf8(body).expect("these files are text");
        Answer { head, body }
    }

    fn get(&mut self, target: &str) -> Answer {
        self.ask("GET", target, "")
    }
}

/// The sample of a metric without labels.
fn sample(metrics: &str, name: &str) -> u64 {
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    number(value.unwrap_or_else(|| panic!("no {name} in {metrics}")))
}

/// The cell beside this title on the page.
fn cell<'a>(page: &'a str, title: &str) -> &'a str {
    let row = page.split_once(&format!("<th>{title}</th><td>"));
    let (_, rest) = row.unwrap_or_else(|| panic!("no {title} in {page}"));
    rest.split_once("</td>").expect("a cell ends").0
}

fn site() -> Scratch {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("site/.mbuma"))
        .expect("the temporary directory can be written");
    scratch.write("site/ten", b"0123456789");
    scratch.write("site/.mbuma/index.html", b"a file");
    scratch.write("site/.mbuma/metrics", b"a file");
    scratch
}

#[test]
fn the_figures_are_those_of_the_requests() {
    // Breaks when a request or a byte is counted twice, late or not at all, or the page and the metrics differ.
    needs!(guests(), root(), programs(&["ip"]));
    on_test_host!();
    let scratch = site();
    let server = serving(&scratch, &["--status"]);
    let mut client = Client::new();
    assert_eq!(client.get("/ten").body, "0123456789");
    assert_eq!(
        client.ask("GET", "/ten", "Range: bytes=2-4\r\n").body,
        "234"
    );
    client.ask("HEAD", "/ten", "");
    let missing = client.get("/missing").head;
    assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
    let before = client.received;
    let metrics = client.get("/.mbuma/metrics").body;
    for (name, value) in [
        ("mbuma_file_requests_total", 4),
        ("mbuma_status_requests_total", 1),
        ("mbuma_files_failed_total", 0),
        ("mbuma_http_sent_bytes_total", before),
        ("mbuma_http_connections", 1),
        ("mbuma_connections", 0),
        ("mbuma_tls_handshakes_total", 0),
    ] {
        assert_eq!(sample(&metrics, name), value, "{name}");
    }
    // A second client is there from its first byte on.
    let mut other = Client::new();
    other.get("/ten");
    let page = client.get("/.mbuma/").body;
    for (title, value) in [
        ("requests for files", "5"),
        ("requests for this page", "2"),
        ("connections open now", "2"),
        ("open now", "0"),
    ] {
        assert_eq!(cell(&page, title), value, "{title}");
    }
    assert!(!page.contains("{{"), "a figure is missing: {page}");
    let metrics = client.get("/.mbuma/metrics").body;
    let sent = client.received - metrics.len() as u64;
    let counted = sample(&metrics, "mbuma_http_sent_bytes_total");
    // All but the head of the response that has the figure.
    let head = sent + other.received - counted;
    assert!((100..500).contains(&head), "{head}");
    server.signal("TERM");
    assert_eq!(server.finish().code, Some(0));
}

#[test]
fn the_pages_are_where_they_are_documented() {
    // Breaks when figures show without --status, under other names, or on another port, or hide files that have like
    // names.
    needs!(guests(), root(), programs(&["ip"]));
    on_test_host!();
    let scratch = site();
    let server = serving(&scratch, &["--status"]);
    let mut client = Client::new();
    let is_page = |answer: &Answer| {
        let fresh = answer.head.contains("Cache-Control: no-store\r\n");
        assert_eq!(
            fresh,
            answer.body.contains("received"),
            "{} {}",
            answer.head,
            answer.body
        );
        fresh
    };
    for target in [
        "/.mbuma/",
        "/.mbuma/?q",
        "/.mbuma/metrics",
        "http://server/.mbuma/",
    ] {
        assert!(is_page(&client.get(target)), "{target}");
    }
    for target in [
        "/metrics",
        "/.mbuma",
        "/.mbuma/x",
        "/.mbuma/metrics/",
        "/.mbuma/index.html",
        "/%2Embuma/metrics",
        "//.mbuma/",
        "/.MBUMA/",
    ] {
        assert!(!is_page(&client.get(target)), "{target}");
    }
    let head = client.ask("HEAD", "/.mbuma/", "").head;
    assert!(head.contains("Content-Type: text/html"), "{head}");
    let post = client.ask("POST", "/.mbuma/", "");
    assert!(post.head.starts_with("HTTP/1.1 405"), "{}", post.head);
    // The host has no port for it.
    assert!(TcpStream::connect("127.0.0.1:80").is_err());
    server.signal("TERM");
    assert_eq!(server.finish().code, Some(0));

    let server = serving(&scratch, &[]);
    let mut client = Client::new();
    for target in ["/.mbuma/", "/.mbuma/metrics"] {
        assert!(!is_page(&client.get(target)), "{target}");
    }
    server.signal("TERM");
    assert_eq!(server.finish().code, Some(0));
}

#[test]
fn no_page_has_markup_of_a_client_or_a_name() {
    // Breaks when a name or a request can put a script on a page that the server makes.
    needs!(guests(), root(), programs(&["ip", "curl"]));
    on_test_host!();
    let scratch = site();
    let evil = "<script>alert('1')</script>\"&";
    let dir = scratch.path("site/<b onload=x>\"'&");
    fs::create_dir_all(&dir).expect("the temporary directory can be written");
    fs::write(dir.join(evil.replace('/', "\\")), "").expect("likewise");
    fs::write(dir.join("javascript:alert(1)"), "").expect("likewise");
    let server = serving(&scratch, &["--status"]);
    let fields = format!("User-Agent: {evil}\r\nReferer: {evil}\r\n");
    let encoded = "%3Cb%20onload%3Dx%3E%22%27%26";
    for target in [
        "/.mbuma/?<script>",
        "/.mbuma/metrics?<script>",
        "/<script>alert(1)</script>",
        &format!("/{encoded}"),
    ] {
        let answer = Client::new().ask("GET", target, &fields);
        let text = answer.head + &answer.body;
        assert!(!text.contains("<script") && !text.contains("<b "), "{text}");
    }
    let listing = format!("curl -sS http://192.0.2.2/{encoded}/");
    let out = program("sh").args(["-c", &listing]).output();
    let out = out.expect("sh is there").stdout;
    let page = String::from_utf8(out).expect("a page is UTF-8");
    assert!(
        page.contains("&lt;b onload=x&gt;&quot;&#39;&amp;"),
        "{page}"
    );
    assert!(page.contains("&lt;script&gt;alert(&#39;1&#39;)"), "{page}");
    assert!(page.contains("href=\"./javascript%3Aalert"), "{page}");
    assert!(!page.contains("<script") && !page.contains("<b "), "{page}");
    server.signal("TERM");
    assert_eq!(server.finish().code, Some(0));
}

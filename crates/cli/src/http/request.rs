//! A request: the parsed head.
//!
//! It borrows the received bytes: reading a request allocates only lists of fields that may come more than once.
//!
//! Invariants: no bytes of a client cause a panic; each fault has a status. Locks: none. Sources: RFC 9110 (methods),
//! RFC 9112 sections 2 to 4, 6.1, 6.3 and 9.3.

use std::mem::MaybeUninit;

use super::status::HttpStatus;

/// Bytes of a request line with its fields at most.
pub(crate) const HEAD_MAX: usize = 16 << 10;
/// Fields at most.
const FIELDS_MAX: usize = 100;

/// A request for something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HttpRequest<'a> {
    /// The path that it is for, without a query; begins with a slash.
    pub(crate) path: &'a str,
    /// The target as it came, for the log.
    pub(crate) target: &'a str,
    /// The answer is to have no body (HEAD).
    pub(crate) head_only: bool,
    /// The minor number of its version: 0 or 1.
    pub(crate) minor: u8,
    /// Another request may follow.
    pub(crate) keep_alive: bool,
    /// Bytes that its head took.
    pub(crate) len: usize,
    pub(crate) range: Option<&'a [u8]>,
    pub(crate) if_range: Option<&'a [u8]>,
    pub(crate) if_match: Vec<&'a [u8]>,
    pub(crate) if_none_match: Vec<&'a [u8]>,
    pub(crate) if_modified_since: Option<&'a [u8]>,
    pub(crate) if_unmodified_since: Option<&'a [u8]>,
    pub(crate) accept_encoding: Vec<&'a [u8]>,
    pub(crate) referer: Option<&'a [u8]>,
    pub(crate) user_agent: Option<&'a [u8]>,
}

/// Reads the head that `bytes` are.
///
/// # Errors
/// The status to answer with before the connection ends.
pub(crate) fn parse(bytes: &[u8]) -> Result<HttpRequest<'_>, HttpStatus> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut head = httparse::Request::new(&mut []);
    let len = match head.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(httparse::Status::Complete(len)) => len,
        Err(httparse::Error::TooManyHeaders) => return Err(HttpStatus::HeaderFieldsTooLarge),
        Err(httparse::Error::Version) if names_version(bytes) => {
            return Err(HttpStatus::VersionNotSupported);
        }
        Ok(httparse::Status::Partial) | Err(_) => return Err(HttpStatus::BadRequest),
    };
    let head_only = match head.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(HttpStatus::MethodNotAllowed),
    };
    let (Some(target), Some(minor)) = (head.path, head.version) else {
        return Err(HttpStatus::BadRequest);
    };
    let mut request = HttpRequest {
        path: path_of(target).ok_or(HttpStatus::BadRequest)?,
        target,
        head_only,
        minor,
        len,
        ..HttpRequest::default()
    };
    let mut framing = Framing::default();
    for field in head.headers.iter() {
        request.note(field.name, field.value);
        framing.note(field.name, field.value);
    }
    // RFC 9112 3.2: a request of this version without its host, or with two, is to be refused; so is an invalid host.
    if minor == 1 && framing.hosts != 1 || framing.host_is_broken || !framing.is_valid(minor) {
        return Err(HttpStatus::BadRequest);
    }
    // A body is not read: a request behind it can't be found.
    let stays = !framing.close && (minor == 1 || framing.keep_alive);
    request.keep_alive = stays && !framing.has_body();
    Ok(request)
}

/// Whether the first line ends in a version of HTTP, such as `HTTP/2.0`.
fn names_version(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let word = line.trim_ascii_end().rsplit(|byte| *byte == b' ').next();
    let version = word.and_then(|word| word.strip_prefix(b"HTTP/"));
    matches!(version, Some([major, b'.', minor]) if major.is_ascii_digit() && minor.is_ascii_digit())
}

/// The path of a target in origin form, or in absolute form as proxies get it; without the query, which may have
/// slashes behind a host without a path.
fn path_of(target: &str) -> Option<&str> {
    let path = target.split(['?', '#']).next()?;
    if path.starts_with('/') {
        return Some(path);
    }
    let (scheme, rest) = path.split_once("://")?;
    let is = |web: &str| scheme.eq_ignore_ascii_case(web);
    if !is("http") && !is("https") {
        return None;
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // RFC 9110 4.2.1: a URI without a host is invalid.
    let host = authority.rsplit('@').next().unwrap_or_default();
    if host.is_empty() || host.starts_with(':') {
        return None;
    }
    Some(if path.is_empty() { "/" } else { path })
}

/// Whether a Host field may have this value: `uri-host [ ":" port ]`, both perhaps empty (RFC 9110 7.2, RFC 3986
/// 3.2.2).
fn is_host(value: &[u8]) -> bool {
    let is_port = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let Ok(text) = std::str::from_utf8(value) else {
        return false;
    };
    let host = match text.rsplit_once(':') {
        Some((host, port)) if is_port(port) => host,
        _ => text,
    };
    let literal = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let mut bytes = literal.unwrap_or(host).bytes();
    let is_of_name = |b: u8| b.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&b);
    match literal {
        Some(literal) => !literal.is_empty() && bytes.all(|b| b == b':' || is_of_name(b)),
        None => bytes.all(is_of_name),
    }
}

impl<'a> HttpRequest<'a> {
    /// Stores a field. If a field that may come once comes again, the first counts.
    fn note(&mut self, name: &str, value: &'a [u8]) {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let once = match name.len() {
            5 if is("range") => &mut self.range,
            7 if is("referer") => &mut self.referer,
            8 if is("if-range") => &mut self.if_range,
            8 if is("if-match") => return self.if_match.push(value),
            10 if is("user-agent") => &mut self.user_agent,
            13 if is("if-none-match") => return self.if_none_match.push(value),
            15 if is("accept-encoding") => return self.accept_encoding.push(value),
            17 if is("if-modified-since") => &mut self.if_modified_since,
            19 if is("if-unmodified-since") => &mut self.if_unmodified_since,
            _ => return,
        };
        once.get_or_insert(value);
    }
}

/// The connection, by a request's fields.
#[derive(Default)]
struct Framing {
    hosts: usize,
    host_is_broken: bool,
    close: bool,
    keep_alive: bool,
    /// The length of the body.
    length: Option<u64>,
    /// A length is no number, or the lengths differ.
    length_is_broken: bool,
    /// The body has transfer codings; true if the last one is `chunked`.
    last_is_chunked: Option<bool>,
}

impl Framing {
    fn note(&mut self, name: &str, value: &[u8]) {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("host") {
            self.hosts += 1;
            self.host_is_broken |= !is_host(value);
        } else if is("connection") {
            for option in value.split(|b| *b == b',') {
                let option = option.trim_ascii();
                self.close |= option.eq_ignore_ascii_case(b"close");
                self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if is("content-length") {
            value
                .split(|b| *b == b',')
                .for_each(|n| self.note_length(n));
        } else if is("transfer-encoding") {
            let last = value.rsplit(|b| *b == b',').next().unwrap_or_default();
            let last = last.trim_ascii();
            self.last_is_chunked = Some(last.eq_ignore_ascii_case(b"chunked"));
        }
    }

    fn note_length(&mut self, text: &[u8]) {
        let text = text.trim_ascii();
        let digits = text.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(text).ok().filter(|_| digits);
        match number.and_then(|digits| digits.parse().ok()) {
            Some(len) if self.length.is_none_or(|other| other == len) => self.length = Some(len),
            _ => self.length_is_broken = true,
        }
    }

    /// Whether each reader of the request finds the same end of it (RFC 9112 6.1 and 6.3): otherwise a proxy may take
    /// bytes for a body that a server takes for a request.
    fn is_valid(&self, minor: u8) -> bool {
        let coded = match self.last_is_chunked {
            None => true,
            Some(chunked) => chunked && self.length.is_none() && minor == 1,
        };
        coded && !self.length_is_broken
    }

    fn has_body(&self) -> bool {
        self.last_is_chunked.is_some() || self.length.is_some_and(|len| len > 0)
    }
}

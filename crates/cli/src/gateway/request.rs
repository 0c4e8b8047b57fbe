//! An HTTP request as the status page understands it, and the head of an answer.
//!
//! Called by: http. Calls: httparse.
//! Invariants: nothing that a client sends panics; what is not understood has a status.
//! Locks: none. Sources: RFC 9110 (methods, status codes), RFC 9112 sections 2 to 4 and 9.3.

/// Bytes of a request line with its headers at most.
pub(super) const REQUEST_MAX: usize = 8 << 10;
/// Headers at most.
const HEADERS_MAX: usize = 64;

/// A request for something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// What it is for, without a query.
    pub(super) path: String,
    /// The answer is to have no body (HEAD).
    pub(super) head_only: bool,
    /// Another request may follow.
    pub(super) keep_alive: bool,
    /// Bytes that it took.
    pub(super) len: usize,
}

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Here it is.
    Ok,
    /// It makes no sense.
    BadRequest,
    /// There is no such path.
    NotFound,
    /// Neither GET nor HEAD.
    MethodNotAllowed,
    /// More than [`REQUEST_MAX`] bytes or [`HEADERS_MAX`] headers.
    TooLarge,
}

impl Status {
    const fn code(self) -> u16 {
        match self {
            Status::Ok => 200,
            Status::BadRequest => 400,
            Status::NotFound => 404,
            Status::MethodNotAllowed => 405,
            Status::TooLarge => 431,
        }
    }

    /// The standard's words, with an end of line, as a body for people.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Status::Ok => "OK\n",
            Status::BadRequest => "Bad Request\n",
            Status::NotFound => "Not Found\n",
            Status::MethodNotAllowed => "Method Not Allowed\n",
            Status::TooLarge => "Request Header Fields Too Large\n",
        }
    }
}

/// Reads the request at the front of `bytes`; `None` if it is not all there yet.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Request>, Status> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let len = match request.parse(bytes) {
        Ok(httparse::Status::Complete(len)) if len <= REQUEST_MAX => len,
        Ok(httparse::Status::Partial) if bytes.len() < REQUEST_MAX => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(Status::TooLarge),
        Err(_) => return Err(Status::BadRequest),
    };
    let head_only = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Status::MethodNotAllowed),
    };
    let (Some(target), Some(version)) = (request.path, request.version) else {
        return Err(Status::BadRequest);
    };
    let path = path(target).ok_or(Status::BadRequest)?;
    let headers = Headers(request.headers);
    // RFC 9112 3.2: a request of this version without its host is to be refused.
    if version == 1 && headers.values("host").count() != 1 {
        return Err(Status::BadRequest);
    }
    Ok(Some(Request {
        path: path.to_owned(),
        head_only,
        keep_alive: headers.keep_alive(version) && !headers.announce_body(),
        len,
    }))
}

/// The path of a target in origin form, or in absolute form as proxies get it; without the query.
fn path(target: &str) -> Option<&str> {
    let path = match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |at| rest.split_at(at).1),
        None => target,
    };
    let path = path.split(['?', '#']).next()?;
    path.starts_with('/').then_some(path)
}

/// A request's headers.
struct Headers<'a>(&'a [httparse::Header<'a>]);

impl<'a> Headers<'a> {
    fn values(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let named = self
            .0
            .iter()
            .filter(move |h| h.name.eq_ignore_ascii_case(name));
        named.map(|h| h.value)
    }

    /// RFC 9112 9.3: the newer version stays unless told otherwise, the older one the other way round.
    fn keep_alive(&self, version: u8) -> bool {
        let says = |word: &str| {
            let mut options = self
                .values("connection")
                .flat_map(|v| v.split(|b| *b == b','));
            options.any(|o| o.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
        };
        !says("close") && (version == 1 || says("keep-alive"))
    }

    /// Whether a body follows the headers, which is not read.
    fn announce_body(&self) -> bool {
        let sized = self
            .values("content-length")
            .any(|v| v.trim_ascii() != b"0");
        sized || self.values("transfer-encoding").next().is_some()
    }
}

/// The head of an answer.
pub(super) fn head(status: Status, kind: &str, len: usize, keep_alive: bool) -> String {
    let (code, text) = (status.code(), status.text().trim_end());
    let allow = match status {
        Status::MethodNotAllowed => "Allow: GET, HEAD\r\n",
        _ => "",
    };
    let connection = if keep_alive { "keep-alive" } else { "close" };
    format!(
        "HTTP/1.1 {code} {text}\r\nServer: mbuma\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n\
         Cache-Control: no-store\r\n{allow}Connection: {connection}\r\n\r\n"
    )
}

#[cfg(test)]
mod tests;

//! The response to a request, as a plan: the bytes of its head, and the ranges of the file that follow.
//!
//! Invariants: the length that the head promises is that of the parts; a plan reads no file.
//! Locks: none.
//! Sources: RFC 9110 sections 8.3, 14.4 to 14.6, 15.3.7, 15.4.5; RFC 9112 sections 6 and 7.

use std::fmt::Write;
use std::time::SystemTime;

use super::date;
use super::range::{self, ByteRange, RangeChoice};
use super::representation::Representation;
use super::request::HttpRequest;
use super::status::HttpStatus;
use super::validators::{Condition, Validators};

/// The line between the parts of several ranges. Parts have lengths, so that it need not be absent from the file.
const BOUNDARY: &str = "mbuma-61c8e9f0d2b74a35";

/// A part of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BodyPart {
    /// These bytes.
    Bytes(Vec<u8>),
    /// Bytes of the file.
    File(ByteRange),
    /// The names in the directory, as chunks if `chunked`.
    Names {
        /// Each piece has its length before it (RFC 9112 7.1).
        chunked: bool,
    },
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResponsePlan {
    pub(crate) status: HttpStatus,
    /// The head is the beginning of the first.
    pub(crate) parts: Vec<BodyPart>,
    /// Bytes of the head.
    pub(crate) head_len: usize,
    /// The connection ends after it.
    pub(crate) last: bool,
}

/// The facts about a request that each answer needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// No body.
    pub(crate) head_only: bool,
    /// Another request may follow.
    pub(crate) keep_alive: bool,
    /// The client's minor version.
    pub(crate) minor: u8,
    /// Another client may get the file in another coding.
    varies: bool,
    pub(crate) now: SystemTime,
}

impl Terms {
    /// Of a request.
    pub(crate) fn of(request: &HttpRequest<'_>, now: SystemTime) -> Terms {
        Terms {
            head_only: request.head_only,
            keep_alive: request.keep_alive,
            minor: request.minor,
            varies: false,
            now,
        }
    }

    /// The facts for bytes that were no request.
    pub(crate) fn of_none(now: SystemTime) -> Terms {
        Terms {
            head_only: false,
            keep_alive: false,
            minor: 1,
            varies: false,
            now,
        }
    }
}

/// The response with a file, or why the client gets less. `varies`: another client may get it in another coding.
pub(crate) fn file(
    request: &HttpRequest<'_>,
    file: &Representation,
    varies: bool,
    now: SystemTime,
) -> ResponsePlan {
    let terms = Terms {
        varies,
        ..Terms::of(request, now)
    };
    let validators = file.validators(now);
    match validators.judge(request) {
        Condition::Failed => return error(HttpStatus::PreconditionFailed, &terms),
        Condition::NotModified => {
            let head = HeadWriter::begin(HttpStatus::NotModified, &terms).state(&validators, file);
            return head.without_body(&terms);
        }
        Condition::Proceed => {}
    }
    let joins = validators.may_join(request.if_range) && !request.head_only;
    let ranges = match joins {
        true => range::choose(request.range, file.len),
        false => RangeChoice::Whole,
    };
    match ranges {
        RangeChoice::Whole => whole(&terms, &validators, file),
        RangeChoice::Unsatisfiable => unsatisfiable(&terms, file.len),
        RangeChoice::Parts(parts) => match *parts {
            [part] => one_part(&terms, &validators, file, part),
            _ => several_parts(&terms, &validators, file, &parts),
        },
    }
}

fn whole(terms: &Terms, validators: &Validators<'_>, file: &Representation) -> ResponsePlan {
    let mut head = HeadWriter::begin(HttpStatus::Ok, terms).state(validators, file);
    head.text.push_str(&file.whole);
    // With room for the head.
    let mut body = Vec::with_capacity(2);
    if file.len > 0 && !terms.head_only {
        body.push(BodyPart::File(ByteRange::whole(file.len)));
    }
    head.end(terms, body)
}

fn one_part(
    terms: &Terms,
    validators: &Validators<'_>,
    file: &Representation,
    part: ByteRange,
) -> ResponsePlan {
    let head = HeadWriter::begin(HttpStatus::PartialContent, terms)
        .state(validators, file)
        .field("Content-Type", &file.kind)
        .field("Content-Range", &part.content_range(file.len));
    head.with_body(terms, part.len, vec![BodyPart::File(part)])
}

fn several_parts(
    terms: &Terms,
    validators: &Validators<'_>,
    file: &Representation,
    parts: &[ByteRange],
) -> ResponsePlan {
    let kind = &file.kind;
    let mut body = Vec::new();
    let mut len = 0;
    let mut bytes = |body: &mut Vec<BodyPart>, text: String| {
        len += text.len() as u64;
        body.push(BodyPart::Bytes(text.into_bytes()));
    };
    for part in parts {
        let range = part.content_range(file.len);
        let between =
            format!("\r\n--{BOUNDARY}\r\nContent-Type: {kind}\r\nContent-Range: {range}\r\n\r\n");
        bytes(&mut body, between);
        body.push(BodyPart::File(*part));
    }
    bytes(&mut body, format!("\r\n--{BOUNDARY}--\r\n"));
    len += parts.iter().map(|part| part.len).sum::<u64>();
    let multipart = format!("multipart/byteranges; boundary={BOUNDARY}");
    let head = HeadWriter::begin(HttpStatus::PartialContent, terms)
        .state(validators, file)
        .field("Content-Type", &multipart);
    head.with_body(terms, len, body)
}

fn unsatisfiable(terms: &Terms, len: u64) -> ResponsePlan {
    let status = HttpStatus::RangeNotSatisfiable;
    let head = HeadWriter::begin(status, terms).field("Content-Range", &format!("bytes */{len}"));
    head.with_text(terms, status)
}

/// An answer in a few words.
pub(crate) fn error(status: HttpStatus, terms: &Terms) -> ResponsePlan {
    let head = HeadWriter::begin(status, terms);
    let head = match status {
        HttpStatus::MethodNotAllowed => head.field("Allow", "GET, HEAD"),
        _ => head,
    };
    head.with_text(terms, status)
}

/// The redirect for a directory's name without its slash, because relative links would be wrong. `url` begins with a
/// slash.
pub(crate) fn moved(url: &str, terms: &Terms) -> ResponsePlan {
    let status = HttpStatus::MovedPermanently;
    let head = HeadWriter::begin(status, terms).field("Location", url);
    head.with_text(terms, status)
}

/// The names in a directory. The length is not known: in HTTP/1.1 chunks mark the end, and in HTTP/1.0 the end of the
/// connection.
pub(crate) fn listing(terms: &Terms) -> ResponsePlan {
    let chunked = terms.minor >= 1;
    let terms = Terms {
        keep_alive: terms.keep_alive && chunked,
        ..*terms
    };
    let head = HeadWriter::begin(HttpStatus::Ok, &terms)
        .field("Content-Type", "text/html; charset=utf-8")
        .field("Cache-Control", "no-cache");
    let head = match chunked {
        true => head.field("Transfer-Encoding", "chunked"),
        false => head,
    };
    let names = (!terms.head_only).then_some(BodyPart::Names { chunked });
    head.end(&terms, names.into_iter().collect())
}

/// A page that is made for the request.
pub(crate) fn page(kind: &str, body: String, terms: &Terms) -> ResponsePlan {
    let head = HeadWriter::begin(HttpStatus::Ok, terms)
        .field("Content-Type", kind)
        .field("Cache-Control", "no-store");
    let len = body.len() as u64;
    head.with_body(terms, len, vec![BodyPart::Bytes(body.into_bytes())])
}

/// A head that is being written.
struct HeadWriter {
    status: HttpStatus,
    text: String,
    varies: bool,
}

impl HeadWriter {
    fn begin(status: HttpStatus, terms: &Terms) -> HeadWriter {
        let mut text = String::with_capacity(384);
        // Writing to a string can't fail, here and below.
        let _ = match status {
            HttpStatus::Ok => write!(text, "HTTP/1.1 200 OK"),
            _ => write!(text, "HTTP/1.1 {} {}", status.code(), status.reason()),
        };
        text.push_str("\r\nServer: mbuma\r\nDate: ");
        date::push_now(terms.now, &mut text);
        text.push_str("\r\n");
        HeadWriter {
            status,
            text,
            varies: terms.varies,
        }
    }

    /// `value` has no end of line: it is a constant, or consists of escaped bytes.
    fn field(mut self, name: &str, value: &str) -> HeadWriter {
        debug_assert!(!value.contains(['\r', '\n']));
        for text in [name, ": ", value, "\r\n"] {
            self.text.push_str(text);
        }
        self
    }

    /// The fields that tell the state of the file.
    fn state(mut self, validators: &Validators<'_>, file: &Representation) -> HeadWriter {
        file.push_state(validators, &mut self.text);
        match self.varies {
            true => self.field("Vary", "Accept-Encoding"),
            false => self,
        }
    }

    /// The status in words, for people.
    fn with_text(self, terms: &Terms, status: HttpStatus) -> ResponsePlan {
        let body = format!("{} {}\n", status.code(), status.reason());
        let head = self.field("Content-Type", "text/plain; charset=utf-8");
        let len = body.len() as u64;
        head.with_body(terms, len, vec![BodyPart::Bytes(body.into_bytes())])
    }

    fn with_body(self, terms: &Terms, len: u64, body: Vec<BodyPart>) -> ResponsePlan {
        let head = self.field("Content-Length", &len.to_string());
        let body = if terms.head_only { Vec::new() } else { body };
        head.end(terms, body)
    }

    fn without_body(self, terms: &Terms) -> ResponsePlan {
        self.end(terms, Vec::new())
    }

    fn end(self, terms: &Terms, mut body: Vec<BodyPart>) -> ResponsePlan {
        let status = self.status;
        let last = !terms.keep_alive || status.ends_connection();
        let head = match (last, terms.minor) {
            (true, _) => self.field("Connection", "close"),
            (false, 0) => self.field("Connection", "keep-alive"),
            (false, _) => self,
        };
        let mut head = head.text.into_bytes();
        head.extend_from_slice(b"\r\n");
        let head_len = head.len();
        // One piece, if the body is one: a small answer is one segment.
        match body.first_mut() {
            Some(BodyPart::Bytes(first)) => {
                head.append(first);
                *first = head;
            }
            _ => body.insert(0, BodyPart::Bytes(head)),
        }
        ResponsePlan {
            status,
            parts: body,
            head_len,
            last,
        }
    }
}

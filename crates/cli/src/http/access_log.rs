//! A line of the access log, in the combined format that log readers know:
//!
//! ```text
//! 10.0.2.100 - - [25/Nov/2026:21:40:00 +0000] "GET /a HTTP/1.1" 200 1234 "-" "curl/8.0"
//! ```
//!
//! Invariants: an entry is one line for any bytes of the client, with at most [`TEXT_MAX`] bytes for each text, so that
//! a pipe takes it whole or not at all.
//! Locks: none. Sources: the manual of httpd's mod_log_config, "Combined Log Format".

use std::fmt::Write;
use std::net::IpAddr;
use std::time::SystemTime;

use super::date;
use super::request::HttpRequest;

/// Bytes of a line for a client's text at most. A line has three, and less than the same again beside them.
const TEXT_MAX: usize = 1024;
const _: () = assert!(4 * TEXT_MAX <= libc::PIPE_BUF);
/// Bytes for one byte of a text at most.
const ESCAPE_LEN: usize = 4;

/// The texts of a request that a line has; they outlive it, since the line is written when the response has gone.
#[derive(Clone, Debug)]
pub(crate) struct LoggedRequest {
    line: String,
    referer: String,
    user_agent: String,
}

impl LoggedRequest {
    /// Of a request.
    pub(crate) fn of(request: &HttpRequest<'_>) -> LoggedRequest {
        let method = if request.head_only { "HEAD" } else { "GET" };
        let target = quoted(Some(request.target.as_bytes()));
        LoggedRequest {
            line: format!("{method} {target} HTTP/1.{}", request.minor),
            referer: quoted(request.referer),
            user_agent: quoted(request.user_agent),
        }
    }

    /// The entry for bytes that were no request.
    pub(crate) fn of_none() -> LoggedRequest {
        LoggedRequest {
            line: quoted(None),
            referer: quoted(None),
            user_agent: quoted(None),
        }
    }

    /// The line: `status` was answered to `client`, with `bytes` of body sent until the time `now`.
    pub(crate) fn line(&self, client: IpAddr, status: u16, bytes: u64, now: SystemTime) -> String {
        let LoggedRequest {
            line,
            referer,
            user_agent,
        } = self;
        let at = stamp(now);
        format!("{client} - - [{at}] \"{line}\" {status} {bytes} \"{referer}\" \"{user_agent}\"\n")
    }
}

/// `25/Nov/2026:21:40:00 +0000`, out of `Wed, 25 Nov 2026 21:40:00 GMT`.
fn stamp(now: SystemTime) -> String {
    let text = date::text(now);
    let mut words = text.split_ascii_whitespace().skip(1);
    let mut word = || words.next().unwrap_or_default();
    let (day, month, year, time) = (word(), word(), word(), word());
    format!("{day}/{month}/{year}:{time} +0000")
}

/// A client's text between quotes: `-` if there is none.
fn quoted(text: Option<&[u8]>) -> String {
    let Some(text) = text else {
        return "-".to_owned();
    };
    let mut out = String::with_capacity(text.len().min(TEXT_MAX));
    for byte in text {
        if out.len() > TEXT_MAX - ESCAPE_LEN {
            break;
        }
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x20..=0x7e => out.push(char::from(*byte)),
            other => {
                // Writing to a string can't fail.
                let _ = write!(out, "\\x{other:02x}");
            }
        }
    }
    out
}

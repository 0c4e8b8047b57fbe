//! The log of one connection: the request that is answered, and the lines of those before it.
//!
//! Locks: none.

use std::net::IpAddr;
use std::time::SystemTime;

use super::log_file::LogLines;
use crate::http::access_log::LoggedRequest;
use crate::http::request::HttpRequest;

/// The part of the log that a connection makes.
pub(super) struct RequestLog {
    /// There is a log.
    is_kept: bool,
    /// The request that is answered.
    request: Option<LoggedRequest>,
    /// They are not collected yet.
    lines: Vec<String>,
}

impl RequestLog {
    /// Without a line.
    pub(super) fn new(is_kept: bool) -> Self {
        Self {
            is_kept,
            request: None,
            lines: Vec::new(),
        }
    }

    /// The answer to this request begins.
    pub(super) fn begin(&mut self, request: &HttpRequest<'_>) {
        self.request = self.is_kept.then(|| LoggedRequest::of(request));
    }

    /// The answer to a head that can't be read, or did not come, begins.
    pub(super) fn begin_without_head(&mut self) {
        self.request = self.is_kept.then(LoggedRequest::of_none);
    }

    /// The answer has ended: makes its line.
    pub(super) fn end(&mut self, client: IpAddr, status: u16, bytes: u64) {
        if let Some(request) = self.request.take() {
            let line = request.line(client, status, bytes, SystemTime::now());
            self.lines.push(line);
        }
    }

    /// Gives the lines to the worker.
    pub(super) fn drain(&mut self, log: &mut LogLines) {
        self.lines.drain(..).for_each(|line| log.push(&line));
    }
}

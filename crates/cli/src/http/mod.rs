//! HTTP/1.1 without sockets: bytes of a client in, a plan of the response out.
//!
//! ```text
//!   bytes --> [Conversation] --> [HttpRequest] --> target, conditions, ranges, codings --> [ResponsePlan]
//!                 finds the head      borrows its bytes                                     head, body parts
//! ```
//!
//! A plan names the bytes of a file; it does not read them. So all of this runs without a file and without a
//! connection, and property tests give it any bytes.
//!
//! | file | question |
//! |---|---|
//! | [`conversation`] | where does the next request end, and may another follow? |
//! | [`request`] | which fields does it have? |
//! | [`target`] | which file does its path mean? |
//! | [`validators`] | does the client have it already? |
//! | [`range`] | which bytes of it? |
//! | [`coding`] | in which coding may it be sent? |
//! | [`representation`] | how is a file shown: its length, type and marks? |
//! | [`plan`] | which head and which body answer it? |
//! | [`listing`] | how does a directory look? |
//! | [`access_log`] | which line does the log get? |
//!
//! Invariants: no bytes of a client cause a panic; at most [`request::HEAD_MAX`] of them are kept. Locks: none.
//! Sources: RFC 9110, RFC 9111 5.2, RFC 9112.

pub(crate) mod access_log;
pub(crate) mod coding;
pub(crate) mod conversation;
pub(crate) mod date;
pub(crate) mod listing;
pub(crate) mod plan;
pub(crate) mod range;
pub(crate) mod representation;
pub(crate) mod request;
pub(crate) mod status;
pub(crate) mod target;
#[cfg(test)]
mod tests;
pub(crate) mod validators;

//! HTTP without sockets: requests, ranges, conditions, codings, pages; and any bytes at all.

mod answers;
mod names;
mod requests;

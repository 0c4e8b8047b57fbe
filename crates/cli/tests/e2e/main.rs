//! Real programs through real namespaces. One program: each takes seconds to build and link.

#[macro_use]
mod common;

mod attach;
mod bulk;
mod datagrams;
mod ends;
mod guard;
mod lab_all;
mod lab_epair;
mod lab_run;
mod netstat;
mod publish;
mod reports;
mod streams;
mod user;
mod workers;

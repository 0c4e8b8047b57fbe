//! A stream in the shape of std's, with `Read` and `Write`, and of tokio's, made as those of TCP and TLS connections.
//!
//! Locks: none.

use super::UnixStream;
use crate::socket::std_io::std_stream;
#[cfg(feature = "tokio")]
use crate::socket::tokio_io::{polled_stream, reads, writes};

std_stream!(UnixStream);

#[cfg(feature = "tokio")]
mod tokio_io {
    use super::{UnixStream, polled_stream, reads, writes};

    polled_stream!(UnixStream, true);
    reads!(UnixStream, UnixStream);
    writes!(UnixStream, UnixStream);
}

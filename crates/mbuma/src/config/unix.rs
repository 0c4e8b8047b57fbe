//! The configuration of UNIX-domain sockets: limits, and the credentials of the programs.

use super::Credentials;

/// Tunables of UNIX-domain sockets.
#[derive(Debug, Clone)]
pub struct UnixConfig {
    /// Bytes in a socket's receive buffer, beside the last message, from which on its senders wait. Memory that data
    /// pins counts at a quarter; each message, and each socket or object that goes with it, counts as 256 bytes.
    /// Default 256 KiB.
    #[doc(alias = "net.local.stream.recvspace")]
    pub recv_buffer: usize,
    /// Bytes in a datagram or a record at most. Default 64 KiB.
    #[doc(alias = "net.local.dgram.maxdgram")]
    pub record_max: usize,
    /// The owner of new sockets, unless [`Unix::acting_as`](crate::unix::Unix::acting_as) sets another.
    /// Default all zero.
    pub credentials: Credentials,
}

impl Default for UnixConfig {
    fn default() -> Self {
        Self {
            recv_buffer: 256 << 10,
            record_max: 64 << 10,
            credentials: Credentials::default(),
        }
    }
}

//! The end of a connection that has sent its last bytes: what the client still sends is read and dropped, because a
//! reset for it would overtake those bytes.
//!
//! Locks: none. Source: RFC 9112 section 9.6.

use mbuf::Chain;
use mbuma::tls::TlsError;

/// Bytes that a turn drops at most.
const TURN_MAX: usize = 64 << 10;

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lingering {
    /// The client has closed the connection.
    Ended,
    /// Nothing more has come.
    Waits,
    /// More has come than a turn drops.
    GoesOn,
}

/// One turn. `recv` receives at most so many bytes.
///
/// # Errors
/// Those of `recv`, except that nothing has come.
pub(crate) fn drop_received(
    mut recv: impl FnMut(usize) -> Result<Chain, TlsError>,
) -> Result<Lingering, TlsError> {
    let mut dropped = 0;
    while dropped < TURN_MAX {
        match recv(TURN_MAX) {
            Ok(chain) if chain.is_empty() => return Ok(Lingering::Ended),
            Ok(chain) => dropped += chain.len(),
            Err(e) if e.is_would_block() => return Ok(Lingering::Waits),
            Err(e) => return Err(e),
        }
    }
    Ok(Lingering::GoesOn)
}

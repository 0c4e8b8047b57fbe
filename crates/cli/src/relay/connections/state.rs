//! How far a relayed connection is, and what holds for each of its states.
//!
//! Locks: none.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use mbuma::TcpStream;
use mbuma::socket::{MaybeTlsStream, SpliceEnd, StreamRelay, TlsHandshake};

use super::nudge::Nudge;
use crate::lingering::{Lingering, drop_received};

/// How far it is.
pub(super) enum RelayState {
    /// The client's TLS handshake is under way.
    Shakes(Box<TlsHandshake>),
    /// The client was refused by an alert.
    Lingers(Box<TlsHandshake>),
    /// The server is asked.
    Begins {
        client: MaybeTlsStream,
        server: TcpStream,
    },
    /// The TLS handshake with the server is under way.
    Greets {
        client: MaybeTlsStream,
        server: Box<TlsHandshake>,
    },
    Spliced(StreamRelay<MaybeTlsStream>),
}

impl RelayState {
    /// In the handshake with the client, or after one that failed.
    pub(super) fn is_with_client(&self) -> bool {
        matches!(self, RelayState::Shakes(_) | RelayState::Lingers(_))
    }

    /// In the handshake with the server.
    pub(super) fn is_with_server(&self) -> bool {
        matches!(self, RelayState::Greets { .. })
    }

    /// Ends it with a reset, at both sides.
    pub(super) fn abort(self) {
        match self {
            RelayState::Shakes(client) | RelayState::Lingers(client) => client.tcp().abort(),
            RelayState::Greets { client, server } => {
                client.abort();
                server.tcp().abort();
            }
            RelayState::Begins { client, server } => {
                client.abort();
                server.abort();
            }
            RelayState::Spliced(relay) => {
                let (client, server) = relay.into_ends();
                client.abort();
                server.abort();
            }
        }
    }
}

/// Waits until a client that was refused closes the connection.
pub(super) fn linger(client: Box<TlsHandshake>, waker: &Arc<Nudge>) -> Option<RelayState> {
    match drop_received(|max| Ok(client.tcp().recv_chain(max)?)).ok()? {
        Lingering::Ended => return None,
        Lingering::Waits => {}
        Lingering::GoesOn => Arc::clone(waker).wake(),
    }
    Some(RelayState::Lingers(client))
}

/// The protocol that a client of TLS got, if one; none of a client without TLS.
pub(super) fn protocol_of(client: &MaybeTlsStream) -> Option<Option<&[u8]>> {
    match client {
        MaybeTlsStream::Tcp(_) => None,
        MaybeTlsStream::Tls(tls) => Some(tls.about().alpn.as_deref()),
    }
}

/// The same connection, unless both its directions have ended. One that was idle for too long is reset: an end would
/// tell a client in the middle of an answer that it is whole.
pub(super) fn still_going(state: RelayState, waker: &Arc<Nudge>) -> Option<RelayState> {
    let RelayState::Spliced(relay) = &state else {
        return Some(state);
    };
    let waker = Waker::from(Arc::clone(waker));
    let Poll::Ready(ends) = relay.poll_ended(&mut Context::from_waker(&waker)) else {
        return Some(state);
    };
    if ends.iter().any(|outcome| outcome.end == SpliceEnd::Idle) {
        state.abort();
    }
    None
}

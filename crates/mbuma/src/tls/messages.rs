//! Handshake messages after the handshake, assembled from the records that carry them.
//!
//! Source: RFC 8446 4 and 5.1.

use super::TlsAlert;

/// Bytes of a message's type and length.
const HEAD: usize = 4;

pub(super) const HELLO_REQUEST: u8 = 0;
pub(super) const CLIENT_HELLO: u8 = 1;
pub(super) const NEW_SESSION_TICKET: u8 = 4;
pub(super) const KEY_UPDATE: u8 = 24;

/// A KeyUpdate, with or without a request for the peer's.
pub(super) fn key_update(request: bool) -> [u8; 5] {
    [KEY_UPDATE, 0, 0, 1, u8::from(request)]
}

/// The end of the stream of messages so far: a message that is not complete.
#[derive(Debug, Default)]
pub(super) struct HandshakeMessages {
    bytes: Vec<u8>,
}

/// One message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HandshakeMessage {
    pub(super) kind: u8,
    pub(super) body: Vec<u8>,
    /// It ended its record.
    pub(super) ends_record: bool,
}

impl HandshakeMessages {
    /// The content of one record.
    pub(super) fn push(&mut self, content: &[u8]) {
        self.bytes.extend_from_slice(content);
    }

    /// Whether a message has begun that is not complete.
    pub(super) fn is_amid(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// The next complete message. `body_max`: the longest body of a kind, or `None` if the kind must not come; such a
    /// message is refused at its head, before its body is stored.
    pub(super) fn pop(
        &mut self,
        body_max: impl FnOnce(u8) -> Option<usize>,
    ) -> Result<Option<HandshakeMessage>, TlsAlert> {
        let Some(&[kind, a, b, c]) = self.bytes.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        if len > body_max(kind).ok_or(TlsAlert::UNEXPECTED_MESSAGE)? {
            return Err(TlsAlert::DECODE_ERROR);
        }
        let Some(body) = self.bytes.get(HEAD..HEAD + len) else {
            return Ok(None);
        };
        let body = body.to_vec();
        self.bytes.drain(..HEAD + len);
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
        Ok(Some(HandshakeMessage {
            kind,
            body,
            ends_record: self.bytes.is_empty(),
        }))
    }
}

//! Keys of a connection: those of each direction, and the source of the next ones.

use super::{Aead, NONCE_LEN, TlsError};

/// The version that the handshake agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TlsVersion {
    /// RFC 5246, with AEAD suites alone.
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// The side of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TlsRole {
    /// It sent the ClientHello.
    Client,
    /// It answered that.
    Server,
}

/// The key of one direction, with its initialization vector and the number of the next record.
pub struct DirectionKeys {
    pub(super) aead: Box<dyn Aead>,
    iv: [u8; NONCE_LEN],
    seq: u64,
}

impl DirectionKeys {
    /// A key whose next record is number `seq`. In TLS 1.2 with AES-GCM `iv` is the salt of 4 bytes and 8 bytes more,
    /// which the number is XORed to; each record carries the result.
    pub fn new(aead: Box<dyn Aead>, iv: [u8; NONCE_LEN], seq: u64) -> Self {
        Self { aead, iv, seq }
    }

    /// The number of the next record.
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// The nonce of the next record: its number XORed to the vector (RFC 8446 5.3).
    pub(super) fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        let seq = self.seq.to_be_bytes();
        for (byte, seq) in nonce.iter_mut().rev().zip(seq.iter().rev()) {
            *byte ^= seq;
        }
        nonce
    }

    /// The nonce of the next received record, of which the peer chose `explicit`.
    pub(super) fn nonce_with(&self, explicit: &[u8]) -> [u8; NONCE_LEN] {
        let mut nonce = if explicit.is_empty() {
            self.nonce()
        } else {
            self.iv
        };
        for (byte, explicit) in nonce.iter_mut().rev().zip(explicit.iter().rev()) {
            *byte = *explicit;
        }
        nonce
    }

    /// The next record's number is used up. False if there is none behind it: the key is at its end.
    #[must_use]
    pub(super) fn advance(&mut self) -> bool {
        match self.seq.checked_add(1) {
            Some(next) => self.seq = next,
            None => return false,
        }
        true
    }
}

impl Drop for DirectionKeys {
    fn drop(&mut self) {
        self.iv.fill(0);
        // The compiler must assume that the bytes are read, or it would drop the stores.
        std::hint::black_box(&self.iv);
    }
}

// Its record number; never the key.
kern::impl_debug!(DirectionKeys |this| seq: this.seq);

/// The source of the next keys of a TLS 1.3 connection, and the keeper of session tickets: the handshake library.
///
/// The stack calls it with the connection locked: it must not call the stack, and must not wait.
pub trait KeySource: Send + Sync {
    /// The next key to send with (RFC 8446 7.2); its first record is number 0.
    ///
    /// # Errors
    /// [`TlsError::Keys`] if there is none; the connection ends.
    fn next_tx(&mut self) -> Result<DirectionKeys, TlsError>;

    /// The next key to receive with.
    ///
    /// # Errors
    /// As of [`KeySource::next_tx`].
    fn next_rx(&mut self) -> Result<DirectionKeys, TlsError>;

    /// The body of a NewSessionTicket (RFC 8446 4.6.1) has come, to a client.
    fn on_ticket(&mut self, body: &[u8]) {
        let _ = body;
    }
}

/// The result of a handshake.
pub struct TlsKeys {
    /// The version agreed on.
    pub version: TlsVersion,
    /// The role of this side.
    pub role: TlsRole,
    /// To send with.
    pub tx: DirectionKeys,
    /// To receive with.
    pub rx: DirectionKeys,
    /// The source of the next keys.
    pub source: Box<dyn KeySource>,
}

kern::impl_debug!(TlsKeys |this| version: this.version, role: this.role, tx: this.tx, rx: this.rx);

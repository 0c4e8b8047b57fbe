//! A connection's two directions together, and the effects of one on the other. The receiving half is in `incoming.rs`.
//!
//! A record takes its place in the send buffer with its length on the wire ([`PlainRecord`]), and is sealed in the
//! order of places. A KeyUpdate of ours is a record like others: records after it are sealed under the next key.
//!
//! Invariants: records are framed and sealed in one order, so they have one number. At most one KeyUpdate that the
//! program or the peer asked for is framed and not sealed; beside it there are those without which a key would be worn
//! out.
//!
//! Locks: the owner's. Sources: RFC 8446 4.6.3, 5.5 and 6.1.

use std::fmt;

use mbuf::{Chain, MbufPool, Mixed};

use super::assembly::RecordAssembly;
use super::keys::{DirectionKeys, KeySource, TlsKeys, TlsRole, TlsVersion};
use super::messages::{self, HandshakeMessages};
use super::sealing::{self, content_max, overhead};
use super::{ContentType, TlsAlert, TlsError};
use crate::error::SocketError;
use crate::sockbuf::{PlainContent, PlainRecord, SealError, Sealer};

/// Records before the end of a key's life at which it is changed.
const KEY_RESERVE: u64 = 1 << 20;

/// Both directions of a connection.
#[derive(Debug)]
pub(crate) struct TlsSession {
    pub(super) version: TlsVersion,
    pub(super) role: TlsRole,
    tx: DirectionKeys,
    pub(super) rx: DirectionKeys,
    pub(super) source: QuietSource,
    /// Records framed under the key under which the next one is.
    framed: u64,
    /// KeyUpdates of ours that are framed, and not sealed.
    updating: u64,
    pub(super) messages: HandshakeMessages,
    pub(super) assembly: RecordAssembly,
    /// Records without data since the last data.
    pub(super) idle_records: u8,
    /// TLS 1.2: a second handshake was refused.
    pub(super) has_refused: bool,
    /// The end of the peer's stream.
    pub(super) end: Option<StreamEnd>,
    /// This side has sent its end, or an alert.
    closed: bool,
    /// Records to be appended to the send buffer.
    outbox: Vec<PlainRecord>,
    pub(super) counts: TlsCounts,
}

/// The end of a received stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// By close_notify.
    Clean,
    /// By an error; nothing after it is delivered.
    Failed(TlsError),
}

/// Counts of a TLS connection (RFC 8446 sections 4.6.3 and 5.5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsCounts {
    /// Records sealed.
    pub sealed: u64,
    /// Records opened.
    pub opened: u64,
    /// Changes of the key to send with.
    pub tx_updates: u64,
    /// Changes of the key to receive with.
    pub rx_updates: u64,
}

/// The handshake library, which prints nothing.
pub(super) struct QuietSource(pub(super) Box<dyn KeySource>);

impl fmt::Debug for QuietSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySource")
    }
}

impl TlsSession {
    pub(crate) fn new(keys: TlsKeys) -> Self {
        Self {
            version: keys.version,
            role: keys.role,
            framed: keys.tx.seq(),
            tx: keys.tx,
            rx: keys.rx,
            source: QuietSource(keys.source),
            updating: 0,
            messages: HandshakeMessages::default(),
            assembly: RecordAssembly::default(),
            idle_records: 0,
            has_refused: false,
            end: None,
            closed: false,
            outbox: Vec::new(),
            counts: TlsCounts::default(),
        }
    }

    pub(crate) fn version(&self) -> TlsVersion {
        self.version
    }

    pub(crate) fn counts(&self) -> TlsCounts {
        self.counts
    }

    /// Bytes of content in a full record.
    pub(crate) fn content_max(&self) -> usize {
        content_max(overhead(self.version, &self.tx))
    }

    /// Bytes of content for whose records `wire` bytes have room.
    pub(crate) fn content_for(&self, wire: usize) -> usize {
        let overhead = overhead(self.version, &self.tx);
        let full = content_max(overhead);
        let (records, rest) = (wire / (full + overhead), wire % (full + overhead));
        // Each record that is promised can be framed.
        let left = self.tx.aead.records_max().saturating_sub(self.framed);
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        (records * full + rest.saturating_sub(overhead)).min(left.saturating_mul(full))
    }

    /// Whether records may be framed.
    ///
    /// # Errors
    /// This side has sent its end, or the key is worn out.
    pub(crate) fn may_frame(&self) -> Result<(), TlsError> {
        if self.closed {
            return Err(SocketError::Closed.into());
        }
        match self.framed < self.tx.aead.records_max() {
            true => Ok(()),
            false => Err(TlsError::KeyWornOut),
        }
    }

    /// A record of `content`, which is at most [`TlsSession::content_max`] bytes. It goes into the send buffer after
    /// the records of [`TlsSession::take_outbox`].
    ///
    /// # Errors
    /// As of [`TlsSession::may_frame`].
    pub(crate) fn frame_data(&mut self, content: Chain<Mixed>) -> Result<PlainRecord, TlsError> {
        self.may_frame()?;
        let records_max = self.tx.aead.records_max();
        let reserve = KEY_RESERVE.min(records_max / 2);
        if records_max - self.framed <= reserve && self.version == TlsVersion::Tls13 {
            self.put_key_update(false);
        }
        Ok(self.frame(ContentType::Data, PlainContent::Data(content)))
    }

    fn frame(&mut self, content: ContentType, plain: PlainContent) -> PlainRecord {
        self.framed += 1;
        PlainRecord {
            kind: content as u8,
            wire_len: plain.len() + overhead(self.version, &self.tx),
            plain,
        }
    }

    /// Records that must go into the send buffer first.
    pub(crate) fn take_outbox(&mut self) -> Vec<PlainRecord> {
        std::mem::take(&mut self.outbox)
    }

    /// Changes the key to send with, and asks the peer to change its own if `request` says so. One change at a time:
    /// while one is under way to the peer this has no effect.
    ///
    /// # Errors
    /// TLS 1.2 has no key updates; or this side has sent its end.
    pub(crate) fn update_key(&mut self, request: bool) -> Result<(), TlsError> {
        self.may_frame()?;
        if self.version == TlsVersion::Tls12 {
            return Err(TlsError::KeyWornOut);
        }
        if self.updating == 0 {
            self.put_key_update(request);
        }
        Ok(())
    }

    /// Records that are framed from now on use the next key.
    fn put_key_update(&mut self, request: bool) {
        self.put(ContentType::Handshake, &messages::key_update(request));
        (self.updating, self.framed) = (self.updating + 1, 0);
    }

    /// Sends close_notify.
    pub(crate) fn close(&mut self) {
        self.alert(TlsAlert::CLOSE_NOTIFY);
        self.closed = true;
    }

    /// The peer broke the protocol: sends an alert, and ends both directions.
    pub(super) fn fail(&mut self, error: TlsError) {
        if let TlsError::Protocol(alert) = error {
            self.alert(alert);
        }
        // A peer that only ended its own stream may still read ours.
        self.closed |= error != TlsError::Truncated;
        self.end = Some(StreamEnd::Failed(error));
    }

    /// Sends an alert, unless this side has sent its end.
    pub(super) fn alert(&mut self, alert: TlsAlert) {
        if !self.closed {
            self.put(ContentType::Alert, &alert.to_bytes());
        }
    }

    fn put(&mut self, content: ContentType, bytes: &[u8]) {
        let record = self.frame(content, PlainContent::Message(bytes.to_vec()));
        self.outbox.push(record);
    }

    /// Whether this side has sent its end.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The end of the peer's stream, if it has ended.
    pub(crate) fn end(&self) -> Option<StreamEnd> {
        self.end
    }
}

impl Sealer for TlsSession {
    fn seal(&mut self, pool: &MbufPool, record: &PlainRecord) -> Result<Chain, SealError> {
        let content = ContentType::parse(record.kind).ok_or(SealError::Failed)?;
        let message;
        let plain = match &record.plain {
            PlainContent::Data(plain) => plain,
            PlainContent::Message(bytes) => {
                message = Chain::from_slice(pool, bytes)?.into();
                &message
            }
        };
        let sealed = sealing::seal(pool, self.version, &mut self.tx, content, plain)?;
        self.counts.sealed += 1;
        // The only handshake messages of ours behind the handshake are these.
        if content == ContentType::Handshake {
            self.tx = self.source.0.next_tx().map_err(|_| SealError::Failed)?;
            self.updating = self.updating.saturating_sub(1);
            self.counts.tx_updates += 1;
        }
        Ok(sealed)
    }
}

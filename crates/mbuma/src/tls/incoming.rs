//! Received records, one after the other, until the end.
//!
//! | record | done |
//! |---|---|
//! | data | delivered |
//! | KeyUpdate | the next record opens under the next key; a request is answered by a KeyUpdate of ours |
//! | NewSessionTicket, of a client | to the handshake library |
//! | close_notify | the end of the stream |
//! | another alert | the end of the connection, or ignored where RFC 5246 and RFC 8446 6.1 require it |
//! | TLS 1.2: a second handshake | refused by a warning; at a second request, an alert and the end |
//! | anything else | an alert to the peer, and the end |
//!
//! Invariants: nothing is delivered behind the end. At most [`IDLE_RECORDS_MAX`] records without data come in
//! succession, so a peer can't keep this side busy with them (CVE-2019-9518 and its like).
//!
//! Locks: the owner's. Sources: RFC 8446 4.6, 5 and 6; RFC 5246 7.2 and 7.4.1.1.

use mbuf::{Chain, MbufPool};

use super::keys::{TlsRole, TlsVersion};
use super::messages::{self, HandshakeMessage, HandshakeMessages};
use super::session::{StreamEnd, TlsSession};
use super::{ContentType, HEADER_LEN, RecordHeader, TlsAlert, TlsError, opening};
use crate::error::SocketError;

/// Records without data in succession, at most.
const IDLE_RECORDS_MAX: u8 = 32;
/// Bytes of a ClientHello that is refused, at most: more than any has.
const CLIENT_HELLO_MAX: usize = 1 << 14;
/// Bytes of a NewSessionTicket at most: a ticket of 65,535, and its other fields.
const TICKET_MAX: usize = (1 << 16) + 1024;

/// Bytes of the body of a message of this kind, at most; `None` if none may come. This bounds the memory for the peer's
/// messages.
fn body_max(version: TlsVersion, role: TlsRole, kind: u8) -> Option<usize> {
    match (version, role, kind) {
        (TlsVersion::Tls12, TlsRole::Client, messages::HELLO_REQUEST) => Some(0),
        (TlsVersion::Tls12, TlsRole::Server, messages::CLIENT_HELLO) => Some(CLIENT_HELLO_MAX),
        (TlsVersion::Tls13, _, messages::KEY_UPDATE) => Some(1),
        (TlsVersion::Tls13, TlsRole::Client, messages::NEW_SESSION_TICKET) => Some(TICKET_MAX),
        _ => None,
    }
}

impl TlsSession {
    /// Parses a record's first bytes. If they are no header, the connection ends.
    ///
    /// # Errors
    /// Why it has ended.
    pub(crate) fn header(&mut self, bytes: [u8; HEADER_LEN]) -> Result<RecordHeader, TlsError> {
        let header = RecordHeader::parse(bytes, self.version).map_err(TlsError::Protocol);
        header.inspect_err(|e| self.fail(*e))
    }

    /// Takes a whole record: `body` is all after its header. Returns data, which is empty if the record was of another
    /// type.
    ///
    /// # Errors
    /// Without buffers nothing has changed. Else the connection has ended.
    pub(crate) fn receive(
        &mut self,
        pool: &MbufPool,
        header: RecordHeader,
        body: &Chain,
    ) -> Result<Chain, TlsError> {
        let opened = opening::open(pool, self.version, &mut self.rx, header, body);
        let no_bufs = TlsError::Socket(SocketError::NoBufs);
        if let Err(e) = &opened
            && *e == no_bufs
        {
            return Err(no_bufs);
        }
        let data = opened.and_then(|(content, text)| {
            self.counts.opened += 1;
            self.accept(content, text)
        });
        data.inspect_err(|e| self.fail(*e))
    }

    /// The peer's FIN has come, with nothing before it that is not taken.
    pub(crate) fn stream_cut(&mut self) {
        if self.end.is_none() {
            self.fail(TlsError::Truncated);
        }
    }

    fn accept(&mut self, content: ContentType, text: Chain) -> Result<Chain, TlsError> {
        let unexpected = TlsError::Protocol(TlsAlert::UNEXPECTED_MESSAGE);
        if content == ContentType::Data && !text.is_empty() {
            // No record of another type may come inside of a message.
            if self.messages.is_amid() {
                return Err(unexpected);
            }
            self.idle_records = 0;
            return Ok(text);
        }
        self.idle_records += 1;
        if self.idle_records > IDLE_RECORDS_MAX {
            return Err(unexpected);
        }
        match content {
            _ if content != ContentType::Handshake && self.messages.is_amid() => {
                return Err(unexpected);
            }
            ContentType::Data => {}
            ContentType::Alert => self.on_alert(&text.to_vec())?,
            ContentType::Handshake if !text.is_empty() => self.on_handshake(&text)?,
            ContentType::Handshake | ContentType::ChangeCipherSpec => return Err(unexpected),
        }
        Ok(Chain::new())
    }

    fn on_alert(&mut self, bytes: &[u8]) -> Result<(), TlsError> {
        let (alert, is_warning) =
            TlsAlert::parse(bytes).ok_or(TlsError::Protocol(TlsAlert::DECODE_ERROR))?;
        match alert {
            TlsAlert::CLOSE_NOTIFY => self.end = Some(StreamEnd::Clean),
            // The end follows.
            TlsAlert::USER_CANCELED => {}
            _ if is_warning && self.version == TlsVersion::Tls12 => {}
            _ => return Err(TlsError::PeerAlert(alert)),
        }
        Ok(())
    }

    fn on_handshake(&mut self, text: &Chain) -> Result<(), TlsError> {
        text.segments().for_each(|s| self.messages.push(s));
        let (version, role) = (self.version, self.role);
        let next = |messages: &mut HandshakeMessages| {
            let message = messages.pop(|kind| body_max(version, role, kind));
            message.map_err(TlsError::Protocol)
        };
        while let Some(message) = next(&mut self.messages)? {
            match self.version {
                TlsVersion::Tls12 => self.on_message12(&message)?,
                TlsVersion::Tls13 => self.on_message13(&message)?,
            }
        }
        Ok(())
    }

    /// RFC 5246 7.4.1.1, 7.2.2: a second handshake may be refused, and is, but once only: each refusal waits in the
    /// send buffer, so a peer that sends many requests of four bytes and reads nothing could fill the memory.
    fn on_message12(&mut self, message: &HandshakeMessage) -> Result<(), TlsError> {
        match (message.kind, self.role) {
            (messages::HELLO_REQUEST, TlsRole::Client)
            | (messages::CLIENT_HELLO, TlsRole::Server)
                if !self.has_refused =>
            {
                self.has_refused = true;
                self.alert(TlsAlert::NO_RENEGOTIATION);
                Ok(())
            }
            _ => Err(TlsError::Protocol(TlsAlert::UNEXPECTED_MESSAGE)),
        }
    }

    fn on_message13(&mut self, message: &HandshakeMessage) -> Result<(), TlsError> {
        match (message.kind, self.role) {
            (messages::KEY_UPDATE, _) => self.on_key_update(message),
            (messages::NEW_SESSION_TICKET, TlsRole::Client) => {
                self.source.0.on_ticket(&message.body);
                Ok(())
            }
            _ => Err(TlsError::Protocol(TlsAlert::UNEXPECTED_MESSAGE)),
        }
    }

    /// RFC 8446 4.6.3, 5.1: it ends its record, because the next is under another key.
    fn on_key_update(&mut self, message: &HandshakeMessage) -> Result<(), TlsError> {
        if !message.ends_record {
            return Err(TlsError::Protocol(TlsAlert::UNEXPECTED_MESSAGE));
        }
        let is_request = match *message.body.as_slice() {
            [0] => false,
            [1] => true,
            [_] => return Err(TlsError::Protocol(TlsAlert::ILLEGAL_PARAMETER)),
            _ => return Err(TlsError::Protocol(TlsAlert::DECODE_ERROR)),
        };
        self.rx = self.source.0.next_rx()?;
        self.counts.rx_updates += 1;
        // One KeyUpdate under way answers all requests; a side that has sent its end sends nothing more.
        match is_request && !self.is_closed() {
            true => self.update_key(false),
            false => Ok(()),
        }
    }
}

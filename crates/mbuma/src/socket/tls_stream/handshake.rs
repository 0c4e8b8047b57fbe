//! Handshakes by rustls, which hands the keys over at their end.
//!
//! rustls gets one record at a time, so that at the end it has no bytes left: data that the peer sent early is still in
//! the receive buffer. A message may come in several records, which stay here until rustls has all of it. Tickets of a
//! server are in the send buffer before the keys are handed over.
//!
//! The interface for handing keys over is rustls 0.23's; 0.24 has another one. This file alone knows it.
//!
//! Locks: none.
//! Source: rustls' kernel connections.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{ClientConfig, CommonState, ConnectionTrafficSecrets, ProtocolVersion, ServerConfig};

use super::{TlsAbout, TlsStream};
use crate::socket::attempt::{NotReady, blocking, polled};
use crate::socket::{SocketError, TcpStream};
use crate::tls::{
    AwsLcAead, AwsLcSuite, DirectionKeys, KeySource, TlsError, TlsKeys, TlsRole, TlsVersion,
};
use crate::waiters::WaitBy;

/// Bytes of a record in a handshake, at most, its header included.
const RECORD_MAX: usize = 5 + (1 << 14) + 2048;
/// Bytes of records that wait for the end of a message, at most. The longest message that rustls takes has 64 KiB; its
/// records are to be half full at least.
const INCOMING_MAX: usize = 128 << 10;

/// A handshake under way. Dropping it closes the connection.
pub struct TlsHandshake {
    tcp: TcpStream,
    side: HandshakeSide,
    /// Records that rustls needs still, and the beginning of the next one.
    incoming: Vec<u8>,
    /// Where that begins.
    next_at: usize,
    outgoing: Vec<u8>,
    /// The handshake has failed; its alert is still to be sent.
    failed: Option<rustls::Error>,
}

enum HandshakeSide {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The connection below; [`SocketError::WouldBlock`] is no failure.
    #[error("{0}")]
    Socket(#[from] SocketError),
    /// The peer closed the connection.
    #[error("the peer closed the connection in the TLS handshake")]
    Closed,
    /// rustls' error; an alert was sent to the peer.
    #[error("TLS handshake: {0}")]
    Tls(#[from] rustls::Error),
    /// The configuration keeps the keys inside of rustls: set its `enable_secret_extraction`.
    #[error("the TLS configuration keeps its keys: set enable_secret_extraction in it")]
    SecretsKept,
    /// The suite is none of TLS's AEADs.
    #[error("the TLS suite is not AES-GCM or ChaCha20-Poly1305")]
    Suite,
}

impl NotReady for HandshakeError {
    fn is_not_ready(&self) -> bool {
        matches!(self, Self::Socket(SocketError::WouldBlock))
    }
}

impl From<HandshakeError> for std::io::Error {
    fn from(e: HandshakeError) -> Self {
        match e {
            HandshakeError::Socket(e) => e.into(),
            e => Self::new(std::io::ErrorKind::InvalidData, e),
        }
    }
}

/// The next step of rustls.
enum NextStep {
    Record,
    Done,
    Again,
}

impl TlsHandshake {
    /// Begins the handshake of a server. The configuration must have `enable_secret_extraction`. With
    /// `TLS13_AES_128_GCM_SHA256` first among its suites, sealing costs a sixth less than with rustls' order.
    ///
    /// # Errors
    /// See [`HandshakeError`].
    pub fn server(tcp: TcpStream, config: Arc<ServerConfig>) -> Result<Self, HandshakeError> {
        if !config.enable_secret_extraction {
            return Err(HandshakeError::SecretsKept);
        }
        let side = HandshakeSide::Server(UnbufferedServerConnection::new(config)?);
        Ok(Self::of(tcp, side))
    }

    /// Begins the handshake of a client of the server with this name.
    ///
    /// # Errors
    /// See [`HandshakeError`].
    pub fn client(
        tcp: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, HandshakeError> {
        if !config.enable_secret_extraction {
            return Err(HandshakeError::SecretsKept);
        }
        let side = HandshakeSide::Client(UnbufferedClientConnection::new(config, name)?);
        Ok(Self::of(tcp, side))
    }

    fn of(tcp: TcpStream, side: HandshakeSide) -> Self {
        Self {
            tcp,
            side,
            incoming: Vec::new(),
            next_at: 0,
            outgoing: Vec::new(),
            failed: None,
        }
    }

    /// The connection below.
    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Continues the handshake without waiting. Returns true once it is done: then [`TlsHandshake::finish`] returns the
    /// stream. Returns false if it waits for the peer: call it again when the connection's waker is called.
    ///
    /// # Errors
    /// See [`HandshakeError`].
    pub fn advance(&mut self) -> Result<bool, HandshakeError> {
        match self.step(None) {
            Ok(()) => Ok(true),
            Err(e) if e.is_not_ready() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// As [`TlsHandshake::advance`]; the task is woken when it can go on.
    pub fn poll_advance(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Result<(), HandshakeError>> {
        let stack = Arc::clone(&self.tcp.stack);
        polled(Some(&stack), cx, |waiting| self.step(waiting))
    }

    /// Waits until the handshake is done. Each wait for the peer may take `timeout`.
    ///
    /// # Errors
    /// See [`HandshakeError`]; [`SocketError::TimedOut`] when the time is over.
    pub fn finish_blocking(
        mut self,
        timeout: Option<Duration>,
    ) -> Result<TlsStream, HandshakeError> {
        let stack = Arc::clone(&self.tcp.stack);
        blocking(Some(&stack), || timeout, |waiting| self.step(waiting))?;
        self.finish()
    }

    /// As [`TlsHandshake::finish_blocking`], for a task.
    ///
    /// # Errors
    /// See [`HandshakeError`].
    pub async fn finish_async(mut self) -> Result<TlsStream, HandshakeError> {
        std::future::poll_fn(|cx| self.poll_advance(cx)).await?;
        self.finish()
    }

    /// Takes the keys over from rustls, once [`TlsHandshake::advance`] has returned true.
    ///
    /// # Errors
    /// It is not done: [`HandshakeError::Tls`].
    pub fn finish(self) -> Result<TlsStream, HandshakeError> {
        let (role, version, secrets, source, about) = match self.side {
            HandshakeSide::Server(conn) => {
                let about = about(&conn);
                let (secrets, kernel) = conn.dangerous_into_kernel_connection()?;
                let version = kernel.protocol_version();
                (
                    TlsRole::Server,
                    version,
                    secrets,
                    KernelKeys::Server(kernel),
                    about,
                )
            }
            HandshakeSide::Client(conn) => {
                let about = about(&conn);
                let (secrets, kernel) = conn.dangerous_into_kernel_connection()?;
                let version = kernel.protocol_version();
                (
                    TlsRole::Client,
                    version,
                    secrets,
                    KernelKeys::Client(kernel),
                    about,
                )
            }
        };
        let version = match version {
            ProtocolVersion::TLSv1_3 => TlsVersion::Tls13,
            _ => TlsVersion::Tls12,
        };
        let keys = TlsKeys {
            version,
            role,
            tx: keys(secrets.tx).ok_or(HandshakeError::Suite)?,
            rx: keys(secrets.rx).ok_or(HandshakeError::Suite)?,
            source: Box::new(source),
        };
        Ok(TlsStream::new(self.tcp, keys, about))
    }

    fn step(&mut self, waiting: Option<WaitBy<'_>>) -> Result<(), HandshakeError> {
        loop {
            if self.failed.is_some() {
                self.flush(waiting)?;
            }
            if let Some(e) = self.failed.take() {
                return Err(e.into());
            }
            let (next, discard) = match &mut self.side {
                HandshakeSide::Server(conn) => {
                    let UnbufferedStatus { discard, state } =
                        conn.process_tls_records(&mut self.incoming);
                    (react(state, &mut self.outgoing), discard)
                }
                HandshakeSide::Client(conn) => {
                    let UnbufferedStatus { discard, state } =
                        conn.process_tls_records(&mut self.incoming);
                    (react(state, &mut self.outgoing), discard)
                }
            };
            let discard = discard.min(self.next_at);
            self.incoming.drain(..discard);
            self.next_at -= discard;
            match next {
                Ok(NextStep::Again) => {}
                Ok(NextStep::Done) => return self.flush(waiting),
                // All output of rustls is sent at once, so the peer gets a flight in one segment, and wakes up once.
                Ok(NextStep::Record) => {
                    self.flush(waiting)?;
                    self.read_record(waiting)?;
                }
                Err(e) => self.fail(e),
            }
        }
    }

    /// Takes the alert that rustls has for the peer, and the records before it; the next step sends them. While rustls
    /// has output it looks at nothing that was received. The bytes stay, because rustls remembers places in them.
    fn fail(&mut self, e: rustls::Error) {
        let (bytes, out) = (&mut self.incoming, &mut self.outgoing);
        match &mut self.side {
            HandshakeSide::Server(conn) => {
                while conn.wants_write()
                    && react(conn.process_tls_records(bytes).state, out).is_ok()
                {}
            }
            HandshakeSide::Client(conn) => {
                while conn.wants_write()
                    && react(conn.process_tls_records(bytes).state, out).is_ok()
                {}
            }
        }
        self.failed = Some(e);
    }

    /// Sends all output of rustls.
    fn flush(&mut self, waiting: Option<WaitBy<'_>>) -> Result<(), HandshakeError> {
        while !self.outgoing.is_empty() {
            let n = self.tcp.give(&self.outgoing, waiting)?;
            self.outgoing.drain(..n.min(self.outgoing.len()));
        }
        Ok(())
    }

    /// Receives one record, or its rest.
    fn read_record(&mut self, waiting: Option<WaitBy<'_>>) -> Result<(), HandshakeError> {
        if self.next_at > INCOMING_MAX {
            let error = rustls::InvalidMessage::HandshakePayloadTooLarge;
            return Err(rustls::Error::InvalidMessage(error).into());
        }
        loop {
            // Not the length of a record before: rustls has joined those to a message.
            let wanted = match self.incoming.get(self.next_at..self.next_at + 5) {
                Some(&[kind, major, _, high, low]) if is_record(kind, major) => {
                    5 + usize::from(u16::from_be_bytes([high, low]))
                }
                // rustls refuses bytes that are no header of a record, and the rest of such a record may never come.
                _ => 5,
            };
            let (have, end) = (self.incoming.len(), self.next_at + wanted.min(RECORD_MAX));
            if have >= end {
                self.next_at = end;
                return Ok(());
            }
            self.incoming.resize(end, 0);
            let room = self.incoming.get_mut(have..).unwrap_or_default();
            let read = self.tcp.read_to(room, waiting);
            self.incoming.truncate(have + *read.as_ref().unwrap_or(&0));
            if read? == 0 {
                return Err(HandshakeError::Closed);
            }
        }
    }
}

/// Whether a record may begin with these bytes: its type is one that rustls knows (RFC 8446 5.1, RFC 6520 3). Bytes of
/// another protocol, such as HTTP, do not.
fn is_record(kind: u8, major: u8) -> bool {
    (20..=24).contains(&kind) && major == 3
}

/// Does the step that rustls asks for.
fn react<D>(
    state: Result<ConnectionState<'_, '_, D>, rustls::Error>,
    outgoing: &mut Vec<u8>,
) -> Result<NextStep, rustls::Error> {
    Ok(match state? {
        ConnectionState::EncodeTlsData(mut data) => {
            let at = outgoing.len();
            outgoing.resize(at + RECORD_MAX, 0);
            let room = outgoing.get_mut(at..).unwrap_or_default();
            let encoded = match data.encode(room) {
                Err(EncodeError::InsufficientSize(e)) => {
                    outgoing.resize(at + e.required_size, 0);
                    data.encode(outgoing.get_mut(at..).unwrap_or_default())
                }
                other => other,
            };
            let len = encoded.map_err(|e| rustls::Error::General(e.to_string()))?;
            outgoing.truncate(at + len);
            NextStep::Again
        }
        // It goes out before the next record is waited for: it is in `outgoing`.
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            NextStep::Again
        }
        ConnectionState::BlockedHandshake => NextStep::Record,
        ConnectionState::WriteTraffic(_) => NextStep::Done,
        ConnectionState::PeerClosed | ConnectionState::Closed => {
            return Err(rustls::Error::General(
                "the peer closed the connection".into(),
            ));
        }
        _ => {
            return Err(rustls::Error::General(
                "data before the handshake's end".into(),
            ));
        }
    })
}

/// The results of a handshake, besides keys.
fn about(conn: &CommonState) -> TlsAbout {
    let certificates = conn.peer_certificates().unwrap_or_default();
    TlsAbout {
        alpn: conn.alpn_protocol().map(<[u8]>::to_vec),
        peer_certificates: certificates.iter().map(|der| der.to_vec()).collect(),
    }
}

/// rustls, after the handshake.
enum KernelKeys {
    Server(KernelConnection<ServerConnectionData>),
    Client(KernelConnection<ClientConnectionData>),
}

impl KeySource for KernelKeys {
    fn next_tx(&mut self) -> Result<DirectionKeys, TlsError> {
        let next = match self {
            Self::Server(kernel) => kernel.update_tx_secret(),
            Self::Client(kernel) => kernel.update_tx_secret(),
        };
        next.ok().and_then(keys).ok_or(TlsError::Keys)
    }

    fn next_rx(&mut self) -> Result<DirectionKeys, TlsError> {
        let next = match self {
            Self::Server(kernel) => kernel.update_rx_secret(),
            Self::Client(kernel) => kernel.update_rx_secret(),
        };
        next.ok().and_then(keys).ok_or(TlsError::Keys)
    }

    fn on_ticket(&mut self, body: &[u8]) {
        if let Self::Client(kernel) = self {
            // Without it the next handshake is a full one.
            _ = kernel.handle_new_session_ticket(body);
        }
    }
}

/// The key of one direction, for the AEADs of aws-lc-rs.
fn keys((seq, secrets): (u64, ConnectionTrafficSecrets)) -> Option<DirectionKeys> {
    let (suite, key, iv) = match &secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (AwsLcSuite::Aes128Gcm, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (AwsLcSuite::Aes256Gcm, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
            (AwsLcSuite::ChaCha20Poly1305, key, iv)
        }
        _ => return None,
    };
    let aead = AwsLcAead::new(suite, key.as_ref()).ok()?;
    let iv = iv.as_ref().try_into().ok()?;
    Some(DirectionKeys::new(Box::new(aead), iv, seq))
}

kern::impl_debug!(TlsHandshake |this| tcp: this.tcp);

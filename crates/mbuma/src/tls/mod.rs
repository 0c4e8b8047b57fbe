//! TLS records, inside of the stack: framed when they are appended to a send buffer, sealed when they are first sent,
//! opened when they are read.
//!
//! ```text
//!   plain chain --[frame]--> [PlainRecord] in the send buffer --[Sealing, at first transmission]--> one cluster, wire bytes
//!   wire bytes in the receive buffer --[frame]--> one record --[Opening]--> plain chain | alert | handshake message
//! ```
//!
//! This is pure code: no socket, no clock, no lock. A handshake is done elsewhere (feature `tls`, or the embedder's
//! own), which hands the keys over as [`TlsKeys`].
//!
//! | file | noun |
//! |---|---|
//! | `aead.rs`, `keys.rs` | the cipher; the keys of a direction and its record numbers |
//! | `frame.rs`, `content.rs`, `alert.rs` | the bytes of a record; its type; an alert |
//! | `room.rs`, `sealing.rs`, `opening.rs` | storage for a record's result; the two directions |
//! | `messages.rs` | handshake messages behind the handshake |
//! | `session.rs`, `incoming.rs`, `assembly.rs` | both directions together; received records; their assembly |
//!
//! Invariants: a record number is used once under a key, in either direction (`DirectionKeys::advance`). Sealing and
//! opening write to storage taken for them, never to their source. Nothing is delivered after a record that fails.
//!
//! Locks: none; the owner locks. Sources: RFC 8446 5 and 4.6, RFC 5246 6, RFC 5288, RFC 7905.

mod aead;
mod alert;
mod assembly;
#[cfg(feature = "tls")]
mod aws_lc;
mod content;
mod error;
mod frame;
mod incoming;
mod keys;
mod messages;
mod opening;
mod room;
mod sealing;
mod session;
#[cfg(all(test, not(shuttle)))]
mod tests;

pub use aead::{Aead, AeadFailed, NONCE_LEN, TAG_LEN};
pub use alert::TlsAlert;
#[cfg(feature = "tls")]
pub use aws_lc::{AwsLcAead, AwsLcSuite};
use content::ContentType;
pub use error::TlsError;
use frame::{HEADER_LEN, RecordHeader};
pub use keys::{DirectionKeys, KeySource, TlsKeys, TlsRole, TlsVersion};
pub use session::TlsCounts;
pub(crate) use session::{StreamEnd, TlsSession};

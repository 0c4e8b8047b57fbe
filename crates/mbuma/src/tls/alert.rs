//! Alerts: the messages in which one side gives its reason to end the connection.
//!
//! Source: RFC 8446 6, RFC 5246 7.2.

use std::fmt;

/// The description of an alert, by its number (RFC 8446 section 6, RFC 5246 section 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TlsAlert(pub u8);

impl TlsAlert {
    /// The sender sends no more: the end of its stream.
    pub const CLOSE_NOTIFY: Self = Self(0);
    /// A type of record, or a message, that must not come now.
    pub const UNEXPECTED_MESSAGE: Self = Self(10);
    /// A record whose tag is wrong.
    pub const BAD_RECORD_MAC: Self = Self(20);
    /// A record that is too long.
    pub const RECORD_OVERFLOW: Self = Self(22);
    /// A field out of its range.
    pub const ILLEGAL_PARAMETER: Self = Self(47);
    /// A message that does not parse.
    pub const DECODE_ERROR: Self = Self(50);
    /// Another version than the agreed one.
    pub const PROTOCOL_VERSION: Self = Self(70);
    /// The peer's user cancelled; `CLOSE_NOTIFY` follows.
    pub const USER_CANCELED: Self = Self(90);
    /// TLS 1.2: no second handshake on this connection.
    pub const NO_RENEGOTIATION: Self = Self(100);

    const WARNING: u8 = 1;
    const FATAL: u8 = 2;

    /// The alert as it is sent.
    pub(super) fn to_bytes(self) -> [u8; 2] {
        let level = match self {
            Self::CLOSE_NOTIFY | Self::USER_CANCELED | Self::NO_RENEGOTIATION => Self::WARNING,
            _ => Self::FATAL,
        };
        [level, self.0]
    }

    /// A received alert, and whether its level is "warning"; `None` if these bytes are none.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Self, bool)> {
        match *bytes {
            [level @ (Self::WARNING | Self::FATAL), number] => {
                Some((Self(number), level == Self::WARNING))
            }
            _ => None,
        }
    }

    fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "close_notify",
            10 => "unexpected_message",
            20 => "bad_record_mac",
            22 => "record_overflow",
            40 => "handshake_failure",
            42 => "bad_certificate",
            43 => "unsupported_certificate",
            44 => "certificate_revoked",
            45 => "certificate_expired",
            46 => "certificate_unknown",
            47 => "illegal_parameter",
            48 => "unknown_ca",
            49 => "access_denied",
            50 => "decode_error",
            51 => "decrypt_error",
            70 => "protocol_version",
            71 => "insufficient_security",
            80 => "internal_error",
            86 => "inappropriate_fallback",
            90 => "user_canceled",
            100 => "no_renegotiation",
            109 => "missing_extension",
            110 => "unsupported_extension",
            112 => "unrecognized_name",
            113 => "bad_certificate_status_response",
            115 => "unknown_psk_identity",
            116 => "certificate_required",
            120 => "no_application_protocol",
            _ => return None,
        })
    }
}

impl fmt::Display for TlsAlert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "alert {}", self.0),
        }
    }
}

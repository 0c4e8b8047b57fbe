//! Opening: the bytes of one record become content, in storage of their own.
//!
//! Received bytes may be shared with their sender (stacks of one process hand clusters over), so no record is decrypted
//! in place. A record in one piece is decrypted from there; one that came in several segments is copied first.
//!
//! Source: RFC 8446 5.2 and 5.4, RFC 5246 6.2.3.3. The inner type is searched for in a slice, from behind: a search by
//! index was off by one elsewhere (FreeBSD-SA-26:67).

use mbuf::{Chain, MbufPool, NoBufs};

use super::frame::{CONTENT_MAX, RecordHeader};
use super::keys::{DirectionKeys, TlsVersion};
use super::room::RecordRoom;
use super::{ContentType, TAG_LEN, TlsAlert, TlsError};

/// Opens `body`, all bytes after the header of the next record of `keys`. On failure nothing has changed.
pub(super) fn open(
    pool: &MbufPool,
    version: TlsVersion,
    keys: &mut DirectionKeys,
    header: RecordHeader,
    body: &Chain,
) -> Result<(ContentType, Chain), TlsError> {
    let explicit = match version {
        TlsVersion::Tls12 => keys.aead.explicit_nonce_len(),
        TlsVersion::Tls13 => 0,
    };
    let short = TlsError::Protocol(TlsAlert::BAD_RECORD_MAC);
    let len = body.len().checked_sub(explicit + TAG_LEN).ok_or(short)?;
    let mut room = RecordRoom::new(pool, len)?;
    let text = room.bytes_mut().get_mut(..len).ok_or(NoBufs)?;
    decrypt(version, keys, header, body, explicit, text)?;
    let (content, content_len) = match version {
        TlsVersion::Tls12 => (header.content, len),
        TlsVersion::Tls13 => inner(text).map_err(TlsError::Protocol)?,
    };
    if content_len > CONTENT_MAX {
        return Err(TlsError::Protocol(TlsAlert::RECORD_OVERFLOW));
    }
    let shown = room.show(pool, content_len)?;
    if !keys.advance() {
        return Err(TlsError::KeyWornOut);
    }
    Ok((content, shown))
}

/// Decrypts the bytes between the explicit nonce and the tag to `text`.
fn decrypt(
    version: TlsVersion,
    keys: &DirectionKeys,
    header: RecordHeader,
    body: &Chain,
    explicit_len: usize,
    text: &mut [u8],
) -> Result<(), TlsError> {
    let (mut explicit, mut tag) = ([0; 8], [0; TAG_LEN]);
    let explicit = explicit.get_mut(..explicit_len).unwrap_or_default();
    body.copy_to(0, explicit);
    body.copy_to(explicit_len + text.len(), &mut tag);
    let nonce = keys.nonce_with(explicit);
    let (aad12, aad13);
    let aad: &[u8] = match version {
        TlsVersion::Tls12 => {
            aad12 = header.aad12(keys.seq(), text.len());
            &aad12
        }
        TlsVersion::Tls13 => {
            aad13 = header.to_bytes();
            &aad13
        }
    };
    let opened = match one_piece(body) {
        Some(bytes) => {
            let cipher = bytes.get(explicit_len..explicit_len + text.len());
            keys.aead
                .open_from(nonce, aad, cipher.unwrap_or_default(), &tag, text)
        }
        None => {
            body.copy_to(explicit_len, text);
            keys.aead.open_in_place(nonce, aad, text, &tag)
        }
    };
    opened.map_err(|_| TlsError::Protocol(TlsAlert::BAD_RECORD_MAC))
}

fn one_piece(body: &Chain) -> Option<&[u8]> {
    let mut segments = body.segments();
    let first = segments.next()?;
    segments.next().is_none().then_some(first)
}

/// The type and the length of the content: the last byte that is not padding, and the number of bytes before it.
fn inner(text: &[u8]) -> Result<(ContentType, usize), TlsAlert> {
    let at = text.iter().rposition(|byte| *byte != 0);
    let at = at.ok_or(TlsAlert::UNEXPECTED_MESSAGE)?;
    let byte = text.get(at).copied().unwrap_or_default();
    let content = ContentType::parse(byte).ok_or(TlsAlert::UNEXPECTED_MESSAGE)?;
    Ok((content, at))
}

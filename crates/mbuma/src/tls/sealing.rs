//! Sealing: a plain chain becomes the bytes of one record, in one pass, in storage of its own.
//!
//! A record of full length is one cluster: header, explicit nonce, text, tag. So it is one mbuf, one entry of an iovec,
//! and one call of the AEAD. Plaintext in one piece, such as the pages of a sealed memfd, is encrypted from its place;
//! plaintext in several pieces is copied into the record's cluster, and encrypted there.
//!
//! Invariant: a record uses up the sequence number that it is sealed with, and is sealed once. Storage is
//! allocated first, so a failure to allocate it leaves both as they were.
//!
//! Source: RFC 8446 5.2, RFC 5246 6.2.3.3. Sealing once, at the first transmission, is this stack's decision.

use mbuf::{Chain, ClusterSize, MbufPool, Mixed, Piece};

use super::aead::split_tag;
use super::frame::{CONTENT_MAX, HEADER_LEN, RecordHeader};
use super::keys::{DirectionKeys, TlsVersion};
use super::room::RecordRoom;
use super::{ContentType, TAG_LEN};
use crate::sockbuf::SealError;

/// Bytes around the content of a record.
pub(super) fn overhead(version: TlsVersion, keys: &DirectionKeys) -> usize {
    let inside = match version {
        TlsVersion::Tls12 => keys.aead.explicit_nonce_len(),
        TlsVersion::Tls13 => 1,
    };
    HEADER_LEN + inside + TAG_LEN
}

/// Bytes of content in a full record, which fills one cluster.
pub(super) fn content_max(overhead: usize) -> usize {
    (ClusterSize::K16.bytes() - overhead).min(CONTENT_MAX)
}

/// Seals `plain` as the next record of `keys`.
pub(super) fn seal(
    pool: &MbufPool,
    version: TlsVersion,
    keys: &mut DirectionKeys,
    content: ContentType,
    plain: &Chain<Mixed>,
) -> Result<Chain, SealError> {
    let len = plain.len() + overhead(version, keys);
    let mut room = RecordRoom::new(pool, len).map_err(SealError::from)?;
    let record = room.bytes_mut().get_mut(..len);
    let record = record.ok_or(SealError::Failed)?;
    match version {
        TlsVersion::Tls12 => seal12(keys, content, plain, record)?,
        TlsVersion::Tls13 => seal13(keys, content, plain, record)?,
    }
    if !keys.advance() {
        return Err(SealError::Failed);
    }
    // A record fits into one cluster, so this needs no further buffer.
    room.show(pool, len).map_err(|_| SealError::Failed)
}

/// The header's type is data; the real type follows the text.
fn seal13(
    keys: &DirectionKeys,
    content: ContentType,
    plain: &Chain<Mixed>,
    record: &mut [u8],
) -> Result<(), SealError> {
    let len = record.len().saturating_sub(HEADER_LEN);
    let header = RecordHeader::new(ContentType::Data, len).to_bytes();
    let (front, body) = record.split_at_mut(HEADER_LEN);
    front.copy_from_slice(&header);
    encrypt(keys, &header, plain, &[content as u8], body)
}

fn seal12(
    keys: &DirectionKeys,
    content: ContentType,
    plain: &Chain<Mixed>,
    record: &mut [u8],
) -> Result<(), SealError> {
    let header = RecordHeader::new(content, record.len().saturating_sub(HEADER_LEN));
    let aad = header.aad12(keys.seq(), plain.len());
    let (front, rest) = record.split_at_mut(HEADER_LEN);
    front.copy_from_slice(&header.to_bytes());
    let (explicit, body) = rest.split_at_mut(keys.aead.explicit_nonce_len());
    let nonce = keys.nonce();
    // GCM's nonce is the salt and the bytes that the record carries.
    for (to, byte) in explicit.iter_mut().rev().zip(nonce.iter().rev()) {
        *to = *byte;
    }
    encrypt(keys, &aad, plain, &[], body)
}

/// Encrypts `plain` and `suffix` to `out`, the tag behind them.
fn encrypt(
    keys: &DirectionKeys,
    aad: &[u8],
    plain: &Chain<Mixed>,
    suffix: &[u8],
    out: &mut [u8],
) -> Result<(), SealError> {
    let failed = |_| SealError::Failed;
    let (aead, nonce) = (&keys.aead, keys.nonce());
    if let Some(piece) = one_piece(plain) {
        return aead
            .seal_from(nonce, aad, piece, suffix, out)
            .map_err(failed);
    }
    let (text, tag) = split_tag(out).ok_or(SealError::Failed)?;
    let (front, back) = text.split_at_mut(plain.len());
    let read = plain.copy_to(0, front);
    read.map_err(SealError::Read)?;
    back.copy_from_slice(suffix);
    let sealed = aead.seal_in_place(nonce, aad, text).map_err(failed)?;
    tag.copy_from_slice(&sealed);
    Ok(())
}

/// The bytes, if they lie in memory as one piece.
fn one_piece(plain: &Chain<Mixed>) -> Option<&[u8]> {
    let mut pieces = plain.pieces();
    let Some(first) = pieces.next() else {
        return Some(&[]);
    };
    if pieces.next().is_some() {
        return None;
    }
    match first {
        Piece::Bytes(bytes) => Some(bytes),
        Piece::Pages(run) => {
            let end = run.off.checked_add(run.len)?;
            run.source().bytes(run.page)?.get(run.off..end)
        }
    }
}

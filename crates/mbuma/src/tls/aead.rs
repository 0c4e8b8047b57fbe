//! The cipher of records: authenticated encryption with associated data, under one key.
//!
//! Source: RFC 5116; the two ways of sealing are those of aws-lc-rs.

/// Bytes of a nonce: all AEADs of TLS have as many.
pub const NONCE_LEN: usize = 12;

/// Bytes of a tag: all AEADs of TLS have as many.
pub const TAG_LEN: usize = 16;

/// An AEAD with its key, for one direction of a connection (RFC 5116). Its drop overwrites the key, and nothing prints
/// it.
///
/// The stack calls it with the connection locked: it must not call the stack, and must not wait.
pub trait Aead: Send + Sync {
    /// Records that may be sealed under one key (RFC 8446 5.5): 2^24 of AES-GCM.
    fn records_max(&self) -> u64;

    /// Bytes of the nonce that a TLS 1.2 record carries: 8 of AES-GCM (RFC 5288 3), 0 of ChaCha20-Poly1305 (RFC 7905
    /// 2).
    fn explicit_nonce_len(&self) -> usize;

    /// Encrypts `text` in place. Returns the tag.
    ///
    /// # Errors
    /// The implementation's error; the record is lost then.
    fn seal_in_place(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        text: &mut [u8],
    ) -> Result<[u8; TAG_LEN], AeadFailed>;

    /// Encrypts `plain` and then `suffix` to `out`, which has room for both and the tag, and no more. `plain` is not
    /// changed.
    ///
    /// # Errors
    /// As of [`Aead::seal_in_place`].
    fn seal_from(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        plain: &[u8],
        suffix: &[u8],
        out: &mut [u8],
    ) -> Result<(), AeadFailed> {
        let (text, tag) = split_tag(out).ok_or(AeadFailed)?;
        if text.len() != plain.len() + suffix.len() {
            return Err(AeadFailed);
        }
        let (front, back) = text.split_at_mut(plain.len());
        front.copy_from_slice(plain);
        back.copy_from_slice(suffix);
        tag.copy_from_slice(&self.seal_in_place(nonce, aad, text)?);
        Ok(())
    }

    /// Checks the tag and decrypts `text` in place.
    ///
    /// # Errors
    /// The tag is wrong. The content of `text` must not be used then.
    fn open_in_place(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8],
    ) -> Result<(), AeadFailed>;

    /// The same from `cipher` to `out`, which has the same length.
    ///
    /// # Errors
    /// As of [`Aead::open_in_place`].
    fn open_from(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        cipher: &[u8],
        tag: &[u8],
        out: &mut [u8],
    ) -> Result<(), AeadFailed> {
        if cipher.len() != out.len() {
            return Err(AeadFailed);
        }
        out.copy_from_slice(cipher);
        self.open_in_place(nonce, aad, out, tag)
    }
}

/// The text and the tag of sealed bytes.
pub(super) fn split_tag(sealed: &mut [u8]) -> Option<(&mut [u8], &mut [u8])> {
    let text = sealed.len().checked_sub(TAG_LEN)?;
    sealed.split_at_mut_checked(text)
}

/// A tag is wrong, or the implementation refused. It has no details, because they would help an attacker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the record could not be sealed or opened")]
pub struct AeadFailed;

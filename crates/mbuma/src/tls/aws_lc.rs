//! The AEADs of aws-lc-rs: AES-GCM and ChaCha20-Poly1305.
//!
//! aws-lc overwrites the memory of a key when it frees it. Tags are compared there, in constant time.

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};

use super::{Aead, AeadFailed, NONCE_LEN, TAG_LEN};

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AwsLcSuite {
    /// A key of 16 bytes.
    Aes128Gcm,
    /// A key of 32 bytes.
    Aes256Gcm,
    /// A key of 32 bytes.
    ChaCha20Poly1305,
}

/// An AEAD of aws-lc-rs with its key.
pub struct AwsLcAead {
    suite: AwsLcSuite,
    key: LessSafeKey,
}

impl AwsLcAead {
    /// One with this key.
    ///
    /// # Errors
    /// The key has another length than the suite's.
    pub fn new(suite: AwsLcSuite, key: &[u8]) -> Result<Self, AeadFailed> {
        let algorithm = match suite {
            AwsLcSuite::Aes128Gcm => &aead::AES_128_GCM,
            AwsLcSuite::Aes256Gcm => &aead::AES_256_GCM,
            AwsLcSuite::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        };
        let key = UnboundKey::new(algorithm, key).map_err(|_| AeadFailed)?;
        Ok(Self {
            suite,
            key: LessSafeKey::new(key),
        })
    }
}

impl Aead for AwsLcAead {
    /// RFC 8446 5.5: 2^24.5 full records of AES-GCM. ChaCha20-Poly1305's are bounded by their numbers alone.
    fn records_max(&self) -> u64 {
        match self.suite {
            AwsLcSuite::Aes128Gcm | AwsLcSuite::Aes256Gcm => 1 << 24,
            AwsLcSuite::ChaCha20Poly1305 => u64::MAX,
        }
    }

    fn explicit_nonce_len(&self) -> usize {
        match self.suite {
            AwsLcSuite::Aes128Gcm | AwsLcSuite::Aes256Gcm => 8,
            AwsLcSuite::ChaCha20Poly1305 => 0,
        }
    }

    fn seal_in_place(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        text: &mut [u8],
    ) -> Result<[u8; TAG_LEN], AeadFailed> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(aad), text);
        let tag = sealed.map_err(|_| AeadFailed)?;
        tag.as_ref().try_into().map_err(|_| AeadFailed)
    }

    fn seal_from(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        plain: &[u8],
        suffix: &[u8],
        out: &mut [u8],
    ) -> Result<(), AeadFailed> {
        let split = out.split_at_mut_checked(plain.len());
        let (text, end) = split.ok_or(AeadFailed)?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed =
            self.key
                .seal_out_of_place_scatter(nonce, Aad::from(aad), plain, text, suffix, end);
        sealed.map_err(|_| AeadFailed)
    }

    fn open_in_place(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8],
    ) -> Result<(), AeadFailed> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = self
            .key
            .open_in_place_separate_tag(nonce, Aad::from(aad), tag, text);
        opened.map(|_| ()).map_err(|_| AeadFailed)
    }

    fn open_from(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        cipher: &[u8],
        tag: &[u8],
        out: &mut [u8],
    ) -> Result<(), AeadFailed> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = self
            .key
            .open_separate_gather(nonce, Aad::from(aad), cipher, tag, out);
        opened.map_err(|_| AeadFailed)
    }
}

// The suite; never the key.
kern::impl_debug!(AwsLcAead |this| suite: this.suite);

#[cfg(all(test, not(shuttle)))]
mod tests;

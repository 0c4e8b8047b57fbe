//! The work on the payload: a cipher that writes to other storage, or the copy that a device's system call makes.
//!
//! Invariant: the storage that it writes to is used in turns, and little, as a device that drops what it is given.

use super::source::RECORD;
use crate::extpgs::design::HEADER;
use mbuma::tls::{Aead, AwsLcAead, AwsLcSuite, NONCE_LEN, TAG_LEN};

/// Places that are written in turns: a turn of a connection.
const PLACES: usize = 4;

/// Takes records.
pub(crate) struct Sender {
    cipher: Option<AwsLcAead>,
    places: Vec<Vec<u8>>,
    count: usize,
}

impl Sender {
    /// With the cipher, or without.
    pub(crate) fn new(tls: bool) -> Self {
        let cipher = AwsLcAead::new(AwsLcSuite::Aes128Gcm, &[7; 16]);
        Self {
            cipher: tls.then(|| cipher.expect("a key of its length")),
            places: vec![vec![0; RECORD + TAG_LEN]; PLACES],
            count: 0,
        }
    }

    /// Takes a record from where it lies.
    pub(crate) fn take(&mut self, record: &[u8], header: [u8; HEADER]) {
        let nonce = self.next_nonce();
        let place = &mut self.places[self.count % PLACES];
        match &self.cipher {
            Some(cipher) => cipher
                .seal_from(nonce, &header, record, &[], place)
                .expect("the lengths fit"),
            None => place[..RECORD].copy_from_slice(record),
        }
    }

    /// Takes a record that may be encrypted where it lies; returns its tag.
    pub(crate) fn take_in_place(
        &mut self,
        record: &mut [u8],
        header: [u8; HEADER],
    ) -> [u8; TAG_LEN] {
        let nonce = self.next_nonce();
        let Some(cipher) = &self.cipher else {
            self.places[self.count % PLACES][..RECORD].copy_from_slice(record);
            return [0; TAG_LEN];
        };
        let sealed = cipher.seal_in_place(nonce, &header, record);
        sealed.expect("the lengths fit")
    }

    /// The last bytes that were written elsewhere.
    #[cfg(test)]
    pub(crate) fn last(&self) -> &[u8] {
        &self.places[self.count % PLACES][..RECORD]
    }

    /// Records that were taken.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Another one for each record.
    fn next_nonce(&mut self) -> [u8; NONCE_LEN] {
        self.count += 1;
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&self.count.to_le_bytes());
        nonce
    }
}

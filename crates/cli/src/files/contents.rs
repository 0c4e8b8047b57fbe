//! The bytes of a file, and their charge.
//!
//! Invariants: a charge is returned when its bytes are freed.
//! Locks: none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mbuma::socket::SealedFile;

/// All bytes of a file.
#[derive(Debug)]
pub(super) enum FileContents {
    Bytes(
        Vec<u8>,
        #[expect(dead_code, reason = "it is dropped with them")] BytesCharge,
    ),
    Sealed(Arc<SealedFile>),
}

/// The charge of a file's bytes.
#[derive(Debug)]
pub(super) struct BytesCharge {
    pub(super) bytes: u64,
    pub(super) charged: Arc<AtomicU64>,
}

impl Drop for BytesCharge {
    fn drop(&mut self) {
        self.charged.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

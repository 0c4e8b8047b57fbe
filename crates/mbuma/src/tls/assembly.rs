//! Records put together from the bytes of a stream.
//!
//! Invariant: it keeps less than one record, or one that waits for a buffer into which it is opened, or opened content
//! that was not read.

use mbuf::{Chain, MbufPool, NoBufs};

use super::session::TlsSession;
use super::{HEADER_LEN, RecordHeader, TlsError};

/// A record that is being received, and the content of the one before it.
#[derive(Debug, Default)]
pub(super) struct RecordAssembly {
    head: Option<RecordHeader>,
    bytes: Chain,
    data: Chain,
}

impl TlsSession {
    /// Bytes of the stream that are needed next, at most; 0 if a whole record waits for a buffer.
    pub(crate) fn bytes_wanted(&self) -> usize {
        let all = self.assembly.head.map_or(HEADER_LEN, RecordHeader::len);
        all.saturating_sub(self.assembly.bytes.len())
    }

    /// Whether a record is incomplete, or content waits to be read.
    pub(crate) fn is_amid(&self) -> bool {
        let RecordAssembly { head, bytes, data } = &self.assembly;
        head.is_some() || !bytes.is_empty() || !data.is_empty()
    }

    /// Bytes of content that were opened and not taken.
    pub(crate) fn opened(&self) -> usize {
        self.assembly.data.len()
    }

    /// Content that was opened, at most `max` bytes.
    pub(crate) fn take_data(&mut self, max: usize) -> Result<Option<Chain>, NoBufs> {
        let data = &mut self.assembly.data;
        match data.is_empty() {
            true => Ok(None),
            false => data.take_front(max).map(Some),
        }
    }

    /// The first bytes of the next record, when none has begun.
    ///
    /// # Errors
    /// As of [`TlsSession::push`].
    pub(crate) fn push_head(
        &mut self,
        pool: &MbufPool,
        head: [u8; HEADER_LEN],
    ) -> Result<(), TlsError> {
        self.assembly.head = Some(self.header(head)?);
        match self.bytes_wanted() {
            0 => self.push(pool, Chain::new()),
            _ => Ok(()),
        }
    }

    /// The next bytes of the stream: at most as many as are [wanted](TlsSession::bytes_wanted). A record that they
    /// complete is opened.
    ///
    /// # Errors
    /// Without buffers the record waits. Else the connection has ended.
    pub(crate) fn push(&mut self, pool: &MbufPool, bytes: Chain) -> Result<(), TlsError> {
        self.assembly.bytes.append(bytes);
        if self.bytes_wanted() > 0 {
            return Ok(());
        }
        let Some(head) = self.assembly.head else {
            let mut head = [0; HEADER_LEN];
            self.assembly.bytes.copy_to(0, &mut head);
            self.assembly.bytes = Chain::new();
            return self.push_head(pool, head);
        };
        let body = std::mem::take(&mut self.assembly.bytes);
        let received = self.receive(pool, head, &body);
        match received {
            Ok(data) => {
                (self.assembly.head, self.assembly.data) = (None, data);
                Ok(())
            }
            Err(e) => {
                if self.end().is_none() {
                    self.assembly.bytes = body;
                }
                Err(e)
            }
        }
    }
}

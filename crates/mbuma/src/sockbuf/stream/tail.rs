//! The part after the mapped bytes of a [`StreamBuf`](super::StreamBuf): pages, claims that wait for their contents,
//! and all that was appended after those.
//!
//! Invariants (`Tail::is_valid`): `claimed` and `pinned` are the sums over the parts; `ready` is the length of the
//! parts before the first unread one. The first part is not mapped bytes, unless `settle` has not run yet.

use std::collections::VecDeque;

use mbuf::{Chain, MbufPool, Mixed};

use super::FillError;
use crate::sockbuf::{PlainRecord, SealError, Sealer};

/// The parts in order, with their sums.
#[derive(Debug, Default)]
pub(super) struct Tail {
    parts: VecDeque<StreamPart>,
    ready: usize,
    claimed: usize,
    pinned: usize,
    /// The number of unread parts; one may have no bytes.
    unread: usize,
}

/// A run of bytes of one kind.
#[derive(Debug)]
enum StreamPart {
    /// Mapped bytes after a part that is not mapped.
    Bytes(Chain),
    /// Ready bytes, some of them in pages.
    Pages(Chain<Mixed>),
    /// Ready, and not sealed.
    Record(PlainRecord),
    /// A claim that was not filled.
    #[doc(alias = "M_NOTREADY")]
    Unread { id: u32, len: usize },
}

impl StreamPart {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(chain) => chain.len(),
            Self::Pages(chain) => chain.len(),
            Self::Record(record) => record.wire_len,
            Self::Unread { len, .. } => *len,
        }
    }

    fn pinned(&self) -> usize {
        match self {
            Self::Bytes(chain) => chain.pinned(),
            Self::Pages(chain) => chain.pinned(),
            Self::Record(record) => record.plain.pinned(),
            Self::Unread { .. } => 0,
        }
    }

    fn is_ready(&self) -> bool {
        !matches!(self, Self::Unread { .. })
    }

    fn of(data: Chain<Mixed>) -> Self {
        data.try_into_mapped().map_or_else(Self::Pages, Self::Bytes)
    }
}

impl Tail {
    pub(super) fn ready(&self) -> usize {
        self.ready
    }

    pub(super) fn claimed(&self) -> usize {
        self.claimed
    }

    pub(super) fn pinned(&self) -> usize {
        self.pinned
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Appends mapped bytes.
    pub(super) fn append(&mut self, pool: &MbufPool, data: Chain) {
        let mut bytes = match self.pop_back() {
            Some(StreamPart::Bytes(last)) => last,
            other => {
                other.into_iter().for_each(|part| self.push(part));
                Chain::new()
            }
        };
        bytes.append_compact(pool, data);
        if !bytes.is_empty() {
            self.push(StreamPart::Bytes(bytes));
        }
    }

    pub(super) fn append_pages(&mut self, data: Chain<Mixed>) {
        let mut pages = match self.pop_back() {
            Some(StreamPart::Pages(last)) => last,
            other => {
                other.into_iter().for_each(|part| self.push(part));
                Chain::default()
            }
        };
        pages.append(data);
        self.push(StreamPart::Pages(pages));
    }

    pub(super) fn append_record(&mut self, record: PlainRecord) {
        self.push(StreamPart::Record(record));
    }

    pub(super) fn append_unread(&mut self, id: u32, len: usize) {
        self.push(StreamPart::Unread { id, len });
    }

    fn push(&mut self, part: StreamPart) {
        match part.is_ready() {
            true if self.unread == 0 => self.ready += part.len(),
            true => {}
            false => self.unread += 1,
        }
        self.claimed += part.len();
        self.pinned += part.pinned();
        self.parts.push_back(part);
    }

    fn pop_back(&mut self) -> Option<StreamPart> {
        let part = self.parts.pop_back()?;
        self.claimed -= part.len();
        self.pinned -= part.pinned();
        self.unread -= usize::from(!part.is_ready());
        self.ready = self.ready.min(self.claimed);
        Some(part)
    }

    /// Takes the first part, which is ready.
    fn pop_front(&mut self) -> Option<StreamPart> {
        let part = self.parts.pop_front()?;
        self.claimed -= part.len();
        self.pinned -= part.pinned();
        self.ready -= part.len();
        Some(part)
    }

    fn push_front(&mut self, part: StreamPart) {
        self.claimed += part.len();
        self.pinned += part.pinned();
        self.ready += part.len();
        self.parts.push_front(part);
    }

    /// Replaces an unread part by its contents.
    pub(super) fn fill(&mut self, id: u32, data: Chain<Mixed>) -> Result<(), FillError> {
        let is_it = |part: &&mut StreamPart| matches!(part, StreamPart::Unread { id: this, .. } if *this == id);
        let mut parts = self.parts.iter_mut();
        let part = parts.find(is_it).ok_or(FillError::Gone)?;
        if part.len() != data.len() {
            return Err(FillError::WrongLength);
        }
        *part = StreamPart::of(data);
        self.count();
        Ok(())
    }

    /// Takes the first part if it is mapped bytes.
    pub(super) fn pop_bytes(&mut self) -> Option<Chain> {
        if !matches!(self.parts.front(), Some(StreamPart::Bytes(_))) {
            return None;
        }
        match self.pop_front()? {
            StreamPart::Bytes(bytes) => Some(bytes),
            other => {
                self.push_front(other);
                None
            }
        }
    }

    /// Maps the first mbuf of the first part, if that is pages, or seals it, if it is a record, and takes it. On
    /// failure nothing has changed.
    pub(super) fn map_first(
        &mut self,
        pool: &MbufPool,
        sealer: Option<&mut dyn Sealer>,
    ) -> Result<Option<Chain>, SealError> {
        if !matches!(
            self.parts.front(),
            Some(StreamPart::Pages(_) | StreamPart::Record(_))
        ) {
            return Ok(None);
        }
        match self.pop_front() {
            Some(StreamPart::Pages(mut pages)) => {
                let mut first = pages.pop_front().unwrap_or_default();
                let mapped = first.map(pool);
                if mapped.is_err() {
                    first.append(pages);
                    pages = first;
                }
                if !pages.is_empty() {
                    self.push_front(StreamPart::Pages(pages));
                }
                Ok(Some(mapped?))
            }
            Some(StreamPart::Record(record)) => {
                let sealed = match sealer {
                    Some(sealer) => sealer.seal(pool, &record),
                    None => Err(SealError::Failed),
                };
                // The record occupies its announced length in sequence space.
                let sealed = sealed.and_then(|sealed| match sealed.len() == record.wire_len {
                    true => Ok(sealed),
                    false => Err(SealError::Failed),
                });
                if sealed.is_err() {
                    self.push_front(StreamPart::Record(record));
                }
                sealed.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Drops the first `n` bytes, which are ready. A record is dropped whole: its bytes can be acknowledged only after
    /// it was sealed.
    pub(super) fn trim_front(&mut self, mut n: usize) {
        debug_assert!(n <= self.ready);
        while n > 0
            && let Some(mut front) = self.pop_front()
        {
            let (len, here) = (front.len(), front.len().min(n));
            n -= here;
            match &mut front {
                _ if here == len => continue,
                StreamPart::Bytes(chain) => chain.trim_front(here),
                StreamPart::Pages(chain) => chain.trim_front(here),
                StreamPart::Record(_) | StreamPart::Unread { .. } => {}
            }
            self.push_front(front);
        }
    }

    /// Counts anew.
    fn count(&mut self) {
        let ready = self.parts.iter().take_while(|part| part.is_ready());
        self.ready = ready.map(StreamPart::len).sum();
        self.claimed = self.parts.iter().map(StreamPart::len).sum();
        self.pinned = self.parts.iter().map(StreamPart::pinned).sum();
        self.unread = self.parts.iter().filter(|part| !part.is_ready()).count();
    }

    #[cfg(all(test, not(shuttle)))]
    pub(super) fn is_valid(&self) -> bool {
        let chains_are = self.parts.iter().all(|part| match part {
            StreamPart::Bytes(chain) => chain.is_valid(),
            StreamPart::Pages(chain) => chain.is_valid(),
            StreamPart::Record(record) => record.plain.is_valid(),
            StreamPart::Unread { .. } => true,
        });
        let first_is = !matches!(self.parts.front(), Some(StreamPart::Bytes(_)));
        let ready = self.parts.iter().take_while(|part| part.is_ready());
        let counts_are = self.ready == ready.map(StreamPart::len).sum::<usize>()
            && self.claimed == self.parts.iter().map(StreamPart::len).sum::<usize>()
            && self.pinned == self.parts.iter().map(StreamPart::pinned).sum::<usize>();
        chains_are && first_is && counts_are && !self.parts.is_empty()
    }
}

//! What comes behind the mapped bytes of a [`StreamBuf`](super::StreamBuf): pages, places that wait for their contents, and
//! all that was appended behind those.
//!
//! Invariants ([`Tail::is_valid`]): `claimed` and `pinned` are the sums over the parts; `ready` is the length of the parts
//! before the first unread one. The first part is not mapped bytes, unless `settle` has not run yet.

use std::collections::VecDeque;

use mbuf::{Chain, MapError, MbufPool, Mixed};

use super::FillError;

/// The parts in order, and what they come to.
#[derive(Debug, Default)]
pub(super) struct Tail {
    parts: VecDeque<StreamPart>,
    ready: usize,
    claimed: usize,
    pinned: usize,
}

/// A run of bytes of one kind.
#[derive(Debug)]
enum StreamPart {
    /// Mapped bytes behind a part that is not.
    Bytes(Chain),
    /// Ready; some of it lies in pages.
    Pages(Chain<Mixed>),
    /// A claim that was not filled.
    #[doc(alias = "M_NOTREADY")]
    Unread { id: u32, len: usize },
}

impl StreamPart {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(chain) => chain.len(),
            Self::Pages(chain) => chain.len(),
            Self::Unread { len, .. } => *len,
        }
    }

    fn pinned(&self) -> usize {
        match self {
            Self::Bytes(chain) => chain.pinned(),
            Self::Pages(chain) => chain.pinned(),
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
        let mut bytes = match self.parts.pop_back() {
            Some(StreamPart::Bytes(last)) => last,
            other => {
                self.parts.extend(other);
                Chain::new()
            }
        };
        bytes.append_compact(pool, data);
        if !bytes.is_empty() {
            self.parts.push_back(StreamPart::Bytes(bytes));
        }
        self.count();
    }

    pub(super) fn append_pages(&mut self, data: Chain<Mixed>) {
        match self.parts.back_mut() {
            Some(StreamPart::Pages(last)) => last.append(data),
            _ => self.parts.push_back(StreamPart::Pages(data)),
        }
        self.count();
    }

    pub(super) fn append_unread(&mut self, id: u32, len: usize) {
        self.parts.push_back(StreamPart::Unread { id, len });
        self.count();
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
        match self.parts.pop_front()? {
            StreamPart::Bytes(bytes) => {
                self.count();
                Some(bytes)
            }
            other => {
                self.parts.push_front(other);
                None
            }
        }
    }

    /// Maps the first mbuf, if the first part is pages, and takes it. On failure nothing has changed.
    pub(super) fn map_first(&mut self, pool: &MbufPool) -> Result<Option<Chain>, MapError> {
        let Some(StreamPart::Pages(pages)) = self.parts.front_mut() else {
            return Ok(None);
        };
        let mut first = pages.pop_front().unwrap_or_default();
        let mapped = first.map(pool);
        if mapped.is_err() {
            first.append(std::mem::take(pages));
            *pages = first;
        } else if pages.is_empty() {
            self.parts.pop_front();
        }
        self.count();
        mapped.map(Some)
    }

    /// Drops the first `n` bytes, which are ready.
    pub(super) fn trim_front(&mut self, mut n: usize) {
        debug_assert!(n <= self.ready);
        while let Some(front) = self.parts.front_mut().filter(|part| part.is_ready()) {
            let here = front.len().min(n);
            n -= here;
            if here == front.len() {
                self.parts.pop_front();
            } else {
                match front {
                    StreamPart::Bytes(chain) => chain.trim_front(here),
                    StreamPart::Pages(chain) => chain.trim_front(here),
                    StreamPart::Unread { .. } => {}
                }
            }
            if n == 0 {
                break;
            }
        }
        self.count();
    }

    /// Counts anew. The parts are few: neighbours of one kind are one part, and a claim is a read from a file.
    fn count(&mut self) {
        let ready = self.parts.iter().take_while(|part| part.is_ready());
        self.ready = ready.map(StreamPart::len).sum();
        self.claimed = self.parts.iter().map(StreamPart::len).sum();
        self.pinned = self.parts.iter().map(StreamPart::pinned).sum();
    }

    pub(super) fn is_valid(&self) -> bool {
        let chains_are = self.parts.iter().all(|part| match part {
            StreamPart::Bytes(chain) => chain.is_valid(),
            StreamPart::Pages(chain) => chain.is_valid(),
            StreamPart::Unread { .. } => true,
        });
        let first_is = !matches!(self.parts.front(), Some(StreamPart::Bytes(_)));
        chains_are && first_is && self.ready <= self.claimed && !self.parts.is_empty()
    }
}

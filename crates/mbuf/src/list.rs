//! Walks over a list of mbufs: the operations that packets and chains have in common.
//!
//! Offsets are counted from the first byte of the list. A boundary between two mbufs is a place in
//! the right one for reading ([`seek`]), and in the left one for cutting ([`seek_left`]), so that a
//! cut leaves no empty mbuf behind. Empty mbufs may be anywhere.

use core::iter;

use crate::error::{NoBufs, WriteError};
use crate::mbuf::{Mbuf, MbufPtr};

mod unshare;

pub(crate) use unshare::MbufCopies;

/// The mbuf that holds byte `off`, and the offset within it. At the very end: the last mbuf and its
/// length. The list has at least `off` bytes.
pub(crate) fn seek(mut m: &Mbuf, mut off: usize) -> (&Mbuf, usize) {
    while off >= m.len() {
        let Some(next) = m.next() else { break };
        off -= m.len();
        m = next;
    }
    (m, off)
}

/// The first mbuf in which, or behind which, the list can be cut after `off` bytes, and the offset
/// within it. The list has at least `off` bytes.
pub(crate) fn seek_left(mut m: &mut Mbuf, mut off: usize) -> (&mut Mbuf, usize) {
    while off > m.len() && m.next().is_some() {
        off -= m.len();
        let Some(next) = m.next_mut() else {
            unreachable!("seen above")
        };
        m = next;
    }
    (m, off)
}

/// As [`seek`], for a caller that makes references to the bytes there.
pub(crate) fn seek_mut(mut m: &mut Mbuf, mut off: usize) -> (&mut Mbuf, usize) {
    while off >= m.len() && m.next().is_some() {
        off -= m.len();
        let Some(next) = m.next_mut() else {
            unreachable!("seen above")
        };
        m = next;
    }
    (m, off)
}

/// The last mbuf.
pub(crate) fn last(mut m: &Mbuf) -> &Mbuf {
    while let Some(next) = m.next() {
        m = next;
    }
    m
}

/// The last mbuf.
pub(crate) fn last_mut(mut m: &mut Mbuf) -> &mut Mbuf {
    while m.next().is_some() {
        let Some(next) = m.next_mut() else {
            unreachable!("seen above")
        };
        m = next;
    }
    m
}

/// Copies `dst.len()` bytes from `off` on. The list has them.
pub(crate) fn copy_out(head: &Mbuf, off: usize, mut dst: &mut [u8]) {
    let (mut m, mut at) = seek(head, off);
    loop {
        let src = &m.bytes()[at..];
        let n = src.len().min(dst.len());
        dst[..n].copy_from_slice(&src[..n]);
        dst = &mut dst[n..];
        at = 0;
        match m.next() {
            Some(next) if !dst.is_empty() => m = next,
            _ => break,
        }
    }
    debug_assert!(dst.is_empty());
}

/// Copies `n` bytes from byte `off` of the list `from` on to behind those of `to`, which has the
/// room ([`Mbuf::push_of`]). The list has them.
pub(crate) fn gather(to: &mut Mbuf, from: &Mbuf, off: usize, mut n: usize) {
    let (mut m, mut at) = seek(from, off);
    while n > 0 {
        let here = n.min(m.len() - at);
        if here > 0 {
            to.push_of(m, at, here);
        }
        n -= here;
        at = 0;
        let Some(next) = m.next() else { break };
        m = next;
    }
    debug_assert_eq!(n, 0);
}

/// Moves the first `n` bytes of the mbufs behind `m` to behind its own, where there is room.
pub(crate) fn pull(m: &mut Mbuf, n: usize) {
    let mut rest = m.take_next();
    if let Some(from) = &rest {
        gather(m, from, 0, n);
    }
    let gone = cut_front(&mut rest, n);
    m.set_next(rest);
    drop(gone);
}

/// The mbufs that hold a byte of `off..off + len`.
pub(crate) fn in_range(head: &Mbuf, mut off: usize, mut len: usize) -> impl Iterator<Item = &Mbuf> {
    let mut next = Some(head);
    iter::from_fn(move || {
        while len > 0 {
            let m = next?;
            next = m.next();
            let skip = off.min(m.len());
            let here = (m.len() - skip).min(len);
            (off, len) = (off - skip, len - here);
            if here > 0 {
                return Some(m);
            }
        }
        None
    })
}

/// Writes `src` over the bytes from `off` on, if no other mbuf shares any of them. The list has them.
pub(crate) fn write(head: &mut Mbuf, off: usize, src: &[u8]) -> Result<(), WriteError> {
    if !in_range(head, off, src.len()).all(Mbuf::is_writable) {
        return Err(WriteError::Shared);
    }
    copy_in(head, off, src);
    Ok(())
}

/// Writes `src` over the bytes from `off` on, which the list has and may be written.
pub(crate) fn copy_in(head: &mut Mbuf, mut off: usize, mut src: &[u8]) {
    let mut next = Some(head);
    while let Some(m) = next {
        let skip = off.min(m.len());
        let n = (m.len() - skip).min(src.len());
        if let Some(dst) = m.bytes_mut() {
            dst[skip..skip + n].copy_from_slice(&src[..n]);
        }
        (off, src) = (off - skip, &src[n..]);
        next = if src.is_empty() { None } else { m.next_mut() };
    }
}

/// Cuts the list behind the first `at` bytes of `m`, and returns the second part.
///
/// Inside of `m`, the second part shares its cluster, or copies internal data. On failure the list
/// is unchanged.
#[track_caller]
pub(crate) fn split(m: &mut Mbuf, at: usize) -> Result<Option<Mbuf>, NoBufs> {
    if at == m.len() {
        return Ok(m.take_next());
    }
    let mut second = m.share(at, m.len() - at)?;
    second.set_next(m.take_next());
    m.cut(at);
    Ok(Some(second))
}

/// Has every mbuf's storage overwritten with zeros on its last free. Returns false if some of it is lent.
pub(crate) fn zeroize(list: Option<&mut Mbuf>) -> bool {
    let (mut next, mut all) = (list, true);
    while let Some(m) = next {
        all &= m.zeroize();
        next = m.next_mut();
    }
    all
}

/// Takes `n` bytes from the front (all if there are fewer), and returns the emptied mbufs. The caller must drop them
/// only when its own counts are right again: the drop of lent storage may panic.
#[must_use = "what is dropped at once may panic too early"]
pub(crate) fn cut_front(list: &mut Option<Mbuf>, n: usize) -> Option<Mbuf> {
    let (mut m, mut left) = (list.as_mut(), n);
    if m.as_ref().is_none_or(|m| left < m.len()) || left == 0 {
        if let Some(m) = m {
            m.advance(left)
        }
        return None;
    }
    let mut rest = None;
    while let Some(here) = m {
        left -= here.len();
        if left == 0 || here.next().is_none_or(|next| left < next.len()) {
            rest = here.take_next();
            break;
        }
        m = here.next_mut();
    }
    if let Some(first) = &mut rest {
        first.advance(left)
    }
    core::mem::replace(list, rest)
}

/// Frees the mbufs before the first that has bytes.
pub(crate) fn drop_empty(list: &mut Option<Mbuf>) {
    while let Some(m) = list
        && m.len() == 0
    {
        *list = m.take_next();
    }
}

/// The list that [`share`] made, and where the range ended.
pub(crate) struct SharedRange {
    pub(crate) head: Option<Mbuf>,
    pub(crate) last: MbufPtr,
    /// Bytes of `last` up to the end of the range.
    pub(crate) end: usize,
}

/// Shows `len` bytes from byte `at` of `m` on in a new list. The old one has them.
#[inline(never)]
#[track_caller]
pub(crate) fn share(m: &mut Mbuf, at: usize, len: usize) -> Result<SharedRange, NoBufs> {
    let (mut head, mut tail) = (None, None::<MbufPtr>);
    let (mut last, mut end) = (MbufPtr::of(m), at);
    let (mut m, mut at, mut left) = (Some(m), at, len);
    while let (Some(from), 1..) = (m, left) {
        let n = left.min(from.len() - at);
        if n > 0 {
            let part = from.share(at, n)?;
            let mark = MbufPtr::of(&part);
            match &mut tail {
                // SAFETY: the last of the new list, which no other code has yet.
                Some(tail) => unsafe { tail.get_mut() }.set_next(Some(part)),
                None => head = Some(part),
            }
            tail = Some(mark);
            (last, end) = (MbufPtr::of(from), at + n);
        }
        left -= n;
        (m, at) = (from.next_mut(), 0);
    }
    Ok(SharedRange { head, last, end })
}

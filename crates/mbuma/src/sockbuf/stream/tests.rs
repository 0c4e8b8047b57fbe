use std::collections::VecDeque;

use mbuf::{OwnedPages, Pages, PoolConfig};
use proptest::prelude::*;

use super::*;

/// The byte at a place of the stream.
fn byte(at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 11) as u8
}

fn bytes(at: usize, len: usize) -> Vec<u8> {
    (at..at + len).map(byte).collect()
}

/// The same bytes in pages that need not be mapped.
fn pages(pool: &MbufPool, at: usize, len: usize) -> Chain<Mixed> {
    let mut owned = OwnedPages::new(pool, len.div_ceil(mbuf::PAGE_SIZE).max(1)).unwrap();
    owned.write_at(0, &bytes(at, len)).unwrap();
    Chain::from_pages(pool, &Pages::from(owned), 0, len).unwrap()
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Append(usize),
    Copy(usize),
    Pages(usize),
    Claim(u32),
    /// Which claim, and whether with pages.
    Fill(usize, bool),
    FillWrong(usize),
    Map(usize),
    Trim(usize),
    Take(usize),
    Share(usize, usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let len = 0..9000_usize;
    let op = prop_oneof![
        len.clone().prop_map(Op::Append),
        (0..300_usize).prop_map(Op::Copy),
        (1..9000_usize).prop_map(Op::Pages),
        (0..5000_u32).prop_map(Op::Claim),
        (any::<usize>(), any::<bool>()).prop_map(|(which, in_pages)| Op::Fill(which, in_pages)),
        (any::<usize>(), any::<bool>()).prop_map(|(which, in_pages)| Op::Fill(which, in_pages)),
        any::<usize>().prop_map(Op::FillWrong),
        len.clone().prop_map(Op::Map),
        len.clone().prop_map(Op::Trim),
        len.clone().prop_map(Op::Take),
        (len.clone(), len).prop_map(|(off, len)| Op::Share(off, len)),
    ];
    prop::collection::vec(op, 1..60)
}

/// The stream as places: `start..end` are in the buffer, and `open` are the claims that are not filled.
#[derive(Default)]
struct Model {
    start: usize,
    end: usize,
    open: VecDeque<(ClaimId, usize, usize)>,
}

impl Model {
    fn ready(&self) -> usize {
        let first = self.open.iter().map(|&(_, at, _)| at).min();
        first.unwrap_or(self.end) - self.start
    }

    fn apply(&mut self, pool: &MbufPool, buf: &mut StreamBuf, op: Op) {
        match op {
            Op::Append(len) => {
                buf.append(
                    pool,
                    Chain::from_slice(pool, &bytes(self.end, len)).unwrap(),
                );
                self.end += len;
            }
            Op::Copy(len) => {
                buf.extend_from_slice(pool, &bytes(self.end, len)).unwrap();
                self.end += len;
            }
            Op::Pages(len) => {
                buf.append_mixed(pool, pages(pool, self.end, len));
                self.end += len;
            }
            Op::Claim(len) => {
                let id = buf.claim(len);
                self.open.push_back((id, self.end, len as usize));
                self.end += len as usize;
            }
            Op::Fill(which, in_pages) => self.fill(pool, buf, which, in_pages),
            Op::FillWrong(which) => {
                let which = which.checked_rem(self.open.len()).unwrap_or(0);
                if let Some((id, at, len)) = self.open.get(which) {
                    let wrong = pages(pool, *at, len + 1);
                    assert_eq!(buf.fill(id, wrong), Err(FillError::WrongLength));
                }
            }
            Op::Map(upto) => buf.map_ready(pool, upto, None).unwrap(),
            Op::Trim(len) => {
                let len = len.min(self.ready());
                buf.trim_front(len);
                self.start += len;
            }
            Op::Take(len) => {
                buf.map_ready(pool, len, None).unwrap();
                let taken = buf.take_front(len).unwrap();
                assert_eq!(taken.len(), len.min(self.ready()), "all that is ready");
                assert_eq!(taken.to_vec(), bytes(self.start, taken.len()));
                self.start += taken.len();
            }
            Op::Share(off, len) => {
                let end = (off + len).min(self.ready());
                let off = off.min(end);
                buf.map_ready(pool, end, None).unwrap();
                let shared = buf.share(off, end - off).unwrap();
                assert_eq!(shared.to_vec(), bytes(self.start + off, end - off));
                let mut copy = vec![0; end - off];
                assert!(buf.copy_to(off, &mut copy));
                assert_eq!(copy, shared.to_vec());
            }
        }
    }

    fn fill(&mut self, pool: &MbufPool, buf: &mut StreamBuf, which: usize, in_pages: bool) {
        let which = which.checked_rem(self.open.len()).unwrap_or(0);
        let Some((id, at, len)) = self.open.remove(which) else {
            return;
        };
        let data = match in_pages && len > 0 {
            true => pages(pool, at, len),
            false => Chain::from_slice(pool, &bytes(at, len)).unwrap().into(),
        };
        assert_eq!(buf.fill(&id, data), Ok(()));
        let again = Chain::from_slice(pool, &bytes(at, len)).unwrap().into();
        assert_eq!(buf.fill(&id, again), Err(FillError::Gone), "filled twice");
    }

    fn check(&self, buf: &StreamBuf) {
        assert!(buf.is_valid(), "{buf:?}");
        assert_eq!(buf.claimed(), self.end - self.start);
        assert_eq!(buf.ready(), self.ready());
        let used = charge(buf.claimed(), buf.pinned());
        assert_eq!(buf.space(), buf.hiwat().saturating_sub(used));
    }
}

proptest! {
    /// Breaks if a byte is lost, moves, or is handed out before it is ready, in whatever order claims are filled; or if
    /// a count is not that of the model.
    #[test]
    fn it_is_a_byte_vector(ops in ops()) {
        let pool = MbufPool::new(PoolConfig::default()).unwrap();
        let (mut buf, mut model) = (StreamBuf::new(64 << 10), Model::default());
        for op in ops {
            model.apply(&pool, &mut buf, op);
            model.check(&buf);
        }
        while !model.open.is_empty() {
            let last = model.open.len() - 1;
            model.fill(&pool, &mut buf, last, false);
            model.check(&buf);
        }
        model.apply(&pool, &mut buf, Op::Take(usize::MAX));
        model.check(&buf);
        prop_assert!(buf.is_empty() && buf.tail.is_none());
        drop(buf);
        prop_assert_eq!(pool.live(), mbuf::Live::NONE);
    }
}

/// Breaks if an emptied buffer takes the contents of a claim from before, or keeps its room.
#[test]
fn a_claim_does_not_outlive_a_flush() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let mut buf = StreamBuf::new(10_000);
    let old = buf.claim(4000);
    assert_eq!((buf.ready(), buf.space()), (0, 6000));
    drop(buf.flush());
    assert_eq!(buf.space(), 10_000);
    let new = buf.claim(4000);
    assert_ne!(old, new);
    let data = || Chain::from(Chain::from_slice(&pool, &[7; 4000]).unwrap());
    assert_eq!(buf.fill(&old, data()), Err(FillError::Gone));
    assert_eq!(buf.ready(), 0, "the new claim is as it was");
    assert_eq!(buf.fill(&new, data()), Ok(()));
    assert_eq!(buf.ready(), 4000);
}

/// Breaks if pages that can't be read lose bytes, or bytes behind them become readable.
#[test]
fn pages_that_fail_stay_where_they_are() {
    struct Broken;
    impl mbuf::PageSource for Broken {
        fn read(&self, _page: u64, _off: usize, _to: &mut [u8]) -> std::io::Result<()> {
            Err(std::io::ErrorKind::UnexpectedEof.into())
        }
    }
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let mut buf = StreamBuf::new(1 << 20);
    buf.extend_from_slice(&pool, b"before").unwrap();
    let broken = Chain::from_pages(&pool, &Pages::new(Broken), 0, 50_000).unwrap();
    buf.append_mixed(&pool, broken);
    buf.extend_from_slice(&pool, b"behind").unwrap();
    for _ in 0..2 {
        assert!(buf.map_ready(&pool, 7, None).is_err());
        assert!(buf.is_valid());
        assert_eq!(buf.ready(), 50_012);
        assert_eq!(buf.share(0, 6).unwrap().to_vec(), b"before");
        assert!(!buf.copy_to(0, &mut [0; 7]));
    }
    buf.map_ready(&pool, 6, None)
        .expect("what is mapped needs no page");
}

/// Breaks if small data in large storage is charged only by its length, or well packed data by more than that.
#[test]
fn the_charge_is_the_larger_of_bytes_and_a_quarter_of_memory() {
    assert_eq!(charge(1000, 2304), 1000);
    assert_eq!(charge(10, 2304), 576);
    assert_eq!(charge(0, 0), 0);
}

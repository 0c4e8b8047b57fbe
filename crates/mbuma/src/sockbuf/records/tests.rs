use mbuf::PoolConfig;
use proptest::prelude::*;

use super::*;

/// Numbers that stand for the objects of a record.
type Things = Vec<u8>;

impl Ancillary for Things {
    fn count(&self) -> usize {
        self.len()
    }
}

fn record(pool: &MbufPool, data: &[u8], with: &[u8]) -> QueuedRecord<Things> {
    QueuedRecord {
        data: Chain::from_slice(pool, data).unwrap(),
        with: with.to_vec(),
    }
}

/// Breaks if the buffer exceeds its limit, or no longer keeps the limit after records were taken.
#[test]
fn order_and_limits() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let mut buf = RecordBuf::new(10_000, 3);
    for n in 0..3 {
        assert!(!buf.is_full());
        buf.push(record(&pool, &[n; 10], &[]));
    }
    assert!(buf.is_full(), "records");
    assert_eq!(buf.pop().unwrap().data.to_vec(), [0; 10]);
    assert!(!buf.is_full());
    buf.push(record(&pool, &[3; 12_000], &[]));
    for n in 1..3 {
        assert_eq!(buf.pop().unwrap().data.to_vec(), [n; 10]);
    }
    assert!(buf.is_full() && buf.is_above_half(), "bytes");
    assert_eq!(buf.pop().unwrap().data.len(), 12_000);
    assert!(buf.pop().is_none() && !buf.is_full() && !buf.is_above_half());
}

#[derive(Debug, Clone)]
enum Op {
    Push(Vec<u8>, Vec<u8>),
    Join(Vec<u8>, Vec<u8>),
    Bytes(usize),
    Pop,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let data = || prop::collection::vec(any::<u8>(), 1..200);
    let with = || prop::collection::vec(any::<u8>(), 0..2);
    let op = prop_oneof![
        (data(), with()).prop_map(|(data, with)| Op::Push(data, with)),
        (data(), with()).prop_map(|(data, with)| Op::Join(data, with)),
        (data(), with()).prop_map(|(data, with)| Op::Join(data, with)),
        (0..300_usize).prop_map(Op::Bytes),
        Just(Op::Pop),
    ];
    prop::collection::vec(op, 1..80)
}

proptest! {
    /// Breaks if bytes or their objects are lost, or change their order or their record, or if the charge is not the
    /// sum.
    #[test]
    fn it_is_a_list_of_messages(ops in ops()) {
        let pool = MbufPool::new(PoolConfig::default()).unwrap();
        let mut buf = RecordBuf::new(1 << 20, usize::MAX);
        let mut model: VecDeque<(Vec<u8>, Things)> = VecDeque::new();
        for op in ops {
            match op {
                Op::Push(data, with) => {
                    buf.push(record(&pool, &data, &with));
                    model.push_back((data, with));
                }
                Op::Join(data, with) => {
                    drop(buf.join(&pool, record(&pool, &data, &with)));
                    match model.back_mut() {
                        Some(last) if with.is_empty() && last.1.is_empty() => last.0.extend(data),
                        _ => model.push_back((data, with)),
                    }
                }
                Op::Bytes(max) => {
                    let taken = buf.take_bytes(max).unwrap();
                    let front = model.front_mut().filter(|_| max > 0);
                    let Some((data, with)) = front else {
                        prop_assert!(taken.data.is_empty());
                        continue;
                    };
                    let n = data.len().min(max);
                    prop_assert_eq!(taken.data.to_vec(), data.drain(..n).collect::<Vec<_>>());
                    prop_assert_eq!(taken.with, std::mem::take(with));
                    if data.is_empty() {
                        model.pop_front();
                    }
                }
                Op::Pop => {
                    let taken = buf.pop().map(|record| (record.data.to_vec(), record.with));
                    prop_assert_eq!(taken, model.pop_front());
                }
            }
            prop_assert_eq!(buf.charged, buf.queue.iter().map(QueuedRecord::charge).sum::<usize>());
            prop_assert_eq!(buf.queue.len(), model.len());
        }
        drop(buf.flush());
        prop_assert!(buf.is_empty() && buf.charged == 0);
        prop_assert_eq!(pool.live(), mbuf::Live::NONE);
    }
}

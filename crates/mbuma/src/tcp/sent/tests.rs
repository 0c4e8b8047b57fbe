//! The sent map beside a model that knows the state of each byte.

use proptest::prelude::*;

use super::records::RECORDS_MAX;
use super::*;
use crate::tcp::rate::DeliveryRate;

/// A byte, as the model knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Byte {
    sent_at: u64,
    sacked: bool,
    lost: bool,
    resent: bool,
}

/// All bytes that are not acknowledged, and where they begin.
#[derive(Debug)]
struct Model {
    una: SeqNum,
    bytes: Vec<Byte>,
    now: u64,
}

#[derive(Debug, Clone)]
enum Op {
    Send(u32, u64),
    Ack(u32),
    Sack(u32, u32),
    /// All ranges that were sent this long ago are lost.
    Detect(u64),
    AllLost,
    FirstLost(u32),
    /// Sends again so many bytes of the first lost range.
    Resend(u32),
    /// Sends the last bytes again, whatever their state.
    ResendLast(u32),
    ClearLost,
    ClearSacked,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1u32..60, 0u64..3).prop_map(|(len, later)| Op::Send(len, later)),
        2 => (0u32..90).prop_map(Op::Ack),
        6 => (0u32..200, 0u32..200).prop_map(|(a, b)| Op::Sack(a, b)),
        3 => (0u64..12).prop_map(Op::Detect),
        1 => Just(Op::AllLost),
        1 => (1u32..40).prop_map(Op::FirstLost),
        4 => (1u32..80).prop_map(Op::Resend),
        1 => (1u32..20).prop_map(Op::ResendLast),
        1 => Just(Op::ClearLost),
        1 => Just(Op::ClearSacked),
    ]
}

fn stamp() -> SendStamp {
    DeliveryRate::default().on_send(Time::from_nanos(1), 0)
}

impl Model {
    fn end(&self) -> SeqNum {
        self.una + self.bytes.len() as u32
    }

    fn count(&self, f: impl Fn(&Byte) -> bool) -> u32 {
        self.bytes.iter().filter(|b| f(b)).count() as u32
    }

    /// Applies `op` to both; what the map delivers must be what the model says.
    fn apply(&mut self, map: &mut SentMap, op: &Op) {
        let now = Time::from_nanos(self.now);
        let mut delivered = 0;
        let mut expected = 0;
        match *op {
            Op::Send(len, later) => {
                self.now += later;
                let range = self.end()..self.end() + len;
                map.push(SentRecord::new(range, Time::from_nanos(self.now), stamp()));
                let byte = Byte {
                    sent_at: self.now,
                    sacked: false,
                    lost: false,
                    resent: false,
                };
                self.bytes.extend((0..len).map(|_| byte));
            }
            Op::Ack(len) => {
                let len = len.min(self.bytes.len() as u32);
                self.una += len;
                expected = self
                    .bytes
                    .drain(..len as usize)
                    .filter(|b| !b.sacked)
                    .count();
                map.ack(self.una, |r| delivered += r.len());
            }
            Op::Sack(a, b) => {
                let (a, b) = (a.min(b), a.max(b).min(self.bytes.len() as u32));
                if a == 0 || a >= b {
                    return;
                }
                for byte in &mut self.bytes[a as usize..b as usize] {
                    expected += usize::from(!byte.sacked);
                    (byte.sacked, byte.lost) = (true, false);
                }
                map.sack(self.una + a..self.una + b, 1, |r| delivered += r.len());
            }
            Op::Detect(age) => {
                let limit = self.now.saturating_sub(age);
                let lost = |b: &Byte| !b.sacked && !b.lost && b.sent_at < limit;
                let count = self.count(lost);
                let bytes = map.detect_lost(|r| r.sent_at < Time::from_nanos(limit));
                assert_eq!(bytes, count);
                self.bytes
                    .iter_mut()
                    .filter(|b| lost(b))
                    .for_each(|b| b.lost = true);
            }
            Op::AllLost => {
                assert_eq!(map.mark_all_lost(), self.count(|b| !b.sacked && !b.lost));
                self.bytes.iter_mut().for_each(|b| b.lost = !b.sacked);
            }
            Op::FirstLost(len) => {
                let first = self.bytes.iter_mut().take(len as usize);
                let mut marked = 0;
                for byte in first.take_while(|b| !b.sacked) {
                    marked += u32::from(!byte.lost);
                    byte.lost = true;
                }
                assert_eq!(map.mark_first_lost(len), marked);
            }
            Op::Resend(len) => {
                self.now += 1;
                if let Some(range) = map.next_lost() {
                    let end = range.end.min(range.start + len);
                    self.resend(map, range.start..end);
                }
            }
            Op::ResendLast(len) => {
                self.now += 1;
                let from = self.bytes.len() - (len as usize).min(self.bytes.len());
                if self.bytes[from..].iter().all(|b| !b.sacked) && from < self.bytes.len() {
                    self.resend(map, self.una + from as u32..self.end());
                }
            }
            Op::ClearLost => {
                map.clear_lost();
                self.bytes.iter_mut().for_each(|b| b.lost = false);
            }
            Op::ClearSacked => {
                // The send time of each part of a joined record is not known any more: the map may differ.
                if self.count(|b| b.sacked) == 0 {
                    map.clear_sacked();
                }
            }
        }
        assert!(self.now >= now.as_nanos());
        assert_eq!(delivered, expected as u32, "{op:?}");
    }

    fn resend(&mut self, map: &mut SentMap, range: Range<SeqNum>) {
        map.resend(range.clone(), Time::from_nanos(self.now), stamp());
        let from = range.start.since(self.una) as usize;
        for byte in &mut self.bytes[from..from + range.end.since(range.start) as usize] {
            *byte = Byte {
                sent_at: self.now,
                sacked: false,
                lost: false,
                resent: true,
            };
        }
    }

    fn compare(&self, map: &SentMap) {
        assert!(map.is_valid(), "{map:?}");
        assert!(map.covers(self.una, self.end()), "{map:?}");
        assert_eq!(map.is_empty(), self.bytes.is_empty());
        assert_eq!(map.in_flight(), self.count(|b| !b.sacked && !b.lost));
        assert_eq!(map.sacked(), self.count(|b| b.sacked));
        assert_eq!(map.lost(), self.count(|b| b.lost));
        assert_eq!(
            map.is_first_sacked(),
            self.bytes.first().is_some_and(|b| b.sacked)
        );
        let lost = self.bytes.iter().position(|b| b.lost);
        let next = map.next_lost();
        assert_eq!(
            next.as_ref().map(|r| r.start),
            lost.map(|at| self.una + at as u32)
        );
        if let (Some(next), Some(at)) = (next, lost) {
            let run = self.bytes[at..].iter().take_while(|b| b.lost).count();
            assert_eq!(next.end.since(next.start), run as u32);
        }
        let SentMap::Many(m) = map else { return };
        for record in &m.list {
            let from = record.start.since(self.una) as usize;
            for byte in &self.bytes[from..from + record.len() as usize] {
                assert_eq!((byte.sacked, byte.lost), (record.sacked, record.lost));
                if !byte.sacked {
                    assert_eq!(byte.sent_at, record.sent_at.as_nanos());
                    assert_eq!(byte.resent, record.resent);
                }
            }
        }
    }
}

/// Streams of each property: SENT_MAP_STREAMS, else 2,000.
fn streams() -> u32 {
    let asked = std::env::var("SENT_MAP_STREAMS").ok();
    asked.and_then(|s| s.parse().ok()).unwrap_or(2000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(streams()))]
    #[test]
    fn it_knows_what_a_model_of_each_byte_knows(
        start in any::<u32>(),
        ops in prop::collection::vec(op(), 1..80),
    ) {
        // Breaks when a range is counted twice or lost, when a mark spreads to bytes that it does not concern, or
        // when an order that the map relies on does not hold.
        let mut map = SentMap::default();
        let mut model = Model { una: SeqNum(start), bytes: Vec::new(), now: 1 };
        for op in &ops {
            model.apply(&mut map, op);
            model.compare(&map);
        }
    }

    #[test]
    fn what_was_sacked_may_be_dropped(
        start in any::<u32>(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        // Breaks when a receiver that reneges leaves the map in disorder.
        let mut map = SentMap::default();
        let mut model = Model { una: SeqNum(start), bytes: Vec::new(), now: 1 };
        ops.iter().for_each(|op| model.apply(&mut map, op));
        map.clear_sacked();
        prop_assert!(map.is_valid(), "{map:?}");
        prop_assert_eq!(map.sacked(), 0);
        let lost = map.detect_lost(|_| true);
        prop_assert_eq!(map.in_flight(), 0);
        prop_assert!(lost <= model.bytes.len() as u32);
        prop_assert!(map.is_valid(), "{map:?}");
    }
}

/// A map of `holes` segments that did not arrive, each with one behind it that did.
fn with_holes(holes: u32) -> SentMap {
    let mut map = SentMap::default();
    for n in 0..2 * holes + 100 {
        let start = SeqNum(n * 1448);
        let sent_at = Time::from_micros(u64::from(n));
        map.push(SentRecord::new(start..start + 1448, sent_at, stamp()));
    }
    for n in 0..holes {
        let start = SeqNum((2 * n + 1) * 1448);
        map.sack(start..start + 1448, 1448, |_| {});
    }
    map
}

/// The records that acknowledgements visit which each report the next segment, and from which each loss detection
/// finds the next hole lost.
fn visits(holes: u32) -> usize {
    let mut map = with_holes(holes);
    let SentMap::Many(m) = &mut map else {
        unreachable!("there are many")
    };
    m.visited = 0;
    for n in 0..50 {
        let start = SeqNum((2 * holes + n) * 1448);
        map.sack(start..start + 1448, 1448, |_| {});
        let limit = Time::from_micros(u64::from(2 * n + 1));
        map.detect_lost(|r| r.sent_at < limit);
        if let Some(range) = map.next_lost() {
            map.resend(
                range,
                Time::from_secs(1) + std::time::Duration::from_micros(n.into()),
                stamp(),
            );
        }
        map.detect_lost(|r| r.sent_at < limit);
    }
    let SentMap::Many(m) = &map else {
        unreachable!("there are many")
    };
    m.visited
}

#[test]
fn ten_thousand_holes_cost_what_ten_cost() {
    // Breaks when an acknowledgement walks over the holes (CVE-2018-5390, CVE-2019-11478): at most four times as many
    // records, as the goal says.
    let (few, many) = (visits(60), visits(8_000));
    println!("records visited by 50 acknowledgements: {few} with 60 holes, {many} with 8000");
    assert!(many <= 4 * few, "{many} records, and {few} with few holes");
}

#[test]
fn each_repair_of_a_lost_window_visits_what_it_repairs() {
    // Breaks when a repair walks over all that is lost behind it: 8 million records for this window.
    const RECORDS: u32 = 4000;
    let mut map = SentMap::default();
    for n in 0..RECORDS {
        let start = SeqNum(n * 1448);
        let sent_at = Time::from_micros(n.into());
        map.push(SentRecord::new(start..start + 1448, sent_at, stamp()));
    }
    map.mark_all_lost();
    let mut repairs = 0;
    while let Some(range) = map.next_lost() {
        assert_eq!(range, SeqNum(repairs * 1448)..SeqNum(RECORDS * 1448));
        let now = Time::from_secs(1) + std::time::Duration::from_micros(repairs.into());
        map.resend(range.start..range.start + 1448, now, stamp());
        repairs += 1;
    }
    let SentMap::Many(m) = &map else {
        unreachable!("there are many")
    };
    assert_eq!(repairs, RECORDS);
    assert!(m.visited <= RECORDS as usize, "{}", m.visited);
}

#[test]
fn blocks_make_a_bounded_number_of_records() {
    // Breaks when a peer makes the map grow by one byte blocks (CVE-2019-11479): each connection would have its 800 kB.
    let mut map = SentMap::default();
    map.push(SentRecord::new(
        SeqNum(0)..SeqNum(1 << 20),
        Time::from_secs(1),
        stamp(),
    ));
    for n in 0..100_000 {
        map.sack(SeqNum(2 * n + 1)..SeqNum(2 * n + 2), 1448, |_| {});
    }
    let SentMap::Many(m) = &map else {
        unreachable!("there are many")
    };
    let segments = (1 << 20) / 1448;
    assert!(m.list.len() <= 4 * segments + 64 + 1, "{}", m.list.len());
    assert!(map.is_valid());
    let mut delivered = 0;
    map.ack(SeqNum(1 << 20), |r| delivered += r.len());
    assert!(delivered > 0 && map.is_empty());
}

#[test]
fn small_segments_make_a_bounded_number_of_records() {
    // Breaks when a program that sends single bytes makes the map larger than its data.
    let mut map = SentMap::default();
    for n in 0..50_000 {
        let sent_at = Time::from_micros(n.into());
        map.push(SentRecord::new(SeqNum(n)..SeqNum(n + 1), sent_at, stamp()));
    }
    let SentMap::Many(m) = &map else {
        unreachable!("there are many")
    };
    assert!(m.list.len() <= RECORDS_MAX);
    assert!(map.is_valid() && map.covers(SeqNum(0), SeqNum(50_000)));
}

#[test]
fn a_single_record_needs_no_box() {
    // Breaks when each request and its answer allocate.
    let mut map = SentMap::default();
    map.push(SentRecord::new(
        SeqNum(5)..SeqNum(9),
        Time::from_secs(1),
        stamp(),
    ));
    map.detect_lost(|_| false);
    map.ack(SeqNum(7), |r| assert_eq!(r.len(), 2));
    assert!(matches!(map, SentMap::Few(Some(_))));
    map.ack(SeqNum(9), |r| assert_eq!(r.len(), 2));
    assert!(matches!(map, SentMap::Few(None)));
}

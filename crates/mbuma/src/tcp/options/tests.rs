//! Tests of the options of segments.

use kern::Random;
use mbuf::{Chain, Live, MbufPool, PoolConfig};
use proptest::prelude::*;
use wire::{SackBlock, SeqNum, TcpFields, TcpHeader};

use super::super::pcb::State;
use super::super::timestamps::TimestampClock;
use super::*;
use crate::config::TcpConfig;

const NOW: Time = Time::from_secs(7);
const RCV_MSS: u32 = 1460;

/// A connection whose peer has offered this, with `ranges` queued.
fn connection(pool: &MbufPool, ours: [bool; 2], peer: &SegmentOptions, ranges: u32) -> Tcb {
    let [timestamps, sack] = ours;
    let config = TcpConfig {
        timestamps,
        sack,
        ..TcpConfig::default()
    };
    let mut t = Tcb::new(&config, State::Established, SeqNum(1), RCV_MSS, NOW);
    agree(&mut t, peer, NOW);
    for n in 0..ranges {
        let data = Chain::from_slice(pool, &[1; 10]).expect("a new pool has room");
        let _ = t.recv.reass.insert(pool, SeqNum(100 * n + 100), data, 16);
    }
    t
}

fn offer(mss: Option<u16>, timestamps: bool, sack_permitted: bool) -> SegmentOptions {
    let ts = timestamps.then_some(Timestamps { value: 5, echo: 0 });
    let syn = SynOptions {
        mss,
        window_scale: None,
        sack_permitted,
    };
    SegmentOptions {
        ts,
        syn,
        ..SegmentOptions::default()
    }
}

fn options_of(t: &mut Tcb, len: u32) -> TcpOptions {
    let mut options = TcpOptions::default();
    set(&mut options, t, len, false, NOW);
    options
}

proptest! {
    /// RFC 6691: breaks if a segment with its options is longer than the maximum segment size of the peer or of our
    /// link, or a full one shorter than need be; if an option goes that was not agreed on, or a block not that there is
    /// room for.
    #[test]
    fn a_segment_fits_the_mss(
        ours: [bool; 2],
        mss in prop::option::of(MSS_MIN as u16..9000),
        theirs: [bool; 2],
        ranges in 0..6_u32,
        less in 0..60_u32,
    ) {
        let pool = MbufPool::new(PoolConfig::default()).expect("address space");
        let peer = offer(mss, theirs[0], theirs[1]);
        let mut t = connection(&pool, ours, &peer, ranges);
        let limit = mss.map_or(MSS_DEFAULT, u32::from).min(RCV_MSS);
        let mss = t.send.mss;
        let full = options_of(&mut t, mss);
        prop_assert_eq!(mss + full.emitted_len() as u32, limit);
        let options = options_of(&mut t, mss - less);
        prop_assert!(mss - less + options.emitted_len() as u32 <= limit);
        prop_assert_eq!(options.timestamps.is_some(), ours[0] && theirs[0]);
        let most = if options.timestamps.is_some() { 3 } else { 4 };
        let room = less.saturating_sub(4) / 8;
        let expected = if ours[1] && theirs[1] { ranges.min(most).min(room) } else { 0 };
        prop_assert_eq!(options.sack.len() as u32, expected);
        t.close(None);
        prop_assert_eq!(pool.live(), Live::NONE);
    }

    /// Breaks if an option of a segment is lost, or a SYN's options count on other segments.
    #[test]
    fn options_are_read_as_they_were_written(seed: u64, syn: bool, blocks in 0..=3_u32) {
        let mut r = Random::from_seed(seed);
        let block = |n| SackBlock { left: SeqNum(n), right: SeqNum(n + 1) };
        let sent = TcpOptions {
            mss: syn.then_some(r.next_u32() as u16),
            window_scale: syn.then_some(7),
            sack_permitted: syn && r.chance(0.5),
            timestamps: r.chance(0.7).then(|| (r.next_u32(), r.next_u32())),
            sack: if syn { SackBlocks::new() } else { (0..blocks).map(block).collect() },
            acc_ecn: None,
        };
        let flags = if syn { TcpFlags::SYN } else { TcpFlags::ACK };
        let fields = TcpFields { flags, options: sent, ..TcpFields::default() };
        let mut bytes = [0; TcpHeader::LEN_MAX];
        let len = fields.emit(&mut bytes);
        let mut read = SegmentOptions::default();
        read.read(&TcpHeader::parse(&bytes[..len]).expect("ours"));
        prop_assert_eq!(read.ts.map(|ts| (ts.value, ts.echo)), sent.timestamps);
        prop_assert_eq!(read.sack, sent.sack);
        let expected = SynOptions {
            mss: sent.mss,
            window_scale: sent.window_scale,
            sack_permitted: sent.sack_permitted,
        };
        prop_assert_eq!(read.syn, expected);
    }
}

#[test]
fn only_what_was_offered_is_answered() {
    // RFC 7323 2.2 and 3.2, RFC 2018 2: breaks if a SYN-ACK has an option that the SYN had not, which some peers take
    // for an error, or loses one that it had.
    let pool = MbufPool::new(PoolConfig::default()).expect("address space");
    let (config, flags) = (TcpConfig::default(), TcpFlags::SYN | TcpFlags::ACK);
    for theirs in [[false, false], [true, false], [false, true], [true, true]] {
        let mut t = connection(
            &pool,
            [true, true],
            &offer(Some(1000), theirs[0], theirs[1]),
            0,
        );
        let answer = of_syn(&config, &mut t, flags, NOW);
        assert_eq!(
            answer.timestamps.map(|(_, echo)| echo),
            theirs[0].then_some(5)
        );
        assert_eq!(answer.sack_permitted, theirs[1]);
        assert_eq!((answer.mss, answer.window_scale), (Some(1460), None));
    }
    let mut syn = Tcb::new(&config, State::SynSent, SeqNum(1), RCV_MSS, NOW);
    let offered = of_syn(&config, &mut syn, TcpFlags::SYN, NOW);
    let clock = TimestampClock::new(true);
    assert_eq!(offered.timestamps, Some((clock.value(NOW), 0)));
    assert!(offered.sack_permitted && offered.window_scale.is_some());
    assert_eq!(offered.emitted_len(), 20);
}

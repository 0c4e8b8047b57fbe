//! A peer whose segments say anything: acknowledgements, blocks, counts of AccECN, echoes, marks and windows of a seed,
//! to each congestion control, with pacing and without.

use crate::common::*;
use crate::sack::any_block;
use kern::Random;
use mbuma::congestion::CongestionControl;
use mbuma::{EcnMode, TcpStream};
use sim::Segment;
use wire::{AccEcnOption, SackBlock, SeqNum, TcpFlags, TcpOptions};

/// Streams of one bench, a connection each.
const STREAMS: u64 = 50;

/// The bits that AccECN uses in each segment.
const ACE: [TcpFlags; 3] = [TcpFlags::ECE, TcpFlags::CWR, TcpFlags::AE];

#[test]
fn a_peer_that_lies_breaks_no_sender() {
    // Breaks when counts of marks, echoes, blocks and acknowledgements that cannot be true make the arithmetic of an
    // estimator or a congestion control overflow (debug builds check it), let more into the network than the peer's
    // window allows, stop the connection for good, or leave memory behind. LIAR_STREAMS=n runs so many, LIAR_SEED=n
    // begins with that seed's bench.
    let number = |name| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let first = number("LIAR_SEED").unwrap_or(0) / STREAMS;
    let benches = number("LIAR_STREAMS").unwrap_or(300).div_ceil(STREAMS);
    for bench in first..first + benches {
        let mut b = Bench::tuned(|c| {
            c.tcp.pacing = bench % 2 == 0;
            c.tcp.ecn = [EcnMode::OfferAccurate, EcnMode::Offer][(bench / 2 % 2) as usize];
        });
        for seed in bench * STREAMS..(bench + 1) * STREAMS {
            println!("LIAR_SEED={seed}");
            Liar::begin(&mut b, seed).lie();
        }
    }
}

/// The peer of one connection.
struct Liar<'a> {
    b: &'a mut Bench,
    r: Random,
    hand: Hand,
    stream: TcpStream,
    mss: usize,
    shift: u8,
    /// The highest sequence number of the stack, and the last value of its clock.
    nxt: SeqNum,
    clock: u32,
}

impl<'a> Liar<'a> {
    fn begin(b: &'a mut Bench, seed: u64) -> Self {
        let mut r = Random::from_seed(seed);
        let stream = b.connect();
        let name = CongestionControl::NAMES[r.below(3) as usize];
        stream.set_congestion(name.parse().expect("a known name"));
        stream.set_nodelay(r.chance(0.5));
        let syn = b.one();
        let mut hand = Hand::answering(&Segment {
            flags: SYN,
            ..syn.clone()
        });
        hand.ts = r.chance(0.7).then_some((r.next_u32(), 0));
        let clock = syn.options.timestamps.map_or(0, |(value, _)| value);
        hand.ts = hand.ts.map(|(value, _)| (value, clock));
        b.run(ms([0, 1, 50, 400][r.below(4) as usize]));
        let mss = [64, 256, 536, 1460][r.below(4) as usize];
        let shift = r.below(15) as u8;
        b.say(&Segment {
            options: TcpOptions {
                mss: Some(mss as u16),
                sack_permitted: r.chance(0.8),
                window_scale: Some(shift),
                ..hand.segment(SYN).options
            },
            ..hand.segment(SYN | ACK | any_flags(&mut r))
        });
        hand.snd += 1;
        Self {
            nxt: hand.rcv,
            b,
            r,
            hand,
            stream,
            mss,
            shift,
            clock,
        }
    }

    /// Takes what the stack has sent.
    fn look(&mut self) {
        for segment in self.b.seen() {
            self.nxt = self.nxt.max(segment.end());
            if let Some((value, _)) = segment.options.timestamps {
                self.clock = value;
            }
        }
    }

    /// The next segment.
    fn lie_once(&mut self) -> Segment {
        let r = &mut self.r;
        let flight = self.nxt.since(self.hand.rcv);
        self.hand.rcv += match r.below(6) {
            0 => flight,
            1 => r.below(u64::from(flight) + 1) as u32,
            2 => flight.min(1),
            _ => 0,
        };
        self.hand.window = match r.below(6) {
            0 => r.below(3) as u16,
            1 => u16::MAX,
            _ => ((44 * self.mss) >> self.shift).clamp(1, 65_535) as u16,
        };
        if let Some((value, echo)) = &mut self.hand.ts {
            *value = value.wrapping_add(r.below(50) as u32);
            *echo = match r.below(5) {
                0 => r.next_u32(),
                1 => self.clock.wrapping_sub(r.below(5000) as u32),
                _ => self.clock,
            };
        }
        // All options have room beside each other.
        let counts = r.chance(0.3).then(|| {
            let counts = [(); 3].map(|()| r.next_u32() >> r.below(32));
            AccEcnOption::new(counts, r.below(4) as u8, r.chance(0.5))
        });
        let blocks_max = if counts.is_some() { 1 } else { 3 };
        let blocks = 0..r.below(blocks_max + 1);
        let blocks = blocks.map(|_| any_block(r, self.hand.rcv, flight));
        let sack = blocks.map(|(left, right)| SackBlock { left, right });
        let sack = sack.collect();
        let flags = ACK | any_flags(r);
        let lie = match r.below(5) {
            0 => self.hand.data(&bytes(1 + r.below(300) as usize)),
            _ => self.hand.segment(flags),
        };
        let options = TcpOptions {
            sack,
            acc_ecn: counts,
            ..lie.options
        };
        Segment {
            flags: lie.flags | flags,
            ecn: r.below(4) as u8,
            options,
            ..lie
        }
    }

    fn lie(mut self) {
        let data = bytes(8 * self.mss);
        for _ in 0..150 {
            self.look();
            let lie = self.lie_once();
            self.b.say(&lie);
            let info = self.stream.info();
            let most = info.snd_wnd.max(1) + self.mss as u32;
            assert!(
                info.in_flight <= most.max(self.nxt.since(self.hand.rcv)),
                "{info:?}"
            );
            let _ = self.stream.send(&data);
            read(&self.stream);
            let pause = [0, 0, 0, 1, 1, 20, 300, 11_000][self.r.below(8) as usize];
            self.b.run(ms(pause));
        }
        self.be_honest();
        self.stream.abort();
        drop(self.stream);
        self.b.run(ms(0));
        self.b.seen();
    }

    /// All bytes arrive, unless the stack has given the liar up.
    fn be_honest(&mut self) {
        for _ in 0..4000 {
            self.look();
            self.hand.rcv = self.nxt;
            self.hand.window = ((200 * self.mss) >> self.shift).clamp(1, 65_535) as u16;
            if let Some((value, echo)) = &mut self.hand.ts {
                (*value, *echo) = (value.wrapping_add(10), self.clock);
            }
            self.b.say(&self.hand.segment(ACK));
            self.b.run(ms(10));
            if self.stream.info().send_queue == 0 {
                break;
            }
        }
        let left = self.stream.info().send_queue;
        assert!(left == 0 || self.stream.error().is_some(), "{left} bytes");
    }
}

fn any_flags(r: &mut Random) -> TcpFlags {
    ACE.into_iter().filter(|_| r.chance(0.5)).collect()
}

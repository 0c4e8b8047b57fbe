//! Both paths, side by side: two equal connections get the same segments, and one of them knows no fast path.

use std::cell::Cell;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use kern::{Random, Time, VirtualClock};
use mbuf::{Chain, Live};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use wire::{SackBlock, SeqNum};

use super::*;
use crate::config::EcnMode;
use crate::inet::Ends;
use crate::tcp::ecn::{AccEcnChoices, Ecn};
use crate::tcp::input::Verdict;
use crate::tcp::options::SegmentOptions;
use crate::tcp::pcb::Inpcb;
use crate::tcp::steps::{run, synchronized};
use crate::tcp::timestamps::Timestamps;
use crate::tcp::visit;
use crate::{Config, Stack};

const ISS: SeqNum = SeqNum(u32::MAX - 3000);
const IRS: SeqNum = SeqNum(u32::MAX - 5000);
const MSS: u32 = 1000;

#[derive(Debug, Clone)]
enum Op {
    /// Time passes, in microseconds, and timers run.
    Pass(u64),
    /// The program writes.
    Write(usize),
    /// The program reads all.
    Read,
    /// The program closes its side.
    Close,
    Segment(Incoming),
}

/// A segment; numbers are relative to those that are expected.
#[derive(Debug, Clone)]
struct Incoming {
    seq: i32,
    /// The share of the flight that it acknowledges, in 1/255; above three quarters it is all.
    share: u8,
    /// More than that.
    beyond: i32,
    flags: TcpFlags,
    window: u16,
    len: usize,
    /// The value of its timestamp, against the last one's.
    ts: Option<i32>,
    sack: Option<(u32, u32)>,
    mark: u8,
}

fn incoming() -> impl Strategy<Value = Incoming> {
    let near = prop_oneof![9 => Just(0), 1 => -2500..4000i32];
    let beyond = prop_oneof![20 => Just(0), 1 => -4000..4000i32];
    let rare = vec![
        TcpFlags::SYN,
        TcpFlags::FIN,
        TcpFlags::RST,
        TcpFlags::URG,
        TcpFlags::ECE,
        TcpFlags::CWR,
        TcpFlags::ACK,
    ];
    let usual = prop_oneof![Just(TcpFlags::ACK), Just(TcpFlags::ACK | TcpFlags::PSH)];
    let toggled = prop_oneof![30 => Just(TcpFlags::empty()), 1 => prop::sample::select(rare)];
    let window = prop_oneof![6 => Just(20_000u16), 2 => any::<u16>(), 1 => Just(0)];
    let len = prop_oneof![2 => Just(0), 4 => 1..=MSS as usize, 1 => 1..40_000usize];
    let ts = prop::option::weighted(0.8, prop_oneof![9 => 0..5i32, 1 => -3..0i32]);
    let sack = prop::option::weighted(0.05, (0..4000u32, 1..2000u32));
    let mark = prop_oneof![20 => Just(0u8), 1 => 0..4u8];
    let ends = (near, any::<u8>(), beyond, usual, toggled);
    (ends, window, len, ts, sack, mark).prop_map(|(ends, window, len, ts, sack, mark)| {
        let (seq, share, beyond, usual, toggled) = ends;
        let flags = usual.symmetric_difference(toggled);
        Incoming {
            seq,
            share,
            beyond,
            flags,
            window,
            len,
            ts,
            sack,
            mark,
        }
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..3000u64).prop_map(Op::Pass),
        1 => (0..500_000u64).prop_map(Op::Pass),
        8 => (1..4000usize).prop_map(Op::Write),
        4 => Just(Op::Read),
        1 => prop::bool::weighted(0.1).prop_map(|close| if close { Op::Close } else { Op::Read }),
        20 => incoming().prop_map(Op::Segment),
    ]
}

/// What the ends agreed on.
#[derive(Debug, Clone)]
struct Agreed {
    timestamps: bool,
    sack: bool,
    /// The flags of ECN in the peer's SYN.
    ecn: TcpFlags,
    orphan: bool,
}

fn agreed() -> impl Strategy<Value = Agreed> {
    let orphan = prop::bool::weighted(0.05);
    let classic = TcpFlags::ECE | TcpFlags::CWR;
    let ecn = prop_oneof![
        20 => Just(TcpFlags::empty()),
        1 => Just(classic),
        1 => Just(classic | TcpFlags::AE),
    ];
    (any::<bool>(), any::<bool>(), ecn, orphan).prop_map(|(timestamps, sack, ecn, orphan)| Agreed {
        timestamps,
        sack,
        ecn,
        orphan,
    })
}

/// One of both stacks, with its connection.
struct Side {
    stack: Stack,
    pcb: Arc<Inpcb>,
    fast: bool,
}

fn stack(clock: &Arc<VirtualClock>) -> Stack {
    let clock = Arc::clone(clock);
    Stack::new(Config::new(clock, Random::from_seed(1))).expect("address space")
}

impl Side {
    fn new(stack: &Stack, fast: bool, agreed: &Agreed) -> Self {
        let now = stack.now();
        let mut t = Tcb::new(&stack.0.tcp.config, State::Established, ISS, MSS, now);
        (t.send.una, t.send.nxt) = (ISS + 1, ISS + 1);
        (t.send.wnd, t.send.wnd_max) = (20_000, 20_000);
        (t.send.wl1, t.send.wl2) = (IRS, ISS + 1);
        (t.recv.irs, t.recv.nxt, t.recv.last_ack_sent) = (IRS, IRS + 1, IRS + 1);
        t.recv.adv = IRS + 60_001;
        t.conn.ts.on = agreed.timestamps;
        t.conn.sack_on = agreed.sack;
        t.conn.orphan = agreed.orphan;
        t.conn.ecn = Ecn::new(EcnMode::Accept, false);
        t.conn
            .ecn
            .begin(TcpFlags::SYN | agreed.ecn, 0, AccEcnChoices::default());
        let (local, peer) = ("192.0.2.1:80", "192.0.2.2:4000");
        let ends = Ends::between(local.parse().unwrap(), peer.parse().unwrap()).unwrap();
        let pcb = Inpcb::new(ends, 1, t);
        let stack = stack.clone();
        Self { stack, pcb, fast }
    }

    fn change(&self, f: impl FnOnce(&mut Tcb)) {
        self.stack.0.enter(|batch| {
            let mut t = visit::begin(&self.pcb);
            f(&mut t);
            visit::end(batch, &self.pcb, t);
        });
    }

    /// The segment, as the connection would get it now.
    fn segment(&self, incoming: &Incoming) -> Segment {
        let t = self.pcb.lock_inside();
        let share = match incoming.share {
            ..192 => u64::from(t.flight()) * u64::from(incoming.share) / 255,
            _ => u64::from(t.flight()),
        };
        let seq = SeqNum((t.recv.nxt.0).wrapping_add_signed(incoming.seq));
        let ack = SeqNum(
            (t.send.una + share as u32)
                .0
                .wrapping_add_signed(incoming.beyond),
        );
        let recent = t.conn.ts.recent().unwrap_or(0);
        let bytes = vec![7; incoming.len];
        let data = Chain::from_slice(self.stack.pool(), &bytes).expect("the pool is large");
        let mut options = SegmentOptions {
            ts: incoming.ts.map(|ahead| Timestamps {
                value: recent.wrapping_add_signed(ahead),
                echo: t.conn.ts.value(self.stack.now()),
            }),
            ..SegmentOptions::default()
        };
        if let Some((start, len)) = incoming.sack {
            let left = t.send.una + start;
            options.sack.push(SackBlock {
                left,
                right: left + len,
            });
        }
        Segment {
            ends: self.pcb.ends(),
            seq,
            start: seq,
            ack,
            flags: incoming.flags,
            window: incoming.window,
            urgent: 1,
            options,
            mark: incoming.mark,
            segsz: 0,
            payload: data.len() as u32,
            data,
        }
    }

    fn is_expected(&self, incoming: &Incoming) -> bool {
        let seg = self.segment(incoming);
        self.stack
            .0
            .enter(|batch| is(batch, &self.pcb.lock_inside(), &seg))
    }

    fn receive(&self, incoming: &Incoming) -> Verdict {
        let mut seg = self.segment(incoming);
        self.stack.0.enter(|batch| {
            let mut t = visit::begin(&self.pcb);
            if self.fast || t.conn.state == State::Closed {
                drop(t);
                return run(batch, &self.pcb, &mut seg);
            }
            let step = synchronized(batch, &self.pcb, &mut t, &mut seg);
            visit::end_quiet(batch, &self.pcb, t);
            step.break_value().unwrap_or(Verdict::Delivered)
        })
    }

    fn apply(&self, op: &Op) -> Option<Verdict> {
        match op {
            Op::Pass(_) => _ = self.stack.poll(),
            Op::Write(len) => self.change(|t| {
                if t.conn.state == State::Established && !t.send.fin_queued {
                    let bytes = vec![9; (*len).min(t.send.buf.space())];
                    let written = t.send.buf.extend_from_slice(self.stack.pool(), &bytes);
                    written.expect("the pool is large");
                }
            }),
            Op::Read => self.change(|t| drop(t.recv.buf.take_front(usize::MAX))),
            Op::Close => self.change(|t| {
                if t.conn.state == State::Established {
                    (t.conn.state, t.send.fin_queued) = (State::FinWait1, true);
                }
            }),
            Op::Segment(incoming) => return Some(self.receive(incoming)),
        }
        None
    }

    fn state(&self) -> String {
        format!("{:?}", &*self.pcb.lock_inside())
    }
}

/// Breaks if the fast path does something else than the full list, leaves out a step that would do something, or is
/// taken by a segment that it is not for.
#[test]
fn the_fast_path_does_what_the_full_list_does() {
    let clock = Arc::new(VirtualClock::new(Time::from_secs(100)));
    let stacks = [stack(&clock), stack(&clock)];
    let (expected, other) = (Cell::new(0), Cell::new(0));
    let ops = prop::collection::vec(op(), 1..80);
    let result = TestRunner::default().run(&(agreed(), ops), |(agreed, ops)| {
        let fast = Side::new(&stacks[0], true, &agreed);
        let full = Side::new(&stacks[1], false, &agreed);
        for op in &ops {
            if let Op::Pass(micros) = op {
                clock.advance(Duration::from_micros(*micros));
            }
            if let Op::Segment(incoming) = op {
                let count = if fast.is_expected(incoming) {
                    &expected
                } else {
                    &other
                };
                count.set(count.get() + 1);
            }
            prop_assert_eq!(fast.apply(op), full.apply(op), "{:?}", op);
            prop_assert_eq!(fast.state(), full.state(), "{:?}", op);
        }
        for side in [&fast, &full] {
            side.change(|t| {
                drop(t.recv.buf.take_front(usize::MAX));
                t.close(None);
            });
        }
        let told = stacks.each_ref().map(|stack| {
            let stats = stack.stats();
            format!("{:?} {:?}", stats.tcp, stats.dropped)
        });
        prop_assert_eq!(&told[0], &told[1]);
        Ok(())
    });
    result.unwrap();
    assert!(
        expected.get() > 1000 && other.get() > 1000,
        "{expected:?} {other:?}"
    );
    assert!(stacks.iter().all(|stack| stack.pool().live() == Live::NONE));
}

/// Breaks if a message for a program that waits costs a turn to send besides that of the answer, or wakes no program.
#[test]
fn a_program_is_woken_without_a_turn() {
    let stack = stack(&Arc::new(VirtualClock::new(Time::from_secs(100))));
    let agreed = Agreed {
        timestamps: true,
        sack: true,
        ecn: TcpFlags::empty(),
        orphan: false,
    };
    let side = Side::new(&stack, true, &agreed);
    side.change(|t| drop(t.conn.set_wakers(Some(Waker::noop().clone()), None)));
    let message = Incoming {
        seq: 0,
        share: u8::MAX,
        beyond: 0,
        flags: TcpFlags::ACK,
        window: 20_000,
        len: 10,
        ts: Some(0),
        sack: None,
        mark: 0,
    };
    let answer = || {
        side.apply(&Op::Read);
        side.apply(&Op::Write(6));
    };
    // The first messages set timers.
    for _ in 0..2 {
        assert_eq!(side.receive(&message), Verdict::Delivered);
        answer();
    }
    for _ in 0..3 {
        let mut seg = side.segment(&message);
        side.stack.0.enter(|batch| {
            assert_eq!(run(batch, &side.pcb, &mut seg), Verdict::Delivered);
            assert!(batch.deferred.is_empty() && !batch.wakes.is_empty());
        });
        answer();
    }
    side.change(|t| {
        drop(t.recv.buf.take_front(usize::MAX));
        t.close(None);
    });
    assert_eq!(stack.pool().live(), Live::NONE);
}

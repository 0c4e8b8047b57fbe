//! Both paths, side by side.

use std::time::Duration;

use kern::Time;
use proptest::prelude::*;
use wire::{SackBlock, SeqNum};

use super::*;
use crate::config::TcpConfig;
use crate::tcp::cc::CongestionControl;
use crate::tcp::recovery::AckOutcome;
use crate::tcp::sent::SentRecord;

const MSS: u32 = 100;

#[derive(Debug, Clone)]
enum Op {
    /// Time passes, in microseconds.
    Pass(u64),
    /// New data, after a tail loss probe if the flag is set.
    Send(u32, bool),
    /// The first lost segment goes again.
    Repair,
    Ack(Ack),
    ReorderTimer,
    Timeout,
}

/// An acknowledgement; numbers are relative to what is in flight.
#[derive(Debug, Clone)]
struct Ack {
    /// The share of the flight that it acknowledges, in 1/255; above three quarters it is all.
    share: u8,
    /// Not whole segments.
    part: bool,
    /// SACK blocks: their first byte, and their length.
    blocks: Vec<(u32, u32)>,
    marked: bool,
    echoed: Option<u64>,
}

fn op() -> impl Strategy<Value = Op> {
    let block = (0..2000u32, 1..400u32);
    let blocks = prop_oneof![6 => Just(Vec::new()), 1 => prop::collection::vec(block, 1..4)];
    let ack =
        (any::<u8>(), prop::bool::weighted(0.2), blocks).prop_flat_map(|(share, part, blocks)| {
            let rest = (
                prop::bool::weighted(0.02),
                prop::option::weighted(0.5, 0..40u64),
            );
            rest.prop_map(move |(marked, echoed)| Ack {
                share,
                part,
                blocks: blocks.clone(),
                marked,
                echoed,
            })
        });
    prop_oneof![
        8 => (0..20_000u64).prop_map(Op::Pass),
        10 => (1..6 * MSS, prop::bool::weighted(0.03)).prop_map(|(len, tail)| Op::Send(len, tail)),
        4 => Just(Op::Repair),
        12 => ack.prop_map(Op::Ack),
        1 => Just(Op::ReorderTimer),
        1 => prop::bool::weighted(0.3).prop_map(|out| match out {
            true => Op::Timeout,
            false => Op::Repair,
        }),
    ]
}

/// One sender; the fast path is used or not.
struct Sender {
    state: SendState,
    fast: bool,
    sack_on: bool,
}

impl Sender {
    fn new(fast: bool, sack_on: bool, congestion: CongestionControl) -> Self {
        let config = TcpConfig {
            congestion,
            ..TcpConfig::default()
        };
        let mut state = SendState::new(&config, SeqNum(0u32.wrapping_sub(5000)), MSS, Time::ZERO);
        (state.wnd, state.wnd_max) = (1 << 20, 1 << 20);
        Self {
            state,
            fast,
            sack_on,
        }
    }

    /// The state, without the number of visits to records, which the tests of the sent map count.
    fn text(&self) -> String {
        let text = format!("{:?}", self.state);
        match text.split_once("visited: ") {
            Some((before, rest)) => before.to_owned() + rest.trim_start_matches(char::is_numeric),
            None => text,
        }
    }

    fn apply(&mut self, op: &Op, now: Time) -> AckOutcome {
        match op {
            Op::Pass(_) => {}
            Op::Send(len, tail) => self.send(*len, *tail, now),
            Op::Repair => self.repair(now),
            Op::Ack(ack) => return self.ack(ack, now),
            Op::ReorderTimer => return self.state.on_reorder_timer(now),
            Op::Timeout => {
                if !self.state.sent.is_empty() {
                    self.state.on_timeout(now, self.sack_on, true);
                }
            }
        }
        AckOutcome::default()
    }

    fn send(&mut self, len: u32, tail: bool, now: Time) {
        let s = &mut self.state;
        let in_flight = s.sent.in_flight();
        let stamp = s.rate.on_send(now, in_flight);
        let range = s.nxt..s.nxt + len;
        s.sent.push(SentRecord {
            flight: in_flight + len,
            ..SentRecord::new(range.clone(), now, stamp)
        });
        s.nxt = range.end;
        if tail {
            s.probe.on_sent(s.nxt, false);
        }
        s.recovery.on_sent(len);
        s.rate
            .after_output(in_flight + len, &s.window, len.is_multiple_of(2));
    }

    fn repair(&mut self, now: Time) {
        let s = &mut self.state;
        let Some(lost) = s.sent.next_lost() else {
            return;
        };
        let range = lost.start..lost.end.min(lost.start + MSS);
        let stamp = s.rate.on_send(now, s.sent.in_flight());
        s.recovery.forced = false;
        s.recovery.on_resent(&range, s.nxt, now);
        s.sent.resend(range, now, stamp);
    }

    fn ack(&mut self, ack: &Ack, now: Time) -> AckOutcome {
        let s = &mut self.state;
        let flight = s.nxt.since(s.una);
        let upto = flight * u32::from(ack.share) / 255;
        let upto = match ack.share {
            192.. => flight,
            64..192 if !ack.part => upto - upto % MSS,
            _ => upto,
        };
        let number = s.una + upto;
        let blocks: Vec<_> = (ack.blocks.iter())
            .filter(|_| self.sack_on)
            .map(|(start, len)| SackBlock {
                left: s.una + *start,
                right: s.una + *start + *len,
            })
            .collect();
        let a = Acknowledgement {
            now,
            ack: number,
            blocks: &blocks,
            sack_on: self.sack_on,
            is_duplicate: upto == 0 && flight > 0,
            echoed_ms: ack.echoed.map(|ago| now.as_millis().saturating_sub(ago)),
            data: upto,
            marked: ack.marked,
            ce: 0,
        };
        match self.fast {
            true => s.on_ack(&a).unwrap_or_default(),
            false => s.on_any_ack(&a),
        }
    }
}

#[test]
fn a_flow_without_losses_takes_the_fast_path() {
    // Breaks when each acknowledgement of a path without losses goes the long way; or for ever after one recovery.
    let mut sender = Sender::new(true, true, CongestionControl::Cubic);
    let ack = |sender: &mut Sender, number, blocks: &[SackBlock], fast| {
        let a = Acknowledgement {
            now: Time::from_secs(2),
            ack: number,
            blocks,
            sack_on: true,
            is_duplicate: false,
            echoed_ms: None,
            data: number.since(sender.state.una),
            marked: false,
            ce: 0,
        };
        assert_eq!(sender.state.is_in_order(&a), fast, "{a:?}");
        sender.state.on_ack(&a);
    };
    for _ in 0..2 {
        for _ in 0..10 {
            sender.send(MSS, false, Time::from_secs(2));
        }
        let una = sender.state.una;
        ack(&mut sender, una + MSS, &[], true);
        ack(&mut sender, una + 5 * MSS / 2, &[], true);
        let (left, right) = (una + 6 * MSS, una + 10 * MSS);
        ack(
            &mut sender,
            una + 3 * MSS,
            &[SackBlock { left, right }],
            false,
        );
        while sender.state.sent.lost() > 0 {
            sender.repair(Time::from_secs(2));
        }
        ack(&mut sender, una + 10 * MSS, &[], false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn the_fast_path_leaves_the_same_state(
        ops in prop::collection::vec(op(), 1..200),
        sack_on in prop::bool::weighted(0.8),
        bbr in prop::bool::weighted(0.2),
    ) {
        // Breaks when the fast path leaves out a step that would have changed something, or takes an acknowledgement
        // that it must not.
        let congestion = match bbr {
            true => CongestionControl::Bbr,
            false => CongestionControl::Cubic,
        };
        let mut both = [true, false].map(|fast| Sender::new(fast, sack_on, congestion));
        let mut now = Time::from_secs(1);
        for op in &ops {
            if let Op::Pass(micros) = op {
                now += Duration::from_micros(*micros);
            }
            let [fast, any] = both.each_mut().map(|sender| sender.apply(op, now));
            prop_assert_eq!(format!("{fast:?}"), format!("{any:?}"), "{:?}", op);
            let [fast, any] = both.each_ref().map(Sender::text);
            prop_assert_eq!(fast, any, "{:?}", op);
        }
    }
}

//! One direction of a link: rules for every choice of its parameters, and the effects of single ones.

use std::time::Duration;

use proptest::prelude::*;

use super::super::{Burst, DelayQueue, Faults};
use super::*;

/// A frame that has a number and a length only.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Dummy {
    number: u64,
    len: usize,
    flipped: bool,
    marked: bool,
}

impl Dummy {
    fn new(number: u64, len: usize) -> Self {
        Self {
            number,
            len,
            flipped: false,
            marked: false,
        }
    }
}

impl LinkFrame for Dummy {
    fn bytes(&self) -> usize {
        self.len
    }

    fn is_unfinished(&self) -> bool {
        false
    }

    fn duplicate(&mut self) -> Option<Self> {
        Some(self.clone())
    }

    fn flip_bit(&mut self, bit: u64) -> bool {
        assert!(bit < 8 * self.len as u64);
        !std::mem::replace(&mut self.flipped, true)
    }

    fn cut_to(&mut self, len: usize) {
        assert!(len < self.len);
        self.len = len;
    }

    fn mark_ce(&mut self) -> bool {
        self.marked = true;
        true
    }
}

/// Sends frames of these lengths, each so much later than the one before, and gives those that come out, by time.
fn run(emulator: &mut LinkEmulator, frames: &[(usize, Duration)]) -> Vec<(Time, Dummy)> {
    let (mut now, mut queue) = (Time::ZERO, DelayQueue::new());
    for (number, (len, gap)) in frames.iter().enumerate() {
        now += *gap;
        emulator.send(
            now,
            Dummy::new(number as u64, *len),
            &mut |at, frame| queue.push(at, frame),
            &mut |_| (),
        );
    }
    let mut got = Vec::new();
    while let Some(at) = queue.next_at() {
        got.push((at, queue.pop_due(at).expect("it is due")));
    }
    got
}

fn faults() -> impl Strategy<Value = Faults> {
    let chance = || prop_oneof![Just(0.0), 0.0..0.5];
    let burst = (chance(), 0.1..1.0, chance()).prop_map(|(enter, leave, loss)| Burst {
        enter,
        leave,
        loss,
    });
    let late = (0..50_u64, any::<bool>()).prop_map(|(ms, exact)| {
        let by = Duration::from_millis(ms);
        match exact {
            true => Lateness::By(by),
            false => Lateness::UpTo(by),
        }
    });
    let chances = (chance(), chance(), chance(), chance(), chance());
    (chances, prop::option::of(burst), late).prop_map(
        |((loss, duplicate, reorder, corrupt, truncate), burst, late)| Faults {
            loss,
            burst,
            duplicate,
            reorder,
            late,
            corrupt,
            truncate,
        },
    )
}

fn link() -> impl Strategy<Value = LinkConfig> {
    let times = (0..100_u64, 0..30_u64);
    let sizes = (
        prop_oneof![Just(0), 10_000..100_000_000_u64],
        0..20_000_usize,
        0..100_000_usize,
        prop::option::of(0..50_000_usize),
        500..1500_u16,
    );
    (faults(), times, sizes).prop_map(|(faults, (delay, jitter), sizes)| LinkConfig {
        faults,
        delay: Duration::from_millis(delay),
        jitter: Duration::from_millis(jitter),
        rate_bps: sizes.0,
        burst_bytes: sizes.1,
        queue_bytes: sizes.2,
        ecn_bytes: sizes.3,
        mtu: sizes.4,
    })
}

fn frames() -> impl Strategy<Value = Vec<(usize, Duration)>> {
    let frame = (14..1514_usize, 0..3000_u64);
    let frame = frame.prop_map(|(len, us)| (len, Duration::from_micros(us)));
    prop::collection::vec(frame, 1..300)
}

proptest! {
    /// Breaks when a frame vanishes without being counted, or comes out more often than counted.
    #[test]
    fn every_frame_is_accounted_for(link in link(), frames in frames(), seed: u64) {
        let mut emulator = LinkEmulator::new(link, Random::from_seed(seed));
        let got = run(&mut emulator, &frames);
        let counts = emulator.counts();
        let of = |event| counts.of(event);
        prop_assert_eq!(counts.sent, frames.len() as u64);
        prop_assert_eq!(counts.bytes, frames.iter().map(|(len, _)| *len as u64).sum::<u64>());
        let carried = counts.sent - of(LinkEvent::TooBig) - of(LinkEvent::Overflowed);
        let copies = of(LinkEvent::Delivered) + of(LinkEvent::Lost);
        prop_assert_eq!(carried + of(LinkEvent::Duplicated), copies);
        prop_assert_eq!(got.len() as u64, of(LinkEvent::Delivered));
    }

    /// Breaks when jitter, the queue or the token bucket let frames overtake each other, or one comes before it could.
    #[test]
    fn without_reordering_the_order_is_kept(link in link(), frames in frames(), seed: u64) {
        let mut link = link;
        link.faults.reorder = 0.0;
        let got = run(&mut LinkEmulator::new(link, Random::from_seed(seed)), &frames);
        prop_assert!(got.is_sorted_by_key(|(_, frame)| frame.number));
        let mut sent = Time::ZERO;
        let sent: Vec<Time> = frames.iter().map(|(_, gap)| { sent += *gap; sent }).collect();
        for (at, frame) in &got {
            prop_assert!(*at >= sent[frame.number as usize] + link.delay);
        }
    }

    /// Breaks when more bits pass within a time than the rate and one token bucket allow, wherever that time begins.
    #[test]
    fn the_rate_is_never_exceeded(link in link(), frames in frames(), seed: u64) {
        let link = LinkConfig { faults: Faults::default(), jitter: Duration::ZERO, ..link };
        prop_assume!(link.rate_bps > 0);
        let got = run(&mut LinkEmulator::new(link, Random::from_seed(seed)), &frames);
        let bits: Vec<u64> = got.iter().map(|(_, frame)| frame.len as u64 * 8).collect();
        for from in 0..got.len() {
            let mut sum = 0;
            for to in from..got.len() {
                sum += bits[to];
                let time = (got[to].0 - got[from].0).as_secs_f64();
                // The first frame was on its way before, and each time is rounded to a nanosecond.
                let first = bits[from] as f64 + (to - from + 1) as f64 * (link.rate_bps as f64 / 1e9 + 1.0);
                let most = link.rate_bps as f64 * time + 8.0 * link.burst_bytes as f64 + first;
                prop_assert!(sum as f64 <= most, "{sum} bits in {time} s from {from} to {to}, not {most}");
            }
        }
    }

    /// Breaks when the queue takes more than its bound and one frame.
    #[test]
    fn the_queue_is_bounded(link in link(), frames in frames(), seed: u64) {
        let mut emulator = LinkEmulator::new(link, Random::from_seed(seed));
        let mut now = Time::ZERO;
        for (len, gap) in frames {
            now += gap;
            emulator.send(now, Dummy::new(0, len), &mut |_, _| (), &mut |_| ());
            prop_assert!(emulator.backlog(now) <= link.queue_bytes + 1514);
        }
    }

    /// Breaks when the result depends on anything but the seed.
    #[test]
    fn the_seed_decides(link in link(), frames in frames(), seed: u64) {
        let of = || run(&mut LinkEmulator::new(link, Random::from_seed(seed)), &frames);
        prop_assert_eq!(of(), of());
    }
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_token_bucket_passes_a_burst_at_once() {
    // Breaks when a pause gives no credit, or more than the bucket holds.
    let link = LinkConfig {
        rate_bps: 8_000_000,
        burst_bytes: 3000,
        ..LinkConfig::PERFECT
    };
    let mut emulator = LinkEmulator::new(link, Random::from_seed(1));
    let mut frames = vec![(1000, Duration::from_secs(1))];
    frames.extend([(1000, Duration::ZERO); 5]);
    let got = run(&mut emulator, &frames);
    let ms: Vec<u64> = got
        .iter()
        .map(|(at, _)| at.as_nanos() / 1_000_000 - 1000)
        .collect();
    assert_eq!(ms, [0, 0, 0, 1, 2, 3]);
}

#[test]
fn bursts_of_loss_are_as_long_and_as_frequent_as_said() {
    // Breaks when the two states are confused, or their probabilities.
    let burst = Burst {
        enter: 0.01,
        leave: 0.25,
        loss: 1.0,
    };
    let faults = Faults {
        burst: Some(burst),
        ..Faults::default()
    };
    let link = LinkConfig {
        faults,
        ..LinkConfig::PERFECT
    };
    let mut emulator = LinkEmulator::new(link, Random::from_seed(2));
    let got = run(&mut emulator, &[(100, MS); 100_000]);
    let numbers: Vec<u64> = got.iter().map(|(_, frame)| frame.number).collect();
    let bursts = numbers
        .windows(2)
        .filter(|pair| pair[1] > pair[0] + 1)
        .count();
    let lost = 100_000 - got.len();
    let mean = lost as f64 / bursts as f64;
    assert!((mean - 4.0).abs() < 0.5, "mean length {mean}, seed 2");
    // In the bad state for enter / (enter + leave) of the time.
    assert!(
        (lost as f64 / 100_000.0 - 0.0385).abs() < 0.005,
        "{lost} lost, seed 2"
    );
}

#[test]
fn a_late_frame_is_late_by_exactly_that() {
    // Breaks when "r of packets d later" is another distribution than one of two values.
    let faults = Faults {
        reorder: 0.1,
        late: Lateness::By(5 * MS),
        ..Faults::default()
    };
    let link = LinkConfig {
        faults,
        delay: 25 * MS,
        ..LinkConfig::PERFECT
    };
    let mut emulator = LinkEmulator::new(link, Random::from_seed(3));
    let got = run(&mut emulator, &[(100, MS); 10_000]);
    let late = got.iter().filter(|(at, frame)| {
        let by = *at - (Time::ZERO + MS * (frame.number as u32 + 1)) - 25 * MS;
        assert!(by.is_zero() || by == 5 * MS, "{by:?}");
        !by.is_zero()
    });
    let late = late.count();
    assert!((900..1100).contains(&late), "{late} of 10,000, seed 3");
    assert_eq!(emulator.counts().of(LinkEvent::Reordered), late as u64);
}

#[test]
fn a_long_queue_marks() {
    // RFC 3168 5: breaks when marking begins below its threshold, or does not begin.
    let link = LinkConfig {
        rate_bps: 8_000_000,
        ecn_bytes: Some(2500),
        ..LinkConfig::PERFECT
    };
    let mut emulator = LinkEmulator::new(link, Random::from_seed(4));
    let got = run(&mut emulator, &[(1000, Duration::ZERO); 6]);
    let marked: Vec<bool> = got.iter().map(|(_, frame)| frame.marked).collect();
    assert_eq!(marked, [false, false, false, true, true, true]);
    assert_eq!(emulator.counts().of(LinkEvent::Marked), 3);
}

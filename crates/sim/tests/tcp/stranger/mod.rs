//! A station with a TCP of its own, which behaves in other ways than ours; drawn from a seed.

#![allow(unreachable_pub)] // the test program is one crate

use crate::common::*;
use kern::{Random, Time};
use manners::{Manners, pick, shuffle};
use mbuma::{State, TcpStream};
use options::Options;
use receiver::Receiver;
use sender::Sender;
use sim::Segment;
use wire::SeqNum;

mod manners;
mod options;
mod receiver;
mod sender;

/// Seeds that are tried. `STRANGER_SEED=n` tries one.
const SEEDS: u64 = 600;

/// A transfer that takes longer hangs.
const MINUTES_MAX: u64 = 60;

#[test]
fn strangers_get_every_byte_and_give_every_byte() {
    // Breaks when a peer with another acknowledgement policy, other window edges, another place for its FIN or other
    // options gets or gives a wrong byte, too few or too many; or when the stack sends beyond its window or its MSS,
    // echoes or reports what was never said, hangs, acknowledges late, sends again what was acknowledged, or takes a
    // repair for a round trip. Planted, it finds: a FIN kept beyond the window, a FIN lost with old data,
    // acknowledgements at the right edge that do not count, and a delayed acknowledgement that is delayed again.
    let one = std::env::var("STRANGER_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    let seeds = one.map_or(0..SEEDS, |seed: u64| seed..seed + 1);
    for seed in seeds {
        println!("STRANGER_SEED={seed}");
        Meeting::new(seed).run();
    }
}

/// The station, the stack, and the user of the stack's end.
struct Meeting {
    b: Bench,
    r: Random,
    manners: Manners,
    hand: Hand,
    sender: Sender,
    receiver: Receiver,
    options: Options,
    stream: TcpStream,
    given: u64,
    to_give: u64,
    taken: u64,
    to_take: u64,
    /// Bytes a millisecond that the user reads.
    appetite: usize,
    /// The acknowledgement that the stack certainly has, and the one that it has after this millisecond.
    told: (SeqNum, SeqNum),
    /// The end of the data that the stack has not acknowledged, and the time since when.
    unacknowledged: (u64, Time),
}

impl Meeting {
    fn new(seed: u64) -> Self {
        let mut r = Random::from_seed(seed);
        let manners = Manners::draw(&mut r);
        println!("{manners:?}");
        let buffer = pick(&mut r, &[2048, 4096, 20_000, 1 << 20]) as usize;
        let mut b = Bench::tuned(|c| c.tcp.recv_buffer = buffer);
        let (hand, stream, theirs) = match r.chance(0.5) {
            true => dialled(&mut b, &manners),
            false => answered(&mut b, &manners),
        };
        let both = manners.shift.and(theirs.options.window_scale);
        let ours = both.and(manners.shift).unwrap_or(0);
        let to_take = pick(&mut r, &[0, 1, 5000, buffer as u64 + 300, 100_000]);
        let to_take = to_take.min(500 * manners.longest);
        let to_give = pick(&mut r, &[0, 1, 5000, 100_000]).min(300 * manners.mss as u64);
        let now = b.net.now();
        stream.set_nodelay(r.chance(0.5));
        Self {
            told: (hand.rcv, hand.rcv),
            sender: Sender::new(hand.snd, to_take, theirs.window, both.unwrap_or(0), now),
            receiver: Receiver::new(hand.rcv, hand.window, ours),
            options: Options::new(&manners, &theirs, hand.snd, now),
            appetite: pick(&mut r, &[100, 1000, 1 << 20]) as usize,
            unacknowledged: (0, now),
            given: 0,
            taken: 0,
            b,
            r,
            manners,
            hand,
            stream,
            to_give,
            to_take,
        }
    }

    fn run(mut self) {
        let end = self.b.net.now() + secs(60 * MINUTES_MAX);
        while !self.is_done() {
            assert!(self.b.net.now() < end, "it hangs: {:?}", self.stream.info());
            self.use_stream();
            self.b.run(ms(1));
            self.hear();
            self.speak();
        }
        assert_eq!(self.receiver.received, self.to_give);
        assert_eq!(self.stream.error(), None);
        // Before the bench, which checks that nothing is left.
        drop(self.stream);
    }

    fn is_done(&self) -> bool {
        let heard_out = self.taken == self.to_take && self.stream.state() != State::Established;
        let closed = self.stream.state() == State::Closed;
        heard_out && self.receiver.is_done() && (self.sender.is_done() || closed)
    }

    /// The user reads and writes.
    fn use_stream(&mut self) {
        let chain = self.stream.recv_chain(self.appetite);
        let bytes = chain.map(|c| c.to_vec()).unwrap_or_default();
        let wrong = sender::BYTES.mismatch(self.taken, &bytes);
        assert_eq!(wrong, None, "a byte that was not sent");
        self.taken += bytes.len() as u64;
        assert!(self.taken <= self.to_take, "more than was sent");
        let mut more = vec![0; (self.to_give - self.given).min(3000) as usize];
        receiver::BYTES.fill(self.given, &mut more);
        if more.is_empty() {
            return self.stream.shutdown(std::net::Shutdown::Write);
        }
        self.given += self.stream.send(&more).unwrap_or(0) as u64;
    }

    /// The station takes in what the stack sent, if it does not get lost.
    fn hear(&mut self) {
        let now = self.b.net.now();
        for seg in self.b.seen() {
            if seg.has(RST) {
                let closed = self.stream.state() == State::Closed;
                assert!(closed && self.receiver.is_done(), "a reset: {seg}");
                continue;
            }
            self.receiver.check(&self.manners, &seg);
            self.options.check(&seg, now);
            let known = !seg.data.is_empty() && seg.end().at_or_before(self.told.0);
            assert!(!known, "it was acknowledged before: {seg}");
            self.sender.hear(&seg);
            if !self.r.chance(self.manners.loss) {
                self.sender.acknowledged(&self.manners, now, &seg);
                self.receiver.take(&self.manners, now, &seg);
                self.options.take(&seg);
            }
        }
        self.check_delay(now);
        self.check_rtt();
    }

    /// RFC 6298 3 (Karn): no sample is longer than the station waits, unless its acknowledgements get lost.
    fn check_rtt(&self) {
        let longest = self.manners.ack_delay + ms(5);
        let rtt = self.stream.info().rtt.filter(|_| !self.manners.loses_own);
        assert!(rtt.is_none_or(|rtt| rtt <= longest), "{rtt:?}");
    }

    /// RFC 1122 4.2.3.2: data that the stack has is acknowledged within its delay.
    fn check_delay(&mut self, now: Time) {
        let has = self.taken + self.stream.info().recv_queue as u64;
        let (place, since) = self.unacknowledged;
        if self.sender.heard >= place {
            self.unacknowledged = (has, now);
        } else {
            assert!(
                now - since <= ms(50),
                "not acknowledged for {:?}",
                now - since
            );
        }
    }

    /// The station sends all that is due.
    fn speak(&mut self) {
        self.told.0 = self.told.1;
        let now = self.b.net.now();
        let (manners, r) = (&self.manners, &mut self.r);
        let due = self.receiver.due(manners, r, now);
        let data = self.sender.segments(manners, r, now, &self.hand);
        if data.is_empty() && due == 0 {
            return;
        }
        let told = self.hand.rcv;
        self.receiver.announce(manners, r, &mut self.hand);
        self.hand.snd = self.sender.place();
        let mut out = self.receiver.parts(due, told, &self.hand);
        out.extend(data.into_iter().map(|segment| Segment {
            ack: self.hand.rcv,
            window: self.hand.window,
            ..segment
        }));
        let early = self.receiver.blocks();
        let tag = |segment| self.options.tag(manners, r, &early, now, segment);
        let mut out: Vec<_> = out.into_iter().map(tag).collect();
        if manners.shuffles {
            shuffle(r, &mut out);
        }
        self.say(&out);
    }

    fn say(&mut self, out: &[Segment]) {
        for segment in out {
            if self.manners.loses_own && self.r.chance(self.manners.loss) {
                continue;
            }
            self.b.net.say(self.b.peer, segment);
            self.options.on_wire(segment);
            if segment.seq == segment.end() && segment.ack.after(self.told.1) {
                self.told.1 = segment.ack;
            }
            if self.r.chance(self.manners.twice) {
                self.b.net.say(self.b.peer, segment);
                self.options.on_wire(segment);
            }
        }
    }
}

/// The station connects: its end, the stack's, and the stack's SYN.
fn dialled(b: &mut Bench, manners: &Manners) -> (Hand, TcpStream, Segment) {
    let addr = us(PORT);
    let listener = b.stack().tcp_listen(addr, 1).expect("the port is free");
    let mut hand = Hand::from_port(5000);
    b.say(&syn(&mut hand, manners, SYN));
    let theirs = b.one();
    hand.rcv = theirs.end();
    let window = hand.window >> manners.shift.unwrap_or(0);
    let ack = Segment {
        window,
        ..hand.segment(ACK)
    };
    b.say(&ack);
    b.seen();
    (hand, listener.accept().expect("established"), theirs)
}

/// The stack connects.
fn answered(b: &mut Bench, manners: &Manners) -> (Hand, TcpStream, Segment) {
    let stream = b.connect();
    let theirs = b.one();
    let mut hand = Hand::answering(&theirs);
    b.say(&syn(&mut hand, manners, SYN | ACK));
    b.seen();
    (hand, stream, theirs)
}

fn syn(hand: &mut Hand, manners: &Manners, flags: wire::TcpFlags) -> Segment {
    hand.window = manners.window.min(65_535) as u16;
    let syn = Segment {
        raw_options: manners.options.clone(),
        ..hand.segment(flags)
    };
    hand.snd += 1;
    syn
}

//! The behaviour of a station.

use std::time::Duration;

use crate::common::ms;
use kern::Random;

/// Habits that the RFCs leave open, and a few that they forbid, drawn from a seed.
#[derive(Debug, Clone)]
pub struct Manners {
    /// The bytes of the options of its SYN.
    pub options: Vec<u8>,
    /// Bytes of the stack's segments at most.
    pub mss: usize,
    pub shift: Option<u8>,
    /// The value of its clock at its SYN, if it offers timestamps.
    pub timestamps: bool,
    pub clock: u32,
    /// How often one of its segments loses its timestamps on the path.
    pub strips: f64,
    /// It permits SACK, and reports what it keeps: all, or the first block.
    pub sack: bool,
    pub newest_block_only: bool,
    /// Bytes of its own segments at most, and whether each is as long as it may be.
    pub longest: u64,
    pub full: bool,
    /// Segments in flight at most.
    pub flight: u64,
    /// The number of segments after which it acknowledges, and the time that it waits for them.
    pub ack_every: u32,
    pub ack_delay: Duration,
    /// Acknowledgements that it makes of one.
    pub ack_parts: u64,
    pub window: u64,
    /// How often it announces a smaller window, which moves the right edge back.
    pub shrink: f64,
    /// Bytes beyond the stack's window that it sends.
    pub overrun: u64,
    /// It keeps data that comes out of order.
    pub keeps: bool,
    /// After a loss it sends everything again, not the first segment only.
    pub goes_back: bool,
    /// How often its FIN comes with its last data. The data may come again with a FIN that it had not before.
    pub fin_with_data: f64,
    /// Its FIN never comes alone: the last byte comes with it each time.
    pub fin_brings_byte: bool,
    /// The time between one segment of data and the next.
    pub pause: Duration,
    /// Its segments are lost too, not only those to it.
    pub loses_own: bool,
    pub shuffles: bool,
    pub loss: f64,
    pub twice: f64,
}

impl Manners {
    pub fn draw(r: &mut Random) -> Self {
        let says_mss = r.chance(0.8);
        let mss = match says_mss {
            true => pick(r, &[216, 300, 536, 1000, 1460, 9000]),
            false => 536, // RFC 9293 3.7.1
        };
        let shift = r.chance(0.5).then(|| r.below(8) as u8);
        let timestamps = r.chance(0.6);
        let clock = pick(r, &[9, (1 << 31) - 50, (1 << 32) - 50]) as u32;
        let sack = r.chance(0.6);
        Self {
            options: {
                let mut list = Vec::new();
                let mss = says_mss.then_some(mss as u16);
                list.extend(mss.map(|mss| [&[2, 4][..], &mss.to_be_bytes()].concat()));
                list.extend(shift.map(|shift| vec![3, 3, shift]));
                list.extend(sack.then(|| vec![4, 2]));
                let clock = [&[8, 10][..], &clock.to_be_bytes(), &[0; 4]].concat();
                list.extend(timestamps.then_some(clock));
                in_any_order(r, list)
            },
            mss: mss as usize,
            shift,
            timestamps,
            clock,
            strips: pick(r, &[0, 0, 10]) as f64 / 100.0,
            sack,
            newest_block_only: r.chance(0.2),
            // 12 of a frame are for timestamps.
            longest: pick(r, &[1, 77, 536, 1448]),
            full: r.chance(0.5),
            flight: pick(r, &[1, 3, 10, 100]),
            ack_every: pick(r, &[1, 2, 3, 8]) as u32,
            ack_delay: ms(pick(r, &[1, 40, 190])),
            ack_parts: pick(r, &[1, 1, 2, 7]),
            window: pick(r, &[500, 1460, 4000, 30_000, 65_535]),
            shrink: pick(r, &[0, 0, 10, 30]) as f64 / 100.0,
            overrun: pick(r, &[0, 1, 700, 1460]),
            keeps: r.chance(0.5),
            goes_back: r.chance(0.5),
            fin_with_data: pick(r, &[0, 50, 100]) as f64 / 100.0,
            fin_brings_byte: r.chance(0.2),
            pause: ms(pick(r, &[0, 0, 0, 30])),
            loses_own: r.chance(0.6),
            shuffles: r.chance(0.3),
            loss: pick(r, &[0, 0, 1, 10]) as f64 / 100.0,
            twice: pick(r, &[0, 0, 5]) as f64 / 100.0,
        }
    }
}

pub fn pick(r: &mut Random, list: &[u64]) -> u64 {
    list[r.below(list.len() as u64) as usize]
}

pub fn shuffle<T>(r: &mut Random, list: &mut [T]) {
    for i in (1..list.len()).rev() {
        list.swap(i, r.below(i as u64 + 1) as usize);
    }
}

/// Options in any order, beside some that the stack does not know, and padding anywhere.
fn in_any_order(r: &mut Random, mut list: Vec<Vec<u8>>) -> Vec<u8> {
    let others: [&[u8]; 3] = [&[34, 2], &[253, 4, 1, 2], &[1, 1]];
    let some = others.into_iter().filter(|_| r.chance(0.4));
    list.extend(some.map(<[u8]>::to_vec));
    shuffle(r, &mut list);
    list.concat()
}

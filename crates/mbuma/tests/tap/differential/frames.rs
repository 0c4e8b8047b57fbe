//! Frames: well-formed ones of every kind, and ones with a mistake somewhere.

use kern::Random;
use wire::Checksum;

pub(super) const KERNEL: [u8; 4] = [10, 0, 2, 100];
pub(super) const PEER: [u8; 4] = [10, 0, 2, 9];
pub(super) const KERNEL6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
pub(super) const PEER6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
pub(super) const KERNEL_MAC: [u8; 6] = [2, 0, 0, 0, 1, 0];
pub(super) const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
/// Of the pings between frames.
pub(super) const PING_ID: [u8; 2] = [0xbe, 0xef];

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP6: u8 = 58;

/// A frame and its description.
pub(super) struct Sent {
    pub(super) bytes: Vec<u8>,
    pub(super) what: String,
}

fn ethernet(to: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &PEER_MAC, &kind.to_be_bytes(), payload].concat()
}

/// The ping behind a frame.
pub(super) fn ping(number: u16) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    let echo = summed(vec![8, 0, 0, 0, PING_ID[0], PING_ID[1], high, low], 2, 0);
    ethernet(KERNEL_MAC, 0x0800, &Header4::new(ICMP).packet(&echo))
}

pub(super) fn arp_answer() -> Vec<u8> {
    let body = [
        &[0, 1, 8, 0, 6, 4, 0, 2][..],
        &PEER_MAC,
        &PEER,
        &KERNEL_MAC,
        &KERNEL,
    ];
    ethernet(KERNEL_MAC, 0x0806, &body.concat())
}

/// The peer's address on the link.
pub(super) const PEER_LINK: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];

pub(super) fn neighbour_answer(target: &[u8]) -> Vec<u8> {
    let body = [
        &[136, 0, 0, 0, 0x60, 0, 0, 0][..],
        target,
        &[2, 1],
        &PEER_MAC,
    ]
    .concat();
    let header = Header6 {
        hops: 255,
        ..Header6::new(ICMP6)
    };
    let body = summed(body, 2, header.pseudo(ICMP6, 32));
    ethernet(KERNEL_MAC, 0x86dd, &header.packet(&body))
}

/// Puts the checksum at `at`; `pseudo` is the sum of the pseudo header.
fn summed(mut body: Vec<u8>, at: usize, pseudo: u32) -> Vec<u8> {
    let mut sum = Checksum::new();
    sum.add_u32(pseudo);
    sum.add_bytes(&body);
    body[at..at + 2].copy_from_slice(&sum.finish().to_be_bytes());
    body
}

fn sum_of(parts: &[&[u8]]) -> u32 {
    let mut sum = Checksum::new();
    parts.iter().for_each(|part| sum.add_bytes(part));
    u32::from(sum.partial())
}

#[derive(Debug)]
struct Header4 {
    src: [u8; 4],
    dst: [u8; 4],
    tos: u8,
    ttl: u8,
    proto: u8,
    /// Flags and offset.
    frag: u16,
    id: u16,
    options: Vec<u8>,
}

impl Header4 {
    fn new(proto: u8) -> Self {
        Self {
            src: PEER,
            dst: KERNEL,
            tos: 0,
            ttl: 64,
            proto,
            frag: 0,
            id: 0,
            options: Vec::new(),
        }
    }

    fn pseudo(&self, proto: u8, len: usize) -> u32 {
        sum_of(&[
            &self.src,
            &self.dst,
            &[0, proto],
            &(len as u16).to_be_bytes(),
        ])
    }

    fn packet(&self, payload: &[u8]) -> Vec<u8> {
        let len = 20 + self.options.len();
        let mut header = vec![0x40 | (len / 4) as u8, self.tos];
        header.extend(((len + payload.len()) as u16).to_be_bytes());
        header.extend(self.id.to_be_bytes());
        header.extend(self.frag.to_be_bytes());
        header.extend([self.ttl, self.proto, 0, 0]);
        header.extend(self.src);
        header.extend(self.dst);
        header.extend(&self.options);
        let mut packet = summed(header, 10, 0);
        packet.extend(payload);
        packet
    }
}

#[derive(Debug)]
struct Header6 {
    src: [u8; 16],
    dst: [u8; 16],
    class: u8,
    hops: u8,
    next: u8,
}

impl Header6 {
    fn new(next: u8) -> Self {
        Self {
            src: PEER6,
            dst: KERNEL6,
            class: 0,
            hops: 64,
            next,
        }
    }

    fn pseudo(&self, proto: u8, len: usize) -> u32 {
        sum_of(&[
            &self.src,
            &self.dst,
            &(len as u32).to_be_bytes(),
            &[0, proto],
        ])
    }

    fn packet(&self, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60 | self.class >> 4, self.class << 4, 0, 0];
        packet.extend((payload.len() as u16).to_be_bytes());
        packet.extend([self.next, self.hops]);
        packet.extend(self.src);
        packet.extend(self.dst);
        packet.extend(payload);
        packet
    }
}

fn bytes(random: &mut Random, max: u64) -> Vec<u8> {
    (0..random.below(max + 1))
        .map(|_| random.below(256) as u8)
        .collect()
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len() as u64) as usize]
}

/// The next frame.
pub(super) fn draw(random: &mut Random) -> Sent {
    let (mut frame, mut what) = match random.below(2) {
        0 => frame4(random),
        _ => frame6(random),
    };
    if random.chance(0.1) {
        let at = 14 + random.below(frame.len() as u64 - 14) as usize;
        let bit = 1 << random.below(8);
        frame[at] ^= bit;
        what += &format!("; byte {at} changed by {bit:#x}");
    }
    if random.chance(0.05) {
        let len = 14 + random.below(frame.len() as u64 - 13) as usize;
        frame.truncate(len);
        what += &format!("; cut to {len}");
    } else if random.chance(0.05) {
        frame.extend(bytes(random, 20));
        what += "; trailer";
    }
    Sent { bytes: frame, what }
}

/// A message of the transport between these ends: protocol, bytes.
fn upper(random: &mut Random, icmp: u8, pseudo: impl Fn(u8, usize) -> u32) -> (u8, Vec<u8>) {
    let data = bytes(random, 64);
    let port = [0x30, random.below(256) as u8];
    match random.below(8) {
        0..=2 => {
            let (kind, sum): (u8, bool) = match icmp {
                ICMP => (8, false),
                _ => (128, true),
            };
            let body = [&[kind, 0, 0, 0, 1, 2, 3, 4][..], &data].concat();
            let of = if sum { pseudo(icmp, body.len()) } else { 0 };
            (icmp, summed(body, 2, of))
        }
        3 | 4 => {
            let len = (8 + data.len()) as u16;
            let body = [&[0x10, 0x92][..], &port, &len.to_be_bytes(), &[0, 0], &data].concat();
            let of = pseudo(UDP, body.len());
            let body = match random.below(16) {
                // Without a checksum.
                0 => body,
                _ => summed(body, 6, of),
            };
            (UDP, body)
        }
        5 | 6 => {
            let flags = random.below(64) as u8;
            let (seq, ack) = (random.next_u64() as u32, random.next_u64() as u32);
            let offset = pick(random, &[0x50, 0x50, 0x50, 0x50, 0x60, 0xf0, 0x40]);
            let fixed = [
                &[0x10, 0x92][..],
                &port,
                &seq.to_be_bytes(),
                &ack.to_be_bytes(),
            ]
            .concat();
            let body = [&fixed[..], &[offset, flags, 0x20, 0, 0, 0, 0, 0], &data].concat();
            let of = pseudo(TCP, body.len());
            (TCP, summed(body, 16, of))
        }
        _ => {
            let proto = pick(
                random,
                &[
                    0, 3, 4, 41, 50, 51, 59, 89, 99, 132, 135, 136, 253, 254, 255,
                ],
            );
            (proto, data)
        }
    }
}

fn frame4(random: &mut Random) -> (Vec<u8>, String) {
    let mut header = Header4::new(0);
    header.tos = pick(random, &[0, 0, 1, 2, 3, 0x10, 0xff]);
    header.ttl = pick(random, &[64, 64, 64, 1, 0, 255]);
    if random.chance(0.15) {
        let from: &[[u8; 4]] = &[
            [0, 0, 0, 0],
            [127, 0, 0, 1],
            [10, 0, 2, 255],
            [255; 4],
            [224, 0, 0, 5],
            KERNEL,
            [240, 0, 0, 1],
        ];
        header.src = pick(random, from);
    }
    if random.chance(0.15) {
        let to: &[[u8; 4]] = &[
            [10, 0, 2, 255],
            [255; 4],
            [224, 0, 0, 1],
            [224, 0, 0, 5],
            [127, 0, 0, 1],
            [10, 0, 2, 77],
            [10, 0, 2, 0],
            [0; 4],
            [8, 8, 8, 8],
        ];
        header.dst = pick(random, to);
    }
    if random.chance(0.2) {
        header.options = options4(random);
    }
    let (proto, body) = upper(random, ICMP, |proto, len| header.pseudo(proto, len));
    header.proto = proto;
    if random.chance(0.1) {
        header.frag = pick(
            random,
            &[
                0x4000, 0x8000, 0x2000, 0x2001, 0x0001, 0x1fff, 0x3fff, 0xc000,
            ],
        );
        header.id = random.below(1 << 16) as u16;
    }
    let what = format!("{header:?}, {} bytes", body.len());
    let to = match header.dst {
        [10, 0, 2, 255] | [255, ..] => [255; 6],
        [224, 0, 0, last] => [1, 0, 0x5e, 0, 0, last],
        _ if random.chance(0.03) => [255; 6],
        _ => KERNEL_MAC,
    };
    let what = format!("{what} to {to:x?}");
    (ethernet(to, 0x0800, &header.packet(&body)), what)
}

fn options4(random: &mut Random) -> Vec<u8> {
    let mut options = Vec::new();
    for _ in 0..=random.below(3) {
        let kind = pick(random, &[0, 1, 1, 7, 68, 131, 137, 148, 130, 134, 25, 250]);
        options.push(kind);
        if kind > 1 {
            let len = pick(random, &[3, 4, 7, 8, 11, 12, 0, 1, 2, 39]);
            options.push(len as u8);
            // A pointer, then anything.
            options.push(pick(random, &[4, 5, 8, 0, 255]));
            let rest = usize::from(len as u8).saturating_sub(3);
            options.extend((0..rest).map(|_| random.below(256) as u8));
        }
    }
    options.truncate(40);
    options.resize(options.len().next_multiple_of(4), 0);
    options
}

fn frame6(random: &mut Random) -> (Vec<u8>, String) {
    let mut header = Header6::new(0);
    header.class = pick(random, &[0, 0, 1, 2, 3, 0xff]);
    header.hops = pick(random, &[64, 64, 64, 1, 0, 255]);
    let v6 = |first: u8, second: u8, last: u8| {
        let mut addr = [0; 16];
        (addr[0], addr[1], addr[15]) = (first, second, last);
        addr
    };
    if random.chance(0.15) {
        let from = [
            [0; 16],
            v6(0, 0, 1),
            v6(0xff, 2, 1),
            KERNEL6,
            v6(0xfe, 0x80, 9),
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 2, 9],
        ];
        header.src = pick(random, &from);
    }
    if random.chance(0.15) {
        let to = [
            [0; 16],
            v6(0, 0, 1),
            v6(0xff, 2, 1),
            v6(0xff, 2, 2),
            v6(0xff, 1, 1),
            v6(0xff, 0, 1),
            v6(0xff, 5, 1),
            v6(0xfd, 0, 77),
            v6(0x20, 1, 1),
            v6(0xfe, 0x80, 0x77),
        ];
        header.dst = pick(random, &to);
    }
    let (proto, mut body) = match random.below(12) {
        0 => (ICMP6, solicitation(random, &mut header)),
        _ => upper(random, ICMP6, |proto, len| header.pseudo(proto, len)),
    };
    let mut next = proto;
    let mut kinds = Vec::new();
    if random.chance(0.5) {
        for _ in 0..=random.below(3) {
            let kind = pick(random, &[0, 0, 43, 44, 60, 60, 60, 51, 59]);
            body = [&extension(random, kind, next)[..], &body].concat();
            next = kind;
            kinds.insert(0, kind);
        }
    }
    header.next = next;
    let to = match header.dst {
        [255, .., last] => [0x33, 0x33, 0, 0, 0, last],
        _ => KERNEL_MAC,
    };
    let what = format!("{header:?}, headers {kinds:?}, then {proto}");
    (ethernet(to, 0x86dd, &header.packet(&body)), what)
}

fn solicitation(random: &mut Random, header: &mut Header6) -> Vec<u8> {
    if random.chance(0.8) {
        header.hops = 255;
    }
    let option = pick(
        random,
        &[
            &[1, 1, 2, 0, 0, 0, 0, 9][..],
            &[],
            &[1, 0, 2, 0, 0, 0, 0, 9],
            &[14, 1, 1, 2, 3, 4, 5, 6],
        ],
    );
    let target = pick(random, &[KERNEL6, KERNEL6, KERNEL6, PEER6, [0xff; 16]]);
    let body = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target, option].concat();
    let of = header.pseudo(ICMP6, body.len());
    summed(body, 2, of)
}

/// An extension header of a kind, before `next`.
fn extension(random: &mut Random, kind: u8, next: u8) -> Vec<u8> {
    match kind {
        43 => {
            let (kind, left) = (pick(random, &[0, 2, 4, 3, 99]), pick(random, &[0, 0, 1, 3]));
            let len = pick(random, &[0, 2]);
            let mut header = vec![next, len, kind, left, 0, 0, 0, 0];
            header.resize(8 + usize::from(len) * 8, 0);
            header
        }
        44 => {
            let offset: u16 = pick(random, &[0, 0, 0, 1, 8, 9, 0xfff8, 0xfff9, 0x10]);
            let [high, low] = offset.to_be_bytes();
            vec![
                next,
                0,
                high,
                low,
                1,
                2,
                random.below(256) as u8,
                random.below(256) as u8,
            ]
        }
        51 => vec![next, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1],
        59 => Vec::new(),
        _ => {
            let mut header = vec![next, 0];
            for _ in 0..=random.below(2) {
                let option = pick(
                    random,
                    &[0, 1, 1, 5, 0xc2, 0x1e, 0x3e, 0x5e, 0x9e, 0xde, 0xc9, 0x04],
                );
                header.push(option);
                if option != 0 {
                    let len = pick(random, &[0, 1, 2, 4, 6, 4, 2, 30]);
                    header.push(len);
                    let fits = if len == 30 && random.chance(0.5) {
                        3
                    } else {
                        len
                    };
                    header.extend((0..fits).map(|_| 0));
                }
            }
            pad(random, &mut header);
            header[1] = (header.len() / 8 - 1) as u8;
            header
        }
    }
}

/// Pads to eight bytes, sometimes with other bytes than zeros.
fn pad(random: &mut Random, header: &mut Vec<u8>) {
    match 8 - header.len() % 8 {
        8 => {}
        1 => header.push(0),
        n => {
            header.extend([1, n as u8 - 2]);
            let fill = if random.chance(0.05) { 1 } else { 0 };
            header.extend((2..n).map(|_| fill));
        }
    }
}

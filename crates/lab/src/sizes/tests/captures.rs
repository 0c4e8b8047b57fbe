//! Captures made by hand: of three packets, and of none.

use super::*;
use kern::Random;

/// The packets of each: an acknowledgement, a full segment of which 96 bytes were captured, a middling packet.
const PACKETS: [(u32, u32); 3] = [(66, 66), (96, 1514), (590, 590)];

const ETHERNET: u16 = 1;
const RAW: u16 = 101;

/// Numbers in the byte order of a file.
#[derive(Clone, Copy)]
enum Order {
    Big,
    Little,
}

impl Order {
    fn half(self, value: u16) -> Vec<u8> {
        match self {
            Self::Big => value.to_be_bytes().into(),
            Self::Little => value.to_le_bytes().into(),
        }
    }

    fn word(self, value: u32) -> Vec<u8> {
        match self {
            Self::Big => value.to_be_bytes().into(),
            Self::Little => value.to_le_bytes().into(),
        }
    }

    fn words(self, values: &[u32]) -> Vec<u8> {
        values.iter().flat_map(|&value| self.word(value)).collect()
    }
}

/// A pcap file, whose snapshot length is the 96 bytes that cut a packet: pcap-file's own packets refuse that.
fn pcap(order: Order, link: u16) -> Vec<u8> {
    let mut file = order.word(0xa1b2_c3d4);
    file.extend(order.half(2));
    file.extend(order.half(4));
    file.extend(order.words(&[0, 0, 96, link.into()]));
    for (captured, original) in PACKETS {
        file.extend(order.words(&[1, 2, captured, original]));
        file.resize(file.len() + captured as usize, 0xaa);
    }
    file
}

/// A block of a pcapng file.
fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let len = order.word(padded as u32 + 12);
    let mut block = order.word(kind);
    block.extend(&len);
    block.extend(body);
    block.resize(8 + padded, 0);
    block.extend(&len);
    block
}

fn section(order: Order) -> Vec<u8> {
    let mut body = order.word(0x1a2b_3c4d);
    body.extend(order.half(1));
    body.extend(order.half(0));
    body.extend([0xff; 8]);
    block(order, 0x0a0d_0d0a, &body)
}

fn interface(order: Order, link: u16) -> Vec<u8> {
    let mut body = order.half(link);
    body.extend(order.half(0));
    body.extend(order.word(96));
    block(order, 1, &body)
}

/// One packet, in the block type of its place: enhanced of the second interface, simple, obsolete.
fn packet(order: Order, nth: usize) -> Vec<u8> {
    let (captured, original) = PACKETS[nth];
    let mut body = match nth {
        0 => order.words(&[1, 0, 0, captured, original]),
        1 => order.words(&[original]),
        _ => [
            order.half(1),
            order.half(9),
            order.words(&[0, 0, captured, original]),
        ]
        .concat(),
    };
    body.resize(body.len() + captured as usize, 0xaa);
    block(order, [6, 3, 2][nth], &body)
}

/// A pcapng file with two interfaces, and blocks between that do not describe packets: a name block shorter than an
/// address, for which pcap-file's own blocks refuse the file, and a block of an unknown type.
fn pcapng(order: Order) -> Vec<u8> {
    let mut names = order.half(1);
    names.extend(order.half(5));
    names.extend([1, 2, 3, 4, b'n', 0, 0, 0]);
    names.truncate(9);
    [
        section(order),
        interface(order, ETHERNET),
        interface(order, RAW),
        block(order, 4, &names),
        packet(order, 0),
        packet(order, 1),
        block(order, 0xbad, &[1; 7]),
        packet(order, 2),
    ]
    .concat()
}

/// A file in a directory that goes with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let name = format!("lab-sizes-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, bytes).expect("a scratch file");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn frames(lens_and_links: [(u32, u8); 3]) -> Vec<Frame> {
    lens_and_links.map(|(len, link)| Frame { len, link }).into()
}

#[test]
fn three_packets_are_read_as_long_as_they_were() {
    // Breaks when a cut packet counts with its captured length, is refused, or has another interface's link header.
    for (order, name) in [(Order::Big, "big"), (Order::Little, "little")] {
        let file = Scratch::new(&format!("{name}.pcap"), &pcap(order, ETHERNET));
        let read = capture::read(&file.0).expect("a capture");
        assert_eq!(read.frames, frames([(66, 14), (1514, 14), (590, 14)]));
        let file = Scratch::new(&format!("{name}-raw.pcap"), &pcap(order, RAW));
        let read = capture::read(&file.0).expect("a capture");
        assert_eq!(read.frames, frames([(66, 0), (1514, 0), (590, 0)]));
        let file = Scratch::new(&format!("{name}.pcapng"), &pcapng(order));
        let read = capture::read(&file.0).expect("a capture");
        assert_eq!(read.frames, frames([(66, 0), (1514, 14), (590, 0)]));
    }
}

#[test]
fn a_capture_gives_the_figures_of_its_packets() {
    // Breaks when a trace that was read is measured as another than the one made by hand.
    let file = Scratch::new("figures.pcap", &pcap(Order::Little, ETHERNET));
    let found = Findings::of(&Options {
        trace: Some(file.0.clone()),
        queue: 2,
        ..Options::default()
    })
    .expect("a run");
    let mbufs = found.tally("mbufs").expect("a tally");
    assert_eq!((mbufs.all.shown, mbufs.all.allocated), (2170, 4864));
    let skb = found.tally("skb").expect("a tally");
    assert_eq!((skb.all.allocated, skb.items), (4352, 6));
    assert_eq!(found.modes(), [1, 1]);
    let bins = found.bins(Bins::Linear);
    let full: Vec<u32> = bins
        .iter()
        .filter(|b| b.packets == 1)
        .map(|b| b.from)
        .collect();
    assert_eq!(full, [0, 500, 1500]);
    let (way, echo) = &found.calls[0];
    assert_eq!((way.name, echo.getcl, echo.copied), ("echo", 3, 0));
}

#[test]
fn a_file_that_is_no_capture_is_an_error() {
    // Breaks when a bad file panics, is taken for a shorter one, or is answered with words that do not help.
    let whole = pcap(Order::Little, ETHERNET);
    let mut endless = whole[..24].to_vec();
    endless.extend(Order::Little.words(&[0, 0, 0, u32::MAX]));
    let far = [section(Order::Big), packet(Order::Big, 0)].concat();
    let scant = [
        section(Order::Big),
        interface(Order::Big, ETHERNET),
        block(Order::Big, 6, &[0; 16]),
    ]
    .concat();
    let cases: [(&str, &[u8], &str); 11] = [
        ("empty", &[], "too short for a capture"),
        ("three", &whole[..3], "too short for a capture"),
        ("text", b"GET / HTTP/1.1", "neither pcap nor pcapng"),
        ("header", &whole[..20], "ends in the middle"),
        ("none", &whole[..24], "holds no packets"),
        (
            "cut",
            &whole[..24 + 16 + 65],
            ": the file ends in the middle",
        ),
        (
            "cut2",
            &whole[..24 + 16 + 66 + 3],
            "after packet 1: the file ends in the middle",
        ),
        ("link", &pcap(Order::Big, 105), "link type 105"),
        ("endless", &endless, "a packet of 4294967295 bytes"),
        ("far", &far, "no interface number 1"),
        ("scant", &scant, "block is too short"),
    ];
    for (name, bytes, says) in cases {
        let file = Scratch::new(&format!("bad-{name}"), bytes);
        let error = capture::read(&file.0).expect_err(name).to_string();
        assert!(
            error.contains(says) && error.contains(name),
            "{name}: {error}"
        );
    }
    let nowhere = std::env::temp_dir().join("lab-sizes-nowhere.pcap");
    let error = capture::read(&nowhere).expect_err("no file");
    assert!(matches!(error, Error::Io { .. }) && error.to_string().contains("nowhere"));
    let error = capture::read(&std::env::temp_dir()).expect_err("a directory");
    assert!(matches!(error, Error::Io { .. }), "{error}");
}

#[test]
fn damage_never_panics() {
    // Breaks when some damaged file makes the reader panic: bytes are changed and files cut, at random.
    let seed = 20_040_501;
    println!("seed {seed}");
    let mut random = Random::from_seed(seed);
    let originals = [
        pcap(Order::Big, ETHERNET),
        pcapng(Order::Big),
        pcapng(Order::Little),
    ];
    let mut read_whole = 0;
    for round in 0..1_500 {
        let mut bytes = originals[round % originals.len()].clone();
        for _ in 0..=random.below(3) {
            // Not the data of packets: that is not looked at.
            let at = random.below(bytes.len().min(220) as u64) as usize;
            bytes[at] = random.next_u32() as u8;
        }
        if random.chance(0.2) {
            bytes.truncate(random.below(bytes.len() as u64) as usize);
        }
        let file = Scratch::new("damaged", &bytes);
        if let Ok(trace) = capture::read(&file.0) {
            assert!(!trace.frames.is_empty());
            read_whole += 1;
        }
    }
    assert!((1..1_500).contains(&read_whole), "{read_whole} were whole");
}

//! Breaks if a TCP field moves, or if options are misread, misplaced or trusted too far.

use std::vec::Vec;

use proptest::prelude::*;

use super::*;

fn block() -> impl Strategy<Value = SackBlock> {
    any::<[u32; 2]>().prop_map(|[left, right]| SackBlock {
        left: SeqNum(left),
        right: SeqNum(right),
    })
}

fn options() -> impl Strategy<Value = TcpOptions> {
    let timestamps = any::<Option<(u32, u32)>>();
    let sack = prop::collection::vec(block(), 0..=4).prop_map(SackBlocks::from_iter);
    let counts = (any::<[u32; 3]>(), 0u8..=3, any::<bool>());
    let acc_ecn = prop::option::of(
        counts.prop_map(|(counts, fields, order_1)| AccEcnOption::new(counts, fields, order_1)),
    );
    (
        any::<Option<u16>>(),
        prop::option::of(0u8..=14),
        any::<bool>(),
        timestamps,
        sack,
        acc_ecn,
    )
        .prop_map(
            |(mss, window_scale, sack_permitted, timestamps, sack, acc_ecn)| TcpOptions {
                mss,
                window_scale,
                sack_permitted,
                timestamps,
                sack,
                acc_ecn,
            },
        )
}

fn fields() -> impl Strategy<Value = TcpFields> {
    (any::<[u16; 4]>(), any::<[u32; 2]>(), 0u16..0x200, options()).prop_map(
        |([src_port, dst_port, window, urgent], [seq, ack], flags, options)| TcpFields {
            src_port,
            dst_port,
            seq: SeqNum(seq),
            ack: SeqNum(ack),
            flags: TcpFlags::from_bits_retain(flags),
            window,
            urgent,
            options,
        },
    )
}

/// The options that a header carries of these: as many SACK blocks as find room, and AccECN's if it does.
fn carried(options: TcpOptions) -> TcpOptions {
    let before = TcpOptions {
        sack: SackBlocks::new(),
        acc_ecn: None,
        ..options
    };
    let room = TcpOptions::LEN_MAX - before.emitted_len();
    let count = room.saturating_sub(4) / 8;
    let sack: SackBlocks = options.sack.iter().copied().take(count).collect();
    let room = TcpOptions::LEN_MAX - TcpOptions { sack, ..before }.emitted_len();
    TcpOptions {
        sack,
        acc_ecn: options.acc_ecn.filter(|o| o.emitted_len() <= room),
        ..options
    }
}

fn emitted(options: TcpOptions) -> Vec<u8> {
    let mut bytes = std::vec![0xee; options.emitted_len()];
    assert_eq!(options.emit(&mut bytes), bytes.len());
    bytes
}

/// A simple and slow parser of option lists, to compare with.
fn read_slowly(bytes: &[u8]) -> TcpOptions {
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut options, mut at) = (TcpOptions::default(), 0);
    while at < bytes.len() && bytes[at] != 0 {
        if bytes[at] == 1 {
            at += 1;
            continue;
        }
        if at + 1 >= bytes.len()
            || bytes[at + 1] < 2
            || at + usize::from(bytes[at + 1]) > bytes.len()
        {
            break;
        }
        let len = usize::from(bytes[at + 1]);
        match (bytes[at], len) {
            (2, 4) => options.mss = Some(u16::from(bytes[at + 2]) * 256 + u16::from(bytes[at + 3])),
            (3, 3) => {
                options.window_scale = Some(if bytes[at + 2] > 14 {
                    14
                } else {
                    bytes[at + 2]
                })
            }
            (4, 2) => options.sack_permitted = true,
            (5, 10 | 18 | 26 | 34) => {
                options.sack = (at + 2..at + len)
                    .step_by(8)
                    .map(|at| SackBlock {
                        left: SeqNum(word(at)),
                        right: SeqNum(word(at + 4)),
                    })
                    .collect();
            }
            (8, 10) => options.timestamps = Some((word(at + 2), word(at + 6))),
            (2 | 3 | 4 | 5 | 8, _) => break,
            (kind @ (172 | 174), _) => {
                let fields = ((len - 2) / 3).min(3);
                let mut counts = [0; 3];
                for (i, count) in counts.iter_mut().enumerate().take(fields) {
                    let bytes = &bytes[at + 2 + 3 * i..at + 5 + 3 * i];
                    *count = bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b));
                }
                options.acc_ecn = Some(AccEcnOption::new(counts, fields as u8, kind == 174));
            }
            _ => {}
        }
        at += len;
    }
    options
}

/// Bytes that look like options often enough to get deep into the parser.
fn option_bytes() -> impl Strategy<Value = Vec<u8>> {
    let plausible = prop_oneof![
        0u8..12,
        172u8..175,
        Just(10),
        Just(18),
        Just(26),
        Just(34),
        any::<u8>()
    ];
    let well_formed = (
        options(),
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    )
        .prop_map(|(options, damage)| {
            let mut bytes = emitted(options);
            for (at, value) in damage {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = value;
                }
            }
            bytes
        });
    prop_oneof![
        prop::collection::vec(plausible, 0..=40),
        prop::collection::vec(any::<u8>(), 0..=40),
        well_formed
    ]
}

#[test]
fn a_syn_is_laid_out_as_the_field_does() {
    // Breaks if an option moves, loses its padding, or the header's fields change places.
    let fields = TcpFields {
        src_port: 0x1234,
        dst_port: 80,
        seq: SeqNum(0x0102_0304),
        flags: TcpFlags::SYN,
        window: 0xffff,
        options: TcpOptions {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some((0x0a0b_0c0d, 0)),
            ..TcpOptions::default()
        },
        ..TcpFields::default()
    };
    let mut bytes = [0xee; 41];
    assert_eq!(fields.emit(&mut bytes), 40);
    let expected = [
        0x12, 0x34, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, 0xa0, 0x02, 0xff, 0xff, 0, 0, 0,
        0, // header
        2, 4, 0x05, 0xb4, 1, 3, 3, 7, // MSS, window scale
        4, 2, 8, 10, 0x0a, 0x0b, 0x0c, 0x0d, 0, 0, 0, 0, // SACK permitted, timestamps
        0xee,
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn flags_have_the_bits_of_rfc_9293() {
    // Breaks if a flag has another bit than the wire's, or AE is not the one beside the data offset (RFC 9768 3.1).
    let order = [
        TcpFlags::FIN,
        TcpFlags::SYN,
        TcpFlags::RST,
        TcpFlags::PSH,
        TcpFlags::ACK,
        TcpFlags::URG,
        TcpFlags::ECE,
        TcpFlags::CWR,
        TcpFlags::AE,
    ];
    for (bit, flag) in order.iter().enumerate() {
        assert_eq!(flag.bits(), 1 << bit);
    }
    assert_eq!(TcpFlags::all().bits(), 0x1ff);
}

#[test]
fn the_data_offset_is_checked() {
    // Breaks if an offset below five words or beyond the bytes passes.
    let mut bytes = [0; 24];
    TcpFields::default().emit(&mut bytes);
    let mut error_for = |words: u8| {
        bytes[12] = words << 4;
        TcpHeader::parse(&bytes).map(|view| view.option_bytes().len())
    };
    for words in 0..5 {
        assert_eq!(error_for(words), Err(ParseError::BadHeaderLen));
    }
    assert_eq!((error_for(5), error_for(6)), (Ok(0), Ok(4)));
    for words in 7..=15 {
        assert_eq!(error_for(words), Err(ParseError::Truncated));
    }
}

#[test]
fn a_malformed_option_keeps_the_options_before_it() {
    // Breaks if a bad length loops, panics, or throws away the options before it.
    let good = TcpOptions {
        mss: Some(1460),
        ..TcpOptions::default()
    };
    let tails: [&[u8]; 11] = [
        &[8],
        &[8, 0],
        &[8, 1],
        &[8, 10, 0, 0],
        &[8, 3, 0, 3, 3, 7],
        &[5, 2, 4, 2],
        &[5, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 4, 2],
        &[5, 9, 1, 2, 3, 4, 5, 6, 7, 4, 2],
        &[3, 2, 4, 2],
        &[0, 4, 2],
        &[254, 0, 4, 2],
    ];
    for tail in tails {
        let mut bytes = std::vec![2, 4, 0x05, 0xb4];
        bytes.extend(tail);
        assert_eq!(TcpOptions::parse(&bytes), good, "{tail:?}");
    }
    // An unknown option of sound length is only skipped.
    assert!(TcpOptions::parse(&[254, 4, 9, 9, 4, 2]).sack_permitted);
}

#[test]
fn a_window_shift_above_14_counts_as_14() {
    // Breaks if a peer can ask for shifts that overflow a window (RFC 7323 2.3).
    assert_eq!(TcpOptions::parse(&[3, 3, 15]).window_scale, Some(14));
    assert_eq!(TcpOptions::parse(&[3, 3, 255]).window_scale, Some(14));
    assert_eq!(TcpOptions::parse(&[3, 3, 14]).window_scale, Some(14));
    assert_eq!(
        emitted(TcpOptions {
            window_scale: Some(200),
            ..TcpOptions::default()
        }),
        [1, 3, 3, 14]
    );
}

#[test]
fn sack_blocks_that_do_not_fit_are_left_out() {
    // Breaks if options run over 40 bytes, whose count the four bits of the offset cannot hold.
    let block = |n: u32| SackBlock {
        left: SeqNum(n),
        right: SeqNum(n + 1),
    };
    let mut options = TcpOptions {
        sack: (0..4).map(block).collect(),
        ..TcpOptions::default()
    };
    assert!(!options.sack.push(block(4)));
    assert_eq!(emitted(options).len(), 36);
    options.timestamps = Some((1, 2));
    assert_eq!(emitted(options).len(), 40);
    assert_eq!(
        TcpOptions::parse(&emitted(options)).sack.as_slice(),
        &[block(0), block(1), block(2)]
    );
    options.mss = Some(1);
    options.window_scale = Some(1);
    assert_eq!(
        TcpOptions::parse(&emitted(options)).sack.as_slice(),
        &[block(0), block(1)]
    );
}

#[test]
fn the_counts_of_acc_ecn_lie_in_their_order_and_may_be_cut_short() {
    // RFC 9768 3.2.3: breaks if a field changes place with the order, a short option is read beyond its end, or one
    // that is longer than it may be is not read at all.
    let whole = AccEcnOption::new([0x0102_0304, 5, 6], 3, false);
    let of = |acc_ecn| TcpOptions {
        acc_ecn: Some(acc_ecn),
        ..TcpOptions::default()
    };
    assert_eq!(emitted(of(whole)), [172, 11, 2, 3, 4, 0, 0, 5, 0, 0, 6, 1]);
    let read = |bytes: &[u8]| TcpOptions::parse(bytes).acc_ecn.unwrap();
    let other = read(&[174, 11, 0, 0, 1, 0, 0, 2, 0, 0, 3, 1]);
    assert_eq!(
        (other.ect1(), other.ce(), other.ect0()),
        (Some(1), Some(2), Some(3))
    );
    let short = read(&[172, 5, 0, 0, 9, 1, 1, 1]);
    assert_eq!(
        (short.ect0(), short.ce(), short.ect1()),
        (Some(9), None, None)
    );
    assert_eq!(read(&[172, 2, 1, 1]).ect0(), None);
    let long = read(&[172, 13, 0, 0, 1, 0, 0, 2, 0, 0, 3, 7, 7]);
    assert_eq!(long.ect1(), Some(3));
    assert_eq!(read(&[172, 7, 0, 0, 1, 7, 7, 1]), read(&[172, 5, 0, 0, 1]));
}

#[test]
fn a_write_in_place_changes_its_field_only() {
    // Breaks if a setter writes another field, as segmentation in software would notice late.
    let mut bytes = [0; 20];
    TcpFields::default().emit(&mut bytes);
    let header = TcpHeader::parse_mut(&mut bytes).unwrap();
    header.set_seq(SeqNum(0x0102_0304));
    header.set_flags(TcpFlags::AE | TcpFlags::FIN);
    assert_eq!(header.flags(), TcpFlags::AE | TcpFlags::FIN);
    assert_eq!((header.header_len(), header.offset), (20, 0x51));
    header.set_flags(TcpFlags::ACK | TcpFlags::PSH);
    header.set_checksum(0x0506);
    assert_eq!(
        bytes,
        [
            0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0x50, 0x18, 0, 0, 5, 6, 0, 0
        ]
    );
    assert_eq!(bytes[TcpHeader::CHECKSUM_OFFSET], 5);
}

proptest! {
    #[test]
    fn headers_round_trip(fields in fields(), tail in prop::collection::vec(any::<u8>(), 0..20)) {
        // Breaks if emit and parse disagree on a field, or if a cut header parses.
        let header_len = fields.header_len();
        let mut bytes = std::vec![0xee; header_len];
        prop_assert_eq!(fields.emit(&mut bytes), header_len);
        bytes.extend(&tail);
        let view = TcpHeader::parse(&bytes).unwrap();
        prop_assert_eq!(view.header_len(), header_len);
        prop_assert_eq!(view.checksum(), 0);
        let read = TcpFields {
            src_port: view.src_port(),
            dst_port: view.dst_port(),
            seq: view.seq(),
            ack: view.ack(),
            flags: view.flags(),
            window: view.window(),
            urgent: view.urgent(),
            options: view.options(),
        };
        prop_assert_eq!(read, TcpFields { options: carried(fields.options), ..fields });
        for len in 0..header_len {
            prop_assert_eq!(TcpHeader::parse(&bytes[..len]).map(|_| ()), Err(ParseError::Truncated));
        }
    }

    #[test]
    fn options_are_whole_words_and_fit(options in options()) {
        // Breaks if the announced length differs from the written one or cannot be said in the offset.
        let bytes = emitted(options);
        prop_assert!(bytes.len().is_multiple_of(4) && bytes.len() <= TcpOptions::LEN_MAX);
        prop_assert_eq!(TcpOptions::parse(&bytes), carried(options));
    }

    #[test]
    fn any_option_bytes_are_read_as_the_slow_way_does(bytes in option_bytes()) {
        // Breaks if damaged options panic, loop, or are parsed otherwise than RFC 9293 3.1 says.
        prop_assert_eq!(TcpOptions::parse(&bytes), read_slowly(&bytes));
    }

    #[test]
    fn the_fast_path_reads_what_the_list_says(value: u32, echo: u32) {
        // Breaks if timestamps alone, in the recommended layout, are read differently from the rest.
        let bytes = emitted(TcpOptions { timestamps: Some((value, echo)), ..TcpOptions::default() });
        prop_assert_eq!(bytes.len(), 12);
        prop_assert_eq!(TcpOptions::parse(&bytes), read_slowly(&bytes));
    }
}

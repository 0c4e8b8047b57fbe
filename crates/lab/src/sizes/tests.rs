//! Tests of the comparison: figures that were worked out by hand, and files that are no captures.

use super::designs::Keep;
use super::models::Footprint;
use super::trace::Frame;
use super::*;
use crate::harness::table;
use crate::harness::test_output::{json_lines, output};
use mbuf::{Live, MHLEN, MSIZE, MbufPool};
use std::fs;

mod captures;

/// An acknowledgement, a middling packet, a full one.
const LENS: [u32; 3] = [66, 590, 1514];

fn trace(lens: &[u32]) -> Trace {
    let frames = lens.iter().map(|&len| Frame { len, link: 14 });
    Trace {
        source: "by hand".to_owned(),
        frames: frames.collect(),
    }
}

fn pool() -> MbufPool {
    tally::pool().expect("a pool")
}

#[test]
fn a_seed_is_a_trace() {
    // Breaks when a trace depends on anything but its seed: these sizes are the same for ever.
    let one = Trace::bimodal(7, 10_000);
    assert_eq!(one, Trace::bimodal(7, 10_000));
    assert_ne!(one.frames, Trace::bimodal(8, 10_000).frames);
    let first: Vec<u32> = one.frames[..8].iter().map(|frame| frame.len).collect();
    assert_eq!(first, [1514, 66, 70, 1024, 71, 1514, 66, 66]);
}

#[test]
fn the_generated_trace_is_bimodal() {
    // Breaks when the made-up packets lose the shape that the seed describes, or leave Ethernet's bounds.
    let made = Trace::bimodal(1, 10_000);
    let of = |range: std::ops::RangeInclusive<u32>| {
        made.frames
            .iter()
            .filter(|f| range.contains(&f.len))
            .count()
    };
    assert_eq!(of(60..=1514), 10_000);
    assert!((4_800..5_200).contains(&of(60..=114)), "{}", of(60..=114));
    assert!((3_800..4_200).contains(&of(1514..=1514)));
    assert!(of(115..=1513) > 800);
}

#[test]
fn bins_have_every_packet_once() {
    // Breaks when a size falls between two bins, into both, or into a bin whose label excludes it.
    let lens = [
        0,
        1,
        63,
        64,
        65,
        99,
        100,
        1514,
        1599,
        1600,
        9000,
        65_535,
        u32::MAX,
    ];
    for bins in [Bins::Linear, Bins::PowersOfTwo] {
        let counted = bins.count(lens);
        let sum: u64 = counted.iter().map(|bin| bin.packets).sum();
        assert_eq!(sum, lens.len() as u64);
        for bin in &counted {
            let inside = lens.iter().filter(|len| (bin.from..=bin.to).contains(*len));
            assert_eq!(inside.count() as u64, bin.packets, "{bin:?}");
        }
        for two in counted.windows(2) {
            assert_eq!(two[0].to + 1, two[1].from);
        }
    }
    let labels = |bins: Bins, lens: &[u32]| {
        let bins = bins.count(lens.iter().copied());
        bins.iter().map(Bin::label).collect::<Vec<_>>()
    };
    assert_eq!(
        labels(Bins::Linear, &[1599, 1600]),
        ["1500-1599", "1600 on"]
    );
    assert_eq!(labels(Bins::PowersOfTwo, &[64]), ["64-127"]);
    assert_eq!(labels(Bins::PowersOfTwo, &[]), [""; 0]);
}

#[test]
fn figures_of_three_packets_equal_those_by_hand() {
    // Breaks when a design takes more or less than its layout says, or the sums lose some of it.
    //   mbufs          256; 256 + 2048; 256 + 2048                    a cluster of 2 KiB comes with its mbuf: 3 pops
    //   mbufs-only     1; 176 + 2 of 224: 3; 176 + 6 of 224: 7                     mbufs
    //   skb            to 64 of 64 + len, + 320, to a power of two: 512, 1024, 2048  + 256
    //   mini           256, 1024, 2048                                               + 64
    //   malloc         80 + len + 8, to 16: 160, 688, 1616
    let by_hand = [
        ("mbufs", 256 + 2304 + 2304, 3, 2304 + 2304),
        ("mbufs-only", 11 * 256, 11, 10 * 256),
        ("clusters-only", 3 * 2304, 3, 2 * 2304),
        ("mini", 320 + 1088 + 2112, 6, 1088 + 2112),
        ("skb", 768 + 1280 + 2304, 6, 1280 + 2304),
        ("skb-frag", 768 + 1280 + 2176, 6, 1280 + 2176),
        ("pktmbuf", 3 * 2304, 3, 2 * 2304),
        ("exact", 3 * 80 + 2170, 3, 2 * 80 + 590 + 1514),
        ("malloc", 160 + 688 + 1616, 3, 688 + 1616),
    ];
    let trace = trace(&LENS);
    for (design, (name, allocated, items, peak)) in DESIGNS.into_iter().zip(by_hand) {
        let pool = pool();
        let tally = Tally::on(&pool, design, &trace, 2).expect(name);
        assert_eq!(tally.design.name, name);
        let all = tally.all;
        assert_eq!(
            (all.packets, all.shown, all.allocated),
            (3, 2170, allocated),
            "{name}"
        );
        assert_eq!((tally.items, tally.peak), (items, peak), "{name}");
        assert_eq!(all.wasted(), allocated - 2170);
        let of_classes = tally.classes.iter().fold([0; 3], |[p, s, a], class| {
            [p + class.packets, s + class.shown, a + class.allocated]
        });
        assert_eq!(of_classes, [3, 2170, allocated], "{name}");
        assert_eq!(pool.live(), Live::NONE);
    }
}

#[test]
fn long_packets_are_chained() {
    // Breaks when a design loses bytes that do not fit its largest piece.
    let footprint = |bytes, items| Footprint { bytes, items };
    assert_eq!(models::mini(0), footprint(64 + 256, 2));
    assert_eq!(models::mini(16_384), footprint(64 + 16_384, 2));
    assert_eq!(models::mini(16_385), footprint(128 + 16_384 + 256, 4));
    assert_eq!(models::pktmbuf(2049), footprint(2 * 2304, 2));
    // 64 + 16000 is 251 lines, with the shared info four pages to the byte.
    assert_eq!(models::skb(16_000), footprint(256 + 16_384, 2));
    // One byte more: 256 bytes of headers in 1 KiB (320 to 64, and 320), 15745 bytes in four pages.
    assert_eq!(models::skb(16_001), footprint(256 + 1024 + 4 * 4096, 6));
    assert_eq!(models::skb_frag(16_001), models::skb(16_001));
    for len in (0..70_000).step_by(97) {
        for design in DESIGNS {
            if let Keep::Modelled(footprint) = design.keep {
                assert!(
                    footprint(len).bytes >= len as u64,
                    "{} of {len}",
                    design.name
                );
            }
        }
    }
}

#[test]
fn pinned_memory_equals_the_zones_allocations() {
    // Breaks when the pinned memory that a packet reports differs from the memory that its allocations took.
    for len in [
        0,
        1,
        MHLEN,
        MHLEN + 1,
        2048,
        2049,
        4096,
        9018,
        16_384,
        16_385,
        65_549,
    ] {
        let bytes = vec![0; len];
        for design in DESIGNS {
            let Keep::Made(make) = design.keep else {
                continue;
            };
            let pool = pool();
            let packet = make(&pool, &bytes).expect("a packet");
            let stats = pool.stats();
            let free_packets = stats.packets.cached();
            let clusters: usize = stats.clusters.iter().map(|z| z.used * z.size).sum();
            // Those of free packets are of 2 KiB.
            let used =
                (stats.mbufs.used + stats.packets.used) * MSIZE + clusters - free_packets * 2048;
            assert_eq!(packet.pinned(), used, "{} of {len}", design.name);
            assert_eq!(packet.to_vec(), bytes);
            drop(packet);
            assert_eq!(pool.live(), Live::NONE);
        }
    }
}

#[test]
fn each_path_makes_its_own_calls() {
    // Breaks when a path makes other calls than its own, or a common path copies in a pullup.
    let calls = |name: &str| {
        let pool = pool();
        let way = PATHS.into_iter().find(|way| way.name == name).expect(name);
        let calls = Calls::on(&pool, way, &trace(&LENS)).expect(name);
        assert_eq!(pool.live(), Live::NONE);
        calls
    };
    let echo = Calls {
        gethdr: 3,
        get: 3,
        getcl: 3,
        clget: 0,
        share: 3,
        prepend: 9,
        pullup: 9,
        copied: 0,
    };
    assert_eq!(calls("echo"), echo);
    // The acknowledgement fits an mbuf.
    let small = Calls {
        gethdr: 4,
        getcl: 2,
        ..echo
    };
    assert_eq!(calls("echo-small"), small);
    let forward = Calls {
        getcl: 3,
        prepend: 3,
        pullup: 3,
        ..Calls::default()
    };
    assert_eq!(calls("forward"), forward);
    // A shared cluster has no room in front: an mbuf for the link header, and then the headers are in two pieces.
    let kept = calls("forward-kept");
    assert_eq!((kept.share, kept.pullup, kept.copied), (3, 6, 3));
    assert!(kept.get >= 6, "{kept:?}");
}

#[test]
fn runts_pass_every_path() {
    // Breaks when a packet that is shorter than its headers stops a run.
    let runts = trace(&[0, 1, 13, 14, 33, 34, 53, 54]);
    for way in PATHS {
        let pool = pool();
        let calls = Calls::on(&pool, way, &runts).expect(way.name);
        assert!(calls.pullup >= 8);
        assert_eq!(pool.live(), Live::NONE);
    }
}

fn short() -> Options {
    Options {
        packets: 2_000,
        queue: 64,
        ..Options::default()
    }
}

#[test]
fn tables_fit_a_terminal_and_have_every_design() {
    // Breaks when a row is missing, or wraps.
    let text = output(|out| run(&short(), out));
    assert!(text.lines().all(|line| line == table::cut(line)), "{text}");
    for name in DESIGNS.map(|design| design.name) {
        assert_eq!(text.matches(&format!("\n  {name} ")).count(), 2, "{text}");
    }
    for way in PATHS {
        assert!(text.contains(&format!("\n  {} ", way.name)), "{text}");
    }
}

#[test]
fn lines_are_json_and_agree_with_each_other() {
    // Breaks when a program cannot read a line, or the bins of a histogram have lost packets.
    let options = Options {
        json: true,
        ..short()
    };
    let lines = json_lines(&output(|out| run(&options, out)));
    for line in &lines {
        assert_eq!(line["experiment"], "sizes");
        assert!(line["median"].is_f64() && line["n"].is_u64(), "{line}");
    }
    for case in ["histogram", "histogram-log2"] {
        let of_case = lines.iter().filter(|line| line["case"] == case);
        let sum: f64 = of_case.filter_map(|line| line["median"].as_f64()).sum();
        assert_eq!(sum, 2_000.0, "{case}");
    }
    for measure in [
        "allocated",
        "wasted",
        "wasted-percent",
        "items",
        "peak",
        "wasted-each",
    ] {
        let of_measure = lines.iter().filter(|line| line["measure"] == measure);
        assert_eq!(of_measure.count(), DESIGNS.len(), "{measure}");
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    // Breaks when a run divides by zero packets, or fills the machine.
    for bad in [
        Options {
            packets: 0,
            ..short()
        },
        Options {
            packets: PACKETS_MAX + 1,
            ..short()
        },
        Options {
            queue: 0,
            ..short()
        },
        Options {
            queue: QUEUE_MAX + 1,
            ..short()
        },
    ] {
        let error = run(&bad, &mut Vec::new()).expect_err("a number out of range");
        assert!(error.to_string().contains("is from 1 to"), "{error}");
    }
}

#[test]
fn a_queue_that_no_pool_holds_is_an_error() {
    // Breaks when running out of buffers is a panic, or passes for a measurement.
    let long = trace(&vec![1 << 20; 1100]);
    let pool = pool();
    let error = Tally::on(&pool, designs::MBUFS, &long, 1100).err();
    assert!(error.is_some_and(|error| error.to_string().contains("--queue")));
    assert_eq!(pool.live(), Live::NONE);
}

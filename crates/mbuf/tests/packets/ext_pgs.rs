//! Page-list mbufs: every alignment, every cut, every kind of source.

use crate::common::{balanced, pattern, pool_of, sized};
use crate::pages::{Shown, VecPages, check_mixed, gathered};
use mbuf::{
    Chain, ExtPgs, ExtPgsError, Live, MapError, MbufPool, Mixed, OwnedPages, PAGE_SIZE, PAGES_MAX,
    Packet, Pages, Piece, RECORD_HEADER_MAX, RECORD_TRAILER_MAX, RecordTooLong,
};

/// A TLS record's payload.
const RECORD: usize = 16 << 10;
const ALL: [Shown; 4] = [Shown::Never, Shown::Each, Shown::Whole, Shown::Even];

/// A record of pages, with header and trailer, and all of its bytes.
fn record(pool: &MbufPool, pages: Pages, all: &[u8], off: usize, len: usize) -> (ExtPgs, Vec<u8>) {
    let mut record = ExtPgs::new(pool, pages, off as u64, len).expect("it is of five pages");
    let (header, trailer) = (pattern(201, 13), pattern(99, 17));
    record.set_header(&header).expect("it fits");
    record.set_trailer(&trailer).expect("it fits");
    let bytes = [&header, &all[off..off + len], &trailer].concat();
    (record, bytes)
}

#[test]
fn a_record_at_any_alignment_is_one_mbuf() {
    // Breaks if an offset in the first page, or the length of the last, is wrong: the list would have a sixth page, or
    // show its neighbours' bytes.
    let all = pattern(1, RECORD + 2 * PAGE_SIZE);
    let edges = [0, 1, 2, 4094, 4095];
    let odd = (3..PAGE_SIZE).step_by(sized(5, 1001));
    balanced(|pool| {
        for shown in ALL {
            let (pages, drops) = VecPages::pages(all.clone(), shown);
            for off in odd.clone().chain(edges) {
                let share = pages.share().expect("few");
                let (record, bytes) = record(pool, share, &all, off, RECORD);
                let mut chain = record.into_chain();
                let seen = chain.records().next().expect("it is one");
                assert_eq!(seen.page_count(), if off == 0 { 4 } else { 5 });
                assert_eq!(chain.pinned(), 256 + seen.page_count() * PAGE_SIZE);
                assert!(seen.is_whole() && seen.pages_len() == RECORD);
                assert_eq!(chain.mbufs(), 1);
                check_mixed(pool, &mut chain, &bytes);
            }
            drop(pages);
            assert_eq!(drops.count(), 1);
        }
    });
}

/// Offsets at the borders in a record: header, pages, trailer, and their neighbours.
fn edges(first_off: usize, len: usize, whole: usize) -> Vec<usize> {
    let header = 13;
    let inside = (0..5).map(|n| header + (n * PAGE_SIZE).saturating_sub(first_off));
    let places = inside.chain([0, header, header + len, whole]);
    let mut all: Vec<usize> = places
        .flat_map(|at| [at.saturating_sub(1), at, at + 1])
        .filter(|&at| at <= whole)
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn cuts_at_every_edge_are_true() {
    // Breaks if a cut in the header, between two pages or in the trailer loses bytes before it, or
    // frees pages that the other part still shows.
    let all = pattern(7, 3 * PAGE_SIZE);
    let (first_off, len) = (1000, 5000);
    balanced(|pool| {
        for shown in ALL {
            let (pages, drops) = VecPages::pages(all.clone(), shown);
            let build = || {
                let share = pages.share().expect("few");
                let (record, bytes) = record(pool, share, &all, first_off, len);
                (record.into_chain(), bytes)
            };
            let whole = build().1.len();
            for &at in edges(first_off, len, whole).iter().step_by(sized(1, 3)) {
                let (mut chain, bytes) = build();
                let mut front = chain.take_front(at).expect("the pool is large");
                check_mixed(pool, &mut front, &bytes[..at]);
                check_mixed(pool, &mut chain, &bytes[at..]);
                drop(front);
                check_mixed(pool, &mut chain, &bytes[at..]);
                let (mut chain, _) = build();
                chain.truncate(at);
                check_mixed(pool, &mut chain, &bytes[..at]);
                let (mut chain, _) = build();
                chain.trim_front(at);
                check_mixed(pool, &mut chain, &bytes[at..]);
                let n = (whole - at).min(4100);
                let (mut chain, _) = build();
                let mut part = chain.share(at, n).expect("the pool is large");
                drop(chain);
                check_mixed(pool, &mut part, &bytes[at..at + n]);
            }
            drop(pages);
            assert_eq!(drops.count(), 1);
        }
    });
}

#[test]
fn a_long_range_is_cut_into_few_mbufs() {
    // Breaks if a list is left before it is full, or if the pieces overlap.
    let all = pattern(3, 40 * PAGE_SIZE);
    let (pages, drops) = VecPages::pages(all.clone(), Shown::Whole);
    balanced(|pool| {
        for (off, len) in [
            (0, 0),
            (5, 1),
            (0, 40 * PAGE_SIZE),
            (4095, 20_481),
            (100, 102_400),
        ] {
            let made = Chain::from_pages(pool, &pages, off as u64, len);
            let mut chain = made.expect("the pool is large");
            let touched = (off % PAGE_SIZE + len).div_ceil(PAGE_SIZE);
            assert_eq!(chain.mbufs(), touched.div_ceil(PAGES_MAX));
            check_mixed(pool, &mut chain, &all[off..off + len]);
        }
        let past = Chain::from_pages(pool, &pages, u64::MAX, 1);
        assert_eq!(past.map(drop), Err(ExtPgsError::OutOfRange));
    });
    drop(pages);
    assert_eq!(drops.count(), 1);
}

#[test]
fn pages_in_any_order_make_one_record() {
    // Breaks if a run goes on past a page whose successor in the list is not its successor by
    // number.
    let all = pattern(5, 12 * PAGE_SIZE);
    let page = |n: usize| &all[n * PAGE_SIZE..(n + 1) * PAGE_SIZE];
    let bytes = [&page(7)[50..], page(8), page(2), page(11), &page(3)[..9]].concat();
    balanced(|pool| {
        for shown in ALL {
            let (pages, _) = VecPages::pages(all.clone(), shown);
            let list = [7, 8, 2, 11, 3];
            let record = ExtPgs::of_list(pool, pages, &list, 50, bytes.len()).expect("they fit");
            let runs: Vec<_> = record.record().runs().map(|run| run.page).collect();
            assert_eq!(runs, [7, 2, 11, 3]);
            check_mixed(pool, &mut record.into_chain(), &bytes);
        }
    });
}

#[test]
fn more_pages_than_an_mbuf_can_list_are_refused() {
    // Breaks if a list is made that its fields can't hold, or if a refusal keeps the reference.
    balanced(|pool| {
        let (pages, drops) = VecPages::pages(vec![0; 6 * PAGE_SIZE], Shown::Never);
        let share = || pages.share().expect("few");
        let new = |off, len| ExtPgs::new(pool, share(), off, len).map(drop);
        let most = PAGES_MAX * PAGE_SIZE;
        assert_eq!(new(0, most), Ok(()));
        for (off, len) in [
            (0, most + 1),
            (1, most),
            (0, usize::MAX),
            (4095, usize::MAX),
        ] {
            assert_eq!(new(off, len), Err(ExtPgsError::TooManyPages));
        }
        let of = |list: &[u64], off, len| ExtPgs::of_list(pool, share(), list, off, len).map(drop);
        assert_eq!(of(&[], 0, 0), Ok(()));
        assert_eq!(of(&[4], 4095, 1), Ok(()));
        for (list, off, len) in [
            (&[1][..], 4096, 1),
            (&[1], 4095, 2),
            (&[1, 2], 0, 4096),
            (&[1], 0, 0),
            (&[], 0, 1),
        ] {
            assert_eq!(of(list, off, len), Err(ExtPgsError::OutOfRange));
        }
        assert_eq!(of(&[1; 6], 0, most), Err(ExtPgsError::TooManyPages));
        assert_eq!(drops.count(), 0);
        drop(pages);
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn header_and_trailer_have_their_bounds() {
    // Breaks if a byte too many goes into the neighbouring field, or a refusal half changes it.
    balanced(|pool| {
        let (pages, _) = VecPages::pages(vec![7; PAGE_SIZE], Shown::Each);
        let mut record = ExtPgs::new(pool, pages, 0, 3).expect("the pool is large");
        let (header, trailer) = ([1; RECORD_HEADER_MAX], [2; RECORD_TRAILER_MAX]);
        record.set_header(&header).expect("it fits");
        record.set_trailer(&trailer).expect("it fits");
        assert_eq!(
            record.set_header(&[9; RECORD_HEADER_MAX + 1]),
            Err(RecordTooLong)
        );
        assert_eq!(
            record.set_trailer(&[9; RECORD_TRAILER_MAX + 1]),
            Err(RecordTooLong)
        );
        record.set_record_type(23);
        record.set_seqno(u64::MAX);
        let seen = record.record();
        assert_eq!((seen.header(), seen.trailer()), (&header[..], &trailer[..]));
        assert_eq!(
            (seen.record_type(), seen.seqno(), seen.len()),
            (23, u64::MAX, 91)
        );
        record.set_header(&[]).expect("it fits");
        assert_eq!(record.reserve_trailer(2), Ok(&mut [0, 0][..]));
        record.trailer_mut()[1] = 5;
        check_mixed(pool, &mut record.into_chain(), &[7, 7, 7, 0, 5]);
    });
}

#[test]
fn the_source_goes_with_the_last_of_sent_and_acknowledged() {
    // Breaks if a reference is lost or counted twice: the pages would go while the device still
    // reads them, or never.
    let orders: [[usize; 3]; 6] = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    balanced(|pool| {
        for order in orders {
            let all = pattern(2, 4 * PAGE_SIZE);
            let (pages, drops) = VecPages::pages(all.clone(), Shown::Each);
            let mut sndbuf = Chain::from_pages(pool, &pages, 0, all.len()).expect("it is large");
            drop(pages);
            let segment = sndbuf.share(100, 9000).expect("it is large");
            let mut packet = Packet::before_chain(pool, segment).expect("it is large");
            packet.prepend(40).expect("the room is there").fill(0);
            let seen = packet.map(pool).expect("it is large");
            let mut holders = [
                Some(Holder::Acked(sndbuf)),
                Some(Holder::Sent(packet)),
                None,
            ];
            holders[2] = Some(Holder::Seen(seen, all));
            for (n, which) in order.into_iter().enumerate() {
                assert_eq!(drops.count(), 0, "dropped before the end of {order:?}");
                holders[which].take().expect("once").end();
                assert_eq!(drops.count(), usize::from(n == 2));
            }
        }
    });
}

/// An object that keeps the pages.
enum Holder {
    Acked(Chain<Mixed>),
    Sent(Packet<Mixed>),
    Seen(Packet, Vec<u8>),
}

impl Holder {
    fn end(self) {
        match self {
            Self::Acked(mut sndbuf) => sndbuf.trim_front(usize::MAX),
            Self::Sent(packet) => drop(packet),
            Self::Seen(packet, all) => assert!(packet.to_vec()[40..] == all[100..9100]),
        }
    }
}

#[test]
fn mapping_memory_neither_copies_nor_writes() {
    // Breaks if mapping copies pages in memory, or gives the source's bytes for writing.
    balanced(|pool| {
        for (shown, mapped, read) in [
            (Shown::Whole, 5, 0),
            (Shown::Each, 5, 0),
            (Shown::Even, 3, 2),
            (Shown::Never, 0, 5),
        ] {
            let (pages, _) = VecPages::pages(pattern(1, 6 * PAGE_SIZE), shown);
            let before = pool.stats();
            let mut chain = Chain::from_pages(pool, &pages, 10, RECORD).expect("it is large");
            let mut seen = chain.map(pool).expect("it is large");
            let after = pool.stats();
            assert_eq!(after.pages_mapped - before.pages_mapped, mapped);
            assert_eq!(after.pages_read - before.pages_read, read);
            assert_eq!(after.bytes_copied, before.bytes_copied);
            if mapped > 0 {
                assert!(seen.write_at(0, &[1]).is_err());
                assert!(!seen.zeroize());
            }
            if shown == Shown::Whole {
                assert_eq!(seen.mbufs(), 1, "they follow each other in memory");
            }
            assert!(!chain.zeroize(), "the pages are the source's");
        }
    });
}

#[test]
fn owned_pages_go_back_one_by_one() {
    // Breaks if a page stays behind, or one is freed that is still shown.
    let pool = pool_of(100, 64 << 10);
    for zero in [false, true] {
        let mut owned = OwnedPages::new(&pool, PAGES_MAX).expect("the pool is large");
        let bytes = pattern(9, PAGES_MAX * PAGE_SIZE - 100);
        owned.write_at(100, &bytes).expect("they fit");
        assert!(owned.write_at(owned.capacity(), &[1]).is_err());
        assert!(owned.write_at(usize::MAX, &[1]).is_err());
        assert_eq!(pool.live().clusters, PAGES_MAX);
        let record = ExtPgs::new(&pool, owned.into(), 100, bytes.len()).expect("it is large");
        let mut chain = record.into_chain();
        assert_eq!(zero, zero && chain.zeroize(), "the pages are the pool's");
        let mut seen = chain.map(&pool).expect("it is large");
        assert_eq!(pool.live().clusters, PAGES_MAX, "shown where they are");
        check_mixed(&pool, &mut chain, &bytes);
        drop(chain);
        assert!(
            seen.to_vec() == bytes,
            "readable as long as an mbuf shows them"
        );
        assert!(seen.write_at(0, &[1]).is_err());
        drop(seen);
        assert_eq!(pool.live(), Live::NONE);
        // The same pages come out again: the page cached last is taken first. (The feature fills
        // free pages with a pattern of its own.)
        let mut again = OwnedPages::new(&pool, PAGES_MAX).expect("the pool is large");
        let wiped = again
            .pages_mut()
            .all(|page| page.iter().all(|&byte| byte == 0));
        assert!(wiped == zero || cfg!(feature = "invariants"));
    }
    assert_eq!(
        OwnedPages::new(&pool, 6).map(drop),
        Err(ExtPgsError::TooManyPages)
    );
    let most: Vec<_> = (0..4)
        .map_while(|_| OwnedPages::new(&pool, 4).ok())
        .collect();
    assert_eq!(
        OwnedPages::new(&pool, 1).map(drop),
        Err(ExtPgsError::NoBufs)
    );
    drop(most);
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn a_source_may_be_shared_by_other_means_too() {
    // Breaks if an Arc's own methods are called instead of those of its value.
    balanced(|pool| {
        let (source, drops) = VecPages::new(pattern(1, PAGE_SIZE), Shown::Each);
        let source = std::sync::Arc::new(source);
        let pages = Pages::new(source.clone());
        assert!(pages.source().bytes(0).is_some());
        let mut chain = Chain::from_pages(pool, &pages, 1, 100).expect("the pool is large");
        check_mixed(pool, &mut chain, &pattern(1, PAGE_SIZE)[1..101]);
        drop((chain, pages));
        assert_eq!(drops.count(), 0);
        drop(source);
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn mapped_and_unmapped_make_one_chain() {
    // Breaks if a list of both is walked as if it were one of either.
    balanced(|pool| {
        let (pages, _) = VecPages::pages(pattern(4, 2 * PAGE_SIZE), Shown::Never);
        let plain = Chain::from_slice(pool, &pattern(8, 300)).expect("the pool is large");
        let mut chain = Chain::<Mixed>::from(plain);
        chain.append(Chain::from_pages(pool, &pages, 0, 5000).expect("the pool is large"));
        // A page list has no room behind it.
        chain
            .extend_from_slice(pool, &[1; 10])
            .expect("the pool is large");
        let bytes = [&pattern(8, 300), &pattern(4, 5000)[..], &[1; 10]].concat();
        check_mixed(pool, &mut chain, &bytes);
        assert_eq!(chain.records().count(), 1);
        let pages = chain
            .pieces()
            .filter(|piece| matches!(piece, Piece::Pages(_)));
        assert_eq!(pages.count(), 1);
        for off in [0, 299, 300, 5299, 5300, 5309] {
            let mut part = vec![0; (bytes.len() - off).min(400)];
            chain.copy_to(off, &mut part).expect("the bytes are there");
            assert!(part == bytes[off..off + part.len()]);
        }
        assert!(chain.copy_to(5309, &mut [0; 2]).is_err());
        assert!(chain.copy_to(usize::MAX, &mut [0; 2]).is_err());
        let mut chain = chain.try_into_mapped().expect_err("it holds pages");
        let front = chain.take_front(300).expect("the pool is large");
        assert_eq!(
            front.try_into_mapped().expect("it holds none").to_vec(),
            bytes[..300]
        );
        assert!(gathered(&chain) == bytes[300..]);
    });
}

#[test]
fn a_packet_is_mapped_with_its_header() {
    // Breaks if the metadata, a tag, the bytes that were contiguous, or the room before them are
    // lost.
    balanced(|pool| {
        let all = pattern(6, 2 * PAGE_SIZE);
        let (pages, _) = VecPages::pages(all.clone(), Shown::Even);
        let payload = Chain::from_pages(pool, &pages, 4000, 3000).expect("the pool is large");
        let mut packet = Packet::before_chain(pool, payload).expect("the pool is large");
        packet.prepend(54).expect("the room is there").fill(3);
        (packet.header_mut().flow, packet.header_mut().tso_segsz) = (77, 1460);
        packet.set_tag(7_u16).expect("the pool is large");
        let mut seen = packet.map(pool).expect("the pool is large");
        let bytes = [&[3; 54], &all[4000..7000]].concat();
        assert!(seen.is_valid() && seen.to_vec() == bytes);
        assert_eq!(seen.header(), packet.header());
        assert_eq!(seen.tag::<u16>(), Some(&7));
        assert_eq!(seen.front(), [3; 54]);
        let live = pool.live();
        seen.prepend(14).expect("the room is there").fill(0);
        assert_eq!(pool.live(), live);
        let mut part = [0; 60];
        packet.copy_to(50, &mut part).expect("the bytes are there");
        assert_eq!(part, bytes[50..110]);
        let rest = packet.split_off(54).expect("the pool is large");
        assert!(gathered(&rest) == all[4000..7000]);
        let mapped = packet.try_into_mapped().expect("no pages are left");
        assert_eq!(mapped.to_vec(), [3; 54]);
        // One that begins with outside storage keeps its header there.
        let begun = Packet::from_slice(pool, &[5; 1000], 100).expect("the pool is large");
        let mut begun = Packet::<Mixed>::from(begun);
        begun.append_chain(rest);
        let seen = begun.map(pool).expect("the pool is large");
        assert!(seen.is_valid() && seen.to_vec()[..1000] == [5; 1000]);
        assert!(seen.to_vec()[1000..] == all[4000..7000]);
        assert!(begun.try_into_mapped().is_err());
    });
}

#[test]
fn a_failed_read_changes_nothing() {
    // Breaks if pages mapped before the failure stay mapped, or the chain lost bytes.
    balanced(|pool| {
        let (pages, _) = VecPages::pages(pattern(4, 5000), Shown::Never);
        let mut chain = Chain::from_pages(pool, &pages, 4000, 1000).expect("it is large");
        chain.append(Chain::from_pages(pool, &pages, 4000, 1001).expect("it is large"));
        let live = pool.live();
        let failed = chain.map(pool);
        assert!(matches!(failed, Err(MapError::Read(_))), "{failed:?}");
        assert!(chain.copy_to(0, &mut vec![0; 2001]).is_err());
        assert_eq!(pool.live(), live);
        assert!(chain.is_valid());
        chain.truncate(1999);
        let bytes = [&pattern(4, 5000)[4000..], &pattern(4, 5000)[4000..4999]].concat();
        check_mixed(pool, &mut chain, &bytes);
    });
}

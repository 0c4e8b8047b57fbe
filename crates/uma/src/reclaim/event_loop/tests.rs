//! A loop that is not there: the tests pass the time to the reclaimer themselves.

use super::*;
use crate::ZoneBuilder;
use core::alloc::Layout;
use std::fs;
use std::path::PathBuf;

const ITEM: usize = 2048;

fn zone() -> RawZone {
    let layout = Layout::from_size_align(ITEM, ITEM).unwrap();
    ZoneBuilder::new("test", layout).build().unwrap()
}

/// Leaves so many bytes of a zone free.
fn leave_free(zone: &RawZone, bytes: usize) {
    let items: Vec<_> = (0..bytes / ITEM).map(|_| zone.alloc().unwrap()).collect();
    for item in items {
        // SAFETY: from this zone, and not used any more.
        unsafe { zone.free(item) };
    }
}

/// Without any source of pressure, and with one tick behind it, which ended a window.
fn reclaimer(zone: &RawZone) -> LoopReclaimer {
    let nowhere = PathBuf::from("/nonexistent");
    let pressure = Pressure::open_at(&nowhere, &nowhere);
    assert_eq!(pressure.source(), PressureSource::Nothing);
    begin(zone, pressure)
}

fn begin(zone: &RawZone, pressure: Pressure) -> LoopReclaimer {
    let mut reclaimer = LoopReclaimer::with_pressure(Pace::default(), pressure);
    reclaimer.watch(zone);
    reclaimer.resume(Time::ZERO);
    run(&mut reclaimer, 1);
    reclaimer
}

/// Ticks when they are due, at most `ticks_max` times or until there is no deadline. Returns the pages of each.
fn run(reclaimer: &mut LoopReclaimer, ticks_max: usize) -> Vec<usize> {
    let mut pages = Vec::new();
    while pages.len() < ticks_max
        && let Some(at) = reclaimer.deadline()
    {
        let before = reclaimer.stats().purged.pages;
        reclaimer.tick(at);
        pages.push(reclaimer.stats().purged.pages - before);
        assert!(pages.len() < 10_000, "no end");
    }
    pages
}

fn pages_of(bytes: usize) -> usize {
    bytes / crate::region::page_bytes()
}

#[test]
#[cfg_attr(miri, ignore = "gives pages back")]
fn pieces_are_bounded_and_come_to_an_end() {
    // Breaks when a tick gives back more than its piece, or ticks end with memory left, or go on without use.
    let zone = zone();
    let mut reclaimer = reclaimer(&zone);
    leave_free(&zone, 64 << 20);
    let pages = run(&mut reclaimer, usize::MAX);
    let most = pages.iter().max().copied().unwrap_or(0);
    // A purge gives back whole slabs, so that the last of a piece may pass its bound.
    assert!(most <= pages_of(PIECE_MOST) + 64, "{most} pages in a tick");
    assert!(
        pages.iter().filter(|&&n| n > 0).count() >= 16,
        "too few pieces: {pages:?}"
    );
    assert_eq!(zone.stats().bytes, 0);
    assert_eq!((reclaimer.deadline(), reclaimer.has_more()), (None, false));
}

#[test]
#[cfg_attr(miri, ignore = "looks at the clock")]
fn a_slow_tick_makes_the_next_piece_fit() {
    // Breaks when ticks stay too long for several ticks after pages have become slow, or a single fast tick lets the
    // pieces grow to the maximum.
    let mut reclaimer = reclaimer(&zone());
    let max = Pace::default().tick_max;
    let piece = |reclaimer: &LoopReclaimer| reclaimer.piece_bytes;
    // Cheap pages: 0.5 us each lets it grow by half of the difference, 1 ns each to the most.
    reclaimer.suit(max, 200);
    assert_eq!(piece(&reclaimer), PIECE_FIRST.midpoint(200 * PAGE));
    (0..20).for_each(|_| reclaimer.suit(max / 100, 1000));
    assert_eq!(piece(&reclaimer), PIECE_MOST);
    // 1 us a page: 100 pages.
    reclaimer.suit(max, 100);
    assert_eq!(piece(&reclaimer), 100 * PAGE);
    // The time for a few pages is not a measure.
    reclaimer.suit(max * 100, PAGES_TO_JUDGE - 1);
    assert_eq!(piece(&reclaimer), 100 * PAGE);
    reclaimer.suit(max * 100, 100);
    assert_eq!(piece(&reclaimer), PIECE_LEAST);
}

#[test]
#[cfg_attr(miri, ignore = "gives pages back")]
fn ticks_resume_where_they_stopped() {
    // Breaks when use in the middle of a reclaim throws the rest of it away, or puts its next tick off.
    let zone = zone();
    let mut reclaimer = reclaimer(&zone);
    leave_free(&zone, 16 << 20);
    while !reclaimer.has_more() {
        run(&mut reclaimer, 1);
    }
    let (left, next) = (zone.stats().bytes, reclaimer.deadline());
    assert!(left > 0);
    reclaimer.resume(Time::ZERO);
    assert_eq!(
        reclaimer.deadline(),
        next,
        "resume moved a tick that was due"
    );
    // Not yet due: it must neither work nor forget.
    let early = Time::from_nanos(next.unwrap().as_nanos() - 1);
    let ticks = reclaimer.stats().ticks;
    reclaimer.tick(early);
    assert_eq!(
        (reclaimer.stats().ticks, reclaimer.deadline()),
        (ticks, next)
    );
    let pages = run(&mut reclaimer, 1);
    assert!(pages[0] > 0, "the next tick does not go on");
    run(&mut reclaimer, usize::MAX);
    assert_eq!(zone.stats().bytes, 0);
}

#[test]
#[cfg_attr(miri, ignore = "looks at the clock")]
fn an_unused_pool_takes_no_ticks() {
    // Breaks when a tick without work makes a system call, or ticks go on while no zone is used.
    let zone = zone();
    let mut reclaimer = reclaimer(&zone);
    let pages = run(&mut reclaimer, usize::MAX);
    assert!(pages.len() <= 3, "{} ticks without use", pages.len());
    let stats = reclaimer.stats();
    assert_eq!(stats.purged, crate::Purged::default());
    assert!(
        reclaimer.tick(Time::from_secs(100)),
        "it forgot that it is idle"
    );
    assert_eq!(reclaimer.stats(), stats, "a tick that was not due worked");
    // Used again: a window later the next tick is due.
    reclaimer.resume(Time::from_secs(100));
    let due = Time::from_secs(100) + Pace::default().window;
    assert_eq!(reclaimer.deadline(), Some(due));
}

#[test]
#[cfg_attr(miri, ignore = "gives pages back")]
fn pressure_gives_back_what_the_window_needed() {
    // Breaks when an event of memory pressure waits for the window, or takes more than a piece at a time, or when
    // events that come fast each drain the caches.
    let zone = zone();
    let mut reclaimer = reclaimer(&zone);
    leave_free(&zone, 16 << 20);
    let now = Time::from_millis(600);
    reclaimer.press(now);
    assert_eq!(reclaimer.deadline(), Some(now), "the first piece waits");
    reclaimer.press(now + Duration::from_millis(1));
    assert_eq!(reclaimer.stats().drains, 1);
    let ticks = run(&mut reclaimer, 2);
    assert!(ticks[0] > 0 && ticks[1] > 0, "{ticks:?}");
    assert!(ticks[0] <= pages_of(PIECE_FIRST) + 64, "{ticks:?}");
    while reclaimer.has_more() {
        run(&mut reclaimer, 1);
    }
    assert_eq!(zone.stats().bytes, 0);
    let later = now + PRESSURE_PAUSE;
    reclaimer.press(later);
    assert_eq!(reclaimer.stats().drains, 2);
}

#[test]
#[cfg_attr(miri, ignore = "looks at files")]
fn ticks_poll_pressure_without_an_event_source() {
    // Breaks when a source that must be read is read at each tick, or never.
    let proc = std::env::temp_dir().join(format!("uma-loop-{}", std::process::id()));
    fs::create_dir_all(&proc).unwrap();
    let available = |percent: u32| {
        let meminfo = format!("MemTotal: 100 kB\nMemAvailable: {percent} kB\n");
        fs::write(proc.join("meminfo"), meminfo).unwrap();
    };
    available(50);
    let pressure = Pressure::open_at(&proc, &proc.join("none"));
    let zone = zone();
    let mut reclaimer = begin(&zone, pressure);
    assert_eq!(reclaimer.pressure_source(), PressureSource::Available);
    assert!(reclaimer.event().is_none());
    available(1);
    let drains = |reclaimer: &mut LoopReclaimer, now: Time| {
        leave_free(&zone, 1 << 20);
        reclaimer.resume(now);
        reclaimer.deadline = Some(now);
        reclaimer.tick(now);
        reclaimer.stats().drains
    };
    // The tick of `begin` looked at 0.5 s.
    assert_eq!(drains(&mut reclaimer, Time::from_millis(1400)), 0);
    assert_eq!(drains(&mut reclaimer, Time::from_millis(1500)), 1);
    assert_eq!(drains(&mut reclaimer, Time::from_millis(2400)), 1);
    assert_eq!(drains(&mut reclaimer, Time::from_millis(2500)), 2);
    available(50);
    assert_eq!(drains(&mut reclaimer, Time::from_millis(3500)), 2);
    // It is in the directory for temporary things, and may stay there.
    let _ = fs::remove_dir_all(&proc);
}

//! Warnings: breaks when an owner gets none, gets one too often, or gets it while a lock is held.

use crate::common::{builder, free};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use uma::{AllocError, RawZone, Warning, WarningKind, ZoneBuilder};

type Heard = Arc<Mutex<Vec<Warning>>>;

fn listening(builder: ZoneBuilder) -> (RawZone, Heard) {
    let heard = Heard::default();
    let ear = heard.clone();
    let zone = builder.warn(move |warning| {
        kern::witness::assert_none("a zone's warning");
        ear.lock().unwrap().push(warning.clone());
    });
    (zone.build().unwrap(), heard)
}

fn kinds(heard: &Heard) -> Vec<WarningKind> {
    let heard = heard.lock().unwrap();
    heard.iter().map(|warning| warning.kind).collect()
}

#[test]
fn high_water_warns_once_for_each_crossing() {
    // Breaks when the mark is not noticed, or every refill above it is.
    let (zone, heard) = listening(builder(256, 8).high_water(100));
    let items: Vec<_> = (0..80).map(|_| zone.alloc().unwrap()).collect();
    assert!(kinds(&heard).is_empty());
    let more: Vec<_> = (0..1000).map(|_| zone.alloc().unwrap()).collect();
    assert_eq!(kinds(&heard), [WarningKind::HighWater]);
    assert!(heard.lock().unwrap()[0].stats.used >= 80);
    for item in items.into_iter().chain(more) {
        free(&zone, item);
    }
}

#[test]
fn zones_on_one_keg_fill_it_together() {
    // Breaks when each zone counts its own items only, and two of them fill the limit that they share unnoticed.
    let master = builder(256, 8).limit(200).build().unwrap();
    let heard = Heard::default();
    let ear = heard.clone();
    let second = master.secondary("second").high_water(160);
    let second = second.warn(move |warning| ear.lock().unwrap().push(warning.clone()));
    let second = second.build().unwrap();
    let of_master: Vec<_> = (0..100).map(|_| master.alloc().unwrap()).collect();
    assert!(kinds(&heard).is_empty());
    let of_second: Vec<_> = (0..80).map(|_| second.alloc().unwrap()).collect();
    assert_eq!(kinds(&heard), [WarningKind::HighWater]);
    of_second.into_iter().for_each(|item| free(&second, item));
    of_master.into_iter().for_each(|item| free(&master, item));
}

#[test]
fn exhaustion_warns_once_a_second_and_counts() {
    // Breaks when a flood of failures floods the log, or when it is not said how many there were.
    let flood = || {
        let begun = Instant::now();
        let (zone, heard) = listening(builder(256, 8).limit(3));
        let items: Vec<_> = (0..3).map(|_| zone.alloc().unwrap()).collect();
        for _ in 0..50 {
            assert_eq!(zone.alloc(), Err(AllocError::Limit));
        }
        // A machine that is busy may make it longer than the second that this is about.
        if begun.elapsed() < Duration::from_secs(1) {
            return Some((zone, heard, items));
        }
        items.into_iter().for_each(|item| free(&zone, item));
        None
    };
    let (zone, heard, items) = std::iter::repeat_with(flood).flatten().next().unwrap();
    assert_eq!(kinds(&heard), [WarningKind::Exhausted]);
    std::thread::sleep(Duration::from_millis(1010));
    assert_eq!(zone.alloc(), Err(AllocError::Limit));
    let heard = heard.lock().unwrap();
    assert_eq!((heard.len(), heard[1].suppressed), (2, 49));
    assert_eq!((heard[1].stats.used, heard[1].census.live), (3, 3));
    assert!(heard[1].to_string().contains("exhausted (49 more"));
    items.into_iter().for_each(|item| free(&zone, item));
}

#[test]
fn a_warning_reports_a_sleeping_allocation() {
    // Breaks when only failures are told, and a stack that waits for buffers waits in silence.
    let (zone, heard) = listening(builder(256, 8).limit(1));
    let item = zone.alloc().unwrap();
    let waited = zone.alloc_wait(Some(Duration::from_millis(5)));
    assert_eq!(waited, Err(AllocError::Limit));
    assert_eq!(kinds(&heard), [WarningKind::Exhausted]);
    free(&zone, item);
    let slept = zone.alloc_wait(None).unwrap();
    free(&zone, slept);
    assert_eq!(kinds(&heard).len(), 1);
}

#[test]
fn out_of_memory_has_its_own_warning() {
    // Breaks when a used-up reservation is reported as a reached limit.
    let (zone, heard) = listening(builder(2048, 2048).reserve_bytes(64 << 10));
    let items: Vec<_> = (0..32).map(|_| zone.alloc().unwrap()).collect();
    assert_eq!(zone.alloc(), Err(AllocError::NoMemory));
    assert_eq!(kinds(&heard), [WarningKind::NoMemory]);
    items.into_iter().for_each(|item| free(&zone, item));
}

#[test]
fn a_zone_with_live_items_counts_as_leaked() {
    // Breaks when the last handle goes in silence, or when a zone that is empty is called leaked.
    let (zone, heard) = listening(builder(256, 8).sample_every(1));
    let back = zone.as_ref_ptr();
    let items: Vec<_> = (0..100).map(|_| zone.alloc().unwrap()).collect();
    drop(zone);
    assert_eq!(kinds(&heard), [WarningKind::Leaked]);
    let census = heard.lock().unwrap()[0].census.clone();
    assert_eq!((census.live, census.holders.len()), (100, 1));
    assert!(census.holders[0].site.file().ends_with("warnings.rs"));
    // SAFETY: they are live, of this zone, and different.
    unsafe { back.free_bulk(&items) };
    let (zone, heard) = listening(builder(256, 8));
    free(&zone, zone.alloc().unwrap());
    drop(zone);
    assert!(kinds(&heard).is_empty());
}

#[test]
fn a_callback_may_use_the_zone() {
    // Breaks when a warning is given with a lock held, or from within itself without end.
    let zone = Arc::new(Mutex::new(None::<RawZone>));
    let seen = zone.clone();
    let made = builder(256, 8).limit(1).warn(move |_| {
        let zone = seen.lock().unwrap().clone();
        if let Some(zone) = zone {
            assert_eq!(zone.alloc(), Err(AllocError::Limit));
            zone.drain();
        }
    });
    *zone.lock().unwrap() = Some(made.build().unwrap());
    let handle = zone.lock().unwrap().clone().unwrap();
    let item = handle.alloc().unwrap();
    assert_eq!(handle.alloc(), Err(AllocError::Limit));
    free(&handle, item);
    // The callback had a handle: without this the zone would stay.
    *zone.lock().unwrap() = None;
}

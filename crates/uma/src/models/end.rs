//! A zone ends once, after its last handle and its last item, whichever is later, and is not
//! touched after that: a `Life` notes every use, and that each is ordered before the end.
//!
//! Locks: none.

use super::*;

/// The last handle goes while another thread frees the last items.
fn last_handle_and_items(backend: Backend, items: usize) {
    let World { zone, live, .. } = World::new(backend, 1, 4);
    let all: Vec<Item> = (0..items)
        .map(|_| live.came(zone.alloc().expect("room")))
        .collect();
    let theirs = zone.as_ref_ptr();
    beside(
        1,
        move || {
            all.into_iter()
                .for_each(|item| free_without_handle(theirs, &live, item))
        },
        || drop(zone),
    );
    assert_ended(1);
}

#[test]
fn the_last_item_or_the_last_handle_ends_a_zone() {
    // Breaks if both threads end the zone, neither does, or a thread still uses it when the other ends it.
    holds("end, locked", 2, || {
        last_handle_and_items(Backend::Locked, 1)
    });
    holds("end, two items", 1, || {
        last_handle_and_items(Backend::Locked, 2)
    });
    holds("end, sections", 3, || {
        last_handle_and_items(Backend::Rseq, 1)
    });
}

#[test]
#[should_panic]
fn finds_a_free_that_is_not_inside() {
    // Breaks if the scenario is blind to a zone that ends under a thread.
    finds(ZoneFault::Entry, 2, || {
        last_handle_and_items(Backend::Locked, 1)
    });
}

#[test]
#[should_panic]
fn finds_two_threads_that_both_end_the_zone() {
    // Breaks if the scenario is blind to two threads that both think they are the last.
    finds(ZoneFault::LateCheck, 2, || {
        last_handle_and_items(Backend::Locked, 1)
    });
}

/// The last handle goes while another thread frees the last items at once.
fn last_handle_and_batch(backend: Backend, items: usize) {
    let World { zone, live, .. } = World::new(backend, 1, 4);
    let all: Vec<Item> = (0..items)
        .map(|_| live.came(zone.alloc().expect("room")))
        .collect();
    let theirs = zone.as_ref_ptr();
    beside(
        1,
        move || free_bulk_without_handle(theirs, &live, all),
        || drop(zone),
    );
    assert_ended(1);
}

#[test]
fn the_last_batch_or_the_last_handle_ends_a_zone() {
    // Breaks if a bulk free touches the zone after its last item is down.
    holds("end, batch, locked", 1, || {
        last_handle_and_batch(Backend::Locked, 2)
    });
    holds("end, batch, sections", 2, || {
        last_handle_and_batch(Backend::Rseq, 3)
    });
}

#[test]
#[should_panic]
fn finds_a_batch_that_uses_the_zone_after_its_last_item() {
    // Breaks if the scenario is blind to a use of the zone after the last item of a batch.
    finds(ZoneFault::LookBack, 1, || {
        last_handle_and_batch(Backend::Locked, 2)
    });
}

/// Two handles go at once.
fn two_handles(backend: Backend) {
    let world = World::new(backend, 1, 4);
    world.warm(1);
    let theirs = world.clone();
    beside(1, move || drop(theirs), || drop(world));
    assert_ended(1);
}

#[test]
fn the_last_of_two_handles_ends_a_zone() {
    // Breaks if two drops of handles can both be the last.
    holds("end, two handles", 4, || two_handles(Backend::Locked));
}

/// A visitor comes by the link while the last handle goes.
fn a_visitor(backend: Backend) {
    let world = World::new(backend, 1, 4);
    world.warm(1);
    let weak = Arc::clone(&world.zone.inner().weak);
    beside(
        1,
        move || _ = weak.with_zone(|zone| zone.trim_caches(usize::MAX)),
        || drop(world),
    );
    assert_ended(1);
}

#[test]
fn a_visitor_keeps_a_zone() {
    // Breaks if a zone ends during a visit by its weak reference, or does not end after it.
    holds("end, visitor", 4, || a_visitor(Backend::Locked));
    holds("end, visitor, sections", 3, || a_visitor(Backend::Rseq));
}

#[test]
#[should_panic]
fn finds_a_visitor_that_is_not_inside() {
    // Breaks if the scenario is blind to a visit of a zone that has ended.
    finds(ZoneFault::Visit, 2, || a_visitor(Backend::Locked));
}

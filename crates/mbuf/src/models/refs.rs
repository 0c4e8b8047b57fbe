//! The protocol of `refs.rs` under loom: every order of two or three threads, and every value that
//! the orderings allow. Each scenario is run again with each mistake that it is there to find
//! ([`RefsBug`]), and must then fail.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p mbuma-mbuf --lib models`
//!
//! Locks: none.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use loom::sync::mpsc;
use loom::thread;

use super::refs_words::*;
use crate::refs::{COUNT, REFS_MAX, Refs, Release, ZERO_ON_FREE};

/// Runs a scenario in every order, with this many preemptions where that is bounded.
fn check(switches: Option<usize>, scenario: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = switches;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    model.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        scenario();
    });
    println!("{} orders", runs.load(Ordering::Relaxed));
}

/// Two threads to their ends.
fn beside(other: impl FnOnce() + Send + 'static, this: impl FnOnce()) {
    let other = thread::spawn(other);
    this();
    other.join().expect("no panic");
}

/// A scenario, and its name once more for each mistake that it must find.
macro_rules! scenario {
    ($name:ident, $switches:expr, $run:ident, [$($finds:ident: $bug:ident => $says:literal),*]) => {
        #[test]
        fn $name() {
            check($switches, $run::<NoBug>);
        }

        $(#[test]
        #[should_panic(expected = $says)]
        fn $finds() {
            check($switches, $run::<$bug>);
        })*
    };
}

/// One thread shares and releases both references, the other releases its own.
fn share_and_release<B: RefsBug>() {
    let one = Holder::<B>::first();
    let (other, end) = (one.share(), one.watch());
    beside(
        move || {
            assert_eq!(other.read(), SECRET);
            other.release();
        },
        move || {
            let more = one.share();
            assert_eq!(one.read(), SECRET);
            one.release();
            assert_eq!(more.read(), SECRET, "it is still ours");
            more.release();
        },
    );
    end.assert_freed(false);
}

// Breaks if a reference that is made while another is given back is lost, or keeps the storage for
// ever.
scenario!(
    a_share_beside_a_release,
    None,
    share_and_release,
    [
        finds_a_plain_share_beside_a_release: PlainShare => "it is still ours",
        finds_a_plain_release_beside_a_share: PlainRelease => "freed once",
        finds_a_share_without_a_look: Blind => "it is still ours"
    ]
);

/// Two read and give back.
fn release_and_release<B: RefsBug>() {
    let one = Holder::<B>::first();
    let (other, end) = (one.share(), one.watch());
    let read_and_release = |holder: Holder<B>| {
        assert_eq!(holder.read(), SECRET);
        holder.release();
    };
    beside(
        move || read_and_release(other),
        move || read_and_release(one),
    );
    end.assert_freed(false);
}

// Breaks if two threads are the last, none is, or the storage is used again while one still reads.
scenario!(
    a_release_beside_a_release,
    None,
    release_and_release,
    [
        finds_a_plain_release: PlainRelease => "freed once",
        finds_a_relaxed_release: RelaxedRelease => "Causality violation",
        finds_an_end_without_a_fence: NoFence => "Causality violation",
        finds_a_relaxed_look_at_the_end: RelaxedLook => "Causality violation"
    ]
);

/// One thread requests zeros and releases; the other releases, and may be the last.
fn request_and_release<B: RefsBug>() {
    let one = Holder::<B>::first();
    let (other, end) = (one.share(), one.watch());
    beside(
        move || other.release(),
        move || {
            one.request_zeros();
            one.release();
        },
    );
    end.assert_freed(true);
}

// Breaks if the last thread misses the other's request for zeros, or a request undoes the other's drop.
scenario!(
    a_request_for_zeros_beside_the_last_release,
    None,
    request_and_release,
    [
        finds_a_request_in_a_word_of_its_own: RequestApart => "wiped",
        finds_a_plain_request: PlainRequest => "wiped"
    ]
);

/// Two of three threads request zeros.
fn requests<B: RefsBug>() {
    let one = Holder::<B>::first();
    let (second, third, end) = (one.share(), one.share(), one.watch());
    let request = |holder: Holder<B>| {
        holder.request_zeros();
        holder.release();
    };
    let other = thread::spawn(move || request(second));
    beside(move || request(third), move || one.release());
    other.join().expect("no panic");
    end.assert_freed(true);
}

// Breaks if one request undoes the other, or counts as references.
scenario!(
    two_requests_of_three_holders,
    Some(3),
    requests,
    [finds_a_plain_request_of_two: PlainRequest => "freed once"]
);

/// One writes if it is alone; the other reads and gives back.
fn look_and_release<B: RefsBug>() {
    let mut one = Holder::<B>::first();
    let (other, end) = (one.share(), one.watch());
    beside(
        move || {
            assert_eq!(other.read(), SECRET, "no holder writes shared storage");
            other.release();
        },
        move || {
            if one.write_if_alone(8) {
                assert_eq!(one.read(), 8);
            }
            one.release();
        },
    );
    end.assert_freed(false);
}

// Breaks if a thread that takes itself for the only owner writes while the other has not read yet.
scenario!(
    a_look_beside_a_release,
    None,
    look_and_release,
    [
        finds_a_relaxed_look: RelaxedLook => "Causality violation",
        finds_a_relaxed_release_before_a_write: RelaxedRelease => "Causality violation",
        finds_no_look_at_all: Blind => "Causality violation"
    ]
);

/// A reference moves to another thread, which releases it, while the first one makes more.
fn hand_over<B: RefsBug>() {
    let mut one = Holder::<B>::first();
    let (first, end) = (one.share_mut(), one.watch());
    let (to_other, from_one) = mpsc::channel::<Holder<B>>();
    beside(
        move || {
            for _ in 0..2 {
                let holder = from_one.recv().expect("it is sent");
                assert_eq!(holder.read(), SECRET);
                holder.release();
            }
        },
        move || {
            to_other.send(first).expect("it waits");
            let second = one.share_mut();
            to_other.send(second).expect("it waits");
            assert_eq!(one.read(), SECRET);
            one.release();
        },
    );
    end.assert_freed(false);
}

// Breaks if the plain store of 2 overwrites another thread's count.
scenario!(
    a_plain_store_before_a_hand_over,
    Some(3),
    hand_over,
    [
        finds_a_plain_store_that_two_see: Blind => "Causality violation",
        finds_a_relaxed_release_after_a_hand_over: RelaxedRelease => "Causality violation"
    ]
);

/// One thread makes its second reference, by a plain store or not, releases both, and ends the storage; the other reads
/// and releases at any time.
fn store_after_release<B: RefsBug>() {
    let mut one = Holder::<B>::first();
    let (other, end) = (one.share(), one.watch());
    beside(
        move || {
            assert_eq!(other.read(), SECRET);
            other.release();
        },
        move || {
            let more = one.share_mut();
            more.release();
            one.release();
        },
    );
    end.assert_freed(false);
}

// Breaks if the plain store hides a former holder's accesses from the last holder: a store ends the
// release sequence that the last holder's Acquire would read.
scenario!(
    a_plain_store_after_a_release,
    None,
    store_after_release,
    [finds_a_relaxed_look_before_a_plain_store: RelaxedLook => "Causality violation"]
);

/// Two share through the same reference.
fn two_sharers<B: RefsBug>() {
    let one = Arc::new(Holder::<B>::first());
    let end = one.watch();
    let theirs = one.clone();
    beside(move || theirs.share().release(), || one.share().release());
    assert_eq!(end.frees.load(Ordering::Relaxed), 0, "one is left");
    assert_eq!(end.refs.get(), 1, "it is counted");
}

// Breaks if one of two references that are made at the same time is not counted.
scenario!(
    two_shares_of_one_reference,
    None,
    two_sharers,
    [
        finds_a_plain_share_of_two: PlainShare => "one is left",
        finds_a_plain_release_of_two: PlainRelease => "it is counted"
    ]
);

/// Two threads want a reference although the count has room for one, and a third releases one.
fn crowded<B: RefsBug>() {
    let storage = Arc::new(Refs::<Modelled<B>>::one());
    storage.set(REFS_MAX);
    let got = Arc::new(AtomicUsize::new(0));
    let want = |refs: &Refs<Modelled<B>>, got: &AtomicUsize| {
        if refs.share().is_ok() {
            got.fetch_add(1, Ordering::Relaxed);
        }
    };
    let (theirs, they_got) = (storage.clone(), got.clone());
    let third = storage.clone();
    let third = thread::spawn(move || assert_eq!(third.release(), Release::Shared));
    beside(move || want(&theirs, &they_got), || want(&storage, &got));
    third.join().expect("no panic");
    let got = got.load(Ordering::Relaxed) as u32;
    assert!(got > 0, "there was room for one");
    assert_eq!(
        storage.get(),
        REFS_MAX - 1 + got,
        "a refusal counts nothing"
    );
    const { assert!(REFS_MAX < COUNT && COUNT & ZERO_ON_FREE == 0) };
}

// Breaks if a refusal leaves its reference counted, or takes another's away.
scenario!(
    refusals_in_a_crowd,
    Some(3),
    crowded,
    [
        finds_a_plain_share_in_a_crowd: PlainShare => "a refusal counts nothing",
        finds_a_plain_release_in_a_crowd: PlainRelease => "a refusal counts nothing"
    ]
);

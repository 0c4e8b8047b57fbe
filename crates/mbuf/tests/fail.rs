//! Fail points under mbufs: breaks when an operation that finds no mbuf or cluster at its n-th
//! allocation, for any n, leaks one, or leaves a chain that does not show what it showed.
//!
//! The fail points are set by the environment, because a pool's zones are private: this test runs itself again with
//! `UMA_FAIL=zone:n`, for every zone and every n that the scenarios reach.

#![cfg(feature = "invariants")]

mod common;
#[path = "common/pages.rs"]
mod pages;

use common::{Built, Kind, check_chain, check_packet, pattern, pool_of};
use mbuf::{
    Chain, ClusterSize, CollapseError, ExtPgs, ExtPgsError, Live, MapError, MbufPool, Mbufq,
    NoBufs, OwnedPages, PAGE_SIZE, Packet, Pages, Scatter,
};
use pages::{Shown, VecPages, gathered};
use std::process::Command;

type Outcome = Result<(), NoBufs>;
type Scenario = fn(&MbufPool) -> Outcome;

const SCENARIOS: &[(&str, Scenario)] = &[
    ("packet", |pool| Packet::new(pool).map(drop)),
    ("packet over a cluster", |pool| {
        Packet::with_cluster(pool, ClusterSize::K2, 64).map(drop)
    }),
    ("packet of a slice", |pool| {
        Packet::from_slice(pool, &pattern(1, 9000), 100).map(drop)
    }),
    ("chain of a slice", |pool| {
        Chain::from_slice(pool, &pattern(2, 40_000)).map(drop)
    }),
    ("chain of a vector", |pool| {
        Chain::from_owner(pool, pattern(3, 5000)).map(drop)
    }),
    ("packet before a chain", |pool| {
        let chain = Chain::from_slice(pool, &pattern(4, 3000))?;
        let mut packet = Packet::before_chain(pool, chain)?;
        packet.prepend(20)?.fill(7);
        Ok(())
    }),
    ("append", append),
    ("prepend", prepend),
    ("pullup", pullup),
    ("split", split),
    ("share", share),
    ("share of a share", share_of_share),
    ("take from the front", take_front),
    ("compact", compact),
    ("condense", condense),
    ("unshare", |pool| {
        reshape(pool, |packet| packet.unshare(pool))
    }),
    ("unshare a chain", unshare_chain),
    ("defrag", |pool| {
        reshape(pool, |packet| packet.defrag(pool).map(drop))
    }),
    ("collapse", |pool| {
        reshape(pool, |packet| match packet.collapse(pool, 2) {
            Ok(_) => Ok(()),
            Err(CollapseError::NoBufs) => Err(NoBufs),
            Err(e) => panic!("{e}"),
        })
    }),
    ("copy of a packet", |pool| {
        reshape(pool, |packet| packet.copy_packet().map(drop))
    }),
    ("queue", queue),
    ("scatter", scatter),
    ("segments of a stream", stream),
    ("pages of a source", pages_of_a_source),
    ("cuts of pages", cuts_of_pages),
    ("pages looked at", map_pages),
    ("a packet of pages looked at", map_packet),
    ("pages of the pool", owned_pages),
];

/// A chain of every kind of piece.
fn mixed(pool: &MbufPool) -> Result<Built, NoBufs> {
    let mut built = Built::new();
    built.push(pool, Kind::Internal, &pattern(1, 100))?;
    built.push(pool, Kind::Cluster(ClusterSize::K2, 10), &pattern(2, 600))?;
    built.push(pool, Kind::Shared(ClusterSize::K4), &pattern(3, 800))?;
    built.push(pool, Kind::Lent, &pattern(4, 500))?;
    Ok(built)
}

fn append(pool: &MbufPool) -> Outcome {
    let mut built = mixed(pool)?;
    let more = pattern(9, 20_000);
    let outcome = built.chain.extend_from_slice(pool, &more);
    if outcome.is_ok() {
        built.bytes.extend(more);
    }
    check_chain(&built.chain, &built.bytes);
    built.check_keepers();
    outcome
}

fn prepend(pool: &MbufPool) -> Outcome {
    let built = mixed(pool)?;
    let mut bytes = built.bytes.clone();
    let mut packet = built.chain.into_packet(pool)?;
    for _ in 0..3 {
        let outcome = packet.prepend(90).map(|room| room.fill(5));
        if outcome.is_ok() {
            bytes.splice(..0, [5; 90]);
        }
        check_packet(&packet, &bytes);
        outcome?;
    }
    Ok(())
}

fn pullup(pool: &MbufPool) -> Outcome {
    let built = mixed(pool)?;
    let bytes = built.bytes.clone();
    let mut packet = built.chain.into_packet(pool)?;
    let outcome = packet.pullup(150).is_ok() && packet.pullup(900).is_ok();
    check_packet(&packet, &bytes);
    outcome.then_some(()).ok_or(NoBufs)
}

fn split(pool: &MbufPool) -> Outcome {
    let built = mixed(pool)?;
    let bytes = built.bytes.clone();
    let mut packet = built.chain.into_packet(pool)?;
    let rest = packet.split_off(400);
    let at = if rest.is_ok() { 400 } else { bytes.len() };
    check_packet(&packet, &bytes[..at]);
    check_chain(&rest?, &bytes[at..]);
    Ok(())
}

fn share(pool: &MbufPool) -> Outcome {
    let mut built = mixed(pool)?;
    let mut shares = Vec::new();
    let mut outcome = Ok(());
    for at in (0..1500).step_by(300) {
        match built.chain.share(at, 350) {
            Ok(part) => shares.push((at, part)),
            Err(error) => outcome = Err(error),
        }
    }
    check_chain(&built.chain, &built.bytes);
    let bytes = built.bytes.clone();
    drop(built);
    for (at, part) in &shares {
        check_chain(part, &bytes[*at..at + 350]);
    }
    outcome
}

fn share_of_share(pool: &MbufPool) -> Outcome {
    let mut whole = mixed(pool)?;
    let mut part = whole.chain.share(50, 1200)?;
    let inner = part.share(100, 900)?;
    drop(part);
    let bytes = whole.bytes.clone();
    drop(whole);
    check_chain(&inner, &bytes[150..1050]);
    Ok(())
}

fn take_front(pool: &MbufPool) -> Outcome {
    let mut built = mixed(pool)?;
    while built.chain.len() > 170 {
        let taken = built.chain.take_front(170);
        if let Ok(taken) = &taken {
            check_chain(taken, &built.bytes[..170]);
            built.bytes.drain(..170);
        }
        check_chain(&built.chain, &built.bytes);
        taken?;
    }
    Ok(())
}

fn compact(pool: &MbufPool) -> Outcome {
    let mut built = mixed(pool)?;
    for n in 0..5 {
        let mut sparse = Packet::with_cluster(pool, ClusterSize::K4, 0)?;
        let bytes = pattern(n, 120);
        sparse.append(pool, &bytes)?;
        built.chain.append_compact(pool, sparse.into_chain());
        built.bytes.extend(bytes);
        check_chain(&built.chain, &built.bytes);
    }
    Ok(())
}

fn condense(pool: &MbufPool) -> Outcome {
    let mut built = mixed(pool)?;
    for _ in 0..4 {
        built.chain.trim_front(270);
        built.bytes.drain(..270);
        built.chain.condense(pool);
        check_chain(&built.chain, &built.bytes);
        built.check_keepers();
    }
    Ok(())
}

/// Operations that do not change a packet's bytes: they are done as a whole or not at all.
fn reshape(pool: &MbufPool, op: impl Fn(&mut Packet) -> Outcome) -> Outcome {
    let mut built = mixed(pool)?;
    let mut packet = std::mem::take(&mut built.chain).into_packet(pool)?;
    packet.header_mut().flow = 3;
    let twin = packet.copy_packet()?;
    let before: Vec<_> = packet.segments().map(<[u8]>::as_ptr).collect();
    let outcome = op(&mut packet);
    let after: Vec<_> = packet.segments().map(<[u8]>::as_ptr).collect();
    assert!(outcome.is_ok() || after == before, "half of it is done");
    check_packet(&packet, &built.bytes);
    check_packet(&twin, &built.bytes);
    assert_eq!(packet.header().flow, 3);
    built.check_keepers();
    outcome
}

fn unshare_chain(pool: &MbufPool) -> Outcome {
    let mut built = mixed(pool)?;
    let outcome = built.chain.unshare(pool);
    let writable = built.chain.write_at(0, &built.bytes).is_ok();
    assert_eq!(writable, outcome.is_ok());
    check_chain(&built.chain, &built.bytes);
    built.check_keepers();
    outcome
}

fn queue(pool: &MbufPool) -> Outcome {
    let mut queue = Mbufq::new();
    let outcome = (0..8).try_for_each(|n| {
        let packet = Packet::from_slice(pool, &pattern(n, 300), 20)?;
        queue.enqueue(packet);
        Ok(())
    });
    let mut n = 0;
    while let Some(packet) = queue.dequeue() {
        check_packet(&packet, &pattern(n, 300));
        n += 1;
    }
    outcome
}

fn scatter(pool: &MbufPool) -> Outcome {
    let mut scatter = Scatter::for_len(pool, 40_000);
    let first = scatter.refill();
    let again = scatter.refill();
    first.and(again)
}

/// As TCP does: a stream of bytes, sent in segments that share it, acknowledged from the front.
fn stream(pool: &MbufPool) -> Outcome {
    let mut sent = Chain::new();
    let mut bytes = Vec::new();
    let mut outcome = Ok(());
    for n in 0..6 {
        let more = pattern(n, 1700);
        match sent.extend_from_slice(pool, &more) {
            Ok(()) => bytes.extend(more),
            Err(error) => outcome = Err(error),
        }
        let len = 1000.min(sent.len());
        let segment = sent.share(sent.len() - len, len);
        let packet = segment.and_then(|segment| Packet::before_chain(pool, segment));
        match packet {
            Ok(packet) => check_packet(&packet, &bytes[bytes.len() - len..]),
            Err(error) => outcome = Err(error),
        }
        let acked = 600.min(sent.len());
        sent.trim_front(acked);
        bytes.drain(..acked);
        check_chain(&sent, &bytes);
    }
    outcome
}

/// A reference to 10 pages, some of which are in memory.
fn source() -> (Pages, Vec<u8>) {
    let bytes = pattern(5, 10 * PAGE_SIZE);
    let (pages, _) = VecPages::pages(bytes.clone(), Shown::Even);
    (pages, bytes)
}

fn no_bufs(error: ExtPgsError) -> NoBufs {
    assert_eq!(error, ExtPgsError::NoBufs);
    NoBufs
}

fn pages_of_a_source(pool: &MbufPool) -> Outcome {
    let (pages, bytes) = source();
    let made = Chain::from_pages(pool, &pages, 3, 36_000).map_err(no_bufs);
    drop(pages);
    made.map(|chain| assert!(gathered(&chain) == bytes[3..36_003]))
}

fn cuts_of_pages(pool: &MbufPool) -> Outcome {
    let (pages, mut bytes) = source();
    let mut chain = Chain::from_pages(pool, &pages, 0, bytes.len()).map_err(no_bufs)?;
    let mut outcome = Ok(());
    while chain.len() > 9000 {
        let shared = chain.share(100, 8000).map(|part| gathered(&part));
        assert!(shared.is_err() || shared == Ok(bytes[100..8100].to_vec()));
        let front = chain.take_front(5000);
        if let Ok(front) = &front {
            assert!(gathered(front) == bytes[..5000]);
            bytes.drain(..5000);
        }
        assert!(chain.is_valid() && gathered(&chain) == bytes);
        outcome = outcome.and(shared.map(drop));
        front?;
    }
    outcome
}

fn map_pages(pool: &MbufPool) -> Outcome {
    let (pages, bytes) = source();
    let mut record = ExtPgs::new(pool, pages, 1000, 15_000).map_err(no_bufs)?;
    record.set_header(&bytes[990..1000]).expect("it fits");
    let mut chain = record.into_chain();
    let seen = chain.map(pool);
    assert!(chain.is_valid() && gathered(&chain) == bytes[990..16_000]);
    check_chain(&seen.map_err(not_read)?, &bytes[990..16_000]);
    Ok(())
}

fn map_packet(pool: &MbufPool) -> Outcome {
    let (pages, bytes) = source();
    let payload = Chain::from_pages(pool, &pages, 0, 6000).map_err(no_bufs)?;
    let mut packet = Packet::before_chain(pool, payload)?;
    packet.prepend(20)?.fill(7);
    let seen = packet.map(pool);
    assert!(packet.is_valid() && packet.front() == [7; 20]);
    check_packet(
        &seen.map_err(not_read)?,
        &[&[7; 20], &bytes[..6000]].concat(),
    );
    Ok(())
}

fn not_read(error: MapError) -> NoBufs {
    assert!(matches!(error, MapError::NoBufs), "{error}");
    NoBufs
}

fn owned_pages(pool: &MbufPool) -> Outcome {
    let mut owned = OwnedPages::new(pool, 4).map_err(no_bufs)?;
    owned.write_at(0, &[8; 9000]).expect("they fit");
    let record = ExtPgs::new(pool, owned.into(), 0, 9000).map_err(no_bufs)?;
    let seen = record.into_chain().map(pool).map_err(not_read)?;
    check_chain(&seen, &[8; 9000]);
    Ok(())
}

const ZONES: [&str; 6] = [
    "mbuf",
    "packet",
    "mbuf_cluster",
    "mbuf_jumbo_page",
    "mbuf_jumbo_9k",
    "mbuf_jumbo_16k",
];
const ROLE: &str = "MBUF_FAIL_CHILD";
/// More allocations of one zone than any scenario makes.
const N_MAX: u64 = 200;

/// In a child: runs every scenario in a pool of its own, in whose zones the n-th allocation fails. Returns how many
/// scenarios met the failure.
fn run_all() -> usize {
    let mut failed = 0;
    for (name, scenario) in SCENARIOS {
        let pool = pool_of(10_000, 64 << 20);
        failed += usize::from(scenario(&pool).is_err() || has_failed(&pool));
        assert_eq!(pool.live(), Live::NONE, "scenario '{name}' leaks");
    }
    assert_eq!(uma::leaked_zones(), 0);
    failed
}

/// Whether an allocation failed, even one that the scenario could do without.
fn has_failed(pool: &MbufPool) -> bool {
    let stats = pool.stats();
    let clusters = stats.clusters.iter().map(|zone| zone.failures);
    stats.mbufs.failures + stats.packets.failures + clusters.sum::<u64>() > 0
}

#[test]
fn every_failure_is_survived() {
    // Breaks when an error path loses an mbuf, or half of an operation stays done.
    if std::env::var_os(ROLE).is_some() {
        // Status 100 and above: how many scenarios saw a failure.
        std::process::exit(100 + run_all() as i32);
    }
    let this = std::env::current_exe().expect("a path");
    let mut runs = 0;
    for zone in ZONES {
        for forever in ["", "+"] {
            let reached = (1..=N_MAX).find(|n| {
                let child = Command::new(&this)
                    .args(["--exact", "every_failure_is_survived", "--nocapture"])
                    .env(ROLE, "1")
                    .env("UMA_FAIL", format!("{zone}:{n}{forever}"))
                    .output()
                    .expect("runs");
                runs += 1;
                let saw = child.status.code().unwrap_or(0) - 100;
                let text = String::from_utf8_lossy(&child.stderr);
                assert!(saw >= 0, "{zone}:{n}{forever}\n{text}");
                saw == 0
            });
            assert!(reached > Some(1), "{zone} is never consulted, or too often");
        }
    }
    println!("{} scenarios in {runs} runs", SCENARIOS.len());
}

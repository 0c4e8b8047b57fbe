//! Secondary zones, as the packets of a network stack use them: breaks when two zones on one keg
//! disagree about a limit, an item misses a hook, or one zone's end harms the other.

use crate::common::{assert_balance, builder, free, pin, read, write, zone};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;
use uma::{AllocError, Backend, HookFailed, Hooks, RawZone};

/// Attaches a cluster to each buffer for as long as it is cached or live: the first word of the
/// buffer is the cluster's address.
struct WithCluster {
    clusters: RawZone,
    attached: Arc<AtomicUsize>,
}

impl Hooks for WithCluster {
    unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        let cluster = self.clusters.alloc().map_err(|_| HookFailed)?;
        self.attached.fetch_add(1, Relaxed);
        write(item, cluster.as_ptr().expose_provenance() as u64);
        Ok(())
    }

    unsafe fn fini(&self, item: NonNull<u8>) {
        self.attached.fetch_sub(1, Relaxed);
        free(&self.clusters, cluster_of(item));
    }
}

fn cluster_of(item: NonNull<u8>) -> NonNull<u8> {
    let address = read(item) as usize;
    NonNull::new(core::ptr::with_exposed_provenance_mut(address)).expect("it has a cluster")
}

struct Stack {
    mbufs: RawZone,
    clusters: RawZone,
    packets: RawZone<WithCluster>,
    attached: Arc<AtomicUsize>,
}

fn stack(mbufs_max: usize) -> Stack {
    let mbufs = builder(256, 256).limit(mbufs_max).build().unwrap();
    let clusters = zone(2048, 2048);
    let attached = Arc::new(AtomicUsize::new(0));
    let hooks = WithCluster {
        clusters: clusters.clone(),
        attached: attached.clone(),
    };
    let packets = mbufs.secondary("packet").hooks(hooks).build().unwrap();
    Stack {
        mbufs,
        clusters,
        packets,
        attached,
    }
}

#[test]
fn a_packet_comes_with_its_cluster() {
    // Breaks when init runs at each allocation, or fini never does.
    let Stack {
        mbufs,
        clusters,
        packets,
        attached,
    } = stack(1000);
    let held: Vec<_> = (0..100).map(|_| packets.alloc().unwrap()).collect();
    let mut addresses: Vec<_> = held.iter().map(|&packet| cluster_of(packet)).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), 100, "two packets share a cluster");
    held.into_iter().for_each(|packet| free(&packets, packet));
    assert_eq!(
        clusters.live(),
        attached.load(Relaxed),
        "cached packets keep theirs"
    );
    assert!(attached.load(Relaxed) >= 100);
    packets.drain();
    assert_eq!((clusters.live(), attached.load(Relaxed)), (0, 0));
    drop(packets);
    assert_balance(&mbufs);
    assert_balance(&clusters);
}

#[test]
fn master_and_secondary_share_one_limit() {
    // Breaks when one zone cannot allocate items that the other caches, or the limit counts each zone alone.
    let Stack { mbufs, packets, .. } = stack(64);
    let warm: Vec<_> = (0..64).map(|_| packets.alloc().unwrap()).collect();
    assert_eq!(mbufs.alloc(), Err(AllocError::Limit));
    warm.into_iter().for_each(|packet| free(&packets, packet));
    // All of them are built packets in caches; each must come out as a plain buffer.
    let plain: Vec<_> = (0..64)
        .map(|i| {
            mbufs
                .alloc()
                .unwrap_or_else(|error| panic!("{i} of 64: {error}"))
        })
        .collect();
    assert_eq!(packets.alloc(), Err(AllocError::Limit));
    let (half, rest) = plain.split_at(32);
    half.iter().for_each(|&mbuf| free(&mbufs, mbuf));
    let again: Vec<_> = (0..32).map(|_| packets.alloc().unwrap()).collect();
    assert_eq!(packets.alloc(), Err(AllocError::Limit));
    assert_eq!((mbufs.live(), packets.live()), (32, 32));
    again.into_iter().for_each(|packet| free(&packets, packet));
    rest.iter().for_each(|&mbuf| free(&mbufs, mbuf));
    packets.drain();
    drop(packets);
    assert_balance(&mbufs);
}

#[test]
fn an_init_that_finds_no_cluster_fails_cleanly() {
    // Breaks when a buffer whose init failed stays out of the keg.
    let Stack {
        mbufs,
        clusters,
        packets,
        attached,
    } = stack(1000);
    clusters.set_limit(Some(10));
    let held: Vec<_> = std::iter::from_fn(|| packets.alloc().ok()).collect();
    assert_eq!(held.len(), 10);
    assert_eq!(packets.alloc(), Err(AllocError::Hook));
    let plain: Vec<_> = (0..990).map(|_| mbufs.alloc().unwrap()).collect();
    plain.into_iter().for_each(|mbuf| free(&mbufs, mbuf));
    held.into_iter().for_each(|packet| free(&packets, packet));
    drop(packets);
    assert_eq!(attached.load(Relaxed), 0);
    assert_balance(&mbufs);
    assert_balance(&clusters);
}

#[test]
fn a_packet_on_another_cpu_is_found_when_init_refuses() {
    // Breaks when the failure of `init` decides although another CPU's cache has packets that are built already.
    for backend in [Backend::Rseq, Backend::Locked] {
        let mbufs = builder(256, 256).backend(backend).build().unwrap();
        let clusters = builder(2048, 2048).backend(backend).limit(10);
        let clusters = clusters.build().unwrap();
        let attached = Arc::new(AtomicUsize::new(0));
        let packets = mbufs.secondary("packet").backend(backend);
        let packets = packets.hooks(WithCluster {
            clusters: clusters.clone(),
            attached: attached.clone(),
        });
        let packets = packets.build().unwrap();
        pin(0);
        let warm: Vec<_> = (0..10).map(|_| packets.alloc().unwrap()).collect();
        warm.into_iter().for_each(|packet| free(&packets, packet));
        assert_eq!(clusters.live(), 10, "packets keep their clusters");
        pin(1);
        let held: Vec<_> = (0..10).map(|_| packets.alloc()).collect();
        assert!(held.iter().all(Result::is_ok), "{:?}", packets.stats());
        assert_eq!(packets.alloc(), Err(AllocError::Hook));
        pin(0);
        let waiting = packets.alloc_wait(Some(Duration::ZERO));
        assert_eq!(waiting, Err(AllocError::Hook));
        held.into_iter()
            .flatten()
            .for_each(|packet| free(&packets, packet));
        pin(1);
        let last = packets.alloc_wait(Some(Duration::ZERO)).unwrap();
        free(&packets, last);
        drop(packets);
        assert_eq!((clusters.live(), attached.load(Relaxed)), (0, 0));
        assert_balance(&mbufs);
    }
}

#[test]
fn the_master_may_be_dropped_first() {
    // Breaks when the slabs go with the master's last handle, or the limit with them.
    let Stack {
        mbufs,
        clusters,
        packets,
        attached,
    } = stack(16);
    let mbuf = mbufs.alloc().unwrap();
    let reference = mbufs.as_ref_ptr();
    drop(mbufs);
    let held: Vec<_> = std::iter::from_fn(|| packets.alloc().ok()).collect();
    assert_eq!(held.len(), 15, "the master's live item counts");
    // SAFETY: a live item of the master's, which keeps it.
    unsafe { reference.free(mbuf) };
    let last = packets.alloc().expect("the master's item came back");
    held.into_iter()
        .chain([last])
        .for_each(|packet| free(&packets, packet));
    packets.drain();
    assert_eq!(packets.stats().bytes, 0);
    drop(packets);
    assert_eq!((clusters.live(), attached.load(Relaxed)), (0, 0));
}

#[test]
fn a_master_with_hooks_goes_around_the_secondary() {
    // Breaks when hooks are nested the wrong way round, or the master's are run once too often.
    struct Outer;
    impl Hooks for Outer {
        unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
            write(item, 1);
            Ok(())
        }
        unsafe fn fini(&self, item: NonNull<u8>) {
            assert_eq!(read(item), 1, "fini of the inner zone comes first");
            write(item, 0);
        }
    }
    struct Inner;
    impl Hooks for Inner {
        unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
            assert_eq!(read(item), 1, "init of the master comes first");
            write(item, 2);
            Ok(())
        }
        unsafe fn fini(&self, item: NonNull<u8>) {
            assert_eq!(read(item), 2);
            write(item, 1);
        }
    }
    let master = builder(64, 64).hooks(Outer).build().unwrap();
    let inner = master.secondary("inner").hooks(Inner).build().unwrap();
    let plain = master.secondary("plain").build().unwrap();
    let (a, b, c) = (
        master.alloc().unwrap(),
        inner.alloc().unwrap(),
        plain.alloc().unwrap(),
    );
    assert_eq!((read(a), read(b), read(c)), (1, 2, 1));
    free(&master, a);
    free(&inner, b);
    free(&plain, c);
    drop((inner, plain));
    assert_balance(&master);
}

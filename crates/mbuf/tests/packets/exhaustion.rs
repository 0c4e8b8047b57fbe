//! Every operation, with every allocation that it makes refused in turn: the first, the second, ...
//! A refused operation has changed nothing, or freed its argument if its documentation says so.

// Makes hundreds of pools, which cost Miri a second each; the model covers small pools there.
#![cfg(not(miri))]

use std::io::IoSliceMut;

use crate::common::{Built, Kind, check_chain, check_packet, pattern, pool_of};
use mbuf::{
    Chain, ClusterSize, CollapseError, Live, MbufPool, NoBufs, Packet, PullupError, Scatter,
};

const K2: ClusterSize = ClusterSize::K2;

/// The effect of an operation on its chain or packet.
type Outcome = Result<(), NoBufs>;

/// A chain of 760 bytes: internal, cluster, shared, lent, internal.
fn chain(pool: &MbufPool) -> Result<Built, NoBufs> {
    let mut built = Built::new();
    built.push(pool, Kind::Internal, &pattern(1, 100))?;
    built.push(pool, Kind::Cluster(K2, 10), &pattern(2, 300))?;
    built.push(pool, Kind::Shared(K2), &pattern(3, 200))?;
    built.push(pool, Kind::Lent, &pattern(4, 100))?;
    built.push(pool, Kind::Internal, &pattern(5, 60))?;
    Ok(built)
}

fn packet(pool: &MbufPool) -> Result<(Packet, Built), NoBufs> {
    let mut built = chain(pool)?;
    let mut packet = Packet::from_chain(pool, std::mem::take(&mut built.chain))?;
    packet.header_mut().flow = 9;
    Ok((packet, built))
}

/// Runs `test` in pools that grow by one item, until it succeeds: `small(n)` is the pool with room for `n` items.
/// Returns the number of failures.
fn until_it_succeeds(
    small: impl Fn(usize) -> MbufPool,
    test: &dyn Fn(&MbufPool) -> Option<Outcome>,
) -> usize {
    let mut refused = 0;
    for n in 0..100 {
        let pool = small(n);
        let outcome = test(&pool);
        assert_eq!(pool.live(), Live::NONE, "leaked with room for {n}");
        match outcome {
            Some(Ok(())) => return refused,
            Some(Err(NoBufs)) => refused += 1,
            // There was no memory even for the operation's argument.
            None => {}
        }
    }
    panic!("it never succeeds");
}

/// Refuses each mbuf, then each cluster of each size, that `test` wants; it does want `mbufs` and
/// `clusters` at least.
fn refuse_each(mbufs: usize, clusters: usize, test: impl Fn(&MbufPool) -> Option<Outcome>) {
    let few_mbufs = until_it_succeeds(|n| pool_of(n, 1 << 30), &test);
    assert!(few_mbufs >= mbufs, "only {few_mbufs} mbufs were refused");
    let mut few_clusters = 0;
    for size in ClusterSize::ALL {
        few_clusters += until_it_succeeds(|n| pool_of(1000, n * size.bytes()), &test);
    }
    assert!(
        few_clusters >= clusters,
        "only {few_clusters} clusters were refused"
    );
}

/// An operation on a chain that leaves it alone when refused.
fn on_chain(
    mbufs: usize,
    clusters: usize,
    op: impl Fn(&MbufPool, &mut Chain, &mut Vec<u8>) -> Outcome,
) {
    refuse_each(mbufs, clusters, |pool| {
        let mut built = chain(pool).ok()?;
        let pinned = built.chain.pinned();
        let mut bytes = built.bytes.clone();
        let outcome = op(pool, &mut built.chain, &mut bytes);
        if outcome.is_err() {
            check_chain(&built.chain, &built.bytes);
            assert_eq!(built.chain.pinned(), pinned);
        } else {
            check_chain(&built.chain, &bytes);
        }
        built.check_keepers();
        Some(outcome)
    });
}

/// An operation on a packet that leaves it alone when refused.
fn on_packet(
    mbufs: usize,
    clusters: usize,
    op: impl Fn(&MbufPool, &mut Packet, &mut Vec<u8>) -> Outcome,
) {
    refuse_each(mbufs, clusters, |pool| {
        let (mut packet, built) = packet(pool).ok()?;
        let pinned = packet.pinned();
        let mut bytes = built.bytes.clone();
        let outcome = op(pool, &mut packet, &mut bytes);
        if outcome.is_err() {
            check_packet(&packet, &built.bytes);
            assert_eq!(packet.pinned(), pinned);
        } else {
            check_packet(&packet, &bytes);
        }
        assert_eq!(packet.header().flow, 9);
        built.check_keepers();
        Some(outcome)
    });
}

fn no_bufs<T>(result: Result<T, PullupError>) -> Outcome {
    match result {
        Ok(_) => Ok(()),
        Err(PullupError::NoBufs) => Err(NoBufs),
        Err(PullupError::TooShort) => panic!("there are enough bytes"),
    }
}

#[test]
fn making_leaks_nothing() {
    // Breaks if a maker forgets the mbuf that it has when the cluster, or the next one, is refused.
    let kept = |made: Result<(), NoBufs>| Some(made);
    refuse_each(1, 0, |pool| kept(Packet::new(pool).map(drop)));
    refuse_each(1, 1, |pool| {
        kept(Packet::with_cluster(pool, K2, 0).map(drop))
    });
    refuse_each(2, 1, |pool| {
        kept(Packet::from_slice(pool, &[1; 20_000], 100).map(drop))
    });
    refuse_each(3, 3, |pool| {
        kept(Chain::from_slice(pool, &[1; 40_000]).map(drop))
    });
    refuse_each(5, 2, |pool| kept(chain(pool).map(drop)));
}

#[test]
fn lending_drops_the_owner_if_refused() {
    // Breaks if the owner leaks.
    use std::sync::Arc;
    let owner: Arc<[u8]> = Arc::from([7; 100].as_slice());
    let pool = pool_of(0, 2048);
    assert_eq!(
        Chain::from_owner(&pool, owner.clone()).map(drop),
        Err(NoBufs)
    );
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn chain_operations_change_nothing() {
    // Breaks if bytes go into the room at the end, or mbufs to another list, before all allocations have succeeded.
    on_chain(2, 2, |pool, chain, bytes| {
        chain.extend_from_slice(pool, &[6; 20_000])?;
        bytes.extend([6; 20_000]);
        Ok(())
    });
    on_chain(1, 0, |_, chain, bytes| {
        // Inside of a cluster.
        let front = chain.take_front(150)?;
        check_chain(&front, &bytes[..150]);
        bytes.drain(..150);
        Ok(())
    });
    on_chain(5, 0, |_, chain, bytes| {
        let len = bytes.len();
        check_chain(&chain.share(10, len - 20)?, &bytes[10..len - 10]);
        Ok(())
    });
}

#[test]
fn a_refused_share_keeps_the_place() {
    // Breaks if the next share starts from the place of a share that failed.
    on_chain(3, 0, |_, chain, bytes| {
        let first = chain.share(150, 10)?;
        let long = chain.share(300, 400);
        let again = chain.share(160, 10)?;
        check_chain(&first, &bytes[150..160]);
        check_chain(&again, &bytes[160..170]);
        check_chain(&long?, &bytes[300..700]);
        Ok(())
    });
}

#[test]
fn compaction_without_buffers_still_joins() {
    // Breaks if joining, which can't fail, loses the bytes when there is nothing to copy them to.
    refuse_each(0, 0, |pool| {
        let mut built = chain(pool).ok()?;
        let sparse = Packet::with_cluster(pool, ClusterSize::K4, 0).ok();
        let mut sparse = sparse?;
        sparse.append(pool, &[6; 200]).ok()?;
        built.chain.append_compact(pool, sparse.into_chain());
        built.bytes.extend([6; 200]);
        check_chain(&built.chain, &built.bytes);
        Some(Ok(()))
    });
}

#[test]
fn packet_operations_change_nothing() {
    // Breaks if the header moves, or the length changes, before all allocations have succeeded.
    on_packet(2, 2, |pool, packet, bytes| {
        packet.append(pool, &[6; 20_000])?;
        bytes.extend([6; 20_000]);
        Ok(())
    });
    on_packet(1, 0, |_, packet, bytes| {
        // No room in the header's mbuf for this once 170 of it are used.
        packet.prepend(170)?.fill(7);
        bytes.splice(..0, [7; 170]);
        let second = packet.prepend(30).map(|room| room.fill(8));
        match second {
            Ok(()) => drop(bytes.splice(..0, [8; 30])),
            Err(NoBufs) => {
                packet.trim_front(170);
                bytes.drain(..170);
                return Err(NoBufs);
            }
        }
        Ok(())
    });
    on_packet(1, 1, |_, packet, bytes| {
        packet.prepend(1000)?.fill(7);
        bytes.splice(..0, [7; 1000]);
        Ok(())
    });
    on_packet(1, 0, |_, packet, _| no_bufs(packet.pullup(150)));
    on_packet(1, 1, |_, packet, _| no_bufs(packet.pullup(700)));
    on_packet(1, 0, |_, packet, bytes| {
        let rest = packet.split_off(250)?;
        check_chain(&rest, &bytes.split_off(250));
        Ok(())
    });
    on_packet(5, 0, |_, packet, bytes| {
        check_chain(&packet.share(10, 740)?, &bytes[10..750]);
        Ok(())
    });
}

#[test]
fn a_refused_operation_frees_the_chain_that_it_took() {
    // Breaks if the chain is forgotten (a leak) or given back twice.
    refuse_each(1, 0, |pool| {
        Some(Packet::from_chain(pool, chain(pool).ok()?.chain).map(drop))
    });
    refuse_each(1, 0, |pool| {
        Some(Packet::before_chain(pool, chain(pool).ok()?.chain).map(drop))
    });
    refuse_each(1, 0, |pool| {
        Some(chain(pool).ok()?.chain.into_packet(pool).map(drop))
    });
}

#[test]
fn a_scatter_keeps_what_it_has() {
    // Breaks if a refused cluster loses those before it, or their order.
    refuse_each(3, 3, |pool| {
        let mut scatter = Scatter::for_len(pool, 30_000);
        let outcome = scatter.refill();
        let sizes = |slices: &mut [IoSliceMut<'_>]| slices.iter().map(|s| s.len()).collect();
        let sizes: Vec<usize> = scatter.read(&mut [], usize::MAX, sizes);
        assert!([2048, 16384, 16384].ends_with(&sizes));
        assert_eq!(outcome.is_ok(), sizes.len() == 3);
        Some(outcome)
    });
}

/// A packet that shares all that it has outside with its twin.
fn shared(pool: &MbufPool) -> Option<(Packet, Packet, Built)> {
    let (mut packet, built) = packet(pool).ok()?;
    let twin = packet.copy_packet().ok()?;
    Some((packet, twin, built))
}

/// An operation on such a packet, which leaves it alone when refused, and the twin in any case.
fn on_shared(
    mbufs: usize,
    clusters: usize,
    op: impl Fn(&MbufPool, &mut Packet, &mut Vec<u8>) -> Outcome,
) {
    refuse_each(mbufs, clusters, |pool| {
        let (mut packet, twin, built) = shared(pool)?;
        let before: Vec<_> = packet.segments().map(<[u8]>::as_ptr).collect();
        let mut bytes = built.bytes.clone();
        let outcome = op(pool, &mut packet, &mut bytes);
        if outcome.is_err() {
            check_packet(&packet, &built.bytes);
            let after: Vec<_> = packet.segments().map(<[u8]>::as_ptr).collect();
            assert_eq!(after, before, "half of it was copied");
        } else {
            check_packet(&packet, &bytes);
        }
        assert_eq!(packet.header().flow, 9);
        check_packet(&twin, &built.bytes);
        built.check_keepers();
        Some(outcome)
    });
}

#[test]
fn reshaping_changes_nothing() {
    // Breaks if some mbufs are copied, joined or cut before all allocations have succeeded.
    on_shared(3, 1, |pool, packet, bytes| {
        packet.unshare(pool)?;
        bytes.fill(3);
        assert_eq!(packet.write_at(0, bytes), Ok(()));
        Ok(())
    });
    on_shared(2, 1, |pool, packet, _| packet.make_writable(pool, 350, 200));
    on_shared(1, 1, |pool, packet, bytes| {
        let moved = packet.defrag(pool)?;
        assert_eq!((moved, packet.front()), (bytes.len(), bytes.as_slice()));
        Ok(())
    });
    on_shared(1, 1, |pool, packet, _| match packet.collapse(pool, 2) {
        Ok(_) => {
            assert_eq!(packet.segments().count(), 2);
            Ok(())
        }
        Err(CollapseError::NoBufs) => Err(NoBufs),
        Err(e) => panic!("{e}"),
    });
    on_shared(4, 0, |_, packet, bytes| {
        check_packet(&packet.copy_packet()?, bytes);
        Ok(())
    });
}

#[test]
fn condensing_without_buffers_keeps_the_bytes() {
    // Breaks if condensing, which can't fail, loses bytes for which it finds no storage.
    refuse_each(0, 0, |pool| {
        let mut built = chain(pool).ok()?;
        let mut sparse = Packet::with_cluster(pool, ClusterSize::K4, 0).ok()?;
        sparse.append(pool, &[6; 900]).ok()?;
        built.chain.append(sparse.into_chain());
        built.bytes.extend([6; 900]);
        let before = built.chain.pinned();
        let freed = built.chain.condense(pool);
        assert_eq!(built.chain.pinned() + freed, before);
        check_chain(&built.chain, &built.bytes);
        built.check_keepers();
        Some(Ok(()))
    });
}

/// Breaks if the room that is left seems larger than that of the size that is nearly used up: a gateway would not slow
/// down before it has none.
#[test]
fn the_headroom_is_that_of_the_scarcest_size() {
    for size in ClusterSize::ALL {
        let bytes_max = 1 << 20;
        let pool = pool_of(1000, bytes_max);
        let cluster = || Packet::with_cluster(&pool, size, 0).expect("room");
        let held: Vec<_> = (0..8).map(|_| cluster()).collect();
        let left = pool.headroom().left;
        assert!(left <= bytes_max - 8 * size.bytes(), "{size:?}: {left}");
        drop(held);
        assert_eq!(pool.live(), Live::NONE);
    }
}

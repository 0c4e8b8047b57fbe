//! Packets in this project's mbufs, really allocated: the seed's way, the way before clusters, and clusters for all.
//!
//! The memory of a packet is [`Packet::pinned`]: whole mbufs and whole clusters.

use mbuf::{Chain, ClusterSize, MHLEN, MLEN, MbufPool, NoBufs, Packet};

/// Inside of the mbuf where it fits, else in the smallest cluster that fits, else in several of the largest: seed 004's
/// choice, with the larger clusters that its section 5.6 asks for.
pub(super) fn mbufs(pool: &MbufPool, bytes: &[u8]) -> Result<Packet, NoBufs> {
    Packet::from_slice(pool, bytes, 0)
}

/// In a chain of mbufs without clusters, as before 1990.
pub(super) fn mbufs_only(pool: &MbufPool, bytes: &[u8]) -> Result<Packet, NoBufs> {
    let (first, rest) = bytes.split_at(bytes.len().min(MHLEN));
    let mut packet = Packet::from_slice(pool, first, 0)?;
    for piece in rest.chunks(MLEN) {
        packet.append_chain(Chain::from_slice(pool, piece)?);
    }
    Ok(packet)
}

/// In clusters of 2 KiB, whatever its length, as by a driver that gives its device clusters before packets arrive.
pub(super) fn clusters_only(pool: &MbufPool, bytes: &[u8]) -> Result<Packet, NoBufs> {
    let (first, rest) = bytes.split_at(bytes.len().min(K2.bytes()));
    let mut packet = cluster(pool, first)?;
    for piece in rest.chunks(K2.bytes()) {
        packet.append_chain(cluster(pool, piece)?.into_chain());
    }
    Ok(packet)
}

fn cluster(pool: &MbufPool, bytes: &[u8]) -> Result<Packet, NoBufs> {
    let mut packet = Packet::with_cluster(pool, K2, 0)?;
    packet.append(pool, bytes)?;
    Ok(packet)
}

const K2: ClusterSize = ClusterSize::K2;

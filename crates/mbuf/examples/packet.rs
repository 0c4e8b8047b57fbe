//! A packet's life: built, shared with a send buffer, split, freed; with the pool's figures after each step.
//!
//! `cargo run -p mbuma-mbuf --example packet`

use mbuf::{Chain, Csum, Live, MbufPool, NoBufs, Packet, PoolConfig, PoolStats};

const HEADERS: usize = 54;
const SEGMENT: usize = 1460;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = MbufPool::new(PoolConfig::default())?;
    let (said, busiest) = life(&pool)?;
    for line in said {
        println!("{line}");
    }
    print!("\nwith both segments on their way:\n\n{busiest}");
    print!("\nat the end:\n\n{}", pool.stats());
    Ok(())
}

/// Sends a program's bytes twice, the second time in two segments. Each step prints the buffers in use: mbufs for
/// headers and references, and no cluster but the first. Returns the text, and the pool's figures when most buffers
/// were in use.
fn life(pool: &MbufPool) -> Result<(Vec<String>, PoolStats), NoBufs> {
    let mut said = Vec::new();
    let mut say = |what: &str| {
        let Live {
            mbufs, clusters, ..
        } = pool.live();
        said.push(format!("{mbufs} mbufs, {clusters} clusters: {what}"));
    };
    let mut sndbuf = Chain::from_slice(pool, &[7; 2 * SEGMENT])?;
    say("a send buffer has a program's bytes");

    // Built: one fresh mbuf for the headers, and a reference to the cluster.
    let mut packet = build(pool, &mut sndbuf)?;
    say("a packet shows the same bytes, behind its headers");

    // Shared: the part that a capture would keep. The headers, which lie inside, are copied.
    let capture = packet.copy_packet()?;
    say("and so does a copy of the packet");
    assert_eq!(capture.to_vec(), packet.to_vec());
    drop((packet, capture));
    say("both were freed; the send buffer was not touched");

    // Sent again, and split where a device without segmentation wants it.
    let mut first = build(pool, &mut sndbuf)?;
    let rest = first.split_off(HEADERS + SEGMENT)?;
    let mut second = Packet::before_chain(pool, rest)?;
    second.copy_header(&first)?;
    second.prepend(HEADERS)?.copy_from_slice(first.front());
    say("sent again as two segments");
    let busiest = pool.stats();
    assert_eq!(
        (first.len(), second.len()),
        (HEADERS + SEGMENT, HEADERS + SEGMENT)
    );

    // Freed: acknowledged first, so that the packets are the last to show the cluster.
    sndbuf.trim_front(2 * SEGMENT);
    say("acknowledged, while the device still reads them");
    drop((first, second));
    say("all is free");
    Ok((said, busiest))
}

/// Headers before the whole send buffer, and the work that is left to the device.
fn build(pool: &MbufPool, sndbuf: &mut Chain) -> Result<Packet, NoBufs> {
    let mut packet = Packet::before_chain(pool, sndbuf.share_all()?)?;
    packet.prepend(HEADERS)?.fill(0);
    packet.header_mut().csum = Csum::TCP;
    packet.header_mut().tso_segsz = SEGMENT as u16;
    Ok(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_leaves_no_buffer_and_copies_no_payload() {
        // Breaks if a step takes a cluster, copies payload, or leaks.
        let pool = MbufPool::new(PoolConfig::default()).unwrap();
        let (said, busiest) = life(&pool).unwrap();
        let counts: Vec<_> = said.iter().map(|l| l.split(':').next().unwrap()).collect();
        assert_eq!(
            counts,
            [
                "1 mbufs, 1 clusters",
                "3 mbufs, 1 clusters",
                "5 mbufs, 1 clusters",
                "1 mbufs, 1 clusters",
                "5 mbufs, 1 clusters",
                "4 mbufs, 1 clusters",
                "0 mbufs, 0 clusters",
            ]
        );
        assert_eq!((busiest.mbufs.used, busiest.calls.clget), (5, 1));
        // The capture's headers.
        assert_eq!(pool.stats().bytes_copied, HEADERS as u64);
        assert_eq!(pool.live(), Live::NONE);
    }
}

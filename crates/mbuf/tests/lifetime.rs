//! A pool that goes before its packets. One test, since the number of leaked zones is the process's.

mod common;

use common::{check_chain, check_packet, pattern};
use mbuf::{Chain, MbufPool, Packet, PoolConfig};

fn pool() -> MbufPool {
    MbufPool::new(PoolConfig::default()).expect("there is address space")
}

#[test]
fn packets_may_outlive_their_pool() {
    // Breaks if a live mbuf does not keep the zones of all sizes: pulling up 500 bytes of internal
    // mbufs takes a cluster, of which none is live, from a pool that has gone.
    assert_eq!(uma::leaked_zones(), 0);
    let first = pool();
    let mut packet = Packet::new(&first).expect("the pool is large");
    let bytes = pattern(1, 600);
    for piece in bytes.chunks(100) {
        packet.append_chain(Chain::from_slice(&first, piece).expect("the pool is large"));
    }
    drop(first.clone());
    drop(first);
    assert_eq!(uma::leaked_zones(), 1, "the mbuf zone says so");

    assert_eq!(packet.pullup(500), Ok(&bytes[..500]));
    packet.prepend(1000).expect("the zones live").fill(9);
    let part = packet.share(900, 400).expect("the zones live");
    check_chain(&part, &[&[9; 100], &bytes[..300]].concat());
    check_packet(&packet, &[&[9; 1000], bytes.as_slice()].concat());
    drop(packet);
    drop(part);

    // A pool that everything came back to leaks nothing, whoever goes last.
    let second = pool();
    let chain = Chain::from_slice(&second, &bytes).expect("the pool is large");
    drop(chain);
    drop(second);
    // Lent storage may hold the pool's last handle; then it goes while its own mbuf lives.
    struct Holds(Vec<u8>, #[allow(dead_code)] MbufPool);
    impl AsRef<[u8]> for Holds {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let third = pool();
    let chain = Chain::from_owner(&third, Holds(bytes.clone(), third.clone()));
    drop(third);
    assert_eq!(uma::leaked_zones(), 1);
    let chain = chain.expect("the pool is large");
    check_chain(&chain, &bytes);
    drop(chain);
    assert_eq!(uma::leaked_zones(), 2);
}

//! A pool that goes before its packets. One test, since the number of leaked zones is the process's.

mod common;

use std::sync::Barrier;
use std::thread;

use common::{check_chain, check_packet, pattern, sized};
use mbuf::{Chain, MbufPool, Packet, PoolConfig};

/// A leak checker must not report the zones that stay for live packets on purpose.
#[unsafe(no_mangle)]
extern "C" fn __lsan_default_options() -> *const core::ffi::c_char {
    c"detect_leaks=0".as_ptr()
}

fn pool() -> MbufPool {
    MbufPool::new(PoolConfig::default()).expect("there is address space")
}

#[test]
fn packets_and_pools_go_in_any_order() {
    packets_may_outlive_their_pool();
    the_last_handle_may_go_with_the_last_packet();
    lent_storage_may_own_the_pool();
    pool_and_packet_may_be_dropped_at_once();
}

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
    drop((packet, part));
    assert_eq!(uma::leaked_zones(), 0, "the last mbuf ended its zone");
}

fn the_last_handle_may_go_with_the_last_packet() {
    // Breaks if a pool leaks although all its buffers came back.
    let leaked = uma::leaked_zones();
    let pool = pool();
    let chain = Chain::from_slice(&pool, &[1; 3000]).expect("the pool is large");
    drop(chain);
    drop(pool);
    assert_eq!(uma::leaked_zones(), leaked);
}

fn lent_storage_may_own_the_pool() {
    // Breaks if an mbuf can't be freed whose storage ended the pool just before.
    struct Holds(Vec<u8>, #[allow(dead_code)] MbufPool);
    impl AsRef<[u8]> for Holds {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let leaked = uma::leaked_zones();
    let (pool, bytes) = (pool(), pattern(1, 600));
    let chain = Chain::from_owner(&pool, Holds(bytes.clone(), pool.clone()));
    drop(pool);
    let chain = chain.expect("the pool is large");
    check_chain(&chain, &bytes);
    assert_eq!(uma::leaked_zones(), leaked);
    drop(chain);
    assert_eq!(uma::leaked_zones(), leaked, "the last mbuf ended its zone");
}

fn pool_and_packet_may_be_dropped_at_once() {
    // Breaks if the free of the last packet reads memory that the end of the pool has freed; or if
    // the pool ends between two packets.
    for _ in 0..sized(100, 10) {
        let pool = pool();
        let mut packet = Packet::from_slice(&pool, &[1; 1000], 0).expect("the pool is large");
        let start = Barrier::new(2);
        thread::scope(|s| {
            s.spawn(|| {
                start.wait();
                drop(pool);
            });
            start.wait();
            let part = packet.share(0, 500).expect("the zones live");
            drop(packet);
            assert_eq!(part.to_vec(), [1; 500]);
        });
    }
}

//! A pool that is filled up.

use mbuf::{ClusterSize, Packet, PoolConfig};

use super::*;

#[test]
fn each_shortage_is_told_once() {
    // Breaks when a full zone is not reported, is reported at each tick, or under the name of another.
    let config = PoolConfig {
        mbufs_max: 1000,
        cluster_bytes_max: 1 << 20,
    };
    let pool = MbufPool::new(config).expect("address space");
    let mut watch = ShortageWatch::default();
    assert!(watch.news(&pool).is_empty());
    let size = ClusterSize::K16;
    let all = || Packet::with_cluster(&pool, size, 0).ok();
    let held: Vec<_> = std::iter::from_fn(all).collect();
    let zone = "mbuf_jumbo_16k";
    let news = watch.news(&pool);
    assert_eq!(news, [(zone, Lack::NearLimit, 1), (zone, Lack::AtLimit, 1)]);
    assert!(watch.news(&pool).is_empty());
    let text = line(&pool, zone, Lack::AtLimit, 1);
    for words in [
        "zone mbuf_jumbo_16k",
        "now 64 of 64",
        "its limit",
        "netstat -z",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let text = line(&pool, zone, Lack::NearLimit, 1);
    assert!(text.contains("80 % of its limit"), "{text}");
    drop(held);
    assert_eq!(pool.live(), mbuf::Live::NONE);
}

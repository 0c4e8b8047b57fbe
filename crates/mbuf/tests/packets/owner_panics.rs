//! An owner of lent storage whose drop panics: the chain or packet that dropped it must be whole when the
//! panic is caught.

use crate::common::{balanced, check_chain, check_packet};
use mbuf::{Chain, MbufPool, Packet};
use std::panic::{AssertUnwindSafe, catch_unwind};

struct Panics(Vec<u8>);

impl AsRef<[u8]> for Panics {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("the owner's drop");
    }
}

/// "first", 300 bytes of an owner whose drop panics, "last".
fn chain(pool: &MbufPool) -> Chain {
    let part = |bytes: &[u8]| Chain::from_slice(pool, bytes).expect("the pool is large");
    let mut chain = part(b"first");
    chain.append(Chain::from_owner(pool, Panics(vec![1; 300])).expect("the pool is large"));
    chain.append(part(b"last"));
    chain
}

fn packet(pool: &MbufPool) -> Packet {
    let mut packet = Packet::from_slice(pool, b"head", 0).expect("the pool is large");
    packet.append_chain(chain(pool));
    packet
}

fn panics(act: impl FnOnce()) {
    let caught = catch_unwind(AssertUnwindSafe(act));
    let text = caught.expect_err("the owner is dropped");
    assert_eq!(text.downcast_ref(), Some(&"the owner's drop"));
}

/// The chain has these bytes, and takes more.
fn check_and_extend(mut chain: Chain, pool: &MbufPool, want: &[u8]) {
    check_chain(&chain, want);
    let more = chain.extend_from_slice(pool, b"more");
    more.expect("the pool is large");
    check_chain(&chain, &[want, b"more"].concat());
}

#[test]
fn truncate_leaves_a_whole_chain() {
    // Breaks when the tail is set only after the drop of the cut mbufs: it names a freed mbuf.
    balanced(|pool| {
        for (len, want) in [(5, &b"first"[..]), (3, b"fir"), (0, b"")] {
            let mut chain = chain(pool);
            panics(|| chain.truncate(len));
            check_and_extend(chain, pool, want);
        }
    });
}

#[test]
fn trim_front_leaves_a_whole_chain() {
    // Breaks when the length or the pinned bytes are counted after the drop.
    balanced(|pool| {
        for (n, want) in [(305, &b"last"[..]), (307, b"st"), (309, b"")] {
            let mut chain = chain(pool);
            panics(|| chain.trim_front(n));
            check_and_extend(chain, pool, want);
        }
    });
}

#[test]
fn a_packet_is_whole_after_each_cut() {
    // Breaks when the packet's length is set after the drop: it claims bytes that it has not.
    balanced(|pool| {
        let mut cut = packet(pool);
        panics(|| cut.truncate(9));
        check_packet(&cut, b"headfirst");

        let mut cut = packet(pool);
        panics(|| cut.trim_front(311));
        check_packet(&cut, b"st");

        // Gathers from the owner's storage until nothing refers to it.
        let mut cut = packet(pool);
        let mut want = b"headfirst".to_vec();
        want.extend([1; 300]);
        want.extend(b"last");
        panics(|| assert_eq!(cut.pullup(311).map(<[u8]>::len), Ok(311)));
        check_packet(&cut, &want);
    });
}

//! Mistakes that cost other stacks their nights, and that do not compile here. Each is followed by
//! what was meant, so that a failure for another reason would show.
//!
//! # A freed packet is used
//! ```compile_fail,E0382
//! fn input(packet: mbuf::Packet) -> usize {
//!     drop(packet);
//!     packet.len()
//! }
//! ```
//! ```
//! fn input(packet: mbuf::Packet) -> usize {
//!     let len = packet.len();
//!     drop(packet);
//!     len
//! }
//! ```
//!
//! # A packet is freed by the one who queued it
//! ```compile_fail,E0382
//! fn output(queue: &mut mbuf::Mbufq, packet: mbuf::Packet) {
//!     queue.enqueue(packet);
//!     drop(packet);
//! }
//! ```
//! ```
//! fn output(queue: &mut mbuf::Mbufq, packet: mbuf::Packet) {
//!     queue.enqueue(packet);
//! }
//! ```
//!
//! # A chain is taken for a packet
//! ```compile_fail,E0308
//! fn output(queue: &mut mbuf::Mbufq, sndbuf: mbuf::Chain) {
//!     queue.enqueue(sndbuf);
//! }
//! ```
//! ```
//! use mbuf::{Chain, MbufPool, Mbufq, NoBufs, Packet};
//! fn output(pool: &MbufPool, queue: &mut Mbufq, sndbuf: Chain) -> Result<(), NoBufs> {
//!     queue.enqueue(Packet::from_chain(pool, sndbuf)?);
//!     Ok(())
//! }
//! ```
//!
//! # A header pointer outlives the mbuf that it points into (mtod before m_pullup)
//! ```compile_fail,E0499
//! fn input(packet: &mut mbuf::Packet) -> Option<u8> {
//!     let ip = packet.pullup(20).ok()?;
//!     let tcp = packet.pullup(40).ok()?;
//!     Some(ip[0] + tcp[20])
//! }
//! ```
//! ```
//! fn input(packet: &mut mbuf::Packet) -> Option<u8> {
//!     let ip = packet.pullup(20).ok()?[0];
//!     let tcp = packet.pullup(40).ok()?[20];
//!     Some(ip + tcp)
//! }
//! ```
//!
//! # Bytes are written through a shared borrow
//! ```compile_fail,E0596
//! fn tap(packet: &mbuf::Packet) {
//!     if let Some(front) = packet.front_mut() {
//!         front.fill(0);
//!     }
//! }
//! ```
//! ```
//! fn tap(packet: &mut mbuf::Packet) {
//!     if let Some(front) = packet.front_mut() {
//!         front.fill(0);
//!     }
//! }
//! ```
//!
//! # A packet changes while a gathering write still reads it
//! ```compile_fail,E0502
//! fn transmit(packet: &mut mbuf::Packet) -> usize {
//!     let mut pieces = Vec::new();
//!     packet.segments().gather(&mut pieces);
//!     packet.trim_front(14);
//!     pieces.len()
//! }
//! ```
//! ```
//! fn transmit(packet: &mut mbuf::Packet) -> usize {
//!     packet.trim_front(14);
//!     let mut pieces = Vec::new();
//!     packet.segments().gather(&mut pieces);
//!     pieces.len()
//! }
//! ```
//!
//! # Bytes of a read are taken while the read may still write
//! ```compile_fail,E0499
//! fn receive(scatter: &mut mbuf::Scatter) -> (mbuf::Chain, usize) {
//!     let mut into = Vec::new();
//!     scatter.io_slices(1500, &mut into);
//!     let chain = scatter.take(1500);
//!     into[0][0] = 1;
//!     (chain, into.len())
//! }
//! ```
//! ```
//! fn receive(scatter: &mut mbuf::Scatter) -> (mbuf::Chain, usize) {
//!     let mut into = Vec::new();
//!     scatter.io_slices(1500, &mut into);
//!     into[0][0] = 1;
//!     let count = into.len();
//!     (scatter.take(1500), count)
//! }
//! ```
//!
//! # The packet's length is set by hand
//! ```compile_fail,E0609
//! fn fix(packet: &mut mbuf::Packet) {
//!     packet.header_mut().len = 60;
//! }
//! ```
//! ```
//! fn fix(packet: &mut mbuf::Packet) {
//!     packet.truncate(60);
//! }
//! ```
//!
//! # Storage is lent whose owner may not be dropped on another thread
//! ```compile_fail,E0277
//! use mbuf::{Chain, MbufPool, NoBufs};
//! fn lend(pool: &MbufPool, page: std::rc::Rc<[u8]>) -> Result<Chain, NoBufs> {
//!     Chain::from_owner(pool, page)
//! }
//! ```
//! ```
//! use mbuf::{Chain, MbufPool, NoBufs};
//! fn lend(pool: &MbufPool, page: std::sync::Arc<[u8]>) -> Result<Chain, NoBufs> {
//!     Chain::from_owner(pool, page)
//! }
//! ```

//! Mistakes that were made in other stacks, and that do not compile here. The correct code follows each example, so
//! that a failure for another reason would show.
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
//! # A packet is freed by the code that queued it
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
//!     let pieces: Vec<_> = packet.segments().io_slices().collect();
//!     packet.trim_front(14);
//!     pieces.len()
//! }
//! ```
//! ```
//! fn transmit(packet: &mut mbuf::Packet) -> usize {
//!     packet.trim_front(14);
//!     let pieces: Vec<_> = packet.segments().io_slices().collect();
//!     pieces.len()
//! }
//! ```
//!
//! # Bytes of a read are taken while the read may still write
//! ```compile_fail,E0500
//! fn receive(scatter: &mut mbuf::Scatter) -> mbuf::Chain {
//!     scatter.read(&mut [], 1500, |into| {
//!         let chain = scatter.take(1500);
//!         into[0][0] = 1;
//!         chain
//!     })
//! }
//! ```
//! ```
//! fn receive(scatter: &mut mbuf::Scatter) -> mbuf::Chain {
//!     scatter.read(&mut [], 1500, |into| into[0][0] = 1);
//!     scatter.take(1500)
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
//!
//! # A chain is freed where its first mbuf was meant (F-Stack#565: m_free done as m_freem)
//! ```compile_fail,E0382
//! fn consume_first(chain: mbuf::Chain) -> usize {
//!     drop(chain);
//!     chain.len()
//! }
//! ```
//! ```
//! fn consume_first(mut chain: mbuf::Chain) -> usize {
//!     drop(chain.pop_front());
//!     chain.len()
//! }
//! ```
//!
//! # A packet loses its first mbuf, and its header with it
//! ```compile_fail,E0599
//! fn strip_link_header(mut packet: mbuf::Packet) -> mbuf::Packet {
//!     drop(packet.pop_front());
//!     packet
//! }
//! ```
//! ```
//! fn strip_link_header(mut packet: mbuf::Packet) -> mbuf::Packet {
//!     packet.trim_front(packet.front().len());
//!     packet
//! }
//! ```
//!
//! # Bytes are read after their packet was freed (mtod kept over m_freem)
//! ```compile_fail,E0505
//! fn input(packet: mbuf::Packet) -> Option<u8> {
//!     let header = packet.front();
//!     drop(packet);
//!     header.first().copied()
//! }
//! ```
//! ```
//! fn input(packet: mbuf::Packet) -> Option<u8> {
//!     let first = packet.front().first().copied();
//!     drop(packet);
//!     first
//! }
//! ```
//!
//! # A failed m_pullup is not noticed
//! ```compile_fail,E0308
//! fn input(packet: &mut mbuf::Packet) -> u8 {
//!     let ip: &[u8] = packet.pullup(20);
//!     ip[0] >> 4
//! }
//! ```
//! ```
//! fn input(packet: &mut mbuf::Packet) -> Option<u8> {
//!     let ip: &[u8] = packet.pullup(20).ok()?;
//!     Some(ip[0] >> 4)
//! }
//! ```
//!
//! # A queued packet is still written to
//! ```compile_fail,E0382
//! fn output(queue: &mut mbuf::Mbufq, mut packet: mbuf::Packet) {
//!     queue.enqueue(packet);
//!     packet.header_mut().l2_len = 14;
//! }
//! ```
//! ```
//! fn output(queue: &mut mbuf::Mbufq, mut packet: mbuf::Packet) {
//!     packet.header_mut().l2_len = 14;
//!     queue.enqueue(packet);
//! }
//! ```
//!
//! # One packet is in two queues
//! ```compile_fail,E0382
//! fn flood(a: &mut mbuf::Mbufq, b: &mut mbuf::Mbufq, packet: mbuf::Packet) {
//!     a.enqueue(packet);
//!     b.enqueue(packet);
//! }
//! ```
//! ```
//! fn flood(a: &mut mbuf::Mbufq, b: &mut mbuf::Mbufq, mut packet: mbuf::Packet) {
//!     if let Ok(copy) = packet.copy_packet() {
//!         b.enqueue(copy);
//!     }
//!     a.enqueue(packet);
//! }
//! ```
//!
//! # A chain is sent twice
//! ```compile_fail,E0382
//! fn broadcast(a: &mut mbuf::Chain, b: &mut mbuf::Chain, data: mbuf::Chain) {
//!     a.append(data);
//!     b.append(data);
//! }
//! ```
//! ```
//! use mbuf::{Chain, NoBufs};
//! fn broadcast(a: &mut Chain, b: &mut Chain, mut data: Chain) -> Result<(), NoBufs> {
//!     b.append(data.share(0, data.len())?);
//!     a.append(data);
//!     Ok(())
//! }
//! ```
//!
//! # Pages that may not be mapped are read as bytes
//! ```compile_fail,E0599
//! fn sum(sndbuf: &mbuf::Chain<mbuf::Mixed>) -> usize {
//!     sndbuf.segments().map(|s| s.len()).sum()
//! }
//! ```
//! ```
//! fn sum(sndbuf: &mbuf::Chain<mbuf::Mixed>) -> usize {
//!     sndbuf.pieces().map(|piece| piece.len()).sum()
//! }
//! ```
//!
//! # A header is pulled up out of pages that may not be mapped
//! ```compile_fail,E0599
//! fn input(packet: &mut mbuf::Packet<mbuf::Mixed>) -> Option<u8> {
//!     Some(packet.pullup(20).ok()?[0])
//! }
//! ```
//! ```
//! fn input(pool: &mbuf::MbufPool, packet: &mut mbuf::Packet<mbuf::Mixed>) -> Option<u8> {
//!     Some(packet.map(pool).ok()?.pullup(20).ok()?[0])
//! }
//! ```
//!
//! # A page of a file is written through a packet that shows it
//! ```compile_fail,E0599
//! fn stamp(packet: &mut mbuf::Packet<mbuf::Mixed>) -> bool {
//!     packet.write_at(0, &[1]).is_ok()
//! }
//! ```
//! ```
//! fn stamp(packet: &mut mbuf::Packet<mbuf::Mixed>) -> bool {
//!     // The first mbuf of a packet is never pages.
//!     packet.front_mut().is_some_and(|front| front.first_mut().map(|b| *b = 1).is_some())
//! }
//! ```
//!
//! # Unmapped storage is handed to code that reads bytes
//! ```compile_fail,E0308
//! fn send(pool: &mbuf::MbufPool, file: mbuf::Chain<mbuf::Mixed>) -> Option<Vec<u8>> {
//!     let bytes: mbuf::Chain = file;
//!     Some(bytes.to_vec())
//! }
//! ```
//! ```
//! fn send(pool: &mbuf::MbufPool, mut file: mbuf::Chain<mbuf::Mixed>) -> Option<Vec<u8>> {
//!     let bytes: mbuf::Chain = file.map(pool).ok()?;
//!     Some(bytes.to_vec())
//! }
//! ```
//!
//! # A page list begins a packet
//! ```compile_fail,E0308
//! fn output(queue: &mut mbuf::Mbufq, record: mbuf::ExtPgs) {
//!     queue.enqueue(record);
//! }
//! ```
//! ```
//! use mbuf::{ExtPgs, MapError, MbufPool, Mbufq, Packet};
//! fn output(pool: &MbufPool, queue: &mut Mbufq, record: ExtPgs) -> Result<(), MapError> {
//!     let mut packet = Packet::before_chain(pool, record.into_chain())?;
//!     queue.enqueue(packet.map(pool)?);
//!     Ok(())
//! }
//! ```
//!
//! # A chain is joined to itself (m_cat of m to m: a circle)
//! ```compile_fail,E0505
//! fn twice(mut chain: mbuf::Chain) -> mbuf::Chain {
//!     chain.append(chain);
//!     chain
//! }
//! ```
//! ```
//! fn twice(mut chain: mbuf::Chain) -> Result<mbuf::Chain, mbuf::NoBufs> {
//!     let again = chain.share(0, chain.len())?;
//!     chain.append(again);
//!     Ok(chain)
//! }
//! ```
//!
//! # Reading the packet header of an mbuf without one
//! ```compile_fail,E0599
//! fn flow(sndbuf: &mbuf::Chain) -> u32 {
//!     sndbuf.header().flow
//! }
//! ```
//! ```
//! fn flow(packet: &mbuf::Packet) -> u32 {
//!     packet.header().flow
//! }
//! ```
//!
//! # A packet is used after its header was taken off
//! ```compile_fail,E0382
//! fn deliver(rcvbuf: &mut mbuf::Chain, packet: mbuf::Packet) -> u32 {
//!     rcvbuf.append(packet.into_chain());
//!     packet.header().flow
//! }
//! ```
//! ```
//! fn deliver(rcvbuf: &mut mbuf::Chain, packet: mbuf::Packet) -> u32 {
//!     let flow = packet.header().flow;
//!     rcvbuf.append(packet.into_chain());
//!     flow
//! }
//! ```
//!
//! # Two write to the same bytes
//! ```compile_fail,E0499
//! fn swap(packet: &mut mbuf::Packet) -> Option<()> {
//!     let src = packet.front_mut()?.get_mut(12..16)?;
//!     let dst = packet.front_mut()?.get_mut(16..20)?;
//!     src.swap_with_slice(dst);
//!     Some(())
//! }
//! ```
//! ```
//! fn swap(packet: &mut mbuf::Packet) -> Option<()> {
//!     let (src, dst) = packet.front_mut()?.get_mut(12..20)?.split_at_mut(4);
//!     src.swap_with_slice(dst);
//!     Some(())
//! }
//! ```
//!
//! # Shared bytes are written: a write into a sent segment would change its retransmission
//! ```compile_fail,E0594
//! fn encrypt(data: &mut mbuf::Chain) {
//!     for piece in data.segments() {
//!         piece[0] ^= 0x55;
//!     }
//! }
//! ```
//! ```
//! use mbuf::{Chain, MbufPool, NoBufs};
//! fn encrypt(pool: &MbufPool, data: &mut Chain) -> Result<(), NoBufs> {
//!     data.unshare(pool)?;
//!     let mut bytes = data.to_vec();
//!     bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
//!     assert!(data.write_at(0, &bytes).is_ok());
//!     Ok(())
//! }
//! ```
//!
//! # A chain is cut while it is walked
//! ```compile_fail,E0502
//! fn consume(chain: &mut mbuf::Chain) {
//!     for piece in chain.segments() {
//!         chain.trim_front(piece.len());
//!     }
//! }
//! ```
//! ```
//! fn consume(chain: &mut mbuf::Chain) {
//!     while let Some(len) = chain.segments().next().map(<[u8]>::len) {
//!         chain.trim_front(len);
//!     }
//! }
//! ```
//!
//! # References are made by two threads at once that both believe to have the only one
//! ```compile_fail,E0596
//! use mbuf::{Chain, NoBufs};
//! fn retransmit(sndbuf: &Chain) -> Result<Chain, NoBufs> {
//!     sndbuf.share(0, 1448)
//! }
//! ```
//! ```
//! use mbuf::{Chain, NoBufs};
//! fn retransmit(sndbuf: &mut Chain) -> Result<Chain, NoBufs> {
//!     sndbuf.share(0, 1448)
//! }
//! ```
//!
//! # Storage is lent that ends before its last reader (a buffer on the stack)
//! ```compile_fail,E0597
//! use mbuf::{Chain, MbufPool, NoBufs};
//! fn greet(pool: &MbufPool) -> Result<Chain, NoBufs> {
//!     let text = *b"220 ready";
//!     let lent: &'static [u8] = &text;
//!     Chain::from_owner(pool, lent)
//! }
//! ```
//! ```
//! use mbuf::{Chain, MbufPool, NoBufs};
//! fn greet(pool: &MbufPool) -> Result<Chain, NoBufs> {
//!     let text = *b"220 ready";
//!     Chain::from_owner(pool, text)
//! }
//! ```
//!
//! # A secret is thought to be gone that its owner still holds
//! ```compile_fail
//! #![deny(unused_must_use)]
//! fn forget(mut key: mbuf::Chain) {
//!     key.zeroize();
//! }
//! ```
//! ```
//! #![deny(unused_must_use)]
//! fn forget(mut key: mbuf::Chain) -> bool {
//!     key.zeroize()
//! }
//! ```
//!
//! # Pages are written that a record shows already
//! ```compile_fail,E0382
//! fn encrypt(pool: &mbuf::MbufPool, mut pages: mbuf::OwnedPages) -> Option<mbuf::ExtPgs> {
//!     let record = mbuf::ExtPgs::new(pool, pages.into(), 0, 4096).ok();
//!     pages.write_at(0, &[1]).ok()?;
//!     record
//! }
//! ```
//! ```
//! fn encrypt(pool: &mbuf::MbufPool, mut pages: mbuf::OwnedPages) -> Option<mbuf::ExtPgs> {
//!     pages.write_at(0, &[1]).ok()?;
//!     mbuf::ExtPgs::new(pool, pages.into(), 0, 4096).ok()
//! }
//! ```

//! A packet in as few mbufs as its bytes need.

use super::Packet;
use crate::chain::Chain;
use crate::error::NoBufs;
use crate::list;
use crate::mbuf::Mbuf;
use crate::pool::{ClusterSize, MbufPool};

/// Bytes of the largest cluster.
pub(super) const LARGEST: usize = ClusterSize::K16.bytes();

/// The mbufs that `len` bytes need: the largest clusters that hold them, at least one.
pub(super) fn fewest(len: usize) -> usize {
    len.div_ceil(LARGEST).max(1)
}

impl Packet {
    /// Copies the packet into the fewest mbufs that hold it, and returns how many bytes it copied: 0
    /// if it is in so few already. The room that is left in the first is before its bytes, for
    /// headers. Storage that other mbufs show is not written.
    ///
    /// [`Packet::collapse`] copies less where a bound has to be kept.
    ///
    /// # Errors
    /// [`NoBufs`]; the packet is as it was.
    #[doc(alias = "m_defrag")]
    #[track_caller]
    pub fn defrag(&mut self, pool: &MbufPool) -> Result<usize, NoBufs> {
        let len = self.len();
        if self.0.iter().count() <= fewest(len) {
            return Ok(0);
        }
        let here = len.min(LARGEST);
        let mut first = Mbuf::with_end(self.0.zones(), here)?;
        list::gather(&mut first, &self.0, 0, here);
        let mut behind = Chain::new();
        while here + behind.len() < len {
            let at = here + behind.len();
            let n = LARGEST.min(len - at);
            let mut m = Mbuf::with_room(pool, n)?;
            list::gather(&mut m, &self.0, at, n);
            behind.append(Chain::from_list(m));
        }
        first.set_next(behind.into_list());
        self.0.pass_header_to(&mut first);
        self.0 = first;
        self.check();
        Ok(len)
    }
}

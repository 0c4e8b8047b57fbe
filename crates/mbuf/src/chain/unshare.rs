//! A chain made writable: only shared or lent storage is copied.

use core::mem;

use super::Chain;
use crate::error::NoBufs;
use crate::list::MbufCopies;
use crate::pool::MbufPool;

impl Chain {
    /// Makes the whole chain writable: [`Chain::write_at`] finds no shared storage afterwards.
    /// Mbufs whose storage is shared or [lent](Chain::from_owner) are replaced by copies; the other
    /// mbufs stay as they are, and so does storage that other chains show.
    ///
    /// # Errors
    /// [`NoBufs`]; the chain is as it was.
    #[doc(alias = "m_unshare")]
    #[track_caller]
    pub fn unshare(&mut self, pool: &MbufPool) -> Result<(), NoBufs> {
        let Some(head) = &self.head else {
            return Ok(());
        };
        let copies = MbufCopies::of(pool, head, 0, self.len)?;
        if !copies.is_empty() {
            *self = copies.put_into(mem::take(self).into_list());
        }
        self.check();
        Ok(())
    }
}

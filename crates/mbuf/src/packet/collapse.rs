//! Reduces the segments of a packet to the number that a device takes, and copies as little as that needs.
//!
//! ```text
//!   | 54 | 20 | 1448 | 30 | 1448 |        collapse(4): 20 goes behind 54, into its room
//!   | 54 20 | 1448 | 30 | 1448 |
//! ```
//!
//! First it is planned (`plan.rs`), then all is allocated; only then the packet changes.

use super::Packet;
use super::defrag::fewest;
use crate::error::{CollapseError, NoBufs};
use crate::list;
use crate::mbuf::Mbuf;
use crate::pool::MbufPool;

mod plan;

use plan::{CollapsePlan, Group};

impl Packet {
    /// Joins segments until there are `max` or fewer, and returns how many bytes it copied.
    ///
    /// A segment is an mbuf that has bytes, as in [`Packet::segments`]. Each step joins the two neighbours whose join
    /// copies the fewest bytes: into the room behind the first of them if it suffices and is not shared, else into a
    /// fresh cluster. No byte is copied twice. If too many segments remain, [`Packet::defrag`] copies all. Other
    /// references to the storage see no change.
    ///
    /// # Errors
    /// [`CollapseError::TooManyBytes`] if `max` of the largest clusters do not hold the packet;
    /// [`CollapseError::NoBufs`]. The packet is as it was.
    #[doc(alias = "m_collapse")]
    #[track_caller]
    pub fn collapse(&mut self, pool: &MbufPool, max: usize) -> Result<usize, CollapseError> {
        if self.segments().count() <= max {
            return Ok(0);
        }
        let groups = self.0.iter().filter(|m| m.len() > 0).map(Group::of);
        match CollapsePlan::new(groups).joined(max) {
            Some(groups) => Ok(self.join(pool, &groups)?),
            None if fewest(self.len()) <= max => Ok(self.defrag(pool)?),
            None => Err(CollapseError::TooManyBytes),
        }
    }

    /// Makes each group one segment.
    #[track_caller]
    fn join(&mut self, pool: &MbufPool, groups: &[Group]) -> Result<usize, NoBufs> {
        let mut places = Vec::with_capacity(groups.len());
        // An empty first mbuf is in no group, and stays before them.
        let first_is_in = self.0.len() > 0;
        for (i, group) in groups.iter().enumerate() {
            places.push(match group.stays {
                0 if i == 0 && first_is_in => Some(Mbuf::with_end(self.0.zones(), group.len)?),
                0 => Some(Mbuf::with_room(pool, group.len)?),
                _ => None,
            });
        }
        // No step fails from here on.
        let mut groups_at = groups.iter().zip(places);
        if first_is_in && let Some((group, place)) = groups_at.next() {
            if let Some(fresh) = place {
                self.put_first(fresh);
            }
            let more = group.len - self.0.len();
            list::pull(&mut self.0, more);
        }
        let mut m = &mut self.0;
        for (group, place) in groups_at {
            m = step(m, place);
            list::pull(m, group.len - m.len());
        }
        // The rest has no bytes.
        drop(m.take_next());
        self.check();
        Ok(groups.iter().map(|group| group.len - group.stays).sum())
    }
}

/// Puts `fresh` behind `m`, or else frees the mbufs there that have no bytes. Returns the next mbuf then.
fn step(m: &mut Mbuf, fresh: Option<Mbuf>) -> &mut Mbuf {
    let mut rest = m.take_next();
    match fresh {
        Some(mut fresh) => {
            fresh.set_next(rest);
            rest = Some(fresh);
        }
        None => list::drop_empty(&mut rest),
    }
    m.set_next(rest);
    m.next_mut().expect("every group has bytes")
}

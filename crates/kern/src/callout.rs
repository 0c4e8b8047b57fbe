//! Timers: a hierarchical timing wheel.
//!
//! # How it works
//!
//! Time is cut into ticks of 1 ms. A timer's tick, a 48-bit number, is read as 8 digits of 6 bits.
//! Level 0 has a slot for each value of the last digit, level 1 one for the last but one, and so
//! on. A timer sits at the level of the first digit (from the left) in which its tick differs from
//! the current one, in the slot of that digit's value:
//!
//! ```text
//!            level 7   ...   level 2    level 1    level 0
//! current       0      ...      3          17         5
//! timer A       0      ...      3          17        40      level 0, slot 40
//! timer B       0      ...      3          20        63      level 1, slot 20
//! timer C       0      ...      9           0         1      level 2, slot 9
//! ```
//!
//! So all timers at level 0 come before those at level 1, and so on, and within a level the slots
//! are in order of time. The next slot to open is the first set bit of the first level that has
//! one. Opening a slot of level 0 fires its timers; opening one further up puts its timers where
//! they belong now, at lower levels. A timer moves at most seven times in its life, and an advance
//! over days opens only slots with timers. Eight levels cover every [`Time`], so no deadline is out
//! of range.
//!
//! # Invariants
//!
//! - A timer never fires early, and at most one tick late, if the owner advances in time.
//! - Timers come out of one advance in order of their deadlines, and those with equal deadlines in
//!   the order in which they were scheduled. So a seed replays.
//! - A slot's bit is set exactly if its list is not empty; see [`Callout::is_valid`].
//! - Every timer in a wheel slot is later than the current tick; the others are on the due list.
//!
//! Locks: none. Source: Varghese and Lauck, "Hashed and hierarchical timing wheels", 1987.

use core::fmt;
use core::time::Duration;

use crate::slot_map::{SlotKey, SlotMap};
use crate::time::Time;

/// The length of one tick of the wheel.
pub const TICK: Duration = Duration::from_nanos(TICK_NS);

/// A set of timers, each with a token of type `T` that comes back when it fires.
///
/// ```
/// use kern::{Callout, Time};
///
/// let mut callout = Callout::new(Time::ZERO);
/// callout.schedule(Time::from_millis(200), "retransmit");
/// let keep = callout.schedule(Time::from_secs(7200), "keepalive");
///
/// let mut fired = Vec::new();
/// callout.advance(callout.next_deadline().unwrap(), &mut fired);
/// assert_eq!(fired, ["retransmit"]);
/// assert_eq!(callout.cancel(keep), Some("keepalive"));
/// assert_eq!(callout.cancel(keep), None);
/// ```
pub struct Callout<T> {
    /// Every tick up to this one was handled.
    tick: u64,
    /// The number of the next timer, for the order among equal deadlines.
    seq: u64,
    /// One bit for each slot of a level, set if the slot has timers.
    occupied: [u64; LEVELS],
    /// The lists: those of the wheel, level by level, and last the due one.
    slots: Box<[TimerList; SLOTS + 1]>,
    timers: SlotMap<Timer<T>>,
    /// Timers about to fire, between two uses empty; kept for its memory.
    firing: Vec<(Time, u64, u32)>,
}

/// Names one scheduled timer. Once the timer fired or was cancelled, the id is void.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CalloutId(SlotKey);

/// One pending timer.
struct Timer<T> {
    at: Time,
    seq: u64,
    token: T,
    /// Neighbours on its list.
    next: u32,
    prev: u32,
    /// The list that it is on.
    slot: u16,
}

/// A doubly linked list of timers; the links are in the timers.
#[derive(Clone, Copy)]
struct TimerList {
    head: u32,
    tail: u32,
    /// No timer in the list is earlier. Cancelling one leaves the bound as it is, too early.
    earliest: u64,
}

impl<T> Callout<T> {
    /// An empty wheel that starts at `now`.
    #[doc(alias = "callout_init")]
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self {
            tick: tick_reached(now),
            seq: 0,
            occupied: [0; LEVELS],
            slots: Box::new([TimerList::EMPTY; SLOTS + 1]),
            timers: SlotMap::default(),
            firing: Vec::new(),
        }
    }

    /// Starts a timer that gives back `token` at `at`, or at the next advance if that has passed.
    ///
    /// # Panics
    ///
    /// If 2^32 - 1 timers are pending already.
    #[doc(alias = "callout_reset")]
    pub fn schedule(&mut self, at: Time, token: T) -> CalloutId {
        let key = self.timers.insert(Timer {
            at,
            seq: self.seq,
            token,
            next: NONE,
            prev: NONE,
            slot: u16::MAX,
        });
        self.seq += 1;
        self.place(key.index());
        CalloutId(key)
    }

    /// Stops a timer and gives its token back, or `None` if it fired or was cancelled before.
    #[doc(alias = "callout_stop")]
    pub fn cancel(&mut self, id: CalloutId) -> Option<T> {
        let slot = self.timers.get(id.0)?.slot;
        self.unlink(id.0.index(), slot);
        Some(self.timers.remove(id.0)?.token)
    }

    /// Moves the wheel to `now` and appends the tokens of the timers that fired to `fired`, in
    /// order. A `now` before an earlier one counts as that one.
    #[doc(alias = "callout_process")]
    pub fn advance(&mut self, now: Time, fired: &mut Vec<T>) {
        let target = tick_reached(now);
        self.fire_due(fired);
        while let Some((level, slot, start)) = self.next_slot() {
            if start > target {
                break;
            }
            self.tick = start;
            self.open(level, slot);
            self.fire_due(fired);
        }
        self.tick = self.tick.max(target);
    }

    /// When to advance next, or `None` if no timer is pending.
    ///
    /// Never later than the instant at which the next timer fires, which is its deadline rounded up
    /// to a tick; mostly exactly that. After cancellations it may be earlier: the advance then
    /// fires no timer, and the next answer is later.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        if !self.slots[DUE].is_empty() {
            return Some(tick_start(self.tick));
        }
        let (level, slot, start) = self.next_slot()?;
        let earliest = self.slots[slot_index(level, slot)].earliest;
        Some(tick_start(earliest.max(start)))
    }

    /// The deadline of a pending timer.
    #[must_use]
    pub fn deadline(&self, id: CalloutId) -> Option<Time> {
        self.timers.get(id.0).map(|timer| timer.at)
    }

    /// How many timers are pending.
    #[must_use]
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether no timer is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks every list, bit and bound. Slow: for tests. Each operation asserts the invariants of
    /// the fields that it touches.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let mut linked = 0;
        for (index, slot) in self.slots.iter().enumerate() {
            let Some(len) = self.slot_len_if_valid(index, slot) else {
                return false;
            };
            let bit = index < SLOTS && self.occupied[index / WIDTH] & bit(index % WIDTH) != 0;
            if index < SLOTS && bit != (len != 0) {
                return false;
            }
            linked += len;
        }
        linked == self.timers.len() && self.firing.is_empty()
    }

    /// Puts a timer that is on no list onto the one where it belongs at the current tick.
    fn place(&mut self, index: u32) {
        let due = tick_of_deadline(self.timers[index].at);
        let slot = match position(self.tick, due) {
            Some((level, slot)) => {
                self.occupied[level] |= bit(slot);
                slot_index(level, slot)
            }
            None => DUE,
        };
        self.link(index, slot, due);
    }

    /// The next slot of the wheel to open: its level, number and first tick.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        let level = self.occupied.iter().position(|&occupied| occupied != 0)?;
        let slot = self.occupied[level].trailing_zeros() as usize;
        let shift = DIGIT_BITS * level as u32;
        let above = self.tick >> shift >> DIGIT_BITS << DIGIT_BITS << shift;
        Some((level, slot, above | (slot as u64) << shift))
    }

    /// Empties a slot whose time has come: its timers go to lower levels or onto the due list.
    fn open(&mut self, level: usize, slot: usize) {
        self.occupied[level] &= !bit(slot);
        let list = core::mem::replace(&mut self.slots[slot_index(level, slot)], TimerList::EMPTY);
        let mut index = list.head;
        while index != NONE {
            let next = self.timers[index].next;
            self.place(index);
            index = next;
        }
    }

    /// Fires all timers on the due list. The list is in order of arrival, so it is sorted here,
    /// where it is as short as it gets.
    fn fire_due(&mut self, fired: &mut Vec<T>) {
        let list = core::mem::replace(&mut self.slots[DUE], TimerList::EMPTY);
        let mut index = list.head;
        while index != NONE {
            let timer = &self.timers[index];
            self.firing.push((timer.at, timer.seq, index));
            index = timer.next;
        }
        self.firing.sort_unstable();
        for (.., index) in self.firing.drain(..) {
            fired.extend(self.timers.remove_at(index).map(|timer| timer.token));
        }
    }

    /// Appends a timer to a list.
    fn link(&mut self, index: u32, slot: usize, due: u64) {
        let list = &mut self.slots[slot];
        let tail = core::mem::replace(&mut list.tail, index);
        list.earliest = list.earliest.min(due);
        if tail == NONE {
            list.head = index;
        } else {
            self.timers[tail].next = index;
        }
        let timer = &mut self.timers[index];
        (timer.slot, timer.prev, timer.next) = (slot as u16, tail, NONE);
    }

    /// Takes a timer off its list.
    fn unlink(&mut self, index: u32, slot: u16) {
        let slot = usize::from(slot);
        let (prev, next) = (self.timers[index].prev, self.timers[index].next);
        match prev {
            NONE => self.slots[slot].head = next,
            prev => self.timers[prev].next = next,
        }
        match next {
            NONE => self.slots[slot].tail = prev,
            next => self.timers[next].prev = prev,
        }
        if self.slots[slot].is_empty() {
            self.slots[slot] = TimerList::EMPTY;
            if slot < SLOTS {
                self.occupied[slot / WIDTH] &= !bit(slot % WIDTH);
            }
        }
    }

    /// How many timers a list holds, or `None` if it is not as it should be.
    fn slot_len_if_valid(&self, slot: usize, list: &TimerList) -> Option<usize> {
        let (mut len, mut prev, mut index) = (0, NONE, list.head);
        while index != NONE {
            let timer = self.timers.at(index)?;
            let due = tick_of_deadline(timer.at);
            let belongs = position(self.tick, due).map_or(DUE, |(l, s)| slot_index(l, s));
            if timer.prev != prev || usize::from(timer.slot) != slot {
                return None;
            }
            if belongs != slot || due < list.earliest || len > self.timers.len() {
                return None;
            }
            (len, prev, index) = (len + 1, index, timer.next);
        }
        (list.tail == prev).then_some(len)
    }
}

impl<T> fmt::Debug for Callout<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callout")
            .field("now", &tick_start(self.tick))
            .field("pending", &self.len())
            .field("next_deadline", &self.next_deadline())
            .finish()
    }
}

impl fmt::Debug for CalloutId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CalloutId({:#x})", self.0.number())
    }
}

impl TimerList {
    const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        earliest: u64::MAX,
    };

    fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

/// Where a timer due at tick `due` sits when the current tick is `tick`; `None` if it is due.
fn position(tick: u64, due: u64) -> Option<(usize, usize)> {
    if due <= tick {
        return None;
    }
    let level = (tick ^ due).ilog2() / DIGIT_BITS;
    let slot = due >> (level * DIGIT_BITS) & (WIDTH as u64 - 1);
    Some((level as usize, slot as usize))
}

fn slot_index(level: usize, slot: usize) -> usize {
    level * WIDTH + slot
}

fn bit(slot: usize) -> u64 {
    1 << slot
}

/// The tick at which a deadline fires: rounded up, so never early.
fn tick_of_deadline(at: Time) -> u64 {
    at.as_nanos().div_ceil(TICK_NS)
}

/// The last tick that has begun at `now`. The end of time counts as the end of its tick, so that a
/// timer there fires and the owner does not spin.
fn tick_reached(now: Time) -> u64 {
    if now == Time::MAX {
        return tick_of_deadline(now);
    }
    now.as_nanos() / TICK_NS
}

/// The instant at which a tick begins.
fn tick_start(tick: u64) -> Time {
    Time::from_nanos(tick.saturating_mul(TICK_NS))
}

/// No timer: the end of a list.
const NONE: u32 = u32::MAX;
const TICK_NS: u64 = 1_000_000;
/// Bits in a digit of a tick: a level's slots are the bits of one word.
const DIGIT_BITS: u32 = 6;
/// Slots in a level.
const WIDTH: usize = 1 << DIGIT_BITS;
/// Levels: enough digits for the tick of [`Time::MAX`], about 2^44.
const LEVELS: usize = 8;
const SLOTS: usize = LEVELS * WIDTH;
/// The list of timers whose tick has been reached already.
const DUE: usize = SLOTS;

const _: () = assert!(WIDTH == u64::BITS as usize, "a level's bitmap is one word");
const _: () = assert!((u64::MAX.div_ceil(TICK_NS)) >> (DIGIT_BITS * LEVELS as u32) == 0);
const _: () = assert!(
    SLOTS <= u16::MAX as usize,
    "a timer keeps its slot in 16 bits"
);

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

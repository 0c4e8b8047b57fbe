//! The control: a row under a mutex, and the task is scheduled for every item. It can lose no wakeup and makes the
//! most of them; the scheduler alone causes its waits.

use crate::epair::scheme::{Scheme, Sent};
use kern::prim::Mutex;
use kern::{LockClass, order};
use std::mem;

static CLASS: LockClass = LockClass::new("lab control queue", order::IFQUEUE);

/// Schedules always.
pub(crate) struct Always<T> {
    items: Mutex<Vec<T>>,
    size: usize,
}

impl<T: Send + 'static> Scheme<T> for Always<T> {
    const NAME: &'static str = "control";

    fn new(size: usize) -> Self {
        Self {
            items: Mutex::new(&CLASS, Vec::new()),
            size,
        }
    }

    fn send(&self, item: T) -> Sent<T> {
        let mut items = self.items.lock();
        if items.len() >= self.size {
            return Sent::Full(item);
        }
        items.push(item);
        Sent::Schedule
    }

    fn run(&self, input: &mut dyn FnMut(T)) -> bool {
        let items = mem::take(&mut *self.items.lock());
        items.into_iter().for_each(input);
        false
    }
}

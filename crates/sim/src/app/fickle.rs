//! Changes the dispatch policies of a stack at random times.

use std::time::Duration;

use kern::{Random, Time};
use mbuma::{Dispatch, Protocol, Stack};

use super::{App, Context};

/// Changes a stack's dispatch policies at random times.
#[derive(Debug)]
pub struct Fickle {
    /// Whose.
    pub stack: Stack,
    /// Its random stream.
    pub random: Random,
    /// The time at which it ends.
    pub until: Time,
}

impl Fickle {
    /// Changes a policy now.
    pub fn change(&mut self) {
        let protocol = Protocol::ALL[self.random.below(3) as usize];
        let dispatch = Dispatch::ALL[self.random.below(3) as usize];
        self.stack.set_dispatch(protocol, dispatch);
    }
}

impl App for Fickle {
    fn run(&mut self, context: &mut Context) -> Option<Time> {
        if context.now >= self.until {
            context.finish();
            return None;
        }
        self.change();
        let by = Duration::from_micros(1 + self.random.below(200_000));
        Some(context.now + by)
    }
}

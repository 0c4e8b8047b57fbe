//! Stacks that a runtime makes and drives from the start.

use super::Runtime;
use crate::error::Error;
use crate::{Config, Stack};

/// A stack to come: [`StackBuilder::build`] makes it.
#[derive(Debug)]
#[must_use = "`build` makes the stack"]
pub struct StackBuilder<'r> {
    runtime: &'r Runtime,
    config: Config,
}

impl Runtime {
    /// Begins a stack in real time, with entropy of the system, whose CPUs are the workers.
    pub fn stack(&self) -> StackBuilder<'_> {
        StackBuilder {
            runtime: self,
            config: Config::from_system(),
        }
    }
}

impl StackBuilder<'_> {
    /// Changes the configuration; its CPUs are ignored.
    pub fn config(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Makes the stack. The workers run its timers from now on, and take in the frames of the interfaces that
    /// [`Stack::add_interface`] makes.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn build(mut self) -> Result<Stack, Error> {
        self.config.cpus = self.runtime.cpus();
        let stack = Stack::new(self.config)?;
        self.runtime.add(&stack);
        Ok(stack)
    }
}

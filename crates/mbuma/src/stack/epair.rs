//! An end of an [epair](crate::device::epair) in a stack.
//!
//! Invariants: the end has a weak reference to its stack, so that a joined stack can end; a driver stops if its stack
//! is gone. Locks: none held here.

use std::sync::{Arc, Weak};

use crate::device::Budget;
use crate::device::epair::{Attachment, EpairEnd, Input};
use crate::error::Result;
use crate::ifnet::{IfConfig, IfIndex};
use crate::stack::Stack;
use crate::state::StackState;

/// Everything that waits, as one batch.
const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

/// As an interface of a stack.
#[derive(Debug)]
struct StackInterface(Weak<StackState>, IfIndex);

impl Attachment for StackInterface {
    fn detach(&self) {
        if let Some(stack) = self.0.upgrade() {
            Stack(stack).detach(self.1);
        }
    }
}

impl EpairEnd {
    /// Attaches this end to a stack, where `input` takes in arriving packets. An attached end moves: packets that wait
    /// in its former stack are dropped and counted there. The end keeps its Ethernet address, which the first stack may
    /// have drawn, unless `config` has another. So neighbours do not notice the move. The program keeps the end:
    /// dropping it detaches it, and the interface is gone with its addresses.
    ///
    /// # Errors
    /// As for [`Stack::attach`]. The end is then attached to nothing.
    #[doc(alias = "if_vmove")]
    pub fn attach(&mut self, stack: &Stack, mut config: IfConfig, input: Input) -> Result<IfIndex> {
        self.detach();
        let mac = config.mac.or(self.mac);
        self.mac = Some(mac.unwrap_or_else(|| stack.random_mac()));
        config.mac = self.mac;
        let plug = Arc::new(self.plug_for(&input));
        let index = stack.attach(Arc::clone(&plug) as _, config)?;
        plug.set_waker(input.into_waker(stack_driver(stack, index)));
        self.attachment = Some(Box::new(StackInterface(Arc::downgrade(&stack.0), index)));
        stack.announce(index);
        Ok(index)
    }
}

/// Takes in a batch at an interface of a stack.
fn stack_driver(stack: &Stack, index: IfIndex) -> impl Fn() -> bool + Send + Sync + 'static {
    let stack = Arc::downgrade(&stack.0);
    move || {
        let Some(stack) = stack.upgrade() else {
            return false;
        };
        // An error means that the interface or the other end is gone, so no more packets will come.
        Stack(stack).poll_interface(index, ALL).unwrap_or(false)
    }
}

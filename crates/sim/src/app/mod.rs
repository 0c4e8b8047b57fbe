//! Traffic: programs that send and check bytes that are a function of a seed and an offset.
//!
//! The net runs an [`App`] when one of its sockets' wakers was called or at the time that the app requested.
//! [`Endpoint`] is one side of a connection, [`Acceptor`] accepts connections from a listener, [`Gate`] decides about
//! those of an interceptor. [`Sequence`] and [`Sink`] are the ends of a flow of datagrams; [`Fickle`] changes how a
//! stack dispatches packets.

use std::task::Waker;

use kern::Time;

mod acceptor;
mod endpoint;
mod fickle;
mod gate;
mod manners;
mod sequence;

pub use acceptor::Acceptor;
pub use endpoint::{Connector, Endpoint};
pub use fickle::Fickle;
pub use gate::{Decision, Gate};
pub use manners::{Ending, Leave, Manners, Reading, Report, SharedReport};
pub use sequence::{Flow, Sequence, SharedFlow, Sink};

/// A program on the net.
pub trait App {
    /// Does the work that is possible now. Returns the time of the next call, if no socket wakes the program earlier.
    fn run(&mut self, context: &mut Context) -> Option<Time>;
}

/// The net's interface for a program.
pub struct Context {
    /// The time.
    pub now: Time,
    /// Wakes this program.
    pub waker: Waker,
    pub(crate) started: Vec<Box<dyn App>>,
    pub(crate) done: bool,
}

impl Context {
    /// Starts another program.
    pub fn start(&mut self, app: Box<dyn App>) {
        self.started.push(app);
    }

    /// This program has ended: it is dropped with its sockets.
    pub fn finish(&mut self) {
        self.done = true;
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

//! The Stack: an owned handle on one network stack, without globals, threads, clock or randomness of
//! its own.
//!
//! The embedder brings time and entropy ([`Config`]), attaches devices, and drives it:
//!
//! * [`Stack::poll_interface`] takes in frames that a device received;
//! * [`Stack::poll`] runs timers that are due and says when the next one is; [`Stack::poll_timers`] those of one
//!   CPU, where several threads drive it;
//! * sockets are used from any thread.
//!
//! Locks: none here.

use std::sync::Arc;
use std::task::Waker;

use kern::Time;
use mbuf::MbufPool;
use uma::ZoneError;

use crate::config::Config;
use crate::state::StackState;

mod address_policy;
mod addresses;
mod attach;
pub(crate) mod driver;
mod enter;
mod epair;
mod interface;
mod listing;
mod policy;
mod routes;
pub(crate) mod rx_queue;
mod stats;
mod timers;

pub use addresses::{AddrError, Membership};
pub use interface::{InterfaceBuilder, IntoInterface};
pub use listing::{Neighbour, TcpConnection};
pub use rx_queue::RxQueue;
pub use stats::StackStats;

/// A network stack. Clones are handles on the same stack, for use from any thread.
///
/// ```
/// use mbuma::{Config, Stack};
///
/// let stack = Stack::new(Config::from_system())?;
/// let listener = stack.tcp_listen("127.0.0.1:80", 128)?; // of the stack's own loopback interface
/// let client = stack.tcp_connect_blocking("127.0.0.1:80", None)?;
/// assert_eq!(listener.accept()?.peer_addr(), client.local_addr());
///
/// // Without a runtime, the program runs the timers: again at the time that this returns.
/// let next = stack.poll();
/// assert!(next.is_none_or(|at| at > stack.now()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Stack(pub(crate) Arc<StackState>);

impl Stack {
    /// Makes a stack that has the loopback interface (127/8, ::1) and no other interface yet.
    ///
    /// # Errors
    /// The buffer zones could not reserve their address space.
    pub fn new(config: Config) -> Result<Self, ZoneError> {
        let state = Arc::new(StackState::new(config)?);
        state.unix.belongs_to(&state);
        Ok(Self(state))
    }

    /// Sets the waker for work that another thread gives to CPU `cpu`: packets, or a timer earlier than its present
    /// ones. The waker stays until it is replaced.
    ///
    /// # Panics
    /// If there is no such CPU: see [`Config::cpus`].
    pub fn set_cpu_waker(&self, cpu: usize, waker: Option<Waker>) {
        let old = std::mem::replace(&mut *self.0.cpu_wakers[cpu].lock(), waker);
        drop(old);
    }

    /// The stack's time now.
    pub fn now(&self) -> Time {
        self.0.clock.now()
    }

    /// The buffers that this stack uses: allocate data to send from here.
    pub fn pool(&self) -> &MbufPool {
        &self.0.pool
    }
}

kern::impl_debug!(Stack |this| pool: this.0.pool);

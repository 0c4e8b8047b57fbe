//! The blocking form and the polled form of a call, made from one attempt.
//!
//! An attempt gets the way to wait ([`WaitBy`]). If the socket is not ready, the attempt registers that under the lock
//! that said so, and returns an error that is [`NotReady`].
//!
//! Locks: none.

use std::task::{Context, Poll};
use std::time::Duration;

use super::send_file::SendFileError;
use crate::error::SocketError;
use crate::park::retry_within;
use crate::state::StackState;
use crate::tls::TlsError;
use crate::waiters::{PollingTask, WaitBy};

/// The errors of one kind of call, one of which says that the socket is not ready.
pub(super) trait NotReady: From<SocketError> {
    fn is_not_ready(&self) -> bool;
}

impl NotReady for SocketError {
    fn is_not_ready(&self) -> bool {
        *self == SocketError::WouldBlock
    }
}

impl NotReady for TlsError {
    fn is_not_ready(&self) -> bool {
        self.is_would_block()
    }
}

impl NotReady for SendFileError {
    fn is_not_ready(&self) -> bool {
        self.is_would_block()
    }
}

/// Sleeps and tries again until the socket is ready. After the timeout, which is computed only if the call must wait,
/// the error is [`SocketError::TimedOut`]. No call waits for what the stack does if no thread drives it any more;
/// `stack` is that of a socket of the network.
pub(super) fn blocking<T, E: NotReady>(
    stack: Option<&StackState>,
    timeout: impl FnOnce() -> Option<Duration>,
    mut attempt: impl FnMut(Option<WaitBy<'_>>) -> Result<T, E>,
) -> Result<T, E> {
    let result = retry_within(timeout, |waker| {
        until_ready(stack, attempt(waker.map(WaitBy::Once)))
    });
    result.unwrap_or(Err(SocketError::TimedOut.into()))
}

/// Tries once for the task that polls.
pub(super) fn polled<T, E: NotReady>(
    stack: Option<&StackState>,
    cx: &Context<'_>,
    attempt: impl FnOnce(Option<WaitBy<'_>>) -> Result<T, E>,
) -> Poll<Result<T, E>> {
    let task = PollingTask::new(cx);
    until_ready(stack, attempt(Some(WaitBy::Polled(&task))))
}

/// Pending if the socket is not ready. The attempt has left its waker by then, so the end of the stack's driver, which
/// is asked for here, either is seen or calls that waker: see `StackState::abandon`.
pub(super) fn until_ready<T, E: NotReady>(
    stack: Option<&StackState>,
    result: Result<T, E>,
) -> Poll<Result<T, E>> {
    match result {
        Err(e) if e.is_not_ready() => match stack.is_some_and(StackState::is_abandoned) {
            true => Poll::Ready(Err(SocketError::NotDriven.into())),
            false => Poll::Pending,
        },
        other => Poll::Ready(other),
    }
}

//! The programs that want to run: filled by the wakers of sockets, emptied by the net.
//!
//! Wakers may be called from any thread, so this list has a lock, although the simulator has one
//! thread. Invariant: an app is in the list at most once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// The list of apps that were woken, in the order of their wakeups.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ready(Arc<Mutex<VecDeque<Arc<AppWaker>>>>);

/// The waker of one app.
#[derive(Debug)]
pub(crate) struct AppWaker {
    app: usize,
    is_ready: AtomicBool,
    ready: Ready,
}

impl Ready {
    pub(crate) fn waker_of(&self, app: usize) -> Arc<AppWaker> {
        Arc::new(AppWaker {
            app,
            is_ready: AtomicBool::new(false),
            ready: self.clone(),
        })
    }

    /// The next app that wants to run. It may be woken again from now on.
    pub(crate) fn pop(&self) -> Option<usize> {
        let waker = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()?;
        waker.is_ready.store(false, Ordering::Release);
        Some(waker.app)
    }
}

impl Ready {
    /// The programs that want to run; the first was woken first.
    pub(crate) fn waiting(&self) -> Vec<usize> {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().map(|waker| waker.app).collect()
    }

    /// Removes the app at this place, before its turn.
    pub(crate) fn take(&self, place: usize) -> Option<usize> {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waker = list.remove(place)?;
        waker.is_ready.store(false, Ordering::Release);
        Some(waker.app)
    }
}

impl AppWaker {
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    pub(crate) fn make_ready(self: &Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::AcqRel) {
            let mut list = self.ready.0.lock().unwrap_or_else(PoisonError::into_inner);
            list.push_back(Arc::clone(self));
        }
    }
}

impl Wake for AppWaker {
    fn wake(self: Arc<Self>) {
        self.make_ready();
    }
}

//! Clients of a UNIX-domain socket, for the processes that have no worker.
//!
//! The set reports each arrival once (EPOLLET). So a client that can't be accepted, for lack of descriptors or memory,
//! does not wake the process again and again. After the next event of the set the process tries again to accept it.
//!
//! Locks: none. Source: epoll(7), accept(2).

use std::io::{self, ErrorKind};
use std::os::unix::net::{UnixListener, UnixStream};

use mbuma::runtime::{Interest, Poller};

/// Clients that are accepted at once at most.
const ACCEPT_MAX: usize = 16;

/// Watches a listener, which does not block, under this number.
pub(crate) fn watch(set: &Poller, listener: &UnixListener, number: u64) -> io::Result<()> {
    set.add(listener, number, Interest::ReadEdge)
}

/// Accepts some clients, `max` at most, whose sockets block. If there may be more, the set reports the listener again,
/// unless `max` was the bound: then the caller tries again when it has room.
pub(crate) fn some(
    set: &Poller,
    listener: &UnixListener,
    number: u64,
    max: usize,
    mut each: impl FnMut(UnixStream),
) {
    for _ in 0..ACCEPT_MAX.min(max) {
        match listener.accept() {
            Ok((stream, _)) => each(stream),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
    if max > ACCEPT_MAX {
        // More may wait.
        let _ = set
            .remove(listener)
            .and_then(|()| watch(set, listener, number));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mbuma::runtime::PollEvents;

    use super::*;

    #[test]
    fn clients_that_are_not_accepted_are_one_event_and_others_come_in_turns() {
        // Breaks if a process without descriptors spins on a client that it can't accept, if many clients keep it from
        // its other work, or if those beyond the bound of a turn are forgotten.
        let dir = std::env::temp_dir().join(format!("mbuma-accept-{}", std::process::id()));
        let _ = std::fs::remove_file(&dir);
        let listener = UnixListener::bind(&dir).expect("a socket's file");
        listener.set_nonblocking(true).expect("an option");
        let set = Poller::new().expect("an epoll set");
        watch(&set, &listener, 5).expect("watched");
        let connect = || UnixStream::connect(&dir).expect("room in the queue");
        let clients: Vec<_> = (0..2 * ACCEPT_MAX + 1).map(|_| connect()).collect();
        let mut events = PollEvents::new();
        let mut reported = || {
            set.wait(&mut events, Some(Duration::ZERO)).expect("a set");
            events.len()
        };
        assert_eq!((reported(), reported()), (1, 0));
        let mut accepted = Vec::new();
        let mut turns = Vec::new();
        while turns.is_empty() || reported() > 0 {
            some(&set, &listener, 5, usize::MAX, |stream| {
                accepted.push(stream)
            });
            turns.push(accepted.len());
        }
        assert_eq!(turns, [ACCEPT_MAX, 2 * ACCEPT_MAX, clients.len()]);
        let _ = std::fs::remove_file(&dir);
    }
}

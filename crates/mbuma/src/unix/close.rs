//! Closes sockets, one after the other: the sockets that a closed socket held may end with it, and so on.
//!
//! A row of ten thousand sockets, each in flight in the buffer of the next, ends here in a loop, not in ten thousand
//! nested calls. That also holds if a program's own objects are links of the row: a close may drop an
//! object that closes another socket, which waits until the first close is done. The list of waiting sockets belongs to
//! the thread.
//!
//! Locks: none held.
//! Source: POSIX.1-2024, close(); soclose() and unp_dispose() of 4.4BSD.

use std::cell::RefCell;
use std::sync::Arc;

use kern::witness;

use super::pcb::{Role, Unpcb};
use super::rcvbuf::Unread;
use super::rights::Cargo;

/// Sockets that this thread must close.
#[derive(Default)]
struct Row {
    waiting: Vec<Arc<Unpcb>>,
    running: bool,
}

std::thread_local! {
    static ROW: RefCell<Row> = RefCell::default();
}

/// Closes sockets, and all that ends with them, before it returns; if this thread is closing already,
/// before that returns.
pub(super) fn run(dead: Vec<Arc<Unpcb>>) {
    if dead.is_empty() {
        return;
    }
    witness::assert_none("the end of a socket");
    let mut own = Some(dead);
    let begin = ROW.try_with(|row| {
        let mut row = row.borrow_mut();
        row.waiting.extend(own.take().into_iter().flatten());
        !std::mem::replace(&mut row.running, true)
    });
    match begin {
        Ok(true) => drain(),
        Ok(false) => {}
        // The thread is ending, and its row is gone already.
        Err(_) => {
            let mut waiting = own.unwrap_or_default();
            while let Some(pcb) = waiting.pop() {
                waiting.extend(close(&pcb));
            }
        }
    }
}

fn drain() {
    /// An object's drop may panic: the next close of the thread begins anew.
    struct Running;
    impl Drop for Running {
        fn drop(&mut self) {
            ROW.with_borrow_mut(|row| row.running = false);
        }
    }
    let _running = Running;
    while let Some(pcb) = ROW.with_borrow_mut(|row| row.waiting.pop()) {
        let dead = close(&pcb);
        ROW.with_borrow_mut(|row| row.waiting.extend(dead));
    }
}

/// Closes one. Returns the sockets that can't be received any more.
#[doc(alias = "unp_detach")]
fn close(pcb: &Arc<Unpcb>) -> Vec<Arc<Unpcb>> {
    if pcb.mark_closed() {
        return Vec::new();
    }
    let unix = &pcb.unix;
    match &pcb.role {
        Role::Stream(connection) | Role::Seqpacket(connection) => {
            connection.stop_splices();
            discard(pcb, connection.close())
        }
        Role::Datagram(endpoint) => {
            if let Some(name) = &endpoint.name {
                unix.names.unbind(name, pcb);
            }
            discard(pcb, endpoint.close())
        }
        Role::Listener(listening) | Role::SeqpacketListener(listening) => {
            unix.names.unbind(&listening.name, pcb);
            unix.flight.unload(pcb.id, &listening.close())
        }
    }
}

/// Drops the unread part of `pcb`. Returns the sockets that can't be received any more.
fn discard(pcb: &Unpcb, unread: Unread) -> Vec<Arc<Unpcb>> {
    let mut sockets = Vec::new();
    let mut others = Vec::new();
    for cargo in unread.into_iter().flat_map(|record| record.with.cargo) {
        match cargo {
            Cargo::Socket(socket) => sockets.push(socket),
            Cargo::Other(other) => others.push(other),
        }
    }
    let dead = pcb.unix.flight.unload(pcb.id, &sockets);
    // Programs' objects: their drops may close sockets, which then wait for this close.
    drop(others);
    dead
}

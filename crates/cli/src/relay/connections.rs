//! The relayed connections: each begins, is spliced both ways, and ends; the stack moves the bytes.
//!
//! ```text
//!   client --SYN--> listener --> Begins: the server is asked --established--> Spliced: two splices
//!                                   `-- refused: the client is reset            `-- both ended: dropped
//! ```
//!
//! One thread begins and ends connections. It sleeps until a waker of the stack names one; while bytes move, nothing wakes
//! it. A client's bytes wait in its receive buffer until the server has answered.
//!
//! Called by: relay_process. Calls: [`TcpStream::relay`].
//! Invariants: at most `max` connections are in the table; others wait in the listener's queue.
//! Locks: the channel of the wakers, the standard library's: never held over a call.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use mbuma::socket::TcpRelay;
use mbuma::{Stack, State, TcpListener, TcpStream};

use crate::channel::{Channel, ChannelMessage};
use crate::errors::Error;
use crate::sys::fd;

/// The listener's number; connections have the others.
const LISTENER: u64 = 0;
/// How often the thread looks whether it was asked to end.
const LOOK: Duration = Duration::from_millis(200);

/// All of them.
pub(super) struct RelayedConnections {
    stack: Stack,
    listener: TcpListener,
    to: SocketAddrV4,
    idle: Option<Duration>,
    max: usize,
    next: u64,
    table: HashMap<u64, Relayed>,
    news: (Sender<u64>, Receiver<u64>),
}

/// One of them.
struct Relayed {
    waker: Arc<Nudge>,
    state: RelayState,
}

/// How far it is.
enum RelayState {
    /// The server is asked.
    Begins {
        client: TcpStream,
        server: TcpStream,
    },
    Spliced(TcpRelay),
}

/// Names a connection to the thread, once until the thread has heard it.
struct Nudge {
    number: u64,
    /// Named, and not heard. AcqRel on both sides: the look that follows sees all that was done before the naming.
    named: AtomicBool,
    to: Sender<u64>,
}

impl Nudge {
    fn new(number: u64, to: &Sender<u64>) -> Arc<Nudge> {
        Arc::new(Nudge {
            number,
            named: AtomicBool::new(false),
            to: to.clone(),
        })
    }
}

impl Wake for Nudge {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.named.swap(true, Ordering::AcqRel) {
            // A thread that has ended needs no news.
            let _ = self.to.send(self.number);
        }
    }
}

impl RelayedConnections {
    /// Relays clients of `listener` to `to`, `max` at once.
    pub(super) fn new(
        stack: &Stack,
        listener: TcpListener,
        to: SocketAddrV4,
        idle: Option<Duration>,
        max: usize,
    ) -> RelayedConnections {
        RelayedConnections {
            stack: stack.clone(),
            listener,
            to,
            idle,
            max,
            next: LISTENER + 1,
            table: HashMap::new(),
            news: mpsc::channel(),
        }
    }

    /// Begins and ends connections until the other process says stop, or is gone.
    pub(super) fn run(&mut self, monitor: &Channel) -> Result<(), Error> {
        let listens = Nudge::new(LISTENER, &self.news.0);
        self.listener
            .set_waker(Some(Waker::from(Arc::clone(&listens))));
        self.accept();
        loop {
            match self.news.1.recv_timeout(LOOK) {
                Ok(LISTENER) => {
                    listens.named.store(false, Ordering::Release);
                    self.accept();
                }
                Ok(number) => self.look_at(number),
                Err(RecvTimeoutError::Timeout) => {}
                // The sender is ours: it is not gone.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if stops(monitor).map_err(Error::io("hearing the monitor"))? {
                return Ok(());
            }
        }
    }

    /// Takes clients, as many as there is room for.
    fn accept(&mut self) {
        while self.table.len() < self.max
            && let Ok(client) = self.listener.accept()
        {
            self.begin(client);
        }
    }

    fn begin(&mut self, client: TcpStream) {
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let Ok(server) = self.stack.tcp_connect(any, self.to) else {
            // There is no way to the server, or no port left.
            return client.abort();
        };
        let number = self.next;
        self.next += 1;
        let waker = Nudge::new(number, &self.news.0);
        for stream in [&client, &server] {
            stream.set_nodelay(true);
            stream.set_waker(Some(Waker::from(Arc::clone(&waker))));
        }
        let again = Arc::clone(&waker);
        let state = RelayState::Begins { client, server };
        self.table.insert(number, Relayed { waker, state });
        // It may have been answered before there was a waker to tell.
        again.wake();
    }

    /// Looks how far a connection is.
    fn look_at(&mut self, number: u64) {
        let Some(Relayed { waker, state }) = self.table.remove(&number) else {
            return;
        };
        waker.named.swap(false, Ordering::AcqRel);
        let next = match state {
            RelayState::Begins { client, server } => begins(client, server, self.idle),
            spliced @ RelayState::Spliced(_) => Some(spliced),
        };
        match next.and_then(|state| still_going(state, &waker)) {
            Some(state) => drop(self.table.insert(number, Relayed { waker, state })),
            // There is room for one that waits.
            None => self.accept(),
        }
    }
}

/// A connection that began: spliced once the server has answered, none once either end is over.
fn begins(client: TcpStream, server: TcpStream, idle: Option<Duration>) -> Option<RelayState> {
    if client.error().is_some() || server.error().is_some() {
        client.abort();
        server.abort();
        return None;
    }
    match server.state() {
        State::SynSent | State::SynReceived => Some(RelayState::Begins { client, server }),
        State::Closed => {
            client.abort();
            None
        }
        _ => client.relay(server, idle).ok().map(RelayState::Spliced),
    }
}

/// The same connection, unless both its directions have ended.
fn still_going(state: RelayState, waker: &Arc<Nudge>) -> Option<RelayState> {
    if let RelayState::Spliced(relay) = &state {
        let waker = Waker::from(Arc::clone(waker));
        let ended = relay.poll_ended(&mut Context::from_waker(&waker));
        return ended.is_pending().then_some(state);
    }
    Some(state)
}

/// Whether the other process says stop, or is gone.
fn stops(monitor: &Channel) -> io::Result<bool> {
    while fd::is_ready(monitor.as_fd())? {
        if let Some((ChannelMessage::Stop, _)) | None = monitor.recv()? {
            return Ok(true);
        }
    }
    Ok(false)
}

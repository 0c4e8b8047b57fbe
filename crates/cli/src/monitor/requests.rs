//! The changes for which the monitor asks the gateway process, which answers each of them once.
//!
//! The next request is sent after the answer to the last one: so neither process waits for room in the channel while
//! the other one does.
//!
//! Invariants: a requester gets one answer, after its time at the latest ([`CLIENT_WAIT_MAX`], [`GUEST_WAIT_MAX`]).
//! Locks: none.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::channel::{Channel, ChannelMessage};
use crate::guests::GuestId;
use crate::ports::{PublishedId, PublishedPort};

/// The time for which a client waits for the gateway process.
const CLIENT_WAIT_MAX: Duration = Duration::from_secs(3);
/// The same of a guest, which ends if it is refused.
const GUEST_WAIT_MAX: Duration = Duration::from_secs(20);

/// Waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requester {
    /// The client of an API socket, by its number.
    Client(u64),
    /// A guest of a network.
    Guest(GuestId),
}

/// A request that has no answer yet.
#[derive(Debug)]
pub(super) struct GatewayRequest {
    pub(super) message: ChannelMessage,
    /// Until they are sent.
    fds: Vec<OwnedFd>,
    pub(super) requester: Option<Requester>,
    /// The time until which the requester waits.
    by: Instant,
}

impl GatewayRequest {
    /// The port that it opens.
    pub(super) fn opens(&self) -> Option<PublishedId> {
        match &self.message {
            ChannelMessage::Publish(specs) => specs.first().map(|spec| spec.id),
            ChannelMessage::OpenOutward(spec) => Some(spec.id),
            _ => None,
        }
    }
}

/// All that have no answer, in their order.
#[derive(Debug, Default)]
pub(super) struct Requests {
    queue: VecDeque<GatewayRequest>,
    /// The first one was sent.
    is_sent: bool,
}

impl Requests {
    /// Whether each has its answer.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether the first has waited too long for its answer.
    pub(super) fn is_overdue(&self) -> bool {
        let first = self.queue.front();
        first.is_some_and(|request| request.by <= Instant::now())
    }

    /// Asks for a change.
    pub(super) fn push(
        &mut self,
        message: ChannelMessage,
        fds: Vec<OwnedFd>,
        requester: Option<Requester>,
    ) {
        let wait = match requester {
            Some(Requester::Guest(_)) => GUEST_WAIT_MAX,
            Some(Requester::Client(_)) | None => CLIENT_WAIT_MAX,
        };
        self.queue.push_back(GatewayRequest {
            message,
            fds,
            requester,
            by: Instant::now() + wait,
        });
    }

    /// Asks for ports under one number.
    pub(super) fn publish(&mut self, ports: Vec<PublishedPort>, requester: Option<Requester>) {
        let parts = ports.into_iter().map(|port| (port.spec, port.socket));
        let (specs, sockets) = parts.unzip();
        self.push(ChannelMessage::Publish(specs), sockets, requester);
    }

    /// Asks for the end of a port. If its begin was not sent yet, and nothing waits for it, that is dropped instead.
    pub(super) fn unpublish(&mut self, id: PublishedId, requester: Option<Requester>) {
        let before = self.queue.len();
        let mut is_sent = self.is_sent;
        self.queue.retain(|request| {
            let unsent = !std::mem::take(&mut is_sent);
            !(unsent && request.requester.is_none() && request.opens() == Some(id))
        });
        if self.queue.len() == before || requester.is_some() {
            self.push(ChannelMessage::Unpublish(id), Vec::new(), requester);
        }
    }

    /// Sends the next one, unless an answer is waited for.
    ///
    /// # Errors
    /// It can't be sent, which is its answer.
    pub(super) fn send(&mut self, gateway: &Channel) -> io::Result<()> {
        let Some(first) = self.queue.front_mut().filter(|_| !self.is_sent) else {
            return Ok(());
        };
        let fds = std::mem::take(&mut first.fds);
        self.is_sent = true;
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        gateway.send_all(&first.message, &borrowed)
    }

    /// The answer to the first one has come.
    pub(super) fn take_answered(&mut self) -> Option<GatewayRequest> {
        // A process that a guest has taken over may answer unasked.
        match std::mem::take(&mut self.is_sent) {
            true => self.queue.pop_front(),
            false => None,
        }
    }

    /// The time for which the next requester still waits.
    pub(super) fn left(&self) -> Option<Duration> {
        let waiting = self.queue.iter().filter(|r| r.requester.is_some());
        let by = waiting.map(|r| r.by).min()?;
        Some(by.saturating_duration_since(Instant::now()))
    }

    /// A requester that has waited too long, and the port that was to be opened for it. The answer will come for none.
    pub(super) fn take_overdue(&mut self) -> Option<(Requester, Option<PublishedId>)> {
        let now = Instant::now();
        let mut overdue = self.queue.iter_mut().filter(|r| r.by <= now);
        overdue.find_map(|request| Some((request.requester.take()?, request.opens())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Option<Requester> = Some(Requester::Client(7));

    #[test]
    fn one_request_is_on_its_way_at_a_time() {
        // Breaks when many requests fill the channel while the gateway process sends its answers, and both wait.
        let (monitor, gateway) = Channel::pair().expect("a socket pair");
        let mut requests = Requests::default();
        for id in 0..1000 {
            requests.unpublish(id, None);
            requests.send(&monitor).expect("it has room");
        }
        for id in 0..1000 {
            let heard = gateway.recv().expect("it is open");
            let (message, _) = heard.expect("a request");
            assert_eq!(message, ChannelMessage::Unpublish(id));
            assert!(requests.take_answered().is_some());
            requests.send(&monitor).expect("it has room");
        }
        assert!(requests.take_answered().is_none());
    }

    #[test]
    fn a_requester_is_answered_once_even_without_an_answer() {
        // Breaks when a client waits for ever for a gateway process that is stopped, or its request is dropped with it.
        let (monitor, _gateway) = Channel::pair().expect("a socket pair");
        let mut requests = Requests::default();
        requests.unpublish(1, None);
        requests.unpublish(2, CLIENT);
        requests.send(&monitor).expect("it has room");
        assert!(requests.left().is_some_and(|left| left <= CLIENT_WAIT_MAX));
        assert!(requests.take_overdue().is_none(), "it still waits");
        assert!(!requests.is_overdue());
        for request in &mut requests.queue {
            request.by = Instant::now();
        }
        assert_eq!(requests.left(), Some(Duration::ZERO));
        assert!(requests.is_overdue());
        let overdue = requests.take_overdue();
        assert_eq!(overdue, Some((Requester::Client(7), None)));
        assert!(requests.take_overdue().is_none());
        assert!(requests.left().is_none());
        let answered = requests.take_answered().map(|r| r.requester);
        assert_eq!(answered, Some(None));
        assert!(requests.take_answered().is_none(), "it was not asked");
        requests.send(&monitor).expect("it has room");
        assert!(requests.take_answered().is_some());
    }

    #[test]
    fn a_port_that_was_not_handed_over_is_free_again_at_once() {
        // Breaks when the port of a client that has given up stays in use as long as the gateway process is stopped.
        let (monitor, _gateway) = Channel::pair().expect("a socket pair");
        let mut requests = Requests::default();
        let (reader, writer) = std::io::pipe().expect("a pipe");
        requests.unpublish(1, None);
        requests.send(&monitor).expect("it has room");
        let spec = crate::ports::OutwardSpec {
            id: 2,
            port: crate::args::OutwardRequest {
                proto: crate::args::Proto::Tcp,
                guest_port: 80,
                host_port: 80,
            },
        };
        let message = ChannelMessage::OpenOutward(spec);
        requests.push(message, vec![writer.into()], None);
        requests.unpublish(2, None);
        assert_eq!(
            requests.queue.len(),
            1,
            "the gateway process hears nothing of it"
        );
        let is_closed = crate::sys::fd::is_ready(reader.as_fd());
        assert!(is_closed.expect("a pipe can be polled"));
    }
}

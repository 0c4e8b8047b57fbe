//! Decides about connections that an interceptor holds, after a delay, like a gateway that first connects to the other
//! side.

use std::collections::BTreeMap;
use std::time::Duration;

use kern::Time;
use mbuma::Stack;
use mbuma::socket::{Incoming, Interceptor, Refusal};

use super::manners::SharedReport;
use super::{App, Context, Endpoint, Manners};

/// The decision on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is accepted.
    Accept,
    /// It is refused.
    Refuse(Refusal),
}

/// The side of every connection through one interceptor.
#[derive(Debug)]
pub struct Gate {
    stack: Stack,
    interceptor: Interceptor,
    /// How long a decision takes.
    patience: Duration,
    /// By the client's port.
    expected: BTreeMap<u16, (Decision, Manners, SharedReport)>,
    held: Vec<(Time, Incoming)>,
}

impl Gate {
    /// Expects these connections.
    pub fn new(
        stack: Stack,
        interceptor: Interceptor,
        patience: Duration,
        expected: BTreeMap<u16, (Decision, Manners, SharedReport)>,
    ) -> Self {
        Self {
            stack,
            interceptor,
            patience,
            expected,
            held: Vec::new(),
        }
    }

    fn decide(&mut self, incoming: Incoming, context: &mut Context) {
        let port = incoming.peer_addr().port();
        let Some((decision, manners, report)) = self.expected.get(&port) else {
            return incoming.refuse(Refusal::Reset);
        };
        if report.borrow().ending.is_some() {
            // This side aborted before the peer learned of the connection, and the peer has sent its SYN again.
            return incoming.refuse(Refusal::Reset);
        }
        match decision {
            Decision::Refuse(how) => incoming.refuse(*how),
            Decision::Accept => {
                // The peer may have given up: then there is no connection to report on.
                let Ok(stream) = incoming.accept() else {
                    return;
                };
                let (stack, report) = (self.stack.clone(), report.clone());
                context.start(Box::new(Endpoint::new(stack, stream, *manners, report)));
            }
        }
    }
}

impl App for Gate {
    fn run(&mut self, context: &mut Context) -> Option<Time> {
        self.interceptor.set_waker(Some(context.waker.clone()));
        while let Some(incoming) = self.interceptor.next() {
            self.held.push((context.now + self.patience, incoming));
        }
        let due = self.held.partition_point(|(at, _)| *at <= context.now);
        let due: Vec<_> = self.held.drain(..due).collect();
        for (_, incoming) in due {
            self.decide(incoming, context);
        }
        self.held.first().map(|(at, _)| *at)
    }
}

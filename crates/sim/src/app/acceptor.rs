//! Accepts connections from a listener. The peer's port identifies the connection.

use std::collections::BTreeMap;

use kern::Time;
use mbuma::{Stack, TcpListener};

use super::manners::SharedReport;
use super::{App, Context, Endpoint, Manners};

/// The server's side of every connection to one listener.
#[derive(Debug)]
pub struct Acceptor {
    stack: Stack,
    listener: TcpListener,
    /// By the client's port.
    expected: BTreeMap<u16, (Manners, SharedReport)>,
}

impl Acceptor {
    /// Expects these connections.
    pub fn new(
        stack: Stack,
        listener: TcpListener,
        expected: BTreeMap<u16, (Manners, SharedReport)>,
    ) -> Self {
        Self {
            stack,
            listener,
            expected,
        }
    }
}

impl App for Acceptor {
    fn run(&mut self, context: &mut Context) -> Option<Time> {
        self.listener.set_waker(Some(context.waker.clone()));
        while let Ok(stream) = self.listener.accept() {
            let port = stream.peer_addr().port();
            let Some((manners, report)) = self.expected.get(&port) else {
                continue;
            };
            if report.borrow().started {
                report.borrow_mut().violation = Some("the connection came twice".into());
                continue;
            }
            let (manners, report) = (*manners, report.clone());
            context.start(Box::new(Endpoint::new(
                self.stack.clone(),
                stream,
                manners,
                report,
            )));
        }
        None
    }
}

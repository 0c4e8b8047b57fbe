//! One side of a connection.
//!
//! Every received byte is compared with the pattern.

use std::net::SocketAddr;
use std::time::Duration;

use kern::Time;
use mbuf::Chain;
use mbuma::{SocketError, Stack, TcpStream};

use super::manners::SharedReport;
use super::{App, Context, Ending, Leave, Manners, Reading};

/// The most bytes of one read.
const READ_MAX: usize = 64 << 10;

/// One side of a connection.
#[derive(Debug)]
pub struct Endpoint {
    stack: Stack,
    stream: TcpStream,
    manners: Manners,
    report: SharedReport,
    begun: bool,
    sent: u64,
    received: u64,
    /// The peer's end of file was read.
    eof: bool,
    /// Our own was sent.
    shut: bool,
    send_error: Option<SocketError>,
    /// Buffers were short: it must try again without a wakeup.
    starved: bool,
    /// The next time that a slow reader reads.
    read_at: Time,
    /// The next time that it writes.
    write_at: Time,
}

impl Endpoint {
    /// Takes over `stream`.
    pub fn new(stack: Stack, stream: TcpStream, manners: Manners, report: SharedReport) -> Self {
        report.borrow_mut().started = true;
        Self {
            stack,
            stream,
            manners,
            report,
            begun: false,
            sent: 0,
            received: 0,
            eof: false,
            shut: false,
            send_error: None,
            starved: false,
            read_at: Time::ZERO,
            write_at: Time::ZERO,
        }
    }

    fn begin(&mut self, context: &Context) {
        self.begun = true;
        self.stream.set_waker(Some(context.waker.clone()));
        self.stream.set_nodelay(self.manners.nodelay);
        if self.manners.keepalive.is_some() {
            self.stream.set_keepalive(self.manners.keepalive);
        }
    }

    /// Writes as many bytes as the socket takes; true if it took any.
    fn write(&mut self, now: Time) -> bool {
        let (pattern, total) = self.manners.sends;
        let may = !self.shut && self.send_error.is_none() && (self.eof || !self.manners.answers);
        if !may || now < self.write_at {
            return false;
        }
        if self.sent == total {
            // An endpoint that will be reset does not send its FIN.
            if !matches!(self.manners.leave, Leave::Abort(_)) {
                self.shut = true;
                self.stream.shutdown(std::net::Shutdown::Write);
            }
            return self.shut;
        }
        let max = (total - self.sent).min(self.manners.write_max as u64) as usize;
        let len = max.min(self.stream.send_space());
        let mut bytes = vec![0; len];
        pattern.fill(self.sent, &mut bytes);
        match self.hand_over(&bytes) {
            Ok(n) => {
                self.sent += n as u64;
                self.write_at = now + self.manners.pause;
            }
            Err(SocketError::WouldBlock) => return false,
            Err(SocketError::NoBufs) => {
                self.starved = true;
                return false;
            }
            Err(e) => self.send_error = Some(e),
        }
        true
    }

    fn hand_over(&self, bytes: &[u8]) -> Result<usize, SocketError> {
        if bytes.is_empty() {
            // There is no room: the socket's state shows whether there can be room later.
            return self
                .stream
                .send(&[0])
                .map(|_| unreachable!("there was no room"));
        }
        if !self.manners.chains {
            return self.stream.send(bytes);
        }
        let chain = Chain::from_slice(self.stack.pool(), bytes).map_err(|_| SocketError::NoBufs)?;
        self.stream
            .send_chain(chain)
            .map(|()| bytes.len())
            .map_err(|(e, _)| e)
    }

    /// How much may be read now.
    fn appetite(&mut self, now: Time) -> usize {
        match self.manners.reading {
            Reading::Eager => READ_MAX,
            Reading::Slow { bytes, every } => {
                if now < self.read_at {
                    return 0;
                }
                self.read_at = now + every;
                bytes
            }
            Reading::Stops { at, until } if now < until => {
                at.saturating_sub(self.received).min(READ_MAX as u64) as usize
            }
            Reading::Stops { .. } => READ_MAX,
        }
    }

    /// Reads and checks; true if something came.
    fn read(&mut self, now: Time) -> bool {
        if self.eof || self.report.borrow().ending.is_some() {
            return false;
        }
        let max = self.appetite(now);
        if max == 0 {
            return false;
        }
        match self.stream.recv_chain(max) {
            Ok(chain) if chain.is_empty() => {
                self.eof = true;
                self.check_eof();
                true
            }
            Ok(chain) => {
                self.check(&chain);
                true
            }
            Err(SocketError::WouldBlock) => false,
            Err(SocketError::NoBufs) => {
                self.starved = true;
                false
            }
            Err(e) => {
                self.end(Ending::Failed(self.send_error.unwrap_or(e)));
                false
            }
        }
    }

    fn check(&mut self, chain: &Chain) {
        let (pattern, total) = self.manners.expects;
        for piece in chain.segments() {
            if let Some(at) = pattern.mismatch(self.received, piece) {
                self.violation(format!("byte {at} is wrong"));
            }
            self.received += piece.len() as u64;
        }
        if self.received > total {
            self.violation(format!("{} bytes came, {total} were sent", self.received));
        }
    }

    fn check_eof(&mut self) {
        let (_, total) = self.manners.expects;
        if self.received != total {
            self.violation(format!(
                "the end came after {} bytes of {total}",
                self.received
            ));
        }
    }

    fn violation(&self, what: String) {
        self.report.borrow_mut().violation.get_or_insert(what);
    }

    fn end(&self, ending: Ending) {
        self.report.borrow_mut().ending.get_or_insert(ending);
    }

    fn leave(&mut self) {
        let all = self.received == self.manners.expects.1 && self.shut;
        match self.manners.leave {
            Leave::Abort(after) if self.sent + self.received >= after => {
                self.stream.abort();
                self.end(Ending::Aborted);
            }
            Leave::Close if all => self.end(Ending::Finished),
            _ if all && self.eof => self.end(Ending::Finished),
            // The peer's end is read, but ours can't be sent any more.
            _ if self.eof && self.send_error.is_some() => {
                let error = self.send_error.unwrap_or(SocketError::Reset);
                self.end(Ending::Failed(error));
            }
            _ => {}
        }
    }

    fn alarm(&mut self, now: Time) -> Option<Time> {
        const RETRY: Duration = Duration::from_millis(10);
        if std::mem::take(&mut self.starved) {
            return Some(now + RETRY);
        }
        let read = match self.manners.reading {
            Reading::Slow { .. } if !self.eof => Some(self.read_at),
            Reading::Stops { until, .. } if now < until => Some(until),
            _ => None,
        };
        let write = Some(self.write_at).filter(|at| now < *at);
        read.into_iter().chain(write).min()
    }
}

impl App for Endpoint {
    fn run(&mut self, context: &mut Context) -> Option<Time> {
        if !self.begun {
            self.begin(context);
        }
        // The two directions alternate, so that neither starves while the other has room.
        loop {
            let wrote = self.write(context.now);
            let read = self.read(context.now);
            self.leave();
            let mut report = self.report.borrow_mut();
            (report.sent, report.received) = (self.sent, self.received);
            let over = report.ending.is_some();
            drop(report);
            if over {
                context.finish();
                return None;
            }
            if !wrote && !read {
                return self.alarm(context.now);
            }
        }
    }
}

/// Connects at a given time, then becomes an [`Endpoint`].
#[derive(Debug)]
pub struct Connector {
    /// Where.
    pub stack: Stack,
    /// The local address and port.
    pub local: SocketAddr,
    /// The destination.
    pub peer: SocketAddr,
    /// When.
    pub at: Time,
    /// How it behaves then.
    pub manners: Manners,
    /// Its outcome.
    pub report: SharedReport,
}

impl App for Connector {
    fn run(&mut self, context: &mut Context) -> Option<Time> {
        if context.now < self.at {
            return Some(self.at);
        }
        context.finish();
        let mut report = self.report.borrow_mut();
        report.started = true;
        match self.stack.tcp_connect(self.local, self.peer) {
            Ok(stream) => {
                drop(report);
                let report = self.report.clone();
                let side = Endpoint::new(self.stack.clone(), stream, self.manners, report);
                context.start(Box::new(side));
            }
            Err(e) => report.ending = Some(Ending::Failed(e)),
        }
        None
    }
}

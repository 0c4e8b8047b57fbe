//! Calls that move data.
//!
//! The bytes that a program writes, and the payload of a script's segments, are a function of their place in the
//! stream. So the runner finds a read that returns wrong bytes, although a script states only their number.

use std::net::{SocketAddr, SocketAddrV4};
use std::task::{Context, Poll, Waker};

use mbuf::{Chain, MbufPool};
use mbuma::socket::SendError;
use mbuma::{SocketError, State, TcpStream};

use super::{
    Attempt, CallOutcome, CallResult, Descriptor, Object, Problem, Progress, Sockets, Subject,
    args, errno, message,
};
use crate::script::dialect::Dialect;
use crate::script::syntax::Expr;
use crate::script::{FROM_SCRIPT, FROM_STACK};

fn fails(errno: &'static str) -> CallResult {
    Ok(CallOutcome::fails(errno).into())
}

/// The request of a call that moves data.
struct Request {
    len: usize,
    /// Its buffer is no address of the program.
    is_null: bool,
    /// It reads a message of the error queue.
    of_errors: bool,
    /// The stack sends the bytes without a copy, and reports when it no longer uses them.
    lends: bool,
    peek: bool,
    urgent: bool,
    more: bool,
    record_end: bool,
    dont_wait: bool,
    wait_all: bool,
    to: Option<SocketAddrV4>,
}

impl Request {
    fn flags(&mut self, arg: Option<&Expr>) -> Result<(), Problem> {
        for flag in args::flags(arg)? {
            match flag {
                "MSG_PEEK" => self.peek = true,
                "MSG_DONTWAIT" => self.dont_wait = true,
                "MSG_WAITALL" => self.wait_all = true,
                "MSG_OOB" => self.urgent = true,
                "MSG_MORE" => self.more = true,
                "MSG_EOR" => self.record_end = true,
                "MSG_ERRQUEUE" => self.of_errors = true,
                "MSG_ZEROCOPY" => self.lends = true,
                // The runner never sends the program a signal.
                "MSG_NOSIGNAL" => {}
                other => return Problem::unsupported(format!("the flag {other}")),
            }
        }
        Ok(())
    }
}

impl Sockets {
    /// The arguments of all calls that read or write.
    fn request(&self, call: &str, args: &[Expr]) -> Result<Request, Problem> {
        let mut request = Request {
            len: 0,
            is_null: false,
            of_errors: false,
            lends: false,
            peek: false,
            urgent: false,
            more: false,
            record_end: false,
            dont_wait: false,
            wait_all: false,
            to: None,
        };
        match call {
            "readv" | "writev" => request.len = args::iov_len(args.get(1))?,
            "recvmsg" | "sendmsg" => {
                let message = args::structure(args.get(1), "a message")?;
                if call == "sendmsg" {
                    message::sends_no_control(message)?;
                }
                request.len = args::iov_len(args::field(message, "msg_iov"))?;
                if let Some(to) = args::field(message, "msg_name")
                    && *to != Expr::Any
                {
                    request.to = Some(args::address(Some(to), self.peer())?);
                }
                request.flags(args.get(2))?;
            }
            _ => {
                request.is_null = matches!(args.get(1), Some(Expr::Name(name)) if name == "NULL");
                request.len = args::len(args.get(2))?;
                request.flags(args.get(3))?;
            }
        }
        if call == "sendto"
            && let Some(Expr::Struct(_)) = args.get(4)
        {
            request.to = Some(args::address(args.get(4), self.peer())?);
        }
        Ok(request)
    }

    /// The address of the other end, for a call that names none.
    fn peer(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.addresses.remote, self.connect_port)
    }

    pub(super) fn receive(&mut self, call: &str, args: &[Expr], returns: &Expr) -> CallResult {
        let request = self.request(call, args)?;
        let (dialect, tolerance) = (self.dialect, self.tolerance);
        let Some(d) = self.descriptor(args.first())? else {
            return fails("EBADF");
        };
        if request.of_errors {
            return d.errors.receive(args.get(1), tolerance, dialect);
        }
        let result = match &d.object {
            Object::Stream(_) => d.receive_stream(&request),
            Object::Datagrams(..) => {
                let message = if call == "recvmsg" { args.get(1) } else { None };
                return d.receive_datagram(&request, message, dialect);
            }
            _ => return fails("ENOTCONN"),
        };
        let mut outcome = match result {
            Ok(mut outcome) => {
                if call == "recvmsg" {
                    outcome
                        .wrong
                        .extend(d.message_differs(args.get(1), dialect)?);
                }
                outcome
            }
            Err(SocketError::WouldBlock) if d.nonblocking || request.dont_wait => {
                return fails("EAGAIN");
            }
            Err(SocketError::WouldBlock) => return Ok(Attempt::Blocks),
            Err(_) if d.error_was_told => CallOutcome::value(0),
            Err(error) => {
                d.error_was_told = true;
                CallOutcome::fails(receive_errno(error, dialect))
            }
        };
        if let (Expr::Int(want), true) = (returns, request.wait_all)
            && outcome.value < *want
        {
            outcome.wrong.push("MSG_WAITALL returned early".into());
        }
        Ok(outcome.into())
    }

    pub(super) fn transmit(
        &mut self,
        call: &str,
        args: &[Expr],
        progress: &mut Progress,
    ) -> CallResult {
        let request = self.request(call, args)?;
        let (stack, peer, dialect) = (self.stack.clone(), self.peer(), self.dialect);
        let family = self.family;
        let Some(d) = self.descriptor(args.first())? else {
            return fails("EBADF");
        };
        match &d.object {
            Object::Stream(_) => {
                let attempt = d.transmit_stream(&request, progress, stack.pool(), dialect);
                if progress.written < request.len {
                    self.has_filled(args::int(args.first(), "a descriptor")?);
                }
                Ok(attempt)
            }
            Object::FreshDatagrams => {
                let any = SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, 0);
                match stack.udp_bind(family.socket_addr(any)) {
                    Ok(socket) => d.object = Object::Datagrams(socket),
                    Err(_) => return fails("EAGAIN"),
                }
                self.transmit(call, args, progress)
            }
            Object::Datagrams(socket) => {
                let to = request.to.map(|to| family.socket_addr(to));
                let to = to.or(socket.peer_addr());
                let to = to.unwrap_or_else(|| family.socket_addr(peer));
                let local_port = socket.local_addr().port();
                let outcome = transmit_datagram(socket, stack.pool(), request.len, to);
                self.subject = Some(Subject::Connection {
                    local_port,
                    remote_port: to.port(),
                });
                outcome
            }
            Object::Fresh if dialect == Dialect::Linux => fails("EPIPE"),
            _ => fails("ENOTCONN"),
        }
    }
}

fn receive_errno(error: SocketError, dialect: Dialect) -> &'static str {
    match (error, dialect) {
        (SocketError::Closed, _) => "ENOTCONN",
        (other, dialect) => errno(other, dialect),
    }
}

fn transmit_datagram(
    socket: &mbuma::UdpSocket,
    pool: &MbufPool,
    len: usize,
    to: SocketAddr,
) -> CallResult {
    let mut payload = Chain::new();
    let bytes = vec![0; len];
    if payload.extend_from_slice(pool, &bytes).is_err() {
        return fails("ENOBUFS");
    }
    match socket.send_to(payload, to) {
        Ok(()) => Ok(CallOutcome::value(len as i64).into()),
        Err(SendError::TooBig) => fails("EMSGSIZE"),
        Err(SendError::NoRoute) => fails("EHOSTUNREACH"),
        Err(SendError::NoBufs) => fails("ENOBUFS"),
        Err(SendError::BadSource) => fails("EADDRNOTAVAIL"),
        Err(_) => fails("EINVAL"),
    }
}

/// Gives the stack all bytes of `owner`, by reference.
fn send_lent(
    stream: &TcpStream,
    pool: &MbufPool,
    owner: impl AsRef<[u8]> + Send + Sync + 'static,
    len: usize,
) -> Result<usize, SocketError> {
    let chain = Chain::from_owner(pool, owner).map_err(|_| SocketError::NoBufs)?;
    stream.send_chain(chain).map_err(|(error, _)| error)?;
    Ok(len)
}

impl Sockets {
    /// `open("name", mode)`: a file with the bytes that the reader of the connection expects.
    pub(super) fn open(&mut self, args: &[Expr], returns: &Expr) -> CallResult {
        args::text(args.first(), "the name of a file")?;
        let fd = self.add(returns, Descriptor::new(Object::File));
        Ok(CallOutcome::value(fd).into())
    }

    /// `sendfile(connection, file, offset, count)`.
    pub(super) fn sendfile(&mut self, args: &[Expr], progress: &mut Progress) -> CallResult {
        let file = self.descriptor(args.get(1))?.map(|d| &d.object);
        if !matches!(file, Some(Object::File)) {
            return fails("EBADF");
        }
        let len = args::len(args.get(3))?;
        let stack = self.stack.clone();
        let Some(d) = self.descriptor(args.first())? else {
            return fails("EBADF");
        };
        let Object::Stream(stream) = &d.object else {
            return fails("EPIPE");
        };
        let mut data = vec![0; len];
        FROM_STACK.fill(d.written, &mut data);
        match send_lent(stream, stack.pool(), data, len) {
            Ok(n) => {
                d.written += n as u64;
                progress.written = n;
                Ok(CallOutcome::value(n as i64).into())
            }
            Err(SocketError::WouldBlock) if d.nonblocking => fails("EAGAIN"),
            Err(SocketError::WouldBlock) => Ok(Attempt::Blocks),
            Err(error) => fails(errno(error, self.dialect)),
        }
    }
}

impl Descriptor {
    fn receive_stream(&mut self, request: &Request) -> Result<CallOutcome, SocketError> {
        let Object::Stream(stream) = &self.object else {
            return Err(SocketError::Closed);
        };
        if request.urgent {
            return Ok(CallOutcome::fails("EINVAL"));
        }
        if request.is_null && available(stream) > 0 {
            return Ok(CallOutcome::fails("EFAULT"));
        }
        let mut buf = vec![0; request.len];
        let waits = !self.nonblocking && !request.dont_wait && request.len > 0;
        if request.wait_all && (available(stream) < request.len) && is_open(stream) {
            return Err(SocketError::WouldBlock);
        }
        let n = match request.peek {
            true => stream.peek(&mut buf)?,
            // Only a call that waits observes SO_RCVLOWAT.
            false if waits => {
                let cx = &mut Context::from_waker(Waker::noop());
                match stream.poll_read(cx, &mut buf) {
                    Poll::Ready(read) => read?,
                    Poll::Pending => return Err(SocketError::WouldBlock),
                }
            }
            // One attempt only: a read ends before urgent data, and scripts count the bytes of one call.
            false => stream.recv(&mut buf)?,
        };
        let mut outcome = CallOutcome::value(n as i64);
        if let Some(at) = FROM_SCRIPT.mismatch(self.read, &buf[..n]) {
            let text = format!("byte {at} of the stream differs from the received one");
            outcome.wrong.push(text);
        }
        if !request.peek {
            self.read += n as u64;
        }
        Ok(outcome)
    }

    fn receive_datagram(
        &mut self,
        request: &Request,
        message: Option<&Expr>,
        dialect: Dialect,
    ) -> CallResult {
        let Object::Datagrams(socket) = &self.object else {
            return fails("EBADF");
        };
        if request.peek && message.is_some() {
            return fails("EOPNOTSUPP");
        }
        let received = match request.peek {
            true => (socket.peek_from(&mut vec![0; request.len])).map(|(len, _)| len),
            false => socket.recv().map(|datagram| datagram.payload.len()),
        };
        Ok(match received {
            Ok(len) => {
                let mut outcome = CallOutcome::value(len.min(request.len) as i64);
                if message.is_some() {
                    let cut = len > request.len;
                    outcome.wrong = message::differences(message, cut, None, dialect)?;
                }
                outcome.into()
            }
            Err(mbuma::socket::RecvError::Icmp(_)) => CallOutcome::fails("ECONNREFUSED").into(),
            Err(_) if self.nonblocking || request.dont_wait => CallOutcome::fails("EAGAIN").into(),
            Err(_) => Attempt::Blocks,
        })
    }

    /// Writes as many bytes as the send buffer takes. A blocking call writes all bytes, in several attempts if needed.
    fn transmit_stream(
        &mut self,
        request: &Request,
        progress: &mut Progress,
        pool: &MbufPool,
        dialect: Dialect,
    ) -> Attempt {
        let Object::Stream(stream) = &self.object else {
            return CallOutcome::fails("EBADF").into();
        };
        if request.is_null && request.len > 0 {
            return CallOutcome::fails("EFAULT").into();
        }
        let mut data = vec![0; request.len - progress.written];
        FROM_STACK.fill(self.written, &mut data);
        let lends = request.lends && self.options.get("SO_ZEROCOPY").is_some_and(|on| *on != 0);
        let connecting = matches!(stream.state(), State::SynSent | State::SynReceived);
        let sent = match (connecting, request.urgent) {
            // On Linux the call waits for the connection, on BSD it fails.
            (true, _) if dialect == Dialect::Linux => Err(SocketError::WouldBlock),
            (true, _) => return CallOutcome::fails("ENOTCONN").into(),
            (false, true) => stream.send_urgent(&data),
            (false, false) if lends && request.len > 0 => {
                let sent = send_lent(stream, pool, self.errors.lend(data), request.len);
                if sent.is_ok() {
                    self.errors.lent();
                }
                sent
            }
            (false, false) if request.more => stream.send_more(&data),
            (false, false) if request.record_end => stream.send_record(&data),
            (false, false) => stream.send(&data),
        };
        let wait = !self.nonblocking && !request.dont_wait;
        match sent {
            Ok(n) => {
                self.written += n as u64;
                progress.written += n;
                if n > 0 {
                    self.errors.times.on_write(self.written);
                }
                match wait && progress.written < request.len {
                    true => Attempt::Blocks,
                    false => CallOutcome::value(progress.written as i64).into(),
                }
            }
            Err(SocketError::WouldBlock) if wait => Attempt::Blocks,
            Err(_) if progress.written > 0 => CallOutcome::value(progress.written as i64).into(),
            Err(SocketError::WouldBlock) => CallOutcome::fails("EAGAIN").into(),
            Err(_) if self.error_was_told => CallOutcome::fails("EPIPE").into(),
            Err(error) => {
                self.error_was_told = error != SocketError::Closed;
                CallOutcome::fails(errno(error, dialect)).into()
            }
        }
    }
}

pub(super) fn available(stream: &TcpStream) -> usize {
    stream.info().recv_queue
}

/// Whether more data may come.
fn is_open(stream: &TcpStream) -> bool {
    matches!(
        stream.state(),
        State::Established | State::FinWait1 | State::FinWait2
    )
}

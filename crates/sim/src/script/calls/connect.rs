//! The call `connect`: the choice of the local port, and the progress of the connection.

use std::net::SocketAddrV4;
use std::ops::RangeInclusive;

use mbuma::{SocketError, State, TcpStream};

use super::setup::{ANY, bind_errno};
use super::{Attempt, CallOutcome, CallResult, Descriptor, Object, Sockets, Subject, args, errno};
use crate::script::dialect::Dialect;
use crate::script::syntax::Expr;

fn done(value: i64) -> CallResult {
    Ok(CallOutcome::value(value).into())
}

fn fails(errno: &'static str) -> CallResult {
    Ok(CallOutcome::fails(errno).into())
}

impl Sockets {
    pub(super) fn connect(&mut self, args: &[Expr], again: bool) -> CallResult {
        let own = SocketAddrV4::new(self.addresses.remote, self.connect_port);
        let peer = args::address(args.get(1), own)?;
        let (stack, family, dialect) = (self.stack.clone(), self.family, self.dialect);
        let fd = args::int(args.first(), "a descriptor")?;
        let Some(d) = self.table.get_mut(&fd) else {
            return fails("EBADF");
        };
        match &d.object {
            Object::Fresh => {
                let asked = d.asked();
                let to = family.socket_addr(peer);
                let connect = |local: SocketAddrV4| {
                    let from = family.socket_addr(local);
                    match &asked {
                        Some(asked) => stack.tcp_connect_with(from, to, asked),
                        None => stack.tcp_connect(from, to),
                    }
                };
                let local = d.bound.unwrap_or(ANY);
                let local_port = match connect_from(local, d.ports(), connect) {
                    Ok((port, stream)) => {
                        d.begin(stream);
                        port
                    }
                    Err(error) => return fails(connect_errno(error, dialect)),
                };
                self.current = Some(fd);
                self.subject = Some(Subject::Connection {
                    local_port,
                    remote_port: peer.port(),
                });
                match self.table.get(&fd) {
                    Some(d) if d.nonblocking => fails("EINPROGRESS"),
                    _ => Ok(Attempt::Blocks),
                }
            }
            Object::Stream(_) => Ok(d.connecting(again, dialect)),
            Object::FreshDatagrams | Object::Datagrams(..) => self.connect_datagrams(fd, peer),
            _ => fails("EOPNOTSUPP"),
        }
    }

    fn connect_datagrams(&mut self, fd: i64, peer: SocketAddrV4) -> CallResult {
        let (stack, family) = (self.stack.clone(), self.family);
        let Some(d) = self.table.get_mut(&fd) else {
            return fails("EBADF");
        };
        if let Object::FreshDatagrams = d.object {
            match stack.udp_bind(family.socket_addr(ANY)) {
                Ok(socket) => d.object = Object::Datagrams(socket),
                Err(error) => return fails(bind_errno(error)),
            }
        }
        if let Object::Datagrams(socket) = &d.object {
            if let Err(error) = socket.connect(family.socket_addr(peer)) {
                return fails(bind_errno(error));
            }
            self.subject = Some(Subject::Connection {
                local_port: socket.local_addr().port(),
                remote_port: peer.port(),
            });
        }
        done(0)
    }
}

impl Descriptor {
    /// The ports to choose from: IP_LOCAL_PORT_RANGE has the last one in its upper 16 bits, the first one in its lower
    /// (ip(7)). 0 stands for the end of Linux's own range.
    fn ports(&self) -> Option<RangeInclusive<u16>> {
        let both = self.options.get("IP_LOCAL_PORT_RANGE")?;
        match (*both as u16, (*both >> 16) as u16) {
            (0, 0) => None,
            (0, last) => Some(32_768..=last),
            (first, 0) => Some(first..=60_999),
            (first, last) => Some(first..=last),
        }
    }

    /// `connect` on a socket that connects already: reports the progress.
    fn connecting(&mut self, again: bool, dialect: Dialect) -> Attempt {
        let Object::Stream(stream) = &self.object else {
            return CallOutcome::fails("EINVAL").into();
        };
        let (state, error) = (stream.state(), stream.error());
        match state {
            State::SynSent | State::SynReceived if again || !self.nonblocking => Attempt::Blocks,
            State::SynSent | State::SynReceived => CallOutcome::fails("EALREADY").into(),
            State::Closed if !self.is_connected => {
                let error = error.unwrap_or(SocketError::Closed);
                match std::mem::replace(&mut self.error_was_told, true) {
                    false => CallOutcome::fails(errno(error, dialect)).into(),
                    true => CallOutcome::fails("ECONNABORTED").into(),
                }
            }
            _ if again || !std::mem::replace(&mut self.is_connected, true) => {
                self.is_connected = true;
                CallOutcome::value(0).into()
            }
            _ => CallOutcome::fails("EISCONN").into(),
        }
    }
}

/// Connects from `local`; if its port is 0, from the first free one of `ports`. Also returns the port, which is 0 if
/// the stack chose it.
fn connect_from(
    local: SocketAddrV4,
    ports: Option<RangeInclusive<u16>>,
    connect: impl Fn(SocketAddrV4) -> Result<TcpStream, SocketError>,
) -> Result<(u16, TcpStream), SocketError> {
    let ports = ports
        .filter(|_| local.port() == 0)
        .unwrap_or(local.port()..=local.port());
    for port in ports {
        match connect(SocketAddrV4::new(*local.ip(), port)) {
            Err(SocketError::AddrInUse) => {}
            other => return other.map(|stream| (port, stream)),
        }
    }
    Err(SocketError::AddrInUse)
}

/// Linux reports EADDRNOTAVAIL if the pair of ends is in use (connect(2)).
fn connect_errno(error: SocketError, dialect: Dialect) -> &'static str {
    match (error, dialect) {
        (SocketError::AddrInUse, Dialect::Linux) => "EADDRNOTAVAIL",
        (other, dialect) => errno(other, dialect),
    }
}

//! Calls that make and end sockets, and take connections.

use std::net::{Ipv4Addr, Shutdown, SocketAddrV4};
use std::time::Duration;

use mbuma::socket::BindError;
use mbuma::{State, TcpSocketOptions, TcpStream};

use super::descriptor::ListenSocket;
use super::options::OF_CONNECTION;
use super::{
    Attempt, CallOutcome, CallResult, Descriptor, Object, Problem, Sockets, Subject, args, errno,
};
use crate::family::IpFamily;
use crate::script::dialect::Dialect;
use crate::script::syntax::Expr;

pub(super) const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

fn done(value: i64) -> CallResult {
    Ok(CallOutcome::value(value).into())
}

fn fails(errno: &'static str) -> CallResult {
    Ok(CallOutcome::fails(errno).into())
}

impl Sockets {
    /// `socket(domain, type, protocol)`: the domain is IPv4's, also where the script leaves it open.
    pub(super) fn socket(&mut self, args: &[Expr], returns: &Expr) -> CallResult {
        if let Some(Expr::Name(domain)) = args.first()
            && !self.is_of_family(domain)
        {
            return Problem::unsupported(format!("sockets of {domain}"));
        }
        let kinds = args::flags(args.get(1))?;
        let object = match kinds.as_slice() {
            kinds if kinds.contains(&"SOCK_STREAM") => Object::Fresh,
            kinds if kinds.contains(&"SOCK_DGRAM") => Object::FreshDatagrams,
            other => return Problem::unsupported(format!("sockets of {other:?}")),
        };
        let mut descriptor = Descriptor::new(object);
        descriptor.nonblocking = kinds.contains(&"SOCK_NONBLOCK");
        let tcp = &self.tunables.tcp;
        descriptor.keepalive_idle = tcp.keepalive_idle;
        if let Some(timeout) = self.tunables.connect_timeout {
            let secs = timeout.as_secs().cast_signed();
            descriptor.options.insert("TCP_KEEPINIT".into(), secs);
        }
        done(self.add(returns, descriptor))
    }

    /// Whether sockets of the domain have the version of IP that the script runs over. AF_INET fits both versions,
    /// because a script for IPv4 may also run over IPv6.
    fn is_of_family(&self, domain: &str) -> bool {
        match domain {
            "AF_INET" | "PF_INET" => true,
            "AF_INET6" | "PF_INET6" => self.family == IpFamily::V6,
            _ => false,
        }
    }

    pub(super) fn bind(&mut self, args: &[Expr]) -> CallResult {
        let own = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, self.bind_port);
        let addr = args::address(args.get(1), own)?;
        let (stack, local, family) = (self.stack.clone(), self.addresses.local, self.family);
        let Some(d) = self.descriptor(args.first())? else {
            return fails("EBADF");
        };
        if d.bound.is_some() {
            return fails("EINVAL");
        }
        let is_ours = addr.ip().is_unspecified() || addr.ip().is_loopback() || *addr.ip() == local;
        if !is_ours {
            return fails("EADDRNOTAVAIL");
        }
        d.bound = Some(addr);
        if let Object::FreshDatagrams = d.object {
            match stack.udp_bind(family.socket_addr(addr)) {
                Ok(socket) => d.object = Object::Datagrams(socket),
                Err(error) => return fails(bind_errno(error)),
            }
            self.subject = Some(Subject::Datagrams {
                local_port: addr.port(),
            });
        }
        done(0)
    }

    pub(super) fn listen(&mut self, args: &[Expr]) -> CallResult {
        let backlog = args::int(args.get(1), "a backlog")?;
        let (stack, family) = (self.stack.clone(), self.family);
        let Some(d) = self.descriptor(args.first())? else {
            return fails("EBADF");
        };
        match (&d.object, d.bound) {
            // A second call only changes the backlog.
            (Object::Listener(_), _) => return done(0),
            (Object::Fresh, Some(addr)) => {
                let backlog = usize::try_from(backlog).unwrap_or(0).max(1);
                let addr = family.socket_addr(addr);
                let shared = d.options.get("SO_REUSEPORT").is_some_and(|on| *on != 0);
                let listener = match shared {
                    true => stack.tcp_listen_shared(addr, backlog),
                    false => stack.tcp_listen(addr, backlog),
                };
                match listener {
                    Ok(listener) => {
                        d.object = Object::Listener(ListenSocket::new(listener));
                        d.apply_to_listener();
                    }
                    Err(error) => return fails(errno(error, self.dialect)),
                }
            }
            (Object::Fresh, None) => return fails("EINVAL"),
            (Object::Stream(_), _) => return fails("EINVAL"),
            _ => return fails("EOPNOTSUPP"),
        }
        self.subject = Some(Subject::Listener);
        done(0)
    }

    pub(super) fn accept4(&mut self, args: &[Expr], returns: &Expr) -> CallResult {
        let nonblocking = args::flags(args.get(3))?.contains(&"SOCK_NONBLOCK");
        let attempt = self.accept(args, returns)?;
        if let Attempt::Done(outcome) = &attempt
            && let Some(d) = self.table.get_mut(&outcome.value)
        {
            d.nonblocking |= nonblocking;
        }
        Ok(attempt)
    }

    pub(super) fn accept(&mut self, args: &[Expr], returns: &Expr) -> CallResult {
        let dialect = self.dialect;
        let Some(d) = self.descriptor(args.first())? else {
            return fails("EBADF");
        };
        let Object::Listener(listening) = &mut d.object else {
            return fails("EINVAL");
        };
        let Some(stream) = listening.accept() else {
            return match d.nonblocking {
                true => fails("EAGAIN"),
                false => Ok(Attempt::Blocks),
            };
        };
        let mut child = Descriptor::new(Object::Fresh);
        child.options = d.options.clone();
        child.buffers = d.buffers;
        child.keepalive_idle = d.keepalive_idle;
        child.congestion = d.congestion;
        // BSD's accept inherits the listener's mode, Linux's does not.
        child.nonblocking = d.nonblocking && dialect == Dialect::Bsd;
        child.begin(stream);
        child.is_connected = true;
        let fd = self.add(returns, child);
        self.current = Some(fd);
        done(fd)
    }

    pub(super) fn shutdown(&mut self, args: &[Expr]) -> CallResult {
        let how = match args::name(args.get(1), "a direction")? {
            "SHUT_RD" => Shutdown::Read,
            "SHUT_WR" => Shutdown::Write,
            "SHUT_RDWR" => Shutdown::Both,
            other => return Problem::wrong(format!("{other} is no direction")),
        };
        let Some(d) = self.descriptor(args.first())? else {
            return fails("EBADF");
        };
        match &d.object {
            Object::Stream(stream) if stream.state() != State::Closed => {
                stream.shutdown(how);
                done(0)
            }
            _ => fails("ENOTCONN"),
        }
    }

    /// Closes the descriptor.
    pub(super) fn close(&mut self, args: &[Expr]) -> CallResult {
        let fd = args::int(args.first(), "a descriptor")?;
        if self.table.remove(&fd).is_none() {
            return fails("EBADF");
        }
        for other in self.table.values_mut() {
            if let Object::Epoll(set) = &mut other.object {
                set.remove(&fd);
            }
        }
        done(0)
    }
}

impl Descriptor {
    /// Makes the socket this connection, and applies the options that were set before.
    pub(super) fn begin(&mut self, stream: TcpStream) {
        self.object = Object::Stream(stream);
        let set = self.options.clone();
        for (name, value) in set {
            self.apply(&name, value);
        }
        self.choose_congestion();
    }

    /// Chooses the algorithm of a connection, if the script has set one.
    pub(super) fn choose_congestion(&self) {
        if let (Object::Stream(stream), Some(congestion)) = (&self.object, self.congestion) {
            stream.set_congestion(congestion);
        }
    }

    /// Passes the options that were set to a listener, whose connections inherit them.
    fn apply_to_listener(&self) {
        if let (Object::Listener(listener), Some(asked)) = (&self.object, self.asked()) {
            listener.set_options(&asked);
        }
    }

    /// The options of the connection, if the program has set any.
    pub(super) fn asked(&self) -> Option<TcpSocketOptions> {
        let get = |name: &str| self.options.get(name).copied();
        let positive = |name: &str| {
            get(name)
                .and_then(|n| u64::try_from(n).ok())
                .filter(|n| *n > 0)
        };
        let small = |name: &str| get(name).and_then(|n| u8::try_from(n).ok());
        let any = OF_CONNECTION.iter().any(|name| get(name).is_some());
        any.then(|| TcpSocketOptions {
            user_timeout: positive("TCP_USER_TIMEOUT").map(Duration::from_millis),
            connect_timeout: positive("TCP_KEEPINIT").map(Duration::from_secs),
            syn_retransmits_max: small("TCP_SYNCNT"),
            unsent_max: positive("TCP_NOTSENT_LOWAT").map(|n| n as usize),
            segment_max: positive("TCP_MAXSEG").map(|n| n as u32),
            no_options: positive("TCP_NOOPT").is_some(),
            traffic_class: small("IP_TOS").unwrap_or(0),
            ttl: small("IP_TTL").and_then(std::num::NonZeroU8::new),
            cork: positive("TCP_CORK").or(positive("TCP_NOPUSH")).is_some(),
            ecn: None,
            keepalive_interval: positive("TCP_KEEPINTVL").map(Duration::from_secs),
            keepalive_probes: small("TCP_KEEPCNT"),
            pacing_max: positive("SO_MAX_PACING_RATE"),
            quick_ack: positive("TCP_QUICKACK").is_some(),
            linger: get("SO_LINGER")
                .and_then(|n| u64::try_from(n).ok())
                .map(Duration::from_secs),
            fin_wait_2_timeout: positive("TCP_LINGER2").map(Duration::from_secs),
            send_buffer: self.buffers.0,
            recv_buffer: self.buffers.1,
            recv_low_water: positive("SO_RCVLOWAT").map(|n| n as usize),
            send_low_water: positive("SO_SNDLOWAT").map(|n| n as usize),
            // A call of a script blocks as long as the script says.
            recv_timeout: None,
            send_timeout: None,
            accept_delay: positive("TCP_DEFER_ACCEPT").map(Duration::from_secs),
        })
    }

    /// Applies an option to the connection. False if the stack does not have it.
    pub(super) fn apply(&self, name: &str, value: i64) -> bool {
        let Object::Stream(stream) = &self.object else {
            self.apply_to_listener();
            return true;
        };
        match name {
            "TCP_NODELAY" => stream.set_nodelay(value != 0),
            // The calls that read, and connect, look at these.
            "TCP_INQ" | "IP_LOCAL_PORT_RANGE" | "SO_TIMESTAMPING" => {}
            "SO_KEEPALIVE" | "TCP_KEEPIDLE" => {
                let on = self.options.get("SO_KEEPALIVE").is_some_and(|v| *v != 0);
                let asked = self.options.get("TCP_KEEPIDLE").copied();
                let idle = asked.map_or(self.keepalive_idle, |secs| {
                    Duration::from_secs(u64::try_from(secs).unwrap_or(0))
                });
                stream.set_keepalive(on.then_some(idle));
            }
            name if OF_CONNECTION.contains(&name) => {
                stream.set_options(&self.asked().unwrap_or_default());
            }
            _ => return false,
        }
        true
    }
}

pub(super) fn bind_errno(error: BindError) -> &'static str {
    match error {
        BindError::AddrInUse => "EADDRINUSE",
        BindError::NoFreePort => "EAGAIN",
        BindError::NoRoute => "ENETUNREACH",
        _ => "EADDRNOTAVAIL",
    }
}

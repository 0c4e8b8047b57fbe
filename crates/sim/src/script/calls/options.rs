//! getsockopt, setsockopt, fcntl, ioctl.

use mbuma::State;

use super::{Attempt, CallOutcome, CallResult, Object, Problem, Sockets, args, errno};
use crate::script::dialect::Dialect;
use crate::script::info;
use crate::script::syntax::Expr;
use crate::script::sysctl::Tunables;

/// Bytes of a segment's timestamps, with their padding (RFC 7323 appendix A).
const TIMESTAMPS_LEN: usize = 12;

fn done(value: i64) -> CallResult {
    Ok(CallOutcome::value(value).into())
}

fn fails(errno: &'static str) -> CallResult {
    Ok(CallOutcome::fails(errno).into())
}

/// Options that the runner's program may set, without an effect here: each with the reason.
const WITHOUT_EFFECT: [(&str, &str); 8] = [
    (
        "SO_REUSEADDR",
        "a port in TIME-WAIT may be listened on anyhow",
    ),
    ("SO_REUSEPORT", "the call that listens looks at it"),
    ("SO_DEBUG", "it only writes a log"),
    ("SO_NOSIGPIPE", "no signal is sent"),
    ("SO_ZEROCOPY", "the calls that send look at it"),
    ("SO_MARK", "no route depends on it"),
    (
        "IP_MTU_DISCOVER",
        "the stack always finds the path's MTU, and resends what was too large",
    ),
    (
        "IP_BIND_ADDRESS_NO_PORT",
        "a bind without a port takes none before the connection",
    ),
];

/// Options that [`TcpSocketOptions`](mbuma::TcpSocketOptions) has.
pub(super) const OF_CONNECTION: [&str; 21] = [
    "SO_LINGER",
    "TCP_QUICKACK",
    "SO_SNDBUF",
    "SO_RCVBUF",
    "TCP_LINGER2",
    "TCP_USER_TIMEOUT",
    "TCP_KEEPINIT",
    "TCP_SYNCNT",
    "TCP_NOTSENT_LOWAT",
    "TCP_MAXSEG",
    "TCP_NOOPT",
    "TCP_CORK",
    "TCP_NOPUSH",
    "IP_TOS",
    "IP_TTL",
    "TCP_KEEPINTVL",
    "TCP_KEEPCNT",
    "SO_MAX_PACING_RATE",
    "SO_RCVLOWAT",
    "SO_SNDLOWAT",
    "TCP_DEFER_ACCEPT",
];

impl Sockets {
    pub(super) fn setsockopt(&mut self, args: &[Expr]) -> CallResult {
        let name = args::name(args.get(2), "an option")?.to_owned();
        let value = args.get(3);
        let dialect = self.dialect;
        let Some(d) = self.descriptor(args.first())? else {
            return fails("EBADF");
        };
        if name == "SO_LINGER" {
            let fields = args::structure(value, "the value of SO_LINGER")?;
            let on = args::int(args::field(fields, "onoff"), "onoff")?;
            let secs = args::int(args::field(fields, "linger"), "linger")?;
            // Without a value the option is off.
            d.options.remove(&name);
            if on != 0 {
                d.options.insert(name.clone(), secs);
            }
            d.apply(&name, secs);
            return done(0);
        }
        if name == "TCP_CONGESTION" {
            let Ok(congestion) = args::text(value, "an algorithm")?.parse() else {
                return fails("ENOENT");
            };
            d.congestion = Some(congestion);
            d.choose_congestion();
            return done(0);
        }
        let value = match value {
            Some(Expr::List(all)) => args::number(all.first(), dialect)?,
            other => args::number(other, dialect)?,
        };
        // A range whose first port is above its last one.
        if name == "IP_LOCAL_PORT_RANGE" && value >> 16 != 0 && value & 0xffff > value >> 16 {
            return fails("EINVAL");
        }
        let harmless = WITHOUT_EFFECT.iter().any(|(known, _)| *known == name);
        let known = [
            "TCP_NODELAY",
            "SO_KEEPALIVE",
            "TCP_KEEPIDLE",
            "TCP_INQ",
            "IP_LOCAL_PORT_RANGE",
            "SO_TIMESTAMPING",
        ];
        let known = known.contains(&name.as_str()) || OF_CONNECTION.contains(&name.as_str());
        if !harmless && !known {
            return Problem::unsupported(format!("the socket option {name}"));
        }
        let reported = match name.as_str() {
            "SO_SNDBUF" | "SO_RCVBUF" => d.set_buffer(&name, value, dialect),
            _ => value,
        };
        if name == "SO_TIMESTAMPING" {
            let acknowledged = d.acknowledged().unwrap_or(0);
            d.errors.times.set(value, acknowledged);
        }
        d.options.insert(name.clone(), reported);
        if !harmless && !d.apply(&name, value) {
            return Problem::unsupported(format!("the socket option {name}"));
        }
        done(0)
    }

    pub(super) fn getsockopt(&mut self, args: &[Expr]) -> CallResult {
        let name = args::name(args.get(2), "an option")?.to_owned();
        let dialect = self.dialect;
        let defaults = self.defaults(&name);
        let tunables = self.tunables.clone();
        let Some(d) = self.descriptor(args.first())? else {
            return fails("EBADF");
        };
        if name == "TCP_INFO" {
            let Object::Stream(stream) = &d.object else {
                return fails("ENOTCONN");
            };
            let wrong = match args.get(3) {
                Some(Expr::Struct(fields)) => info::differences(stream, fields, dialect)?,
                _ => Vec::new(),
            };
            return Ok(Attempt::Done(CallOutcome {
                wrong,
                ..CallOutcome::value(0)
            }));
        }
        let got = match name.as_str() {
            "SO_ERROR" => match d.take_error() {
                Some(error) => OptionValue::Error(errno(error, dialect)),
                None => OptionValue::Number(0),
            },
            "TCP_MAXSEG" => match &d.object {
                Object::Stream(stream) => OptionValue::Number(i64::from(stream.info().mss)),
                _ => OptionValue::Number(d.options.get(&name).copied().unwrap_or(536)),
            },
            "SO_SNDBUF" | "SO_RCVBUF" => {
                let size = d.options.get(&name).copied().or(defaults).unwrap_or(0);
                OptionValue::Number(reported_size(&d.object, size, &tunables))
            }
            name => match d.options.get(name).copied().or(defaults) {
                Some(n) => OptionValue::Number(n),
                None => return Problem::unsupported(format!("the socket option {name}")),
            },
        };
        let mut outcome = CallOutcome::value(0);
        if let Some(Expr::List(all)) = args.get(3)
            && let Some(want) = all.first()
        {
            outcome.wrong.extend(got.difference(&name, want));
        }
        Ok(outcome.into())
    }

    /// The value of an option that was not set.
    fn defaults(&self, name: &str) -> Option<i64> {
        let tcp = &self.tunables.tcp;
        Some(match name {
            "SO_SNDBUF" => tcp.send_buffer as i64,
            "SO_RCVBUF" => match self.dialect {
                // With the half for its own records.
                Dialect::Linux => 2 * tcp.recv_buffer as i64,
                Dialect::Bsd => tcp.recv_buffer as i64,
            },
            "TCP_KEEPIDLE" => tcp.keepalive_idle.as_secs() as i64,
            "TCP_KEEPINTVL" => tcp.keepalive_interval.as_secs() as i64,
            "TCP_KEEPCNT" => i64::from(tcp.keepalive_probes),
            "TCP_LINGER2" => tcp.fin_wait_2_timeout.as_secs() as i64,
            "TCP_SYNCNT" => i64::from(tcp.syn_retransmits_max),
            "IP_TTL" => 64,
            "SO_RCVLOWAT" | "SO_SNDLOWAT" => 1,
            "SO_REUSEADDR" | "SO_KEEPALIVE" | "TCP_NODELAY" | "TCP_NOOPT" | "TCP_USER_TIMEOUT"
            | "TCP_CORK" | "TCP_NOPUSH" | "IP_TOS" | "TCP_DEFER_ACCEPT" => 0,
            _ => return None,
        })
    }

    pub(super) fn fcntl(&mut self, args: &[Expr]) -> CallResult {
        let operation = args::name(args.get(1), "an operation")?;
        let dialect = self.dialect;
        let nonblock = dialect.constant("O_NONBLOCK").unwrap_or(0);
        let Some(d) = self.descriptor(args.first())? else {
            return fails("EBADF");
        };
        match operation {
            "F_GETFL" => done(2 | if d.nonblocking { nonblock } else { 0 }),
            "F_SETFL" => {
                d.nonblocking = args::number(args.get(2), dialect)? & nonblock != 0;
                done(0)
            }
            other => Problem::unsupported(format!("fcntl {other}")),
        }
    }

    /// The number of bytes that wait, in either direction; or whether the reader is at the urgent byte. FIONBIO sets
    /// the mode.
    pub(super) fn ioctl(&mut self, args: &[Expr]) -> CallResult {
        let operation = args::name(args.get(1), "an operation")?.to_owned();
        let Some(d) = self.descriptor(args.first())? else {
            return fails("EBADF");
        };
        if operation == "FIONBIO" {
            if let Some(Expr::List(all)) = args.get(2) {
                d.nonblocking = args::int(all.first(), "a switch")? != 0;
            }
            return done(0);
        }
        let Object::Stream(stream) = &d.object else {
            return fails("EINVAL");
        };
        let info = stream.info();
        let got = match operation.as_str() {
            "SIOCINQ" | "FIONREAD" => info.recv_queue as i64,
            "SIOCOUTQ" | "TIOCOUTQ" | "FIONWRITE" => {
                info.send_queue as i64 + i64::from(fin_is_unacknowledged(info.state))
            }
            "SIOCATMARK" => i64::from(stream.urgent_unread() == Some(0)),
            other => return Problem::unsupported(format!("ioctl {other}")),
        };
        let mut outcome = CallOutcome::value(0);
        if let Some(Expr::List(all)) = args.get(2)
            && let Some(want) = all.first()
        {
            outcome
                .wrong
                .extend(OptionValue::Number(got).difference(&operation, want));
        }
        Ok(outcome.into())
    }
}

/// The size of a buffer as the system reports it.
fn reported_size(object: &Object, size: i64, tunables: &Tunables) -> i64 {
    let Object::Stream(stream) = object else {
        return size;
    };
    let info = stream.info();
    if info.state == State::SynSent {
        return size;
    }
    let each_segment = if info.timestamps { TIMESTAMPS_LEN } else { 0 };
    let mss = info.mss as usize + each_segment;
    let bytes = usize::try_from(size).unwrap_or(0);
    tunables.rounded(bytes, mss).cast_signed() as i64
}

/// A FIN takes a sequence number, and counts as a byte that is not acknowledged.
fn fin_is_unacknowledged(state: State) -> bool {
    matches!(state, State::FinWait1 | State::Closing | State::LastAck)
}

/// The value of an option.
enum OptionValue {
    Number(i64),
    Error(&'static str),
}

impl OptionValue {
    /// The message about a difference, if there is one.
    fn difference(&self, name: &str, want: &Expr) -> Option<String> {
        let same = match (self, want) {
            (_, Expr::Any) => true,
            (Self::Number(n), Expr::Int(want)) => n == want,
            (Self::Error(e), Expr::Name(want)) => e == want,
            _ => false,
        };
        let got = match self {
            Self::Number(n) => n.to_string(),
            Self::Error(e) => (*e).to_owned(),
        };
        (!same).then(|| format!("{name} is {got}, not {want}"))
    }
}

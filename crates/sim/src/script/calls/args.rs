//! Arguments of calls as values.

use std::net::{Ipv4Addr, SocketAddrV4};

use super::Problem;
use crate::script::dialect::Dialect;
use crate::script::syntax::{Expr, Field};

/// A whole number.
pub(super) fn int(arg: Option<&Expr>, what: &str) -> Result<i64, Problem> {
    match arg {
        Some(Expr::Int(n)) => Ok(*n),
        Some(other) => Problem::wrong(format!("{what} can't be {other}")),
        None => Problem::wrong(format!("{what} is missing")),
    }
}

/// A length of at most 64 MiB, which is more than any buffer holds.
pub(super) fn len(arg: Option<&Expr>) -> Result<usize, Problem> {
    let n = int(arg, "a length")?;
    match usize::try_from(n) {
        Ok(n) if n <= 64 << 20 => Ok(n),
        _ => Problem::wrong(format!("a length can't be {n}")),
    }
}

/// A name.
pub(super) fn name<'a>(arg: Option<&'a Expr>, what: &str) -> Result<&'a str, Problem> {
    match arg {
        Some(Expr::Name(name)) => Ok(name),
        Some(other) => Problem::wrong(format!("{what} can't be {other}")),
        None => Problem::wrong(format!("{what} is missing")),
    }
}

/// A string, as it is or alone in a list.
pub(super) fn text<'a>(arg: Option<&'a Expr>, what: &str) -> Result<&'a str, Problem> {
    match arg {
        Some(Expr::Text(text)) => Ok(text),
        Some(Expr::List(all)) if all.len() == 1 => text(all.first(), what),
        Some(other) => Problem::wrong(format!("{what} can't be {other}")),
        None => Problem::wrong(format!("{what} is missing")),
    }
}

/// The names of a set of flags; 0 is none.
pub(super) fn flags(arg: Option<&Expr>) -> Result<Vec<&str>, Problem> {
    match arg {
        None | Some(Expr::Int(0)) => Ok(Vec::new()),
        Some(Expr::Name(name)) => Ok(vec![name.as_str()]),
        Some(Expr::Or(all)) => all.iter().map(|one| name(Some(one), "a flag")).collect(),
        Some(other) => Problem::wrong(format!("flags can't be {other}")),
    }
}

/// The number of an expression that may name constants.
pub(super) fn number(arg: Option<&Expr>, dialect: Dialect) -> Result<i64, Problem> {
    match arg {
        Some(Expr::Name(name)) => match dialect.constant(name) {
            Some(n) => Ok(n),
            None => Problem::unsupported(format!("{name} is not known")),
        },
        Some(Expr::Or(all)) => all
            .iter()
            .try_fold(0, |n, one| Ok(n | number(Some(one), dialect)?)),
        other => int(other, "a number"),
    }
}

/// The value of a field.
pub(super) fn field<'a>(fields: &'a [Field], name: &str) -> Option<&'a Expr> {
    let named = |f: &&Field| f.name.as_deref() == Some(name);
    fields.iter().find(named).map(|f| &f.value)
}

/// The fields of a structure.
pub(super) fn structure<'a>(arg: Option<&'a Expr>, what: &str) -> Result<&'a [Field], Problem> {
    match arg {
        Some(Expr::Struct(fields)) => Ok(fields),
        Some(Expr::List(all)) if all.len() == 1 => structure(all.first(), what),
        Some(other) => Problem::wrong(format!("{what} can't be {other}")),
        None => Problem::wrong(format!("{what} is missing")),
    }
}

/// A socket address; `...` is the script's own.
pub(super) fn address(arg: Option<&Expr>, own: SocketAddrV4) -> Result<SocketAddrV4, Problem> {
    if let None | Some(Expr::Any) = arg {
        return Ok(own);
    }
    let fields = structure(arg, "an address")?;
    match field(fields, "sa_family") {
        Some(Expr::Name(family)) if family == "AF_INET" => {}
        other => {
            let family = other.map_or("none".to_owned(), Expr::to_string);
            return Problem::unsupported(format!("the address family {family}"));
        }
    }
    let port = match field(fields, "sin_port") {
        Some(Expr::Apply(f, args)) if f == "htons" => int(args.first(), "a port")?,
        _ => return Problem::wrong("an address needs sin_port = htons(n)"),
    };
    let ip = match field(fields, "sin_addr") {
        Some(Expr::Apply(f, args)) if f == "inet_addr" => match args.first() {
            Some(Expr::Text(text)) => text.parse().ok(),
            _ => None,
        },
        Some(Expr::Name(name)) if name == "INADDR_ANY" => Some(Ipv4Addr::UNSPECIFIED),
        Some(Expr::Apply(f, _)) if f == "htonl" => Some(Ipv4Addr::UNSPECIFIED),
        _ => None,
    };
    match (ip, u16::try_from(port)) {
        (Some(ip), Ok(port)) => Ok(SocketAddrV4::new(ip, port)),
        _ => Problem::wrong("an address needs sin_addr = inet_addr(\"a.b.c.d\") and a port"),
    }
}

/// The bytes of all entries `{..., n}` of a vector.
pub(super) fn iov_len(arg: Option<&Expr>) -> Result<usize, Problem> {
    let Some(Expr::List(all)) = arg else {
        return Problem::wrong("a vector is [{..., length}, ...]");
    };
    all.iter().try_fold(0, |sum, one| {
        let fields = structure(Some(one), "an entry of a vector")?;
        let one = len(fields.get(1).map(|f| &f.value))?;
        match sum + one {
            sum if sum <= 64 << 20 => Ok(sum),
            _ => Problem::wrong("a vector is too long"),
        }
    })
}

//! The process in the guest's namespace, whose only way out is the contestant: it executes the host process's orders.

use super::case::Case;
use super::client::Servers;
use super::found::Found;
use super::peer;
use super::server::Ports;
use crate::harness::namespace;
use std::io::{self, Write};
use std::time::Duration;

/// Answers questions of `host.rs`: see [`question`].
pub(crate) fn be(out: &mut dyn Write) -> io::Result<()> {
    let set_up = || Ok(((), namespace::stock_tcp()));
    peer::be(out, set_up, |(), question| answer(question))
}

/// A job, or none, which checks that the servers answer; its length; and their addresses.
pub(crate) fn question(case: Option<&Case>, reading: Duration, servers: Servers) -> String {
    let Servers { addr, ports } = servers;
    let case = case.map_or(REACHED, |case| case.name);
    let nanos = reading.as_nanos();
    let Ports {
        orders,
        pages,
        downloads,
    } = ports;
    format!("{case} {nanos} {addr} {orders} {pages} {downloads}")
}

fn answer(question: &str) -> io::Result<Found> {
    let (case, reading, servers) = parse(question).ok_or(io::ErrorKind::InvalidInput)?;
    match Case::find(case) {
        Some(case) => servers.ask(case.job, reading),
        None => servers.answer().map(|()| Found::default()),
    }
}

fn parse(question: &str) -> Option<(&str, Duration, Servers)> {
    let mut words = question.split(' ');
    let case = words.next()?;
    let reading = Duration::from_nanos(words.next()?.parse().ok()?);
    let addr = words.next()?.parse().ok()?;
    let ports = Ports {
        orders: words.next()?.parse().ok()?,
        pages: words.next()?.parse().ok()?,
        downloads: words.next()?.parse().ok()?,
    };
    Some((case, reading, Servers { addr, ports }))
}

/// No case's name.
const REACHED: &str = "reached";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_survives_the_command_line() {
        // Breaks when a case is measured for another time, or at another server.
        let ports = Ports {
            orders: 7001,
            pages: 7002,
            downloads: 7003,
        };
        let addr = "10.0.2.2".parse().expect("an address");
        let asked = question(
            Case::find("up8"),
            Duration::from_millis(250),
            Servers { addr, ports },
        );
        let (case, reading, servers) = parse(&asked).expect(&asked);
        assert_eq!((case, reading), ("up8", Duration::from_millis(250)));
        assert_eq!((servers.addr, servers.ports.downloads), (addr, 7003));
        assert!(parse("up1 1 here 7001 7002 7003").is_none() && parse("up1").is_none());
    }
}

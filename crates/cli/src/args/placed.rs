//! `--address` and `--gateway`: other addresses of the guest and the stack than the usual ones.
//!
//! Locks: none.

use std::net::IpAddr;

use super::NetOpts;

/// The options.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct AddressOpts {
    /// The guest's address, once for each version of IP [default: host 100 of its network]
    #[arg(long, value_name = "ADDR")]
    pub(super) address: Vec<IpAddr>,

    /// The gateway's address, once for each version of IP [default: host 2 of the guest's network]
    #[arg(long, value_name = "ADDR")]
    pub(super) gateway: Vec<IpAddr>,
}

impl NetOpts {
    /// Gives the guest and the gateway the requested addresses.
    ///
    /// # Errors
    /// The MTU is too small for the only version of IP. An address is not in its network, is in use, or is of a version
    /// of IP that the guest does not have.
    pub(crate) fn place(&mut self) -> Result<(), String> {
        self.families.check(self.mtu())?;
        let sources = self.outbound.addrs();
        one(&sources, "--outbound-addr", as_v4)?;
        one(&sources, "--outbound-addr", as_v6)?;
        let (address, gateway) = (&self.placed.address, &self.placed.gateway);
        let v4 = (
            one(address, "--address", as_v4)?,
            one(gateway, "--gateway", as_v4)?,
        );
        let v6 = (
            one(address, "--address", as_v6)?,
            one(gateway, "--gateway", as_v6)?,
        );
        if v4 != (None, None) {
            if !self.families.has_v4() {
                return Err("--ipv6-only: there is no address of IPv4 to choose".to_owned());
            }
            self.cidr = self.cidr.placed(v4.0, v4.1)?;
        }
        if v6 != (None, None) {
            self.families.place(v6.0, v6.1)?;
        }
        Ok(())
    }
}

/// The address of a version of IP, if given.
fn one<T>(
    addrs: &[IpAddr],
    option: &str,
    of: impl Fn(&IpAddr) -> Option<T>,
) -> Result<Option<T>, String> {
    let mut all = addrs.iter().filter_map(of);
    let first = all.next();
    match all.next() {
        Some(_) => Err(format!("{option} takes one address of each version of IP")),
        None => Ok(first),
    }
}

pub(super) fn as_v4(addr: &IpAddr) -> Option<std::net::Ipv4Addr> {
    match addr {
        IpAddr::V4(addr) => Some(*addr),
        IpAddr::V6(_) => None,
    }
}

pub(super) fn as_v6(addr: &IpAddr) -> Option<std::net::Ipv6Addr> {
    match addr {
        IpAddr::V4(_) => None,
        IpAddr::V6(addr) => Some(*addr),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Args, Verb};

    fn placed(options: &str) -> Result<String, String> {
        let line = format!("mbuma run {options} -- true");
        let Ok(Verb::Run(mut run)) =
            Args::try_parse_from(line.split_whitespace()).map(|args| args.verb)
        else {
            return Err("does not parse".to_owned());
        };
        run.net.place()?;
        let v4 = run.net.v4().map(|v4| (v4.guest, v4.gateway));
        let v6 = run.net.v6().map(|v6| (v6.guest, v6.gateway));
        Ok(format!("{v4:?} {v6:?}"))
    }

    #[test]
    fn the_guest_and_the_gateway_are_where_they_are_asked_to_be() {
        // Breaks when one is put elsewhere, or the other one moves along.
        assert_eq!(
            placed("--address 10.0.2.15 --gateway fd00::1").as_deref(),
            Ok("Some((10.0.2.15, 10.0.2.2)) Some((fd00::100, fd00::1))")
        );
        assert_eq!(
            placed("--cidr 192.168.7.0/24 --address 192.168.7.9 --gateway 192.168.7.1 -4")
                .as_deref(),
            Ok("Some((192.168.7.9, 192.168.7.1)) None")
        );
    }

    #[test]
    fn an_address_that_could_not_work_is_refused() {
        // Breaks when a guest starts without a way to its gateway, or as the network's own address, or as another's.
        for options in [
            "--address 10.0.3.15",
            "--address 10.0.2.0",
            "--address 10.0.2.255",
            "--address 10.0.2.2",
            "--gateway 10.0.2.3",
            "--address 10.0.2.9 --gateway 10.0.2.9",
            "--address 10.0.2.9 --address 10.0.2.8",
            "--address fd01::5",
            "--address fd00::",
            "--gateway fe80::2",
            "--gateway fd00::3",
            "--address fd00::9 -4",
            "--address 10.0.2.9 -6",
            "--network blue --address 10.0.2.9",
            "--address 10.0.2.9/24",
            "--mtu 1000 -6",
            "--cidr 10.1.0.0/24 -6",
            "--ipv6-prefix fd01::/64 -4",
            "--outbound-addr 192.0.2.1 --outbound-addr 192.0.2.2",
        ] {
            assert!(placed(options).is_err(), "{options}");
        }
        for options in [
            "--mtu 1000",
            "--outbound-addr lo --interface lo",
            "--outbound-addr ::1 --outbound-addr 127.0.0.1",
        ] {
            assert!(placed(options).is_ok(), "{options}");
        }
    }
}

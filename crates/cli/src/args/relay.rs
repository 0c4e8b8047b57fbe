//! The command line of `mbuma relay`: two sides, each a list of words.
//!
//! | word | of LISTEN | of CONNECT |
//! |---|---|---|
//! | `in=PID` or `in=PATH` | an interface in this network namespace | the same |
//! | `tap=NAME` | its name; without `in`, an interface of the host | the same |
//! | `address=ADDR/LEN` | the address of this side, and its network; again for the other version of IP | the same |
//! | `gateway=ADDR` | the way to other networks; again for the other version of IP | the same |
//! | `port=N` | where clients connect | |
//! | `to=ADDR:PORT` | | where the server is |
//! | `tls=NAME` | | the server speaks TLS, with a certificate for this name or address |
//!
//! A CONNECT that is `to` alone has no interface: the server is where the clients are.
//!
//! Locks: none.

use std::iter;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use rustls::pki_types::ServerName;

use super::serve::{Alone, ServeOpts, ServerAddress, ServerAddresses, TlsOpts};
use super::{AttachTarget, NetOpts, TapUse, attach_target, ifname};

/// The name of an interface in a namespace.
const IFNAME: &str = "tap0";
/// Connections that are relayed at once, at most.
const CONNECTIONS_MAX: usize = 1024;
/// Seconds in which nothing moves, until a direction ends.
const IDLE: u32 = 300;

/// What `mbuma relay` takes.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mbuma relay [OPTIONS] LISTEN CONNECT",
    after_help = "\
Examples:
  mbuma relay in=/run/netns/blue,address=10.0.3.2/24,port=80 \\
              in=4711,address=10.0.4.2/24,to=10.0.4.1:8080
      clients in the namespace blue that connect to 10.0.3.2:80 reach port 8080 of the namespace
      of process 4711
  mbuma relay tap=r0,address=192.0.2.2/24,port=80 \\
              in=/run/netns/blue,address=10.0.4.2/24,to=10.0.4.1:80
      the same for clients of this host; as root
  mbuma relay in=4711,address=10.0.3.2/24,port=80 to=10.0.3.1:8080
      clients and server in one namespace
  mbuma relay --tls cert.pem key.pem in=4711,address=10.0.3.2/24,port=443 to=10.0.3.1:8080
      clients speak TLS, and the server gets their bytes without
  mbuma relay --ca ca.pem in=4711,address=10.0.3.2/24,port=80 to=10.0.3.1:8443,tls=www.example
      clients without TLS reach a server that speaks it
  mbuma relay in=4711,address=10.0.3.2/24,port=80 \\
              in=4712,address=2001:db8::2/64,to=[2001:db8::1]:8080
      clients speak IPv4, the server IPv6; an interface takes an address of each, as two words

Each side gets an interface, whose other end has the first other address of its network. A TAP of
that name that is there is not changed.
It prints each address when clients may connect, and ends at SIGTERM or SIGINT, or when a namespace
has ended.

Exit status:
  0 after its end; 125 if mbuma failed; 2 for a mistake in the options."
)]
pub(crate) struct RelayArgs {
    /// Where clients connect: in=PID|PATH or tap=NAME, address=ADDR/LEN, port=N, gateway=ADDR
    #[arg(value_name = "LISTEN")]
    pub(crate) listen: ListenSide,

    /// Where the server is: to=ADDR:PORT, tls=NAME if it speaks TLS, and by which interface, in the same words
    #[arg(value_name = "CONNECT")]
    pub(crate) connect: ConnectSide,

    /// Reset a connection on which nothing moves in either direction for N seconds; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = IDLE, value_parser = super::number::patience)]
    pub(crate) idle: u32,

    /// Connections that are relayed at once; others wait
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS_MAX, value_parser = super::serve::connections)]
    pub(crate) connections: usize,

    /// Threads that relay, 1 to 64; beside them, one makes all handshakes of TLS
    #[arg(short = 'w', long, value_name = "N", default_value_t = super::workers_default(),
          value_parser = super::number::workers)]
    pub(crate) workers: u8,

    // Clients speak TLS, and the server gets their bytes without.
    #[command(flatten)]
    pub(crate) tls: TlsOpts,

    /// Trust the certificates in FILE, in PEM, and no others, where the server speaks TLS [default: those of the
    /// system]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,

    /// Speak these protocols above TLS, such as h2 or http/1.1 (ALPN): the first one that a client has too
    ///
    /// mbuma offers a server that speaks TLS only the protocol that the client got, and ends the connection if the
    /// server does not accept it. If clients do not speak TLS, the server chooses.
    #[arg(long, value_name = "PROTOCOL,...", value_delimiter = ',', value_parser = protocol)]
    pub(crate) alpn: Vec<String>,

    /// Let the process that reads packets keep all rights that mbuma was started with
    #[arg(long)]
    pub(crate) no_sandbox: bool,
}

impl RelayArgs {
    /// Options that need others, which are missing.
    ///
    /// # Errors
    /// The mistake.
    pub(crate) fn check(&self) -> Result<(), String> {
        let to_clients = self.tls.identity()?.is_some();
        let to_server = self.connect.tls.is_some();
        if self.ca.is_some() && !to_server {
            return Err("--ca is for a server that speaks TLS: CONNECT takes tls=NAME".to_owned());
        }
        if !self.alpn.is_empty() && !to_clients && !to_server {
            return Err("--alpn goes with --tls, or with tls=NAME in CONNECT".to_owned());
        }
        if self.listen.addrs().contains(&self.connect.to) {
            return Err(
                "the server is the relay itself: `to` is the address and port of LISTEN".to_owned(),
            );
        }
        let to = self.connect.to.ip();
        let mut sides = iter::once(&self.listen.interface).chain(&self.connect.interface);
        if !sides.any(|side| side.at.reaches(to)) {
            return Err(format!(
                "no route to {to}: it is in no network of an interface, so CONNECT takes gateway=ADDR"
            ));
        }
        Ok(())
    }
}

/// A name of RFC 7301 3.1.
fn protocol(text: &str) -> Result<String, String> {
    match text.len() {
        1..=255 => Ok(text.to_owned()),
        _ => Err("a protocol's name has 1 to 255 bytes".to_owned()),
    }
}

/// An interface of the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelayInterface {
    /// In this namespace; without it, on the host.
    pub(crate) inside: Option<AttachTarget>,
    pub(crate) ifname: String,
    pub(crate) at: ServerAddresses,
}

impl RelayInterface {
    /// The same in the words of `attach`.
    pub(crate) fn net(&self, args: &RelayArgs) -> NetOpts {
        let on_host = self.inside.is_none();
        let (cidr, families) = self.at.families();
        NetOpts {
            cidr,
            families,
            no_dns: true,
            tap: TapUse::Find,
            mtu: on_host.then_some(super::serve::MTU_OF_HOST),
            workers: args.workers,
            no_sandbox: args.no_sandbox,
            // It has no route but that of its network.
            serve: ServeOpts {
                alone: Some(Alone::NOWHERE),
                ..ServeOpts::default()
            },
            ..NetOpts::default()
        }
    }
}

/// The side of the clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenSide {
    pub(crate) interface: RelayInterface,
    pub(crate) port: u16,
}

impl ListenSide {
    /// Where clients connect.
    pub(crate) fn addrs(&self) -> Vec<SocketAddr> {
        let addrs = self.interface.at.addrs().into_iter();
        addrs.map(|addr| SocketAddr::new(addr, self.port)).collect()
    }
}

/// The side of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectSide {
    /// None: the clients'.
    pub(crate) interface: Option<RelayInterface>,
    pub(crate) to: SocketAddr,
    /// The server speaks TLS, and has this name.
    pub(crate) tls: Option<ServerName<'static>>,
}

/// The words of a side.
#[derive(Default)]
struct Words<'a> {
    inside: Option<&'a str>,
    tap: Option<&'a str>,
    address: Vec<&'a str>,
    gateway: Vec<&'a str>,
    port: Option<&'a str>,
    to: Option<&'a str>,
    tls: Option<&'a str>,
}

impl<'a> Words<'a> {
    fn read(text: &'a str) -> Result<Words<'a>, String> {
        let mut words = Words::default();
        for word in text.split(',') {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| format!("`{word}` is no NAME=VALUE"))?;
            let place = match name {
                "in" => &mut words.inside,
                "tap" => &mut words.tap,
                "address" => {
                    words.address.push(value);
                    continue;
                }
                "gateway" => {
                    words.gateway.push(value);
                    continue;
                }
                "port" => &mut words.port,
                "to" => &mut words.to,
                "tls" => &mut words.tls,
                _ => {
                    return Err(format!(
                        "`{name}` is none of in, tap, address, gateway, port, to, tls"
                    ));
                }
            };
            if place.replace(value).is_some() {
                return Err(format!("`{name}` comes twice"));
            }
        }
        Ok(words)
    }

    /// Whether an interface is requested.
    fn name_interface(&self) -> bool {
        let named = [self.inside, self.tap].iter().any(Option::is_some);
        named || !self.address.is_empty() || !self.gateway.is_empty()
    }

    fn interface(&self) -> Result<RelayInterface, String> {
        let inside = self.inside.map(attach_target).transpose()?;
        let name = match (self.tap, &inside) {
            (Some(name), _) => name,
            (None, Some(_)) => IFNAME,
            (None, None) => return Err("it takes in=PID|PATH or tap=NAME".to_owned()),
        };
        if self.address.is_empty() {
            return Err("it takes address=ADDR/LEN".to_owned());
        }
        let all = self.address.iter().map(|text| text.parse());
        let all: Vec<ServerAddress> = all.collect::<Result<_, String>>()?;
        let gateways = self.gateway.iter().map(|text| {
            let parsed = text.parse::<IpAddr>();
            parsed.map_err(|_| format!("`{text}` is no address"))
        });
        let gateways = gateways.collect::<Result<Vec<_>, String>>()?;
        Ok(RelayInterface {
            inside,
            ifname: ifname(name)?,
            at: ServerAddresses::of(&all, &gateways)?,
        })
    }
}

impl FromStr for ListenSide {
    type Err = String;

    fn from_str(text: &str) -> Result<ListenSide, String> {
        let words = Words::read(text)?;
        if words.to.is_some() {
            return Err("`to` is for CONNECT".to_owned());
        }
        if words.tls.is_some() {
            return Err("`tls` is for CONNECT; clients speak TLS with --tls".to_owned());
        }
        Ok(ListenSide {
            interface: words.interface()?,
            port: super::port(words.port.ok_or("it takes port=N")?)?,
        })
    }
}

impl FromStr for ConnectSide {
    type Err = String;

    fn from_str(text: &str) -> Result<ConnectSide, String> {
        let words = Words::read(text)?;
        if words.port.is_some() {
            return Err("`port` is for LISTEN".to_owned());
        }
        let to = words.to.ok_or("it takes to=ADDR:PORT")?;
        let to: SocketAddr = to
            .parse()
            .map_err(|_| format!("`{to}` is no address with a port"))?;
        if to.port() == 0 {
            return Err("port 0 is no server's".to_owned());
        }
        let interface = words.name_interface().then(|| words.interface());
        let tls = words.tls.map(|name| {
            let parsed = ServerName::try_from(name.to_owned());
            parsed.map_err(|_| format!("`{name}` is no name of a server, and no address"))
        });
        Ok(ConnectSide {
            interface: interface.transpose()?,
            to,
            tls: tls.transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_its_words() {
        // Breaks when a word is forgotten, or a mistake is taken for something else.
        let listen: ListenSide = "in=4711,address=10.0.3.2/24,port=80"
            .parse()
            .expect("a side");
        assert_eq!(listen.interface.inside, Some(AttachTarget::Pid(4711)));
        assert_eq!((&*listen.interface.ifname, listen.port), ("tap0", 80));
        let connect: ConnectSide = "to=10.0.3.1:8080".parse().expect("a side");
        assert!(connect.interface.is_none() && connect.tls.is_none());
        for name in ["www.example", "10.0.3.1"] {
            let text = format!("to=10.0.3.1:8443,tls={name}");
            let connect = text.parse::<ConnectSide>().expect("a side");
            let named = connect.tls.expect("a name").to_str().into_owned();
            assert_eq!(named, name);
        }
        let connect =
            "tap=r0,address=10.0.4.2/24,gateway=10.0.4.1,to=192.0.2.1:1".parse::<ConnectSide>();
        assert_eq!(
            connect.expect("a side").interface.map(|i| i.ifname),
            Some("r0".into())
        );
        let listen = "in=1,address=10.0.3.2/24,address=2001:db8::2/64,gateway=fe80::1,port=80"
            .parse::<ListenSide>()
            .expect("a side");
        let addrs: Vec<_> = listen.addrs().iter().map(SocketAddr::to_string).collect();
        assert_eq!(addrs, ["10.0.3.2:80", "[2001:db8::2]:80"]);
        for wrong in [
            "",
            "port=80",
            "in=1,port=80",
            "in=1,address=10.0.3.2/24",
            "in=1,address=10.0.3.2/24,port=0",
            "x=1",
            "in=1,in=2",
            "in=1,address=10.0.3.2/24,address=10.0.4.2/24,port=80",
            "in=1,address=10.0.3.2/24,port=80,tls=a.test",
        ] {
            assert!(wrong.parse::<ListenSide>().is_err(), "{wrong}");
        }
        for wrong in [
            "to=1",
            "to=10.0.0.1:0",
            "in=1,to=10.0.0.1:1",
            "to=10.0.0.1:1,port=1",
            "to=10.0.0.1:1,tls=",
            "to=10.0.0.1:1,tls=a b",
        ] {
            assert!(wrong.parse::<ConnectSide>().is_err(), "{wrong}");
        }
    }
}

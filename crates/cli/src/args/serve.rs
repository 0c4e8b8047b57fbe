//! Serving files: the options of `run` and `attach`, and the command line of `mbuma serve`.
//!
//! Locks: none.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use super::{AttachTarget, NetOpts, StatsFormat, TapUse, attach_target, ifname, workers_default};
use crate::errors::Error;
use crate::guest::GuestEnd;

mod address;
mod tls;

pub(crate) use address::{NextHops, ServerAddress, ServerAddresses};
pub(crate) use tls::{IdentityFiles, TlsIdentity, TlsOpts};

/// Connections that are served at once, at most.
const CONNECTIONS_MAX: usize = 4096;
/// Bytes of copies of files in memory, unless that is more than an eighth of the memory.
pub(crate) const CACHE: u64 = 64 << 20;
/// The port of the server.
const PORT: u16 = 80;
/// The same over TLS.
const PORT_TLS: u16 = 443;
/// The MTU of an interface of the host: that of its neighbours on an Ethernet. Large segments go to the host whole.
pub(super) const MTU_OF_HOST: u16 = 1500;

/// Files that the guest finds at the gateway's own address.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ServeOpts {
    /// Serve the files below DIR to the guest, at http://10.0.2.2/files/
    ///
    /// Hidden files and links that lead out of DIR are not served. If the client accepts compression, mbuma sends the
    /// file of the same name with .zst, .br or .gz appended, if that exists and is no older. Started by root, mbuma
    /// reads the files as `nobody`.
    #[arg(long = "serve", value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Append a line to FILE for each request, in the combined log format
    ///
    /// mbuma keeps FILE open: rotate it by copying and truncating (`copytruncate` of logrotate).
    #[arg(long = "serve-log", value_name = "FILE", requires = "dir")]
    pub(crate) log: Option<PathBuf>,

    /// Serve no list of the files in a directory without an index.html
    #[arg(long = "serve-no-listing", requires = "dir")]
    pub(crate) no_listing: bool,

    /// Clients speak TLS.
    #[arg(skip)]
    pub(crate) tls: Option<TlsIdentity>,

    /// Bytes of copies of files in memory, if not the usual number.
    #[arg(skip)]
    pub(crate) cache: Option<u64>,

    /// The stack is a server and no gateway.
    #[arg(skip)]
    pub(crate) alone: Option<Alone>,
}

impl ServeOpts {
    /// Connections that are served at once, at most.
    pub(crate) fn connections_max(&self) -> usize {
        let alone = self.alone.as_ref();
        alone.map_or(CONNECTIONS_MAX, |alone| alone.connections)
    }

    /// The port of the server, and of the status page.
    pub(crate) fn port(&self) -> u16 {
        self.alone.as_ref().map_or(PORT, |alone| alone.port)
    }
}

/// A server that is no gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alone {
    port: u16,
    connections: usize,
    /// Shows its figures.
    pub(crate) status: bool,
    /// The next hops to clients outside of its own networks.
    pub(crate) next_hops: NextHops,
    /// A kernel that gives the interface no IPv6 is an error: an address of it was asked for.
    pub(crate) needs_v6: bool,
}

impl Alone {
    /// The settings of an interface that serves no network.
    pub(super) const NOWHERE: Alone = Alone {
        port: PORT,
        connections: 0,
        status: false,
        next_hops: NextHops { v4: None, v6: None },
        needs_v6: true,
    };
}

/// The command line of `mbuma serve`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mbuma serve [OPTIONS] DIR --in PID|PATH\n       \
                      mbuma serve [OPTIONS] DIR --tap NAME --address ADDR/LEN",
    after_help = "\
Examples:
  mbuma serve ./public --in 4711
      at http://10.0.2.2/ and http://[fd00::2]/ for process 4711
  mbuma serve ./public --in /run/netns/blue --tap eth1
      by an interface of that name
  mbuma serve /srv --tap srv0 --address 192.0.2.2/24
      at http://192.0.2.2/ for this host, which is 192.0.2.1 there; as root
  mbuma serve /srv --tap srv0 --address 192.0.2.2/24 --tls=self-signed
      at https://192.0.2.2/, with a certificate of its own
  mbuma serve /srv --tap srv0 --address 192.0.2.2/24 --address 2001:db8::2/64
      over IPv4 and IPv6; one of them is enough
  mbuma serve /srv --tap srv0 --address 192.0.2.2/24 --gateway 192.0.2.1
      srv0 is there already, in a bridge for instance; so it may be with --in

It prints each address when it serves. SIGTERM and SIGINT end it when the responses under way have
gone, after ten seconds at most.

Exit status:
  0 when the process, the namespace or the interface has ended, or after a signal; 125 if mbuma
  failed; 2 for a mistake in the options."
)]
pub(crate) struct ServeArgs {
    /// The directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Serve in the network namespace of this process, or in the one at PATH
    #[arg(long = "in", value_name = "PID|PATH", value_parser = attach_target)]
    inside: Option<AttachTarget>,

    /// Name of the interface: a TAP that is there is not changed, a new one is removed when mbuma ends [default with
    /// --in: tap0]
    #[arg(long, value_name = "NAME", value_parser = ifname)]
    tap: Option<String>,

    /// The server's address, of IPv4 or IPv6, and the length of its network's prefix; again for the other version
    /// [default with --in: 10.0.2.2/24 and fd00::2/64]
    ///
    /// A new interface gets the first other address of that network.
    #[arg(long, value_name = "ADDR/LEN")]
    address: Vec<ServerAddress>,

    /// Answer clients of other networks through this address; again for the other version of IP [default: the host's or
    /// namespace's address of a new interface]
    #[arg(long, value_name = "ADDR")]
    gateway: Vec<IpAddr>,

    /// The server's port [default: 80, or 443 with --tls]
    #[arg(long, value_name = "N", value_parser = super::number::port)]
    port: Option<u16>,

    #[command(flatten)]
    tls: TlsOpts,

    /// Append a line to FILE for each request, in the combined log format
    ///
    /// mbuma keeps FILE open: rotate it by copying and truncating (`copytruncate` of logrotate).
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Serve no list of the files in a directory without an index.html
    #[arg(long)]
    no_listing: bool,

    /// Show figures at /.mbuma/, and for Prometheus at /.mbuma/metrics
    #[arg(long)]
    status: bool,

    /// Connections that are served at once, fewer where memory is short; beyond that a new one ends an old one, first
    /// one that waits for a request
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS_MAX, value_parser = connections)]
    connections: usize,

    /// Memory for the bytes of files that are requested again; K, M and G may follow [default: 64M, at most
    /// an eighth of the memory of the machine or cgroup]
    ///
    /// Files of more than 16 KiB are sent from there without a copy. A file takes at most a quarter of it. Files that
    /// were changed in the last two seconds are read at each request. A program that writes to a file by a mapping
    /// (mmap) may not change its times: then clients get the bytes of the earlier state. 0: none are kept.
    #[arg(long, value_name = "BYTES", value_parser = size)]
    cache: Option<u64>,

    /// The interface's MTU, 576 to 65521 [default: 65520 with --in, else 1500]
    #[arg(short = 'm', long, value_name = "N",
          value_parser = super::number::mtu)]
    mtu: Option<u16>,

    /// Threads that serve, 1 to 64, each with a queue of the interface [default: two, or one on a machine with one CPU]
    #[arg(short = 'w', long, value_name = "N", default_value_t = workers_default(), hide_default_value = true,
          value_parser = super::number::workers)]
    workers: u8,

    /// Let the process that reads the clients' packets keep all rights with which mbuma was started
    #[arg(long)]
    no_sandbox: bool,

    /// Print connections, bytes, packets and drops at the end, on standard error
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    stats: Option<StatsFormat>,
}

/// The namespace and the address at which `mbuma serve` serves.
#[derive(Debug)]
pub(crate) struct ServePlace {
    /// In this namespace; without it, on the host.
    pub(crate) inside: Option<AttachTarget>,
    pub(crate) ifname: String,
    pub(crate) net: NetOpts,
    /// How clients name it.
    pub(crate) url: ServeUrl,
}

/// A server's URL without its address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServeUrl {
    scheme: &'static str,
    port: u16,
    usual: u16,
}

impl ServeUrl {
    /// The whole ones of a server with these addresses.
    pub(crate) fn at(self, ends: &GuestEnd) -> Vec<String> {
        let v4 = ends.v4.map(|v4| IpAddr::from(v4.gateway));
        let v6 = ends.v6.map(|v6| IpAddr::from(v6.gateway));
        let all = v4.into_iter().chain(v6);
        let url = |addr| match (self.port == self.usual, addr) {
            (false, addr) => format!("{}://{}/", self.scheme, SocketAddr::new(addr, self.port)),
            (true, IpAddr::V4(addr)) => format!("{}://{addr}/", self.scheme),
            (true, IpAddr::V6(addr)) => format!("{}://[{addr}]/", self.scheme),
        };
        all.map(url).collect()
    }
}

impl ServeArgs {
    /// The same in the words of `attach`.
    ///
    /// # Errors
    /// A mistake in `--tls` or in the addresses, or no interface is named.
    pub(crate) fn into_place(self) -> Result<ServePlace, Error> {
        if self.inside.is_none() && (self.tap.is_none() || self.address.is_empty()) {
            return Err(Error::Usage(
                "it takes --in PID|PATH, or --tap NAME and --address ADDR/LEN for an interface of this host".to_owned(),
            ));
        }
        let tls = self.tls.identity().map_err(Error::Usage)?;
        let addresses = match &*self.address {
            [] => ServerAddresses::INSIDE.with_next_hops(&self.gateway),
            all => ServerAddresses::of(all, &self.gateway),
        };
        let addresses = addresses.map_err(Error::Usage)?;
        let on_host = self.inside.is_none();
        let (scheme, usual) = match tls {
            None => ("http", PORT),
            Some(_) => ("https", PORT_TLS),
        };
        let port = self.port.unwrap_or(usual);
        let url = ServeUrl {
            scheme,
            port,
            usual,
        };
        let alone = Alone {
            port,
            connections: self.connections,
            status: self.status,
            next_hops: addresses.next_hops,
            needs_v6: !self.address.is_empty(),
        };
        let (cidr, families) = addresses.families();
        let net = NetOpts {
            cidr,
            families,
            no_dns: true,
            tap: TapUse::Find,
            mtu: self.mtu.or(on_host.then_some(MTU_OF_HOST)),
            workers: self.workers,
            no_sandbox: self.no_sandbox,
            stats: self.stats,
            serve: ServeOpts {
                dir: Some(self.dir),
                log: self.log,
                no_listing: self.no_listing,
                tls,
                cache: self.cache,
                alone: Some(alone),
            },
            ..NetOpts::default()
        };
        if alone.needs_v6 {
            addresses.check(net.mtu()).map_err(Error::Usage)?;
        }
        Ok(ServePlace {
            inside: self.inside,
            ifname: self.tap.unwrap_or_else(|| "tap0".to_owned()),
            net,
            url,
        })
    }
}

/// A number of bytes: `64M`
fn size(text: &str) -> Result<u64, String> {
    let unit = |letter| text.strip_suffix(letter);
    let (digits, shift) = match (unit('K'), unit('M'), unit('G')) {
        (Some(digits), ..) => (digits, 10),
        (_, Some(digits), _) => (digits, 20),
        (.., Some(digits)) => (digits, 30),
        _ => (text, 0),
    };
    let number = digits.parse::<u32>().ok().map(u64::from);
    let bytes = number.map(|number| number << shift);
    bytes.ok_or_else(|| "it is a number of bytes, as in 65536, 64M or 2G".to_owned())
}

/// A number of connections.
pub(super) fn connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=100_000) => Ok(count),
        _ => Err("it is a number from 1 to 100000".to_owned()),
    }
}

//! The command line of `mbuma run`.
//!
//! Locks: none.

use std::ffi::OsString;

use super::names::{self, AddedHost};
use super::{NetOpts, ifname, network};

/// The command line of `mbuma run`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "mbuma run [OPTIONS] [--] COMMAND [ARG]...",
    after_help = "\
Examples:
  mbuma run -- curl -sS http://10.0.2.2/        the stack's own status page
  mbuma run -- git clone https://example.org/r  any program, over the host's network
  mbuma run --publish 8080:80 -- ./server       127.0.0.1:8080 on the host is port 80 of ./server
  mbuma run --host-loopback -- psql -h 10.0.2.2 a database that listens on the host's 127.0.0.1
  mbuma run --serve ./public -- ./browser       the files below ./public, at http://10.0.2.2/files/
  mbuma run --pcap out.pcapng --stats -- make test
  mbuma run --impair rate=20mbit,delay=40ms,loss=1% -- git clone https://example.org/r
  mbuma run --impair delay=30ms,up:rate=2mbit,down:rate=16mbit,queue=256kb -- ./client
  mbuma run --network blue --hostname db -- postgres -D data     and from another terminal:
  mbuma run --network blue -- psql -h db        guests that find each other by name
  mbuma run -r -- bash                          a shell that is root in there, to try ip and ss

Exit status:
  COMMAND's own; 128+N if signal N ended it; 127 if it was not found; 126 if it could not be run;
  125 if mbuma itself failed; 2 for a mistake in the options.

Signals sent to mbuma go on to COMMAND, but for SIGRTMIN+1, which has mbuma print which thread
holds which lock (see `mbuma netstat --locks`). Processes that COMMAND leaves behind get SIGTERM
when it ends, and SIGKILL a moment later."
)]
pub(crate) struct RunArgs {
    /// Appear as root inside (an ordinary user keeps their own id otherwise, and root stays root)
    #[arg(short = 'r', long)]
    pub(crate) map_root: bool,

    /// Name of the interface
    #[arg(long, value_name = "NAME", default_value = "tap0", value_parser = ifname)]
    pub(crate) ifname: String,

    /// Give the guest this name; without it the guest has the host's name
    #[arg(long, value_name = "NAME", value_parser = names::host_name)]
    pub(crate) hostname: Option<String>,

    /// Name a host in /etc/hosts; ADDR may be `host-gateway`. May be repeated.
    #[arg(long, value_name = "NAME:ADDR")]
    pub(crate) add_host: Vec<AddedHost>,

    /// Search names in this domain instead of the host's; `.` for none. May be repeated.
    #[arg(long, value_name = "DOMAIN", value_parser = names::domain)]
    pub(crate) search: Vec<String>,

    /// Share a network with the other guests of this user that name it: they find each other by --hostname
    ///
    /// The first one begins the network, with its options, and the last one ends it. Options of later
    /// guests about the network itself must be the same, or absent. A guest reaches the servers of the
    /// others, but can't take their addresses. It may have 64 beside its own, of which one that it has not
    /// used for a minute gives way to a new one. A question for a name over TLS (port 853) goes to the name
    /// server of the host, which does not know the guests.
    #[arg(long, value_name = "NAME", value_parser = network::network_name,
          conflicts_with_all = ["workers", "stats", "api_socket", "ipv6_only", "address", "gateway"])]
    pub(crate) network: Option<String>,

    /// Options that `attach` has too.
    #[command(flatten)]
    pub(crate) net: NetOpts,

    /// The program to run and its arguments
    #[arg(value_name = "COMMAND", required = true, num_args = 1.., trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

impl RunArgs {
    /// The same with the addresses of the options.
    ///
    /// # Errors
    /// They can't be meant.
    pub(crate) fn placed(mut self) -> Result<RunArgs, String> {
        self.net.place()?;
        names::check_domains(&self.search)?;
        if self.network.is_some() && self.net.v6().is_some_and(|v6| v6.routed) {
            return Err(
                "--ipv6-prefix host: the guests of a network need addresses of their own"
                    .to_owned(),
            );
        }
        Ok(self)
    }
}

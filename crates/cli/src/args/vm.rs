//! The command line of `mbuma vm`.
//!
//! Locks: none.

use std::path::PathBuf;

use super::{NetOpts, names};

/// Values that the guest gets by DHCP only.
#[derive(Clone, Debug, Default)]
pub(crate) struct DhcpOpts {
    /// The guest's name.
    pub(crate) hostname: Option<String>,
    /// Domains to search in.
    pub(crate) search: Vec<String>,
}

/// The command line of `mbuma vm`.
#[derive(Debug, clap::Args)]
#[command(
    // Frames come one after the other, by one connection.
    mut_arg("workers", |arg| arg.hide(true).default_value("1").value_parser(clap::value_parser!(u8).range(1..=1))),
    after_help = "\
Examples:
  mbuma vm --socket /run/user/1000/vm.sock
  mbuma vm --socket vm.sock --publish 2222:22 --hostname web
  qemu-system-x86_64 ... -device virtio-net-pci,netdev=n \\
    -netdev stream,id=n,addr.type=unix,addr.path=vm.sock

  mbuma vm --vhost-user --socket vm.sock
  qemu-system-x86_64 ... -object memory-backend-memfd,id=m,size=1G,share=on \\
    -machine memory-backend=m -device virtio-net-pci,netdev=n \\
    -chardev socket,id=c,path=vm.sock -netdev vhost-user,id=n,chardev=c

The machine asks by DHCP for its address, 10.0.2.100/24, its gateway, name server and MTU; for those
of IPv6 it asks for routers, or by DHCPv6 for fd00::100. If it ends, another one may connect, or the
same one again. QEMU 7.2 without KVM crashes with vhost-user, unless its device has vectors=0.

Exit status:
  0 after a signal; 125 if mbuma failed; 2 for a mistake in the options."
)]
pub(crate) struct VmArgs {
    /// Listen at PATH, a new UNIX-domain socket, for a machine of this user
    #[arg(short = 's', long, value_name = "PATH")]
    pub(crate) socket: PathBuf,

    /// Be a network card in memory that the machine shares (a vhost-user back-end), instead of taking frames from the
    /// socket: frames are not copied through the socket, checksums and segmentation are left out, one pair of queues
    #[arg(long)]
    pub(crate) vhost_user: bool,

    /// Give the machine this name
    #[arg(long, value_name = "NAME", value_parser = names::host_name)]
    pub(crate) hostname: Option<String>,

    /// Have the machine search names in this domain. May be repeated.
    #[arg(long, value_name = "DOMAIN", value_parser = names::domain)]
    pub(crate) search: Vec<String>,

    /// Options that `run` has too.
    #[command(flatten)]
    net: NetOpts,
}

impl VmArgs {
    /// Gives the machine and the gateway the requested addresses.
    pub(crate) fn place(&mut self) -> Result<(), String> {
        names::check_domains(&self.search)?;
        self.net.place()
    }

    /// The options of its network.
    pub(crate) fn net(&self) -> NetOpts {
        NetOpts {
            dhcp: DhcpOpts {
                hostname: self.hostname.clone(),
                search: self.search.clone(),
            },
            ..self.net.clone()
        }
    }
}

//! Options of pasta and passt that mbuma does not do: each is an error that names what to do instead.
//!
//! Locks: none.

/// The options.
#[derive(Debug, clap::Args)]
pub(super) struct RefusedOpts {
    /// Print packets.
    #[arg(long, hide = true)]
    trace: bool,
    /// Print figures at this interval.
    #[arg(long, hide = true, value_name = "SECONDS")]
    stats: Option<String>,
    /// Print into a file.
    #[arg(short = 'l', long, hide = true, value_name = "PATH")]
    log_file: Option<String>,
    /// Bytes of that file at most.
    #[arg(long, hide = true, value_name = "BYTES")]
    log_size: Option<String>,
    /// Serve as this user.
    #[arg(long, hide = true, value_name = "USER")]
    runas: Option<String>,
    /// Serve within an empty directory if the kernel refuses an empty root.
    #[arg(long, hide = true)]
    chroot_fallback: bool,
    /// Be configured through this socket.
    #[arg(short = 'c', long, hide = true, value_name = "PATH")]
    conf_path: Option<String>,
    /// Make no interface.
    #[arg(long, hide = true)]
    splice_only: bool,
    /// Bind ports at addresses that the host does not have.
    #[arg(long, hide = true)]
    freebind: bool,
    /// Name the guest by a whole domain name.
    #[arg(long, hide = true, value_name = "NAME")]
    fqdn: Option<String>,
    /// Serve a virtual machine at this descriptor.
    #[arg(short = 'F', long, hide = true, value_name = "FD")]
    fd: Option<String>,
}

impl RefusedOpts {
    /// # Errors
    /// One of them was given.
    pub(super) fn check(&self) -> Result<(), String> {
        let advice = [
            (
                self.trace,
                "--trace: mbuma prints no packets: --pcap FILE records them, and `mbuma netstat -s` counts drops",
            ),
            (
                self.stats.is_some(),
                "--stats: `mbuma netstat` shows figures of a running mbuma at any time",
            ),
            (
                self.log_file.is_some() || self.log_size.is_some(),
                "--log-file, --log-size: mbuma logs on standard error, and in the background nothing: give \
                 --foreground, and lead standard error into a file",
            ),
            (
                self.runas.is_some(),
                "--runas: mbuma that root starts becomes `nobody` by itself: to serve as another user, start it as \
                 that user",
            ),
            (
                self.chroot_fallback,
                "--chroot-fallback: mbuma serves without an empty root if the kernel refuses one, and says so: leave \
                 the option out",
            ),
            (
                self.conf_path.is_some(),
                "--conf-path: ports of a running mbuma are changed by `mbuma publish`",
            ),
            (
                self.splice_only,
                "--splice-only: mbuma needs an interface in the namespace: leave the option out",
            ),
            (
                self.freebind,
                "--freebind: a port is published at an address that the host has: give -t without an address",
            ),
            (self.fqdn.is_some(), "--fqdn: --hostname names the guest"),
            (
                self.fd.is_some(),
                "--fd is for virtual machines: `mbuma vm --socket PATH` serves one",
            ),
        ];
        match advice.into_iter().find(|(given, _)| *given) {
            Some((_, advice)) => Err(advice.to_owned()),
            None => Ok(()),
        }
    }
}

//! Options of pasta and passt that mbuma does not do. Each says what to do instead: as an error if the guest would have
//! another network than it was meant to have, and else as a line on standard error.
//!
//! Locks: none.

/// The options.
#[derive(Debug, clap::Args)]
pub(super) struct RefusedOpts {
    /// Print packets.
    #[arg(long, hide = true)]
    pub(super) trace: bool,
    /// Print figures at this interval.
    #[arg(long, hide = true, value_name = "SECONDS")]
    stats: Option<String>,
    /// Bytes of `--log-file` at most.
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
                self.conf_path.is_some(),
                "--conf-path: ports of a running mbuma are changed by `mbuma publish`",
            ),
            (
                self.splice_only,
                "--splice-only: mbuma needs an interface in the namespace: leave the option out",
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

    /// A line for each given option that has no effect.
    pub(super) fn notes(&self) -> impl Iterator<Item = &'static str> {
        let notes = [
            (
                self.trace,
                "--trace has no effect beside that of --debug: --pcap FILE records packets",
            ),
            (
                self.stats.is_some(),
                "--stats has no effect: `mbuma netstat` shows figures at any time",
            ),
            (
                self.log_size.is_some(),
                "--log-size has no effect: mbuma writes few lines",
            ),
            (
                self.runas.is_some(),
                "--runas has no effect: mbuma that root starts becomes `nobody`",
            ),
            (
                self.chroot_fallback,
                "--chroot-fallback has no effect: mbuma says so if the kernel refuses an empty root",
            ),
            (
                self.freebind,
                "--freebind has no effect: the host must have the addresses of ports",
            ),
        ];
        let given = notes.into_iter().filter(|(given, _)| *given);
        given.map(|(_, note)| note)
    }
}

//! The command line of `mbuma netstat`.
//!
//! Locks: none.

/// The command line of `mbuma netstat`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mbuma netstat                    an overview of the one mbuma that runs
  mbuma netstat 4711 -a            the connections of this one of several
  mbuma netstat -m -z              buffers, then the zones that they come from
  mbuma netstat -s --json | jq '.protocols.drops'
  mbuma netstat -a -w 1            the connections, again each second, until Ctrl-C
  mbuma netstat --locks            which lock was waited for, how long, and which thread has it

An mbuma whose loop hangs cannot answer, and netstat gives it up after 2 seconds. It still takes a
signal: `kill -s RTMIN+1 PID`, from a shell, has it print what --locks shows on its standard error.

Exit status:
  0, with -w also when that mbuma has ended; 1 if no mbuma runs, or it does not answer; 2 if several
  run and no PID was given, or for a mistake in the options.")]
pub(crate) struct NetstatArgs {
    /// Process number of the mbuma to look into
    #[arg(value_name = "PID", value_parser = super::number::pid)]
    pub(crate) pid: Option<i32>,

    /// Connections and flows, each with its ends, its state and the bytes in its buffers
    #[arg(short = 'a', long)]
    pub(crate) connections: bool,

    /// Buffers in use and cached, and how often operations on them copied
    #[arg(short = 'm', long)]
    pub(crate) mbufs: bool,

    /// The counters of the protocols, and the packets dropped, by reason
    #[arg(short = 's', long)]
    pub(crate) statistics: bool,

    /// The zones of the allocator, as `vmstat -z` shows them
    #[arg(short = 'z', long)]
    pub(crate) zones: bool,

    /// Interfaces, and the frames that went through them
    #[arg(short = 'i', long)]
    pub(crate) interfaces: bool,

    /// Lock classes with their waits; which thread holds which lock, and which waits for it
    #[arg(long)]
    pub(crate) locks: bool,

    /// Print again each SECONDS, until that mbuma ends
    #[arg(short = 'w', long, value_name = "SECONDS", value_parser = super::number::interval)]
    pub(crate) wait: Option<u32>,

    /// One JSON document, on one line, instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

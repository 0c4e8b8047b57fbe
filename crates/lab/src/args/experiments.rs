//! The options of experiments that have more than a user types: jobs for processes that they start themselves.

use std::path::PathBuf;

use lab::{Comparison, alloc, epair, run, serve, splice, stream};

/// The option of a comparison of tools.
#[derive(Debug, clap::Args)]
pub(crate) struct ToolArgs {
    /// The tool to measure [default: the `mbuma` that was built beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) tool: Option<PathBuf>,
}

/// The options of `cargo lab alloc`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab alloc --list                         the cases and the designs
  cargo lab alloc --case pair,batch64 --size 256
  cargo lab alloc --design mbuma-rseq,jemalloc --json | jq .

A reading of prodcons, threads32 or purge-dip in which another program took a CPU is taken
again, some times; the note says how many stayed disturbed. The spike is run once for each 11
rounds.

The allocators of others are built in by `cargo lab-peers alloc`;
DPDK's is found when the program runs, if libdpdk-dev is installed. malloc of glibc differs from
one process to the next by 2 or 3 times at 2048 bytes: run it several times before you believe a
figure of its.")]
pub(crate) struct AllocArgs {
    #[command(flatten)]
    pub(crate) options: alloc::Options,

    /// A job that another mbuma has started this one for: a design's memory is followed in a process of its own
    #[arg(long, hide = true)]
    pub(crate) child: Option<String>,
}

/// The options of `cargo lab epair`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab epair --list                         the cases and the designs
  cargo lab epair --case waits --wakeups 1000000
  cargo lab epair --case http,stream --design mbuma,two-rings-flags --json | jq .

The case `programs` needs /dev/net/tun, the right to make namespaces, curl, and nginx or python3.")]
pub(crate) struct EpairArgs {
    #[command(flatten)]
    pub(crate) options: epair::Options,

    /// Get this many pages, in the namespace that another mbuma has made for this one
    #[arg(long, hide = true)]
    pub(crate) child: Option<String>,
}

/// The options of `cargo lab serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo build --release && cargo lab serve       about ten minutes
  cargo lab serve --list                         the cases and the designs
  cargo lab serve --case tls-10m-1 --reps 11 --seconds-per-case 11 --json | jq .

A reading takes whole seconds, one at least. It needs wrk, openssl, /dev/net/tun, the right to make
namespaces (root has it, and users where the system lets them make user namespaces), unshare,
nsenter, taskset and ip. All is done in namespaces of its own,
which end with it.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) options: serve::Options,

    #[command(flatten)]
    pub(crate) tool: ToolArgs,

    /// A part of the experiment that another process has started this one for: each is in a namespace of its own
    #[arg(long, hide = true)]
    pub(crate) child: Option<String>,

    /// The files of that part
    #[arg(long, hide = true, value_name = "DIR", requires = "child")]
    pub(crate) files: Option<PathBuf>,
}

/// The options of `cargo lab run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo build --release && cargo lab run         about two minutes
  cargo lab run --list                           the cases and the designs
  cargo lab run --case up1,down1 --mtu 1500
  cargo lab run --design mbuma,pasta --reps 11 --seconds-per-case 11 --json | jq .

It needs /dev/net/tun, the right to make namespaces (root has it, and users where the system lets
them make user namespaces), unshare, nsenter, setpriv and ip. All is done in namespaces of its own,
which end with it.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) options: run::Options,

    #[command(flatten)]
    pub(crate) tool: ToolArgs,

    /// A part of the experiment that another mbuma has started this one for: each is in a namespace of its own
    #[arg(long, hide = true)]
    pub(crate) child: Option<String>,
}

/// The options of `cargo lab splice`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab splice --list                        the cases and the designs
  cargo lab splice --case fifteen,fifteen-shared --seconds-per-case 10
  cargo lab splice --design mbuma,mbuma-copy --json | jq .

The kernel's rows need the right to make namespaces, unshare and ip.")]
pub(crate) struct SpliceArgs {
    #[command(flatten)]
    pub(crate) options: splice::Options,

    /// One figure of one design, in this process
    #[arg(long, num_args = 2, value_names = ["CASE", "SECONDS"], hide = true)]
    pub(crate) bench: Vec<String>,
}

/// The options of `cargo lab stream`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab stream --list                        the cases and the designs
  cargo lab stream --case stream-1500-one,stream-1500-two --seconds-per-case 10
  cargo lab stream --design mbuma,mbuma-sums,smoltcp --json | jq .
  cargo lab stream --peers DIR                   where the peers' programs were built

Peers are programs, which are looked for in DIR/bin and DIR/target/release; kernel-veth needs
the right to make namespaces, and ip.")]
pub(crate) struct StreamArgs {
    #[command(flatten)]
    pub(crate) options: stream::Options,

    /// One figure of one design, as the peers' programs print theirs: stream|rr MTU one|two SECONDS csum|nocsum
    #[arg(long, num_args = 5, value_names = ["MODE", "MTU", "THREADS", "SECONDS", "CSUM"], hide = true)]
    pub(crate) bench: Vec<String>,
}

/// The options of `cargo lab unix`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab unix --list                          the cases and the designs
  cargo lab unix --case pp1,pp11 --seconds-per-case 10
  cargo lab unix --design mbuma,kernel --json | jq .")]
pub(crate) struct UnixArgs {
    #[command(flatten)]
    pub(crate) common: Comparison,

    /// One figure of one design, as `nbench` takes it and prints it: unixpp PAIRS SECONDS SIZE, or unixst SECONDS
    /// CHUNK, then same or cross
    #[arg(long, num_args = 3..=5, value_name = "WORDS", hide = true)]
    pub(crate) bench: Vec<String>,
}

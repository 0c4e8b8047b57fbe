//! The options of each experiment.

use std::path::PathBuf;

use super::{CommonArgs, TimedArgs, ToolArgs};

/// The options of `cargo lab all`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab all                                  about 20 minutes; then open report/index.html
  cargo lab all --effort quick --out try         seconds: does everything run here?
  cargo lab all --only refs,epair --out some
  cargo lab all --from report/results.jsonl the page again, from the saved results

Run no other program meanwhile, and build with --release: the figures of a busy machine are of its load.")]
pub(crate) struct AllArgs {
    /// Write the report into this directory
    #[arg(long, value_name = "DIR", default_value = "report")]
    pub(crate) out: PathBuf,

    /// How hard to measure
    #[arg(long, value_enum, default_value_t = Effort::Normal)]
    pub(crate) effort: Effort,

    /// Only these experiments
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Not these experiments
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) skip: Vec<String>,

    /// Make the report from these saved results, without a measurement
    #[arg(long, value_name = "FILE", conflicts_with_all = ["effort", "only", "skip"])]
    pub(crate) from: Option<PathBuf>,

    /// One line of JSON for each figure, instead of the verdicts
    #[arg(long)]
    pub(crate) json: bool,
}

/// How hard to measure.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Effort {
    /// Seconds: shows that everything runs
    Quick,
    /// Minutes: each experiment as by itself
    Normal,
    /// As long as figures get better by it
    Thorough,
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
    pub(crate) timed: TimedArgs,

    /// Bytes of an item
    #[arg(
        long,
        value_name = "BYTES",
        value_delimiter = ',',
        default_value = "256,2048"
    )]
    pub(crate) size: Vec<usize>,

    /// The size of a spike, in the cases that follow memory
    #[arg(long, value_name = "MB", default_value_t = 512)]
    pub(crate) spike_mb: usize,

    /// A job that another mbuma has started this one for: a design's memory is followed in a process of its own
    #[arg(long, hide = true)]
    pub(crate) child: Option<String>,
}

/// The options of `cargo lab sizes`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab sizes                                packets made up: many small, many full, few between
  tcpdump -i eth0 -c 100000 -s 96 -w eth0.pcap   your own; lengths are all that is taken
  cargo lab sizes --trace eth0.pcap
  cargo lab sizes --queue 4096 --json | jq .

No figure here is a time: the same packets give the same figures on every machine.")]
pub(crate) struct SizesArgs {
    /// Take the packets from this capture (pcap or pcapng) instead of making them up
    #[arg(long, value_name = "FILE", conflicts_with_all = ["packets", "seed"])]
    pub(crate) trace: Option<PathBuf>,

    /// How many packets to make up
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) packets: usize,

    /// The seed of made-up packets: a seed gives the same packets again
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Packets that are held at once
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) queue: usize,

    /// One line of JSON for each figure, instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// The options of `cargo lab refs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab refs --list                          the cases and the designs
  cargo lab refs --case two-different,splice
  cargo lab refs --design mbuma,ring,leader --json | jq .

A share is an mbuf of its own, except in arc and bytes, which leave that out.
`counted` is ours in the bare mbuf that ring, proxy and leader are built into, so that they
differ only in the protocol; `mini` is that in 64 bytes instead of 256, so mini against counted
shows the gain of a mini-mbuf.")]
pub(crate) struct RefsArgs {
    #[command(flatten)]
    pub(crate) timed: TimedArgs,
}

/// The options of `cargo lab giant`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab giant --list                         the cases and the designs
  cargo lab giant --case mysql --reps 31
  cargo lab giant --design mp,giant --json | jq .

FreeBSD saw two CPUs do 1.07 times the queries of one under Giant and 1.42 times without, 30 to
40 % from removing it, and no change on loopback TCP and UDP, whose packets went to another
thread (deferred dispatch) with it and without. UNIX sockets have no packets to defer.
`switches` are context switches, `waits` are locks that were not free, `waited` is the time that
all threads together waited for them: each for one query, one request, or 64 KiB of a stream.")]
pub(crate) struct GiantArgs {
    #[command(flatten)]
    pub(crate) timed: TimedArgs,

    /// Queries of each of the 11 clients in a round of the case `mysql`
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) queries: usize,
}

/// The options of `cargo lab netisr`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab netisr --list                        the cases and the designs
  cargo lab netisr --case udp-rr-epair,tcp-rr-epair
  cargo lab netisr --workers 2 --design direct,deferred --json | jq .

`moved` is the part of the packets that were queued for another CPU than that of their
arrival. Packets to ourselves are always queued; directly dispatched ones are then handled by the
thread that queued them.")]
pub(crate) struct NetisrArgs {
    #[command(flatten)]
    pub(crate) timed: TimedArgs,

    /// Workers, and so CPUs, of a stack
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2")]
    pub(crate) workers: Vec<usize>,
}

/// The options of `cargo lab extpgs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab extpgs --list                        the cases and the designs
  cargo lab extpgs --case saved,mbufs
  cargo lab extpgs --records 40000 --reps 31 --json | jq .

Instructions and cache misses of one phase, where no counters are to be had:
  valgrind --tool=callgrind --cache-sim=yes --collect-atstart=no --toggle-collect='*walk_all*' \\
    cargo lab extpgs --design inline --records 2000 --reps 1")]
pub(crate) struct ExtpgsArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,

    /// Records that are live at the same time
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) records: usize,
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
    pub(crate) timed: TimedArgs,

    /// Wakeups of each design's receiver in the case `waits`, all rounds together
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) wakeups: u64,

    /// Pages that the client gets in the case `programs`
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(crate) pages: u64,

    /// Get this many pages, in the namespace that another mbuma has made for this one
    #[arg(long, hide = true)]
    pub(crate) child: Option<String>,
}

/// The options of `cargo lab sendfile`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab sendfile --list                      the cases and the designs
  cargo lab sendfile --case tls --design inline,separate --reps 61 --seconds-per-case 12")]
pub(crate) struct SendfileArgs {
    #[command(flatten)]
    pub(crate) timed: TimedArgs,
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
    pub(crate) timed: TimedArgs,

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
    pub(crate) timed: TimedArgs,

    /// The MTU of the guest's interface, 576 to 65520
    #[arg(long, value_name = "N", default_value_t = 65_520)]
    pub(crate) mtu: u16,

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
    pub(crate) timed: TimedArgs,

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
    pub(crate) timed: TimedArgs,

    /// Where the peers' programs are [default: $PEERS_DIR, or $PB]
    #[arg(long, value_name = "DIR")]
    pub(crate) peers: Option<PathBuf>,

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
    pub(crate) timed: TimedArgs,

    /// One figure of one design, as `nbench` takes it and prints it: unixpp PAIRS SECONDS SIZE, or unixst SECONDS
    /// CHUNK, then same or cross
    #[arg(long, num_args = 3..=5, value_name = "WORDS", hide = true)]
    pub(crate) bench: Vec<String>,
}

/// The options of `cargo lab wan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab wan --list                           the paths and the designs
  cargo lab wan --design sim-cubic               in virtual time only: no root, and no quiet machine is needed
  cargo lab wan --design linux-cubic,mbuma-cubic --case fair-1bdp
  cargo lab wan --case loss-1 --seconds-per-case 600 --reps 20 --json | jq .")]
pub(crate) struct WanArgs {
    #[command(flatten)]
    pub(crate) timed: TimedArgs,
}

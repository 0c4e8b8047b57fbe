//! The command line of the laboratory.
//!
//! Invariant: the experiments check the names and numbers, because they have the lists.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Reruns comparisons of designs: a BSD's, its former one, and those of others.
#[derive(Debug, Parser)]
#[command(
    name = "cargo lab",
    bin_name = "cargo lab",
    version,
    max_term_width = 100
)]
pub(crate) struct Args {
    /// List the experiments, and run none
    #[arg(long)]
    pub(crate) list: bool,

    /// The experiment.
    #[command(subcommand)]
    pub(crate) experiment: Option<Experiment>,
}

/// The experiment.
#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// Every experiment, and one report of the seeds' claims and the measurements
    #[command(
        long_about = "Run every experiment, each in a process of its own, and write one report: each claim of the \
            seed documents beside the measurement, with tables, pictures and the machine.\n\n\
        Records are saved in DIR/results.jsonl as they come, and the page is made from that file. An experiment that \
        fails, or takes ten times as long as it should, is reported as such and does not end the others; the exit \
        status is then 1."
    )]
    All(AllArgs),

    /// Network buffer allocators: those of the BSDs, ours, and common programs today
    #[command(
        long_about = "Compare network buffer allocators, side by side in one run: those of the BSDs from \
        1998 to 2004, ours, and common programs today.\n\n\
        Every round goes over all designs, so that a disturbance of the machine affects all of them alike. A figure is \
        the median over the rounds, with the quartiles beside it; `x ours` says how many times slower than our first \
        row a design is. Where data crosses CPUs, the latency between the two is sampled before each reading, and \
        readings taken while it was near and while it was far are kept apart."
    )]
    Alloc(AllocArgs),

    /// Hand-offs between two stacks: two that lost wakeups, and ours
    #[command(
        long_about = "Compare hand-offs of packets from one stack to another (seed 003), side by side in one run: \
            two \
        rings with an index that flips, before and after their first fix, and ours, a queue with a mutex and a \
        state. \
        A control that wakes the receiver for every packet shows the scheduler's own delays.\n\n\
        Times are shown as histograms by powers of two of nanoseconds. A wakeup is counted as lost when packets \
        wait while the thread that must take them sleeps and was not woken.",
        // Waking threads is slow: it takes longer than the others until a figure is reliable.
        mut_arg("seconds_per_case", |arg| arg.default_value("5")),
        mut_arg("reps", |arg| arg.default_value("5"))
    )]
    Epair(EpairArgs),

    /// Records in unmapped pages: the page list inside of the mbuf, beside it, and clusters instead
    #[command(
        long_about = "Compare ways of describing a TLS record of 16 KiB that lies in unmapped pages: a list \
        of the pages inside of the mbuf (ours, and a bare one), a list in a record of its own as FreeBSD had it \
        until \
        2020, and clusters of 2 KiB instead.\n\n\
        Every round goes over all designs. Records are built, walked as a driver does, and freed, each time with \
        caches that something else filled. A figure is the median over the rounds, with the quartiles beside it; \
        `saved` compares round by round."
    )]
    Extpgs(ExtpgsArgs),

    /// A stack under one lock, and the same without, on one CPU and on two
    #[command(
        long_about = "Compare the stack under Giant, one lock over all of it, with the same stack without (seed 002), \
        on one CPU and on two: a load as of a database over UNIX-domain sockets, a TCP stream, and requests over TCP \
        and UDP on loopback. The same programs run over this system's own sockets, for scale.\n\n\
        Every round goes over all designs and numbers of CPUs. Beside throughput and latency stand the context \
        switches and the waiting for locks of an operation, by lock; below, the seed's ratios beside those of this \
        machine, round by round."
    )]
    Giant(GiantArgs),

    /// When a stack handles its packets: at once, at once on the flow's CPU only, or later
    #[command(
        long_about = "Compare when and where a stack handles its packets, side by side in one run: at once, by the \
        thread that brings them in (direct, our default); at once if that thread is on the CPU of the packet's \
        flow, else by that CPU (hybrid); always by the flow's CPU, later (deferred).\n\n\
        Two programs talk, in one stack or in two with an epair between, each a thread on a CPU of its own; each CPU \
        of a stack has a worker, pinned too. A figure is the median over the rounds, with the quartiles beside it. \
        The latency between the two CPUs is sampled before each reading, and readings taken while it was near and \
        while it was far are kept apart.\n\n\
        FreeBSD's stack without Giant (seed 002) came with deferred dispatch as its default and direct dispatch as a \
        switch, net.isr.enable, \"to increase parallelism, especially for inbound packet paths on multiple \
        interfaces\": each interface's thread carries its packets all the way up, beside the others, and beside \
        packets to the machine itself, which the netisr thread still carried. It asked for reports of environments \
        in which direct is slower. Direct became the default later, and the netisr thread one for each CPU.",
        mut_arg("seconds_per_case", |arg| arg.default_value("2")),
        mut_arg("reps", |arg| arg.default_value("5"))
    )]
    Netisr(NetisrArgs),

    /// Ways of sharing a cluster: a ring under a mutex, a proxy's count, a leader's, ours, Arc and Bytes
    #[command(
        long_about = "Compare ways of sharing the storage of network buffers, side by side in one run: a ring of \
        mbufs under one mutex, a proxy's count that the first share allocates, a leader's count that it outlives, \
        ours beside the cluster, and the types that Rust programs use today.\n\n\
        Every round goes over all designs, so that a disturbance of the machine affects all of them alike. A figure is \
        the median over the rounds, with the quartiles beside it; `x ours` is its ratio to our first row. Where two \
        CPUs take part, the latency between them is sampled before each reading, and readings taken while it was near \
        and while it was far are kept apart."
    )]
    Refs(RefsArgs),

    /// A guest's network: ours, pasta's, slirp4netns's, and a veth pair of the kernel's
    #[command(
        long_about = "Compare a guest of `mbuma attach` (and so of `mbuma run`) with guests of pasta and \
        slirp4netns, side by side in one run: bulk TCP both ways, round trips alone and beside it, and \
        short connections, between clients in one network namespace and servers on the loopback of another. A veth \
        pair between the two, which takes privileges, stands beside them for reference.\n\n\
        Every round goes over all designs, so that a disturbance of the machine affects all of them alike. A figure is \
        the median over the rounds, with the quartiles beside it; `x ours` is its ratio to our first row. The latency \
        between two CPUs is sampled before each reading, and readings taken while it was near and while it was far \
        are kept apart. Tools that are not in PATH are skipped.",
        // Windows take a while to grow.
        mut_arg("seconds_per_case", |arg| arg.default_value("3")),
        mut_arg("reps", |arg| arg.default_value("3"))
    )]
    Run(RunArgs),

    /// A file's records of 16 KiB, plain and over TLS: page lists in the mbuf, beside it, clusters
    #[command(
        long_about = "Compare ways of holding a file's records until they are sent: a page list in the mbuf, one \
        beside it (seed 001), and clusters that the file is read into; sent plain, or encrypted by AES-128-GCM. \
        Records begin at every place of a page.\n\n\
        Every round goes over all designs, so that a disturbance of the machine affects all of them alike. A figure is \
        the median over the rounds, with the quartiles beside it; `x ours` is its ratio to our first row.",
        mut_arg("seconds_per_case", |arg| arg.default_value("3")),
        mut_arg("reps", |arg| arg.default_value("21"))
    )]
    Sendfile(SendfileArgs),

    /// Files over HTTP: `mbuma serve` beside nginx
    #[command(
        long_about = "Compare `mbuma serve` with nginx, side by side in one run: files of 1 KB to 256 MiB, over one \
        connection to 256, plain and over TLS, and handshakes; each server with a CPU of its own and the client with \
        another one, or with the same. The client is wrk, and openssl s_time for handshakes. A figure is the \
        median over the rounds, with the quartiles beside it; `x ours` is its ratio to our row. A server that is not \
        in PATH is skipped.",
        mut_arg("seconds_per_case", |arg| arg.default_value("3")),
        mut_arg("reps", |arg| arg.default_value("3"))
    )]
    Serve(ServeArgs),

    /// Packet sizes, the memory that they take in mbufs and in the buffers of others, and the calls that they cost
    Sizes(SizesArgs),

    /// A TCP proxy: spliced inside of the stack, beside programs that copy, and the kernel
    #[command(
        long_about = "Compare proxies between a client and a server: spliced inside of our stack; a program on our \
        stack that hands data on, or copies it; and the kernel's splice(2), read(2) and write(2) over veth.\n\n\
        Client and server copy nothing, so that the figures show the proxy's work. `x ours` is a row's ratio to \
        our first one."
    )]
    Splice(SpliceArgs),

    /// TCP from stack to stack in one process: ours, smoltcp, lwIP, gVisor's netstack, the kernel
    #[command(
        long_about = "Compare one TCP stream, and round trips of 64 bytes, between two stacks in one process (ours \
        over an epair), on one thread and on two, with smoltcp, lwIP, gVisor's netstack and the kernel at the same \
        work.\n\n\
        Every round goes over all designs, so that a disturbance of the machine affects all of them alike. A figure is \
        the median over the rounds, with the quartiles beside it; `x ours` is its ratio to our first row. Where two \
        threads take part, the latency between two CPUs is sampled before each reading, and readings taken while it \
        was near and while it was far are kept apart."
    )]
    Stream(StreamArgs),

    /// UNIX-domain sockets between threads: ours, copying and by reference, and the kernel's
    Unix(UnixArgs),

    /// TCP over bad paths: ours, and Linux's with the same algorithms
    #[command(
        long_about = "Send TCP over an emulated link with a rate of 100 Mbit/s, a long delay, and loss, reordering or \
        jitter, with ours at the ends in virtual time, and with Linux's in two network namespaces in real time.\n\n\
        The rounds are seeds: each decides the losses of one run of every design. A figure is the median over the \
        seeds, with the quartiles beside it.",
        // A path of 50 ms takes some seconds to fill: these are six seeds of 30 s.
        mut_arg("seconds_per_case", |arg| arg.default_value("180")),
        mut_arg("reps", |arg| arg.default_value("6"))
    )]
    Wan(WanArgs),
}

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

/// The options of every comparison.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// Only these cases
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) case: Vec<String>,

    /// Only these designs
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) design: Vec<String>,

    /// How long each design is measured in each case, all rounds together
    #[arg(long, value_name = "S", default_value_t = 0.3)]
    pub(crate) seconds_per_case: f64,

    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 11)]
    pub(crate) reps: usize,

    /// One line of JSON for each figure, instead of tables
    #[arg(long)]
    pub(crate) json: bool,

    /// Draw each case into DIR, as SVG
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<PathBuf>,

    /// List the cases and the designs, and measure nothing
    #[arg(long)]
    pub(crate) list: bool,
}

/// The options of `cargo lab alloc`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab alloc --list                         the cases and the designs
  cargo lab alloc --case pair,batch64 --size 256
  cargo lab alloc --design mbuma-rseq,jemalloc --json | jq .
  cargo lab alloc --plot pictures

A reading of prodcons, threads32 or purge-dip in which another program took a CPU is taken
again, some times; the note says how many stayed disturbed. The spike is run once for each 11
rounds.

The allocators of others are built in by `cargo lab-peers alloc`;
DPDK's is found when the program runs, if libdpdk-dev is installed. malloc of glibc differs from
one process to the next by 2 or 3 times at 2048 bytes: run it several times before you believe a
figure of its.")]
pub(crate) struct AllocArgs {
    #[command(flatten)]
    pub(crate) common: Common,

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
  cargo lab sizes --trace eth0.pcap --plot pictures
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

    /// How many packets are held at once
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) queue: usize,

    /// One line of JSON for each figure, instead of tables
    #[arg(long)]
    pub(crate) json: bool,

    /// Draw the sizes, the wasted memory and the peaks into DIR, as SVG
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<PathBuf>,
}

/// The options of `cargo lab refs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab refs --list                          the cases and the designs
  cargo lab refs --case two-different,splice
  cargo lab refs --design mbuma,ring,leader --json | jq .
  cargo lab refs --plot pictures

A share is an mbuf of its own, except in arc and bytes, which leave that out.
`counted` is ours in the bare mbuf that ring, proxy and leader are built into, so that they
differ only in the protocol; `mini` is that in 64 bytes instead of 256, so mini against counted
shows the gain of a mini-mbuf.")]
pub(crate) struct RefsArgs {
    #[command(flatten)]
    pub(crate) common: Common,
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
    pub(crate) common: Common,

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
    pub(crate) common: Common,

    /// How many workers, and so CPUs, a stack has
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
    /// Only these cases
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) case: Vec<String>,

    /// Only these designs
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) design: Vec<String>,

    /// Records that are live at once
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) records: usize,

    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 11)]
    pub(crate) reps: usize,

    /// One line of JSON for each figure, instead of tables
    #[arg(long)]
    pub(crate) json: bool,

    /// Draw each case into DIR, as SVG
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<PathBuf>,

    /// List the cases and the designs, and measure nothing
    #[arg(long)]
    pub(crate) list: bool,
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
    pub(crate) common: Common,

    /// How often each design's receiver is woken in the case `waits`, all rounds together
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
    pub(crate) common: Common,
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
    pub(crate) common: Common,

    /// The tool to measure [default: the `mbuma` that was built beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) tool: Option<PathBuf>,

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
    pub(crate) common: Common,

    /// The MTU of the guest's interface, 576 to 65520
    #[arg(long, value_name = "N", default_value_t = 65_520)]
    pub(crate) mtu: u16,

    /// The tool to measure [default: the `mbuma` that was built beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) tool: Option<PathBuf>,

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
    pub(crate) common: Common,

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
    pub(crate) common: Common,

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
    pub(crate) common: Common,

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
    pub(crate) common: Common,
}

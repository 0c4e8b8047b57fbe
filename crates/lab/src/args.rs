//! The command line of the laboratory.
//!
//! Invariant: the experiments check the names and numbers, because they have the lists.

mod experiments;

use clap::{Parser, Subcommand};
use lab::{Comparison, all, extpgs, giant, netisr, sizes};

pub(crate) use experiments::{
    AllocArgs, EpairArgs, RunArgs, ServeArgs, SpliceArgs, StreamArgs, ToolArgs, UnixArgs,
};

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
    All(all::Options),

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
        `saved` compares round by round.",
        // A round takes the time that the records take.
        mut_arg("seconds_per_case", |arg| arg.hide(true))
    )]
    Extpgs(extpgs::Options),

    /// A stack under one lock, and the same without, on one CPU and on two
    #[command(
        long_about = "Compare the stack under Giant, one lock over all of it, with the same stack without (seed 002), \
        on one CPU and on two: a load as of a database over UNIX-domain sockets, a TCP stream, and requests over TCP \
        and UDP on loopback. The same programs run over this system's own sockets, for scale.\n\n\
        Every round goes over all designs and numbers of CPUs. Beside throughput and latency stand the context \
        switches and the waiting for locks of an operation, by lock; below, the seed's ratios beside those of this \
        machine, round by round."
    )]
    Giant(giant::Options),

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
    Netisr(netisr::Options),

    /// Ways of sharing a cluster: a ring under a mutex, a proxy's count, a leader's, ours, Arc and Bytes
    #[command(
        after_help = "\
Examples:
  cargo lab refs --list                          the cases and the designs
  cargo lab refs --case two-different,splice
  cargo lab refs --design mbuma,ring,leader --json | jq .

A share is an mbuf of its own, except in arc and bytes, which leave that out.
`counted` is ours in the bare mbuf that ring, proxy and leader are built into, so that they
differ only in the protocol; `mini` is that in 64 bytes instead of 256, so mini against counted
shows the gain of a mini-mbuf.",
        long_about = "Compare ways of sharing the storage of network buffers, side by side in one run: a ring of \
        mbufs under one mutex, a proxy's count that the first share allocates, a leader's count that it outlives, \
        ours beside the cluster, and the types that Rust programs use today.\n\n\
        Every round goes over all designs, so that a disturbance of the machine affects all of them alike. A figure is \
        the median over the rounds, with the quartiles beside it; `x ours` is its ratio to our first row. Where two \
        CPUs take part, the latency between them is sampled before each reading, and readings taken while it was near \
        and while it was far are kept apart."
    )]
    Refs(Comparison),

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
        after_help = "\
Examples:
  cargo lab sendfile --list                      the cases and the designs
  cargo lab sendfile --case tls --design inline,separate --reps 61 --seconds-per-case 12",
        long_about = "Compare ways of holding a file's records until they are sent: a page list in the mbuf, one \
        beside it (seed 001), and clusters that the file is read into; sent plain, or encrypted by AES-128-GCM. \
        Records begin at every place of a page.\n\n\
        Every round goes over all designs, so that a disturbance of the machine affects all of them alike. A figure is \
        the median over the rounds, with the quartiles beside it; `x ours` is its ratio to our first row.",
        mut_arg("seconds_per_case", |arg| arg.default_value("3")),
        mut_arg("reps", |arg| arg.default_value("21"))
    )]
    Sendfile(Comparison),

    /// Files over HTTP: `mbuma serve` beside nginx
    #[command(
        long_about = "Compare `mbuma serve` with nginx, side by side in one run: files of 1 KB to 256 MiB, over \
        one connection to 256, plain and over TLS, and handshakes; each server with a CPU of its own and the \
        client with another one, or with the same; in one case beside 10,000 clients that never end their \
        requests; in one case each server gets a tenth of a CPU (as root), so that no client limits its \
        handshakes. The client is wrk, and openssl s_time for handshakes. A figure is the median over the \
        rounds, with the quartiles beside it; `x ours` is its ratio to our row. A server that is not in PATH is \
        skipped.",
        mut_arg("seconds_per_case", |arg| arg.default_value("3")),
        mut_arg("reps", |arg| arg.default_value("3"))
    )]
    Serve(ServeArgs),

    /// Packet sizes, the memory that they take in mbufs and in the buffers of others, and the calls that they cost
    Sizes(sizes::Options),

    /// A TCP proxy: spliced inside of the stack, beside programs that copy, and the kernel
    #[command(
        long_about = "Compare proxies between a client and a server: spliced inside of our stack; a program on our \
        stack that hands data on, or copies it; smoltcp (`cargo lab-peers splice`); and the kernel's splice(2), \
        read(2) and write(2) over veth.\n\n\
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

    /// TCP over bad paths: ours, Linux's with the same algorithms, smoltcp, lwIP, gVisor's netstack
    #[command(
        after_help = "\
Examples:
  cargo lab wan --list                           the paths and the designs
  cargo lab wan --design sim-cubic               in virtual time only: no root, and no quiet machine is needed
  cargo lab wan --design linux-cubic,mbuma-cubic --case fair-1bdp
  cargo lab wan --case loss-1 --seconds-per-case 600 --reps 20 --json | jq .",
        long_about = "Send TCP over an emulated link with a rate of 100 Mbit/s, a long delay, and loss, reordering or \
        jitter, with ours at the ends in virtual time, and with Linux's in two network namespaces in real time.\n\n\
        Peers in user space: `cargo lab-peers wan` has smoltcp; lwIP is compiled from the directory that LWIP_SRC \
        names; Go builds gVisor's netstack. One that cannot be had is skipped.\n\n\
        The rounds are seeds: each decides the losses of one run of every design. A figure is the median over the \
        seeds, with the quartiles beside it.",
        // A path of 50 ms takes some seconds to fill: these are six seeds of 30 s.
        mut_arg("seconds_per_case", |arg| arg.default_value("180")),
        mut_arg("reps", |arg| arg.default_value("6"))
    )]
    Wan(Comparison),
}

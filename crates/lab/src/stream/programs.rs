//! Contestants that are programs: those of `peers`, and this one in a namespace of its own.
//!
//! A program is run anew for each reading, with its start and its handshake before the clock starts. Invariants: a
//! program that can't take part and a program that failed have different errors.

use super::case::{Job, Mode};
use super::figures::Figures;
use crate::harness::choice::Absent;
use crate::harness::namespace;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The directory in which `peers/setup.sh` and `peers/bench_inproc.sh` leave the peers: the option, `PEERS_DIR`, `PB`
/// as in those scripts, or their default.
pub(crate) fn directory(said: Option<&Path>) -> PathBuf {
    let variable = |name| env::var_os(name).map(PathBuf::from);
    said.map(PathBuf::from)
        .or_else(|| variable("PEERS_DIR"))
        .or_else(|| variable("PB"))
        .unwrap_or_else(|| PathBuf::from("/tmp/peers"))
}

/// The arguments of smoltcp's program beside the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SmoltcpSettings {
    /// Packets that wait in one direction at most.
    slots: usize,
    /// Bytes of each socket buffer.
    buffer: usize,
    /// Polls for each time that the clock is read.
    tick: usize,
}

impl SmoltcpSettings {
    /// The best of a sweep over slots of 64 to 1024, buffers of 64 KiB to 4 MiB, and clocks read each 1 to 256 polls.
    /// Rings and buffers that fit into a CPU's own cache are best where one thread has both ends; two threads need
    /// room to run apart, and an end that waits needs the time.
    pub(crate) fn best(job: Job) -> Self {
        let (slots, stream, tick) = match job.two {
            false => (128, 256 << 10, 256),
            true => (512, 1 << 20, 1),
        };
        let buffer = match job.mode {
            Mode::Stream => stream,
            Mode::Rr => 64 << 10,
        };
        Self {
            slots,
            buffer,
            tick,
        }
    }
}

impl fmt::Display for SmoltcpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            slots,
            buffer,
            tick,
        } = self;
        write!(
            f,
            "{slots} slots, {} KiB buffers, clock 1:{tick}",
            buffer >> 10
        )
    }
}

/// smoltcp's program, with the settings that suit the job.
pub(crate) fn smoltcp(dir: &Path, job: Job, time: Duration) -> Result<Figures, Absent> {
    let mut command = there(&dir.join("target/release/smoltcp_bench"))?;
    let mtu = job.mtu.to_string();
    let best = SmoltcpSettings::best(job);
    command.args([job.mode.name(), &mtu, job.threads(), &seconds(time)]);
    command.args([job.csum(), &best.buffer.to_string()]);
    command.env("SLOTS", best.slots.to_string());
    command.env("TICK", best.tick.to_string());
    figures(&mut command)
}

/// gVisor's: it has as many threads as Go gives it.
pub(crate) fn netstack(dir: &Path, job: Job, time: Duration) -> Result<Figures, Absent> {
    let mut command = there(&dir.join("bin/netstack_bench"))?;
    command.args([job.mode.name(), &job.mtu.to_string(), &seconds(time)]);
    if !job.two {
        command.env("GOMAXPROCS", "1");
    }
    if !job.sums {
        command.arg("nocsum");
    }
    figures(&mut command)
}

/// lwIP's, built for one MTU each, with one stack that has both ends.
pub(crate) fn lwip(dir: &Path, job: Job, time: Duration) -> Result<Figures, Absent> {
    if job.two || !job.sums {
        return Err(Absent("one thread, with sums".to_owned()));
    }
    let mut command = there(&dir.join(format!("bin/lwip_bench_raw_{}", job.mtu)))?;
    command.args([job.mode.name(), &seconds(time)]);
    figures(&mut command)
}

/// This program, started with `child`, in a network namespace.
pub(crate) fn in_namespace(
    child: &[OsString],
    design: &str,
    job: Job,
    time: Duration,
) -> Result<Figures, Absent> {
    let way = namespace::way(&["true"]).ok_or("no right to a namespace");
    let way = way.map_err(|why| Absent(why.to_owned()))?;
    let mut command = Command::new("unshare");
    command.args(way).args(child).arg(design).arg("--bench");
    command.args([job.mode.name(), &job.mtu.to_string(), job.threads()]);
    command.args([&seconds(time), job.csum()]);
    figures(&mut command)
}

/// A program, if it is there.
fn there(path: &Path) -> Result<Command, Absent> {
    match path.is_file() {
        true => Ok(Command::new(path)),
        false => Err(Absent("not built: see --peers".to_owned())),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

fn figures(command: &mut Command) -> Result<Figures, Absent> {
    let name = Path::new(command.get_program()).file_name();
    let name = name.unwrap_or(OsStr::new("it")).display().to_string();
    let output = command
        .output()
        .map_err(|e| Absent(format!("{name}: {e}")))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().rev().find_map(Figures::parse);
    let line = line.filter(|_| output.status.success());
    line.ok_or_else(|| {
        let why = String::from_utf8_lossy(&output.stderr);
        Absent(format!(
            "{name}: {}",
            why.lines().next().unwrap_or("no figures")
        ))
    })
}

/// The jobs of a program, for the command line of this one.
pub(crate) fn parse(words: &[String]) -> Option<(Job, Duration)> {
    let [mode, mtu, threads, secs, csum] = words else {
        return None;
    };
    let mode = [Mode::Stream, Mode::Rr]
        .into_iter()
        .find(|m| m.name() == mode)?;
    let two = match threads.as_str() {
        "one" => false,
        "two" => true,
        _ => return None,
    };
    let sums = match csum.as_str() {
        "csum" => true,
        "nocsum" => false,
        _ => return None,
    };
    let mtu = mtu.parse().ok().filter(|&mtu| mtu >= 68)?;
    let time = Duration::try_from_secs_f64(secs.parse().ok()?).ok()?;
    let job = Job {
        mode,
        mtu,
        two,
        sums,
    };
    Some((job, time))
}

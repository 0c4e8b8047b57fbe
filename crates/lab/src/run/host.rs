//! The process in the host's namespace: it has the servers, starts the guest and the tool between, and sends the guest
//! its orders.
//!
//! ```text
//!   cargo lab run                   namespace of the host                    namespace of the guest
//!   questions, answers  -- pipe --  this process: servers  ---- pipe ----  a process with clients
//!                                     127.0.0.1                              |
//!                                     the tool  ========================== tap0
//! ```
//!
//! Invariants: tool and guest end with this process, however it ends; namespaces end with their last process, and
//! interfaces with their namespace. The process changes no other namespace.

use super::case::{Case, Job};
use super::client::{Servers, nanos};
use super::designs::{Entry, Link};
use super::found::Found;
use super::guest;
use super::peer::{self, Peer};
use super::server::{self, Ports};
use crate::harness::namespace::{self, check, ip};
use crate::harness::process::Kept;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The purpose of a contestant's start.
pub(crate) struct Place<'a> {
    /// This program.
    pub(crate) program: &'a OsStr,
    /// A process in the guest's namespace.
    pub(crate) guest: u32,
    pub(crate) mtu: u16,
    /// The guest reaches the host over IPv6.
    pub(crate) ip6: bool,
}

impl Place<'_> {
    /// Runs `ip` in the guest's namespace.
    pub(crate) fn in_guest(&self, words: &str) -> io::Result<()> {
        let net = format!("--net=/proc/{}/ns/net", self.guest);
        let ip = ["--", "ip"].into_iter().chain(words.split(' '));
        check(Command::new("nsenter").arg(net).args(ip))
    }
}

/// Answers questions of `mod.rs`: the name of a case and a time in nanoseconds. `child` is how to start this program
/// for a part.
pub(crate) fn be(
    design: &Entry,
    mtu: u16,
    child: &[OsString],
    tool: &Path,
    out: &mut dyn Write,
) -> io::Result<()> {
    let set_up = || Host::new(design, mtu, child, tool);
    peer::be(out, set_up, |host, question| {
        let mut words = question.split(' ');
        let case = words.next().and_then(Case::find);
        let nanos = words.next().and_then(|nanos| nanos.parse().ok());
        match case.zip(nanos) {
            Some((case, nanos)) => host.reading(case, Duration::from_nanos(nanos)),
            None => Err(io::ErrorKind::InvalidInput.into()),
        }
    })
}

/// The parts of a contestant. The tool ends before the guest.
struct Host {
    /// Makes a command that runs one in a network of its own.
    run: Option<Box<dyn Fn() -> Command>>,
    tool: Option<Tool>,
    guest: Peer,
    /// Starts a second process in the guest's namespace, with all privileges there.
    privileged: Command,
    servers: Servers,
}

impl Host {
    /// Sets it up; returns a note on it.
    fn new(
        design: &Entry,
        mtu: u16,
        child: &[OsString],
        tool: &Path,
    ) -> io::Result<(Self, String)> {
        let theirs = namespace::stock_tcp();
        ip("link set lo up")?;
        let (ports, ours) = server::start(design.ip6, PORTS)?;
        let mut unshare = Command::new("unshare");
        // Its clients need no privileges; and pasta, which gives most of its own up, only looks into a process that has
        // no more than itself.
        unshare.args(["--net", "setpriv", "--bounding-set=-all"]);
        let guest = unshare.args(child).arg(GUEST).arg("--tool").arg(tool);
        let (guest, _) = Peer::start(guest)?;
        let mut privileged = Command::new("nsenter");
        privileged.arg(format!("--net=/proc/{}/ns/net", guest.id()));
        privileged.arg("--").args(child).arg(GUEST);
        privileged.arg("--tool").arg(tool);
        let program = tool.as_os_str().to_owned();
        let run = design.run;
        let run = run.map(|run| Box::new(move || run(&program)) as Box<dyn Fn() -> Command>);
        let Link { tool, server: addr } = (design.start)(&Place {
            program: tool.as_os_str(),
            guest: guest.id(),
            mtu,
            ip6: design.ip6,
        })?;
        let servers = Servers { addr, ports };
        let mut this = Self {
            run,
            tool,
            guest,
            privileged,
            servers,
        };
        this.wait_until_reached()?;
        // Where the machine does not let a namespace choose.
        let other = match (ours.as_str(), theirs.as_str()) {
            ("cubic", "cubic") => String::new(),
            ("cubic", theirs) => format!("the guest sends with {theirs}"),
            (ours, _) => format!("over {ours}"),
        };
        Ok((this, other))
    }

    fn wait_until_reached(&mut self) -> io::Result<()> {
        let begin = Instant::now();
        let question = guest::question(None, Duration::ZERO, self.servers);
        loop {
            let Err(why) = self.guest.ask(&question) else {
                return Ok(());
            };
            if let Some(why) = self.tool.as_mut().and_then(Tool::gave_up) {
                return Err(io::Error::other(why));
            }
            if begin.elapsed() > PATIENCE {
                return Err(why);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn reading(&mut self, case: &Case, reading: Duration) -> io::Result<Found> {
        if case.job == Job::Start {
            return self.starts(reading);
        }
        let question = guest::question(Some(case), reading, self.servers);
        let cpu_time = |this: &Self| this.tool.as_ref().map(|tool| tool.process.cpu_time());
        let before = cpu_time(self);
        let mut found = match case.job {
            Job::Leases | Job::Scan { .. } => {
                Peer::start(&mut self.privileged)?.0.ask(&question)?
            }
            _ => self.guest.ask(&question)?,
        };
        if let Some(why) = self.tool.as_mut().and_then(Tool::gave_up) {
            return Err(io::Error::other(why));
        }
        found.peak_mb = self.tool.as_ref().and_then(|tool| tool.process.peak_mb());
        let took = cpu_time(self).zip(before);
        let took = took.map(|(after, before)| (after - before).as_nanos() as f64);
        found.cpu_s_per_gb = took
            .filter(|_| found.bytes > 0)
            .map(|ns| ns / found.bytes as f64);
        Ok(found)
    }
}

impl Host {
    /// Runs a command that does nothing, again and again.
    fn starts(&self, reading: Duration) -> io::Result<Found> {
        let run = self.run.as_ref();
        let run = run.ok_or_else(|| io::Error::other("it runs no command"))?;
        let begin = Instant::now();
        let mut times = Vec::new();
        while begin.elapsed() < reading || times.is_empty() {
            let one = Instant::now();
            check(run().arg("true").stdin(Stdio::null()))?;
            times.push(nanos(one.elapsed()));
        }
        Ok(Found::of_times(times))
    }
}

/// A tool between the namespaces.
pub(crate) struct Tool {
    process: Kept,
    /// Reads its standard error, so that it never waits for a reader; keeps the beginning.
    complaints: Option<JoinHandle<String>>,
}

impl Tool {
    /// Starts it.
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut process = match Kept::start(command.stderr(Stdio::piped())) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(io::Error::other("not installed"));
            }
            started => started?,
        };
        let stderr = process.child().stderr.take();
        let complaints = stderr.map(|mut stderr| {
            thread::spawn(move || {
                let mut begin = Vec::new();
                // A pipe that cannot be read counts as a pipe whose writer is gone.
                let _ = stderr.by_ref().take(COMPLAINTS_MAX).read_to_end(&mut begin);
                let _ = io::copy(&mut stderr, &mut io::sink());
                String::from_utf8_lossy(&begin).into_owned()
            })
        });
        Ok(Self {
            process,
            complaints,
        })
    }

    /// Why it ended, if it did; the last line of its output.
    fn gave_up(&mut self) -> Option<String> {
        if !self.process.has_ended() {
            return None;
        }
        let said = self.complaints.take().and_then(|said| said.join().ok());
        let said = said.unwrap_or_default();
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        Some(last.map_or_else(|| "it ended".to_owned(), |line| format!("it ended: {line}")))
    }
}

/// The arguments of the process in the guest's namespace.
pub(crate) const GUEST: &str = "guest";
/// In a namespace of our own, all are free.
const PORTS: Ports = Ports {
    orders: 7001,
    pages: 7002,
    downloads: 7003,
};
/// The time that a tool may take until the guest reaches the host.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of standard error that are kept.
const COMPLAINTS_MAX: u64 = 4096;

//! `mbuma netstat`: the figures of a running mbuma.
//!
//! It finds the sockets of running mbumas, asks one of them, and prints the answer, which is text already: only the
//! running mbuma has the figures.
//!
//! Invariants: it waits for nothing longer than [`ANSWER_WAIT_MAX`]; text of other programs reaches the terminal
//! without control characters. Locks: none.

pub(crate) mod instances;
pub(crate) mod request;

use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use crate::args::netstat::NetstatArgs;
use crate::errors::Error;
use crate::output::{print, printable};
use instances::{Found, Instance, SocketKind};
use request::{Request, Section};

/// The time to wait for an mbuma that sends nothing. Its loop handles all events in a few milliseconds.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(2);
/// Characters of a command line that a list shows.
const COMMAND_MAX: usize = 60;

/// Asks and prints, repeatedly with `-w`. Returns the status to exit with.
pub(crate) fn run(args: &NetstatArgs) -> Result<u8, Error> {
    let first = choose(
        instances::find(SocketKind::Control),
        args.pid,
        "mbuma netstat PID",
    )?;
    let pid = first.pid;
    let mut is_read = show(first, args)?;
    while let (Some(seconds), true) = (args.wait, is_read) {
        thread::sleep(Duration::from_secs(seconds.into()));
        let found = instances::find(SocketKind::Control).instances;
        let Some(instance) = found.into_iter().find(|i| i.pid == pid) else {
            break;
        };
        is_read = (args.json || print("\n")?) && show(instance, args)?;
    }
    Ok(0)
}

/// Asks one instance once, and prints the answer. Returns false if standard output is closed.
fn show(instance: Instance, args: &NetstatArgs) -> Result<bool, Error> {
    let Instance { pid, stream } = instance;
    let request = wanted(args).line();
    let answered = stream.and_then(|s| instances::exchange(s, request.as_bytes(), ANSWER_WAIT_MAX));
    let answer = answered.map_err(|e| Error::Netstat(no_answer(pid, &e)))?;
    match request::read_answer(&answer) {
        Some(Ok(text)) => print(&text),
        Some(Err(reason)) => Err(Error::Netstat(format!(
            "mbuma {pid} does not answer: {}",
            printable(&reason)
        ))),
        None => Err(Error::Netstat(format!(
            "mbuma {pid} ended before it had said everything, or is of another version"
        ))),
    }
}

/// The request.
fn wanted(args: &NetstatArgs) -> Request {
    let asked = [
        (args.interfaces, Section::Interfaces),
        (args.connections, Section::Connections),
        (args.statistics, Section::Protocols),
        (args.mbufs, Section::Mbufs),
        (args.zones, Section::Zones),
        (args.locks, Section::Locks),
    ];
    let mut sections: Vec<_> = asked.iter().filter(|(is, _)| *is).map(|a| a.1).collect();
    if sections.is_empty() {
        sections.push(Section::Overview);
    }
    let json = args.json;
    Request { json, sections }
}

/// The instance that the user chose; `usage` is the advice for how to choose one.
pub(crate) fn choose(mut found: Found, pid: Option<i32>, usage: &str) -> Result<Instance, Error> {
    if let Some(pid) = pid {
        let at = found.instances.iter().position(|i| i.pid == pid);
        return at.map(|at| found.instances.swap_remove(at)).ok_or_else(|| {
            Error::Netstat(format!(
                "process {pid} is no mbuma that can be asked\n{}",
                list(&found)
            ))
        });
    }
    match found.instances.len() {
        1 => Ok(found.instances.swap_remove(0)),
        0 => Err(Error::Netstat(format!(
            "no mbuma runs that can be asked\n{}",
            list(&found)
        ))),
        _ => Err(Error::Usage(format!(
            "several run: say which, as in `{usage}`\n{}",
            list(&found)
        ))),
    }
}

/// A list of the running ones, or the places of the search.
fn list(found: &Found) -> String {
    let mut lines: Vec<String> = Vec::new();
    for instance in &found.instances {
        lines.push(format!("{:>9}  {}", instance.pid, command_of(instance.pid)));
    }
    if found.instances.is_empty() {
        let places = found.places.iter().map(|p| p.display().to_string());
        let places: Vec<_> = places.collect();
        lines.push(format!("(looked in {})", places.join(", ")));
    }
    for (place, e) in &found.unusable {
        lines.push(format!("({} is of no use: {e})", place.display()));
    }
    printable(&lines.join("\n"))
}

/// The command line of a process, if it can be read.
fn command_of(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&line)
        .trim_end_matches('\0')
        .replace('\0', " ");
    match words.chars().count() {
        0..=COMMAND_MAX => words,
        _ => words
            .chars()
            .take(COMMAND_MAX - 3)
            .chain("...".chars())
            .collect(),
    }
}

/// Why there is no answer, and advice.
fn no_answer(pid: i32, e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!(
            "mbuma {pid} has not answered for {} s: it is stopped, or its loop hangs\n\
             `kill -s RTMIN+1 {pid}` has it print its locks on its own standard error",
            ANSWER_WAIT_MAX.as_secs()
        ),
        _ => format!("mbuma {pid} cannot be asked: {e}"),
    }
}

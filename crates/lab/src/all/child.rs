//! An experiment in a process of its own: a crash, and memory that it leaves, do not affect the next one.
//!
//! The child is in our process group, so that Ctrl-C ends both. A process that takes too long is killed; its own
//! children end when their pipes do, or with their work.

use crate::harness::progress::{TELL, TOLD};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// A line of an experiment.
pub(crate) enum Said<'a> {
    /// A line of its results.
    Result(&'a str),
    /// How far it is.
    Progress(&'a str),
    /// No line, for a while.
    Nothing,
}

enum Line {
    Out(String),
    Err(String),
}

/// Runs `command` until it ends, or for this time. `heard` gets its output; an error of `heard` ends it, too.
///
/// # Errors
/// The reason of a failure, for the report.
pub(crate) fn run(
    command: &[OsString],
    at_most: Duration,
    mut heard: impl FnMut(Said<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let (program, arguments) = command.split_first().ok_or("there is no program to run")?;
    let mut child = Command::new(program)
        .args(arguments)
        .env(TELL, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("it could not be started: {error}"))?;
    let (tell, told) = mpsc::channel();
    listen(child.stdout.take(), tell.clone(), Line::Out);
    listen(child.stderr.take(), tell, Line::Err);
    let deadline = Instant::now() + at_most;
    let mut complaints = VecDeque::new();
    let heard = loop {
        if Instant::now() > deadline {
            break Err(format!("it did not end within {} s", at_most.as_secs()));
        }
        let heard = match told.recv_timeout(LOOK) {
            Ok(Line::Out(line)) => heard(Said::Result(&line)),
            Ok(Line::Err(line)) => match line.strip_prefix(TOLD) {
                Some(progress) => heard(Said::Progress(progress)),
                None => {
                    complaints.push_back(line);
                    complaints.truncate(COMPLAINTS_MAX);
                    Ok(())
                }
            },
            Err(RecvTimeoutError::Timeout) => heard(Said::Nothing),
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
        };
        if heard.is_err() {
            break heard;
        }
    };
    ended(child, heard, complaints)
}

/// The status of the process, which has ended when this returns.
fn ended(
    mut child: Child,
    heard: Result<(), String>,
    complaints: VecDeque<String>,
) -> Result<(), String> {
    if heard.is_err() {
        // It fails if the process has ended.
        let _ = child.kill();
    }
    let status = child
        .wait()
        .map_err(|error| format!("waiting for it: {error}"))?;
    heard?;
    match status.success() {
        true => Ok(()),
        false => Err(Vec::from(complaints).join("; ") + &format!(" ({status})")),
    }
    .map_err(|why| why.trim().to_owned())
}

/// Passes lines on until there are no more; a line that is no text ends it too.
fn listen(pipe: Option<impl Read + Send + 'static>, tell: Sender<Line>, line: fn(String) -> Line) {
    let Some(pipe) = pipe else {
        return;
    };
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        for text in pipe.by_ref().lines() {
            let sent = text.is_ok_and(|text| tell.send(line(text)).is_ok());
            if !sent {
                break;
            }
        }
    });
}

/// The interval at which the line changes without a line of progress.
const LOOK: Duration = Duration::from_millis(200);
/// Lines of standard error that are kept: the first ones have the reason.
const COMPLAINTS_MAX: usize = 8;

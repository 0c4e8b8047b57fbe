//! This program, started again for a part of the experiment: a line for each question, a line for each answer.
//!
//! Invariants: the part writes its first line before it reads an order. A part whose peer is gone ends.

use super::found::Found;
use crate::harness::process::{self, Kept};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdout, Command, Stdio};

/// The messages of a part.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum Said {
    /// It is set up; with a note for readers.
    Ready(String),
    /// It failed, and why.
    Failed(String),
    /// The results of a reading.
    Found(Found),
}

/// A part that was started.
pub(crate) struct Peer {
    process: Kept,
    from: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts it; returns its note once it is set up.
    pub(crate) fn start(command: &mut Command) -> io::Result<(Self, String)> {
        let mut process = Kept::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let from = process.output().ok_or(io::ErrorKind::BrokenPipe)?;
        let from = BufReader::new(from);
        let mut this = Self { process, from };
        match this.hear()? {
            Said::Ready(note) => Ok((this, note)),
            other => Err(strange(other)),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends it an order, and waits for the results.
    pub(crate) fn ask(&mut self, question: &str) -> io::Result<Found> {
        let to = self.process.input().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(to, "{question}")?;
        match self.hear()? {
            Said::Found(found) => Ok(found),
            other => Err(strange(other)),
        }
    }

    fn hear(&mut self) -> io::Result<Said> {
        let mut line = String::new();
        match self.from.read_line(&mut line)? {
            0 => Err(io::Error::other("it ended without a word")),
            _ => serde_json::from_str(&line).map_err(io::Error::other),
        }
    }
}

fn strange(said: Said) -> io::Error {
    io::Error::other(match said {
        Said::Failed(why) => why,
        other => format!("it said {other:?}"),
    })
}

/// The part itself: sets up, then answers orders until its input ends.
pub(crate) fn be<W>(
    out: &mut dyn Write,
    set_up: impl FnOnce() -> io::Result<(W, String)>,
    mut answer: impl FnMut(&mut W, &str) -> io::Result<Found>,
) -> io::Result<()> {
    process::die_with_parent()?;
    let (mut world, note) = match set_up() {
        Ok(it) => it,
        Err(why) => return say(out, &Said::Failed(why.to_string())),
    };
    say(out, &Said::Ready(note))?;
    for question in io::stdin().lock().lines() {
        let answer = match answer(&mut world, &question?) {
            Ok(found) => Said::Found(found),
            Err(why) => Said::Failed(why.to_string()),
        };
        say(out, &answer)?;
    }
    Ok(())
}

fn say(out: &mut dyn Write, said: &Said) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string(said)?)?;
    out.flush()
}

//! Calls: their outcome, and those that block.

use super::{Runner, Stop};
use crate::script::calls::{Attempt, CallOutcome, Problem, Progress};
use crate::script::dialect::same_errno;
use crate::script::syntax::{Call, Expr, Line, Micros};

/// A call that blocks.
pub(super) struct Blocked {
    line: Line,
    call: Call,
    progress: Progress,
    /// When it must end.
    until: Micros,
}

impl Runner<'_> {
    pub(super) fn call(&mut self, call: &Call, until: Option<Micros>) -> Result<(), Stop> {
        // Count before the call: if the call closes the socket, the count is lost.
        self.count_written();
        let mut progress = Progress::default();
        self.note(&call.to_string());
        let attempt = self.sockets.attempt(call, &mut progress);
        let attempt = attempt.map_err(|problem| self.problem(self.line, problem))?;
        self.follow_subject();
        match (attempt, until) {
            (Attempt::Done(outcome), Some(until))
                if until > self.host.now() + self.settings.tolerance =>
            {
                let got = returned(&outcome);
                let wanted = format!("it blocks until {}", self.clock(until));
                Err(Stop::failed(
                    self.line,
                    "the call did not block",
                    wanted,
                    got,
                ))
            }
            (Attempt::Done(outcome), _) => self.is_outcome(self.line, call, &outcome),
            (Attempt::Blocks, None) => {
                let wanted = wanted(call);
                Err(Stop::failed(
                    self.line,
                    "the call blocks",
                    wanted,
                    "no end".into(),
                ))
            }
            (Attempt::Blocks, Some(until)) => {
                self.blocked.push(Blocked {
                    line: self.line,
                    call: call.clone(),
                    progress,
                    until,
                });
                Ok(())
            }
        }?;
        // The packets that the call causes are sent now.
        let now = self.host.now();
        self.step(now).map(|_| ())
    }

    fn problem(&self, line: Line, problem: Problem) -> Stop {
        match problem {
            Problem::Wrong(message) | Problem::Unsupported(message) => {
                Stop::Unsupported(line, message)
            }
        }
    }

    /// Attempts the calls that block, and checks that each ends when it must.
    pub(super) fn try_blocked(&mut self) -> Result<(), Stop> {
        let now = self.host.now();
        for mut blocked in std::mem::take(&mut self.blocked) {
            let attempt = self.sockets.attempt(&blocked.call, &mut blocked.progress);
            match attempt.map_err(|problem| self.problem(blocked.line, problem))? {
                Attempt::Blocks if now > blocked.until + self.settings.tolerance => {
                    let until = format!("it ends at {}", self.clock(blocked.until));
                    let message = "the call blocks for too long";
                    return Err(Stop::failed(blocked.line, message, until, "no end".into()));
                }
                Attempt::Blocks => self.blocked.push(blocked),
                Attempt::Done(outcome) => {
                    self.follow_subject();
                    self.has_ended(&blocked, &outcome)?;
                }
            }
        }
        Ok(())
    }

    fn has_ended(&mut self, blocked: &Blocked, outcome: &CallOutcome) -> Result<(), Stop> {
        let now = self.host.now();
        self.note(&format!("{} ends", blocked.call));
        if (now - blocked.until).abs() > self.settings.tolerance {
            let (until, got) = (self.clock(blocked.until), self.clock(now));
            let message = "the call ended at another time";
            return Err(Stop::failed(blocked.line, message, until, got));
        }
        self.is_outcome(blocked.line, &blocked.call, outcome)
    }

    pub(super) fn wait_for_blocked(&mut self) -> Result<(), Stop> {
        while let Some(until) = self.blocked.iter().map(|b| b.until).max() {
            self.advance(until + self.settings.tolerance + 1)?;
            self.try_blocked()?;
        }
        Ok(())
    }

    /// Checks the call's value, error and results against the script.
    fn is_outcome(&mut self, line: Line, call: &Call, outcome: &CallOutcome) -> Result<(), Stop> {
        let value_fits = match &call.returns {
            Expr::Any => true,
            Expr::Int(n) => *n == outcome.value,
            Expr::Name(name) => self.dialect.constant(name) == Some(outcome.value),
            _ => false,
        };
        let errno_fits = match (&call.errno, outcome.errno) {
            (Some(want), Some(got)) => same_errno(want, got),
            (Some(_), None) => false,
            (None, _) => true,
        };
        if value_fits && errno_fits && outcome.wrong.is_empty() {
            return Ok(());
        }
        let message = match outcome.wrong.is_empty() {
            true => format!("{} returned something else", call.name),
            false => format!("{}: {}", call.name, outcome.wrong.join("; ")),
        };
        Err(Stop::failed(
            line,
            &message,
            wanted(call),
            returned(outcome),
        ))
    }
}

/// The expected result of a call.
fn wanted(call: &Call) -> String {
    match &call.errno {
        Some(errno) => format!("{} {errno}", call.returns),
        None => call.returns.to_string(),
    }
}

/// The actual result of a call.
fn returned(outcome: &CallOutcome) -> String {
    match outcome.errno {
        Some(errno) => format!("{} {errno}", outcome.value),
        None => outcome.value.to_string(),
    }
}

//! SO_TIMESTAMPING: when the last byte of each write was sent, and when it was acknowledged.
//!
//! The stack has no such option: the times are those at which the runner sees the segment leave, and the
//! acknowledgement take the byte out of the send buffer. A script that checks them checks when the stack does both.
//!
//! Source: Linux, `Documentation/networking/timestamping.rst`.

use super::Problem;
use super::args;
use crate::script::dialect::Dialect;
use crate::script::syntax::{Expr, Micros};

const TX_SOFTWARE: i64 = 1 << 1;
const OPT_ID: i64 = 1 << 7;
const TX_SCHED: i64 = 1 << 8;
const TX_ACK: i64 = 1 << 9;

/// The number of a flag.
pub(in crate::script) fn constant(name: &str) -> Option<i64> {
    Some(match name {
        "SOF_TIMESTAMPING_TX_SOFTWARE" => TX_SOFTWARE,
        "SOF_TIMESTAMPING_SOFTWARE" => 1 << 4,
        "SOF_TIMESTAMPING_OPT_ID" => OPT_ID,
        "SOF_TIMESTAMPING_TX_SCHED" => TX_SCHED,
        "SOF_TIMESTAMPING_TX_ACK" => TX_ACK,
        _ => return None,
    })
}

/// A time of a byte, as a message of the error queue has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SendTime {
    /// SCM_TSTAMP_SCHED, SCM_TSTAMP_SND or SCM_TSTAMP_ACK.
    kind: &'static str,
    at: Micros,
    /// The byte's place, counted from the option's setting.
    key: u64,
}

impl SendTime {
    /// The differences of a message with this time from the script's, each time within the tolerance.
    pub(super) fn differences(
        &self,
        message: &[crate::script::syntax::Field],
        tolerance: Micros,
        dialect: Dialect,
    ) -> Result<Vec<String>, Problem> {
        let mut wrong = Vec::new();
        let control = match args::field(message, "msg_control") {
            None | Some(Expr::Any) => return Ok(wrong),
            Some(Expr::List(all)) => all,
            Some(other) => return Problem::wrong(format!("msg_control can't be {other}")),
        };
        for one in control {
            let one = args::structure(Some(one), "a control message")?;
            let data = args::structure(args::field(one, "cmsg_data"), "its data")?;
            let number = |name| match args::field(data, name) {
                None | Some(Expr::Any) => Ok(None),
                want => args::number(want, dialect).map(Some),
            };
            if let (Some(secs), Some(ns)) = (number("scm_sec")?, number("scm_nsec")?) {
                let want = secs.saturating_mul(1_000_000).saturating_add(ns / 1000);
                if (self.at - want).abs() > tolerance {
                    wrong.push(format!("the time is {} us, not {want} us", self.at));
                }
            }
            if let Some(Expr::Name(want)) = args::field(data, "ee_info")
                && want != self.kind
            {
                wrong.push(format!("ee_info is {}, not {want}", self.kind));
            }
            if let Some(want) = number("ee_data")?
                && u64::try_from(want) != Ok(self.key)
            {
                wrong.push(format!("ee_data is {}, not {want}", self.key));
            }
        }
        Ok(wrong)
    }
}

/// The last byte of a write whose times are not all known yet.
#[derive(Debug, Clone, Copy)]
struct Awaited {
    /// Its place in the stream, plus one.
    end: u64,
    key: u64,
    was_sent: bool,
}

/// The writes of one socket.
#[derive(Debug, Default)]
pub(super) struct SendTimes {
    flags: i64,
    first: u64,
    awaited: Vec<Awaited>,
}

impl SendTimes {
    /// The program sets the option when so many bytes are acknowledged.
    pub(super) fn set(&mut self, flags: i64, acknowledged: u64) {
        (self.flags, self.first) = (flags, acknowledged);
    }

    /// A write ended at this place of the stream.
    pub(super) fn on_write(&mut self, end: u64) {
        if self.flags & (TX_SCHED | TX_SOFTWARE | TX_ACK) != 0 {
            let key = (end - 1).saturating_sub(self.first);
            self.awaited.push(Awaited {
                end,
                key,
                was_sent: false,
            });
        }
    }

    /// A segment left with the bytes up to `end`.
    pub(super) fn on_sent(&mut self, end: u64, at: Micros) -> Vec<SendTime> {
        let mut found = Vec::new();
        for one in self.awaited.iter_mut().filter(|one| one.end <= end) {
            if std::mem::replace(&mut one.was_sent, true) {
                continue;
            }
            let kinds = [
                (TX_SCHED, "SCM_TSTAMP_SCHED"),
                (TX_SOFTWARE, "SCM_TSTAMP_SND"),
            ];
            for (flag, kind) in kinds {
                if self.flags & flag != 0 {
                    let key = one.key;
                    found.push(SendTime { kind, at, key });
                }
            }
        }
        found
    }

    /// So many bytes are acknowledged.
    pub(super) fn on_acknowledged(&mut self, bytes: u64, at: Micros) -> Vec<SendTime> {
        let over: Vec<_> = self
            .awaited
            .extract_if(.., |one| one.end <= bytes)
            .collect();
        let tells = self.flags & TX_ACK != 0;
        let kind = "SCM_TSTAMP_ACK";
        let times = over.into_iter().filter(|_| tells);
        times
            .map(|Awaited { key, .. }| SendTime { kind, at, key })
            .collect()
    }
}

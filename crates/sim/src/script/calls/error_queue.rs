//! MSG_ZEROCOPY: bytes of the program that the stack sends without a copy, and the messages of the error queue that say
//! which of them it no longer uses.
//!
//! Each call that lends bytes has a number, counted from 0. The stack drops the bytes when the peer has acknowledged
//! them; then the number is reported. One message reports a range of numbers, as long as no call has taken it.
//!
//! The queue also has the [times](super::send_times) of sent bytes.
//!
//! Source: Linux, `Documentation/networking/msg_zerocopy.rst`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::send_times::{SendTime, SendTimes};
use super::{Attempt, CallOutcome, CallResult, Problem, args};
use crate::script::dialect::Dialect;
use crate::script::syntax::{Expr, Micros};

/// The numbers of the calls whose bytes the stack has dropped, in the order of their drops.
#[derive(Debug, Clone, Default)]
struct Dropped(Arc<Mutex<Vec<u32>>>);

impl Dropped {
    fn with<T>(&self, f: impl FnOnce(&mut Vec<u32>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Bytes that the program lends to the stack.
struct LentBytes {
    bytes: Vec<u8>,
    number: u32,
    dropped: Dropped,
}

impl AsRef<[u8]> for LentBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for LentBytes {
    fn drop(&mut self) {
        self.dropped.with(|all| all.push(self.number));
    }
}

/// A message of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorMessage {
    /// The stack no longer uses the bytes of these calls, from the first to the last one.
    Dropped(u32, u32),
    /// When a byte was sent, or acknowledged.
    Time(SendTime),
}

/// One socket's error queue.
#[derive(Debug, Default)]
pub(in crate::script) struct ErrorQueue {
    next_number: u32,
    dropped: Dropped,
    messages: VecDeque<ErrorMessage>,
    pub(super) times: SendTimes,
    /// Numbers that were reported so far: each is an edge for epoll.
    reported: u64,
}

impl ErrorQueue {
    /// The bytes of the next call, for [`Chain::from_owner`](mbuf::Chain::from_owner).
    pub(super) fn lend(&self, bytes: Vec<u8>) -> impl AsRef<[u8]> + Send + Sync + 'static {
        LentBytes {
            bytes,
            number: self.next_number,
            dropped: self.dropped.clone(),
        }
    }

    /// The call was made.
    pub(super) fn lent(&mut self) {
        self.next_number += 1;
    }

    fn update(&mut self) {
        for number in self.dropped.with(std::mem::take) {
            self.reported += 1;
            match self.messages.back_mut() {
                Some(ErrorMessage::Dropped(_, last)) if *last + 1 == number => *last = number,
                _ => {
                    let message = ErrorMessage::Dropped(number, number);
                    self.messages.push_back(message);
                }
            }
        }
    }

    /// Whether a message waits; and how many numbers were reported so far.
    pub(super) fn state(&mut self) -> (bool, u64) {
        self.update();
        (!self.messages.is_empty(), self.reported)
    }

    /// A segment left with the bytes of the stream up to `end`.
    pub(super) fn on_sent(&mut self, end: u64, at: Micros) {
        let times = self.times.on_sent(end, at);
        self.messages
            .extend(times.into_iter().map(ErrorMessage::Time));
    }

    /// The peer has acknowledged so many bytes of the stream.
    pub(super) fn on_acknowledged(&mut self, bytes: u64, at: Micros) {
        let times = self.times.on_acknowledged(bytes, at);
        self.messages
            .extend(times.into_iter().map(ErrorMessage::Time));
    }

    /// `recvmsg(fd, message, MSG_ERRQUEUE)`, which never blocks.
    pub(super) fn receive(
        &mut self,
        message: Option<&Expr>,
        tolerance: Micros,
        dialect: Dialect,
    ) -> CallResult {
        self.update();
        let mut outcome = CallOutcome::value(0);
        outcome.wrong = match self.messages.pop_front() {
            None => return Ok(CallOutcome::fails("EAGAIN").into()),
            Some(ErrorMessage::Dropped(first, last)) => {
                differences((first, last), message, dialect)?
            }
            Some(ErrorMessage::Time(time)) => {
                let message = args::structure(message, "a message")?;
                time.differences(message, tolerance, dialect)?
            }
        };
        Ok(Attempt::Done(outcome))
    }
}

/// The script's message beside the one about the range. Its code says that the bytes were copied on their way: the
/// runner's wire copies each frame, as Linux's TUN device does.
fn differences(
    (first, last): (u32, u32),
    message: Option<&Expr>,
    dialect: Dialect,
) -> Result<Vec<String>, Problem> {
    let fields = args::structure(message, "a message")?;
    let mut wrong = Vec::new();
    match args::field(fields, "msg_flags") {
        None | Some(Expr::Any) => {}
        Some(Expr::Name(flag)) if flag == "MSG_ERRQUEUE" => {}
        Some(other) => wrong.push(format!("msg_flags is MSG_ERRQUEUE, not {other}")),
    }
    let control = match args::field(fields, "msg_control") {
        None | Some(Expr::Any) => return Ok(wrong),
        Some(Expr::List(all)) => all,
        Some(other) => return Problem::wrong(format!("msg_control can't be {other}")),
    };
    let [one] = control.as_slice() else {
        wrong.push("the message has one control message".to_owned());
        return Ok(wrong);
    };
    let one = args::structure(Some(one), "a control message")?;
    let data = args::structure(args::field(one, "cmsg_data"), "the data of an error")?;
    for (name, got) in [
        ("ee_errno", 0),
        ("ee_type", 0),
        ("ee_info", i64::from(first)),
        ("ee_data", i64::from(last)),
    ] {
        let want = match args::field(data, name) {
            None | Some(Expr::Any) => continue,
            want => args::number(want, dialect)?,
        };
        if want != got {
            wrong.push(format!("{name} is {got}, not {want}"));
        }
    }
    for (name, got) in [
        ("ee_origin", "SO_EE_ORIGIN_ZEROCOPY"),
        ("ee_code", "SO_EE_CODE_ZEROCOPY_COPIED"),
    ] {
        match args::field(data, name) {
            None | Some(Expr::Any) => {}
            Some(Expr::Name(want)) if want == got => {}
            Some(want) => wrong.push(format!("{name} is {got}, not {want}")),
        }
    }
    Ok(wrong)
}

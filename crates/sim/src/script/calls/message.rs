//! The results of `recvmsg` beside the data: `msg_flags` and `msg_control`.

use mbuma::{State, TcpStream};

use super::data::available;
use super::{Descriptor, Object, Problem, args};
use crate::script::dialect::Dialect;
use crate::script::syntax::{Expr, Field};

impl Descriptor {
    /// The results of a `recvmsg` on a connection that differ from the script's.
    pub(super) fn message_differs(
        &self,
        message: Option<&Expr>,
        dialect: Dialect,
    ) -> Result<Vec<String>, Problem> {
        let is_told = self.options.get("TCP_INQ").is_some_and(|on| *on != 0);
        let unread = match &self.object {
            Object::Stream(stream) if is_told => Some(unread(stream)),
            _ => None,
        };
        differences(message, false, unread, dialect)
    }
}

/// The unread bytes that TCP_CM_INQ reports; the end of the stream counts as one (Linux, `tcp_inq_hint`).
fn unread(stream: &TcpStream) -> i64 {
    let has_ended = !matches!(
        stream.state(),
        State::SynSent
            | State::SynReceived
            | State::SynHeld
            | State::Established
            | State::FinWait1
            | State::FinWait2
    );
    match available(stream) {
        0 => i64::from(has_ended),
        bytes => bytes as i64,
    }
}

/// Compares the script's message with the received one: `cut` if it was truncated, `unread` the value of its
/// TCP_CM_INQ, if it has one.
pub(super) fn differences(
    message: Option<&Expr>,
    cut: bool,
    unread: Option<i64>,
    dialect: Dialect,
) -> Result<Vec<String>, Problem> {
    let fields = args::structure(message, "a message")?;
    let mut wrong = Vec::new();
    if let Some(want) = args::field(fields, "msg_flags")
        && *want != Expr::Any
    {
        let want = args::number(Some(want), dialect)?;
        let truncated = dialect.constant("MSG_TRUNC").unwrap_or(0);
        let got = if cut { truncated } else { 0 };
        if got != want {
            wrong.push(format!("msg_flags is {got:#x}, not {want:#x}"));
        }
    }
    let control = match args::field(fields, "msg_control") {
        None | Some(Expr::Any) => return Ok(wrong),
        Some(Expr::List(all)) => all,
        Some(other) => return Problem::wrong(format!("msg_control can't be {other}")),
    };
    for one in control {
        let want = told_bytes(args::structure(Some(one), "a control message")?, dialect)?;
        match unread {
            Some(got) if want.is_none_or(|want| want == got) => {}
            Some(got) => wrong.push(format!("TCP_CM_INQ is {got}")),
            None => wrong.push("the message has no TCP_CM_INQ: TCP_INQ is off".into()),
        }
    }
    if control.is_empty() && unread.is_some() {
        wrong.push("the message has a TCP_CM_INQ".into());
    }
    Ok(wrong)
}

/// The value of a control message, which must be TCP_CM_INQ; `None` is any.
fn told_bytes(fields: &[Field], dialect: Dialect) -> Result<Option<i64>, Problem> {
    let kind = args::name(args::field(fields, "cmsg_type"), "a type")?;
    if kind != "TCP_CM_INQ" {
        return Problem::unsupported(format!("the control message {kind}"));
    }
    match args::field(fields, "cmsg_data") {
        None | Some(Expr::Any) => Ok(None),
        data => args::number(data, dialect).map(Some),
    }
}

/// `sendmsg` takes no control messages here.
pub(super) fn sends_no_control(message: &[Field]) -> Result<(), Problem> {
    match args::field(message, "msg_control") {
        Some(Expr::List(all)) if !all.is_empty() => {
            Problem::unsupported("control messages of sendmsg")
        }
        _ => Ok(()),
    }
}

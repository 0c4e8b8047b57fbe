//! `sockstat | grep ...` as an assertion about the states of connections.
//!
//! The list of sockets is the stack's own; the pipe behind it is done here, as far as scripts use it: `grep` for plain
//! text with `-c`, `-v`, `-q`, `-w`, and `wc -l`. The assertion holds if the last `grep` finds a line.

use mbuma::{Stack, State};

use super::calls::Sockets;

/// Whether a command is such an assertion.
pub(super) fn is_assertion(command: &str) -> bool {
    let first = command.split_whitespace().next().unwrap_or_default();
    matches!(first, "sockstat" | "netstat" | "ss") && command.contains('|')
}

/// Whether the assertion holds, and the list that it looked at.
pub(super) fn check(
    command: &str,
    stack: &Stack,
    sockets: &Sockets,
) -> Result<(bool, Vec<String>), String> {
    let list = list(stack, sockets);
    let (mut lines, mut good) = (list.clone(), true);
    for stage in command.split('|').skip(1) {
        let words: Vec<&str> = stage.split_whitespace().collect();
        good = match words.as_slice() {
            ["grep", rest @ ..] => grep(rest, &mut lines)?,
            ["wc", "-l"] => {
                lines = vec![lines.len().to_string()];
                true
            }
            _ => return Err(format!("`{}` is not known here", stage.trim())),
        };
    }
    Ok((good, list))
}

/// A line for each socket. The owner is `packetdrill` if the program still holds the socket.
fn list(stack: &Stack, sockets: &Sockets) -> Vec<String> {
    let (listeners, held) = sockets.held();
    let mut lines: Vec<String> = (0..listeners)
        .map(|_| "root packetdrill tcp4 *:* *:* LISTEN".to_owned())
        .collect();
    for connection in stack.connections() {
        let (local, peer) = (connection.local, connection.peer);
        let owner = match held.contains(&(local, peer)) {
            true => "root packetdrill",
            false => "? ?",
        };
        let state = match connection.info.state {
            State::SynReceived => "SYN_RCVD".to_owned(), // FreeBSD's name
            state => state.to_string(),
        };
        lines.push(format!("{owner} tcp4 {local} {peer} {state}"));
    }
    lines
}

/// Filters the lines; returns whether one is left.
fn grep(args: &[&str], lines: &mut Vec<String>) -> Result<bool, String> {
    let (mut invert, mut count) = (false, false);
    let mut pattern = None;
    for arg in args {
        match *arg {
            "-v" => invert = true,
            "-c" => count = true,
            "-q" | "-w" | "-F" | "--" => {}
            flag if flag.starts_with('-') => return Err(format!("grep {flag} is not known here")),
            text => pattern = Some(text.trim_matches(['"', '\'']).to_owned()),
        }
    }
    let pattern = pattern.ok_or("grep needs a pattern")?;
    lines.retain(|line| line.contains(&pattern) != invert);
    let found = !lines.is_empty();
    if count {
        *lines = vec![lines.len().to_string()];
    }
    Ok(found)
}

//! `mbuma publish`: publishes ports of a running mbuma, by the protocol of its API socket.
//!
//! Invariants: nothing is waited for longer than [`ANSWER_WAIT_MAX`].
//! Locks: none.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};

use crate::args::PublishRequest;
use crate::args::publish::{PublishArgs, PublishVerb};
use crate::errors::Error;
use crate::monitor::{BAD_ID, BAD_REQUEST};
use crate::netstat::choose;
use crate::netstat::instances::{self, SocketKind};
use crate::output::{print, printable};

/// The time to wait for an mbuma that sends nothing.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(5);

/// Runs the command. Returns the status to exit with.
pub(crate) fn run(args: &PublishArgs) -> Result<u8, Error> {
    match &args.what {
        PublishVerb::Add { ports } => {
            for request in ports.iter().flat_map(|range| range.ports()) {
                let id = &ask(args, &add(&request))?["id"];
                print(&format!("{id}  {request}\n"))?;
            }
        }
        PublishVerb::Remove { ids } => {
            for id in ids {
                let remove = json!({"execute": "remove_hostfwd", "arguments": {"id": id}});
                ask(args, &remove).map_err(|e| match e {
                    Error::Netstat(why) if BAD_ID.strip_prefix(BAD_REQUEST) == Some(&why) => {
                        Error::Netstat(format!(
                            "no published port has the number {id}: `mbuma publish list` shows them"
                        ))
                    }
                    e => e,
                })?;
            }
        }
        PublishVerb::List { json } => {
            let list = ask(args, &json!({"execute": "list_hostfwd"}))?;
            let text = match json {
                true => format!("{list}\n"),
                false => lines(&list),
            };
            print(&text)?;
        }
    }
    Ok(0)
}

fn add(request: &PublishRequest) -> Value {
    let publish = &request.publish;
    let guest_addr = publish.guest_addr.map(|addr| addr.to_string());
    json!({"execute": "add_hostfwd", "arguments": {
        "proto": publish.proto,
        "host_addr": request.host_end().to_string(),
        "host_port": publish.host.port(),
        "guest_addr": guest_addr.unwrap_or_default(),
        "guest_port": publish.guest_port,
    }})
}

/// A line for each port.
fn lines(list: &Value) -> String {
    let ports = ["entries", "outward"].map(|kind| list[kind].as_array());
    let ports = ports.into_iter().flatten().flatten();
    let line = |port: &Value| {
        // That of an older mbuma has no text.
        let text = port["text"].as_str().map(str::to_owned);
        let text = text.unwrap_or_else(|| port.to_string());
        format!("{}  {}\n", port["id"], printable(&text))
    };
    ports.map(line).collect()
}

/// Sends the request to the chosen instance. Returns its answer.
fn ask(args: &PublishArgs, request: &Value) -> Result<Value, Error> {
    let found = instances::find(SocketKind::Ports);
    let instance = choose(found, args.pid, "mbuma publish --pid PID");
    let instance = instance.map_err(|e| match args.pid {
        Some(pid) if runs(pid) => Error::Netstat(format!(
            "mbuma {pid} has no guest whose ports could be published"
        )),
        _ => e,
    })?;
    let pid = instance.pid;
    let request = request.to_string();
    let answer = instance
        .stream
        .and_then(|s| instances::exchange(s, request.as_bytes(), ANSWER_WAIT_MAX))
        .and_then(|answer| match answer.is_empty() {
            true => Err(io::Error::other("it gave no answer: try again")),
            false => Ok(serde_json::from_slice::<Value>(&answer)?),
        });
    let answer = answer.map_err(|e| Error::Netstat(format!("mbuma {pid} cannot be asked: {e}")))?;
    match answer.get("error").and_then(|error| error["desc"].as_str()) {
        Some(desc) => {
            let why = desc.strip_prefix(BAD_REQUEST).unwrap_or(desc);
            let why = why.strip_prefix("add_hostfwd: ").unwrap_or(why);
            Err(Error::Netstat(printable(why)))
        }
        None => Ok(answer["return"].clone()),
    }
}

/// Whether this is an mbuma that can be asked other things.
fn runs(pid: i32) -> bool {
    let found = instances::find(SocketKind::Control);
    found.instances.iter().any(|running| running.pid == pid)
}

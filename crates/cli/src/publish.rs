//! `mbuma publish`: publishes ports of a running mbuma, by the protocol of its API socket.
//!
//! Invariants: nothing is waited for longer than [`ANSWER_WAIT_MAX`].
//! Locks: none.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::args::publish::{PublishArgs, PublishVerb};
use crate::args::{OutwardRequest, PublishRequest};
use crate::errors::Error;
use crate::monitor::{BAD_ID, BAD_REQUEST};
use crate::netstat::instances::{self, SocketKind};
use crate::netstat::{ANSWER_MAX, choose};
use crate::output::{print, printable};

/// The time to wait for an mbuma that sends nothing.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(5);

/// Runs the command. Returns the status to exit with.
pub(crate) fn run(args: &PublishArgs) -> Result<u8, Error> {
    match &args.what {
        PublishVerb::Add { ports, guest } => {
            for request in ports.iter().flat_map(|range| range.ports()) {
                let id = &ask(args, &add(&request, *guest))?["id"];
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

fn add(request: &PublishRequest, guest: Option<IpAddr>) -> Value {
    let publish = &request.publish;
    json!({"execute": "add_hostfwd", "arguments": {
        "proto": publish.proto,
        "host_addr": request.host_text(),
        "host_port": publish.host.port(),
        "guest_addr": guest.map(|addr| addr.to_string()).unwrap_or_default(),
        "guest_port": publish.guest_port,
    }})
}

/// A line for each port.
fn lines(list: &Value) -> String {
    let entries = list["entries"].as_array().into_iter().flatten();
    let outward = list["outward"].as_array().into_iter().flatten();
    let outward = outward.filter_map(|entry| {
        let port = OutwardRequest::deserialize(entry).ok()?;
        Some(format!("{}  {port}\n", entry["id"]))
    });
    let line = |entry: &Value| {
        let word = |key: &str| entry[key].as_str().unwrap_or_default();
        // Before a port, IPv6 is in brackets.
        let addr = |key: &str| match word(key) {
            v6 if v6.contains(':') => format!("[{v6}]"),
            v4 => v4.to_owned(),
        };
        format!(
            "{}  {}:{} -> {}:{}/{}\n",
            entry["id"],
            addr("host_addr"),
            entry["host_port"],
            addr("guest_addr"),
            entry["guest_port"],
            word("proto")
        )
    };
    entries.map(line).chain(outward).collect()
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
    let answer = instance.stream.and_then(|stream| exchange(stream, request));
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

fn exchange(mut stream: UnixStream, request: &Value) -> io::Result<Value> {
    stream.set_read_timeout(Some(ANSWER_WAIT_MAX))?;
    stream.set_write_timeout(Some(ANSWER_WAIT_MAX))?;
    stream.write_all(request.to_string().as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    // For root, another user's process may have the socket.
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    Ok(serde_json::from_slice(&answer)?)
}

//! Publishing ports while a guest is served: slirp4netns's API socket, which `mbuma publish` speaks too.
//!
//! ```text
//!   > {"execute":"add_hostfwd","arguments":{"proto":"tcp","host_addr":"0.0.0.0","host_port":8081,"guest_addr":"","guest_port":80}}
//!   < {"return":{"id":1}}
//!   > {"execute":"list_hostfwd"}
//!   < {"return":{"entries":[{"id":1,"proto":"tcp","host_addr":"0.0.0.0",...}]}}
//!                                  ...,"outward":[{"id":2,...}]}}  if ports of the guest's loopback are open
//!   > {"execute":"remove_hostfwd","arguments":{"id":1}}
//!   < {"return":{}}
//!   < {"error":{"desc":"..."}}                                     instead
//! ```
//! One request a connection, which ends with the answer. A request ends with its last brace: a client may close its
//! half or not.
//!
//! The clients are the engine and the user: the mode of the socket's file excludes others.
//!
//! A change is answered when the gateway process has made it ([`super::requests`]).
//!
//! Invariants: nothing waits for a client; at most [`CLIENTS_MAX`], beyond which the oldest without a request is
//! closed, and if each has one, new ones wait; a request is bounded.
//! Locks: none. Sources: slirp4netns(1), "API SOCKET".

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::{UnixListener, UnixStream};

use mbuma::runtime::{Interest, Poller};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ports::Ports;
use super::requests::{Requester, Requests};
use crate::accept;
use crate::args::{HostEnd, OutwardRequest, Proto, Publish, PublishRequest};
use crate::errors;
use crate::ports::{OutwardSpec, PortSpec};

/// Clients at once: each has up to three descriptors, with the sockets of its port.
const CLIENTS_MAX: usize = 128;
/// Bytes of a request at most.
const REQUEST_MAX: usize = 4096;
/// The text before the reason of a refusal, as in slirp4netns.
pub(crate) const BAD_REQUEST: &str = "bad request: ";
/// The answer about a port that is not published, or not any more.
pub(crate) const BAD_ID: &str = "bad request: remove_hostfwd: bad id";

/// The clients of all API sockets.
pub(super) struct Api {
    listeners: Vec<UnixListener>,
    /// The number of the first listener in the epoll set.
    first: u64,
    clients: BTreeMap<u64, ApiClient>,
    /// The number in the epoll set of the next client.
    next: u64,
}

/// A client, and the part of its request that has come.
struct ApiClient {
    stream: UnixStream,
    received: Vec<u8>,
    state: ApiState,
}

/// The progress of a client's request.
enum ApiState {
    Received,
    /// The gateway process has not answered yet.
    Asked(AskedGateway),
    /// The client gets this answer.
    Answered(Vec<u8>),
}

/// A request that the gateway process is to fulfil.
struct AskedGateway {
    /// The answer if it does.
    fulfilled: Value,
    /// The text before its reason if it does not.
    refused: String,
}

/// The arguments of `add_hostfwd`.
#[derive(Debug, Deserialize)]
struct Forward {
    proto: Proto,
    #[serde(default)]
    host_addr: String,
    host_port: u16,
    #[serde(default)]
    guest_addr: String,
    guest_port: u16,
}

/// A request.
#[derive(Debug, Deserialize)]
struct ApiRequest {
    execute: String,
    #[serde(default)]
    arguments: Value,
}

impl Api {
    /// Serves the clients of these listeners, which do not block; numbers from `first` on are its own in `set`.
    pub(super) fn new(listeners: Vec<UnixListener>, set: &Poller, first: u64) -> io::Result<Api> {
        for (listener, number) in listeners.iter().zip(first..) {
            accept::watch(set, listener, number)?;
        }
        let next = first + listeners.len() as u64;
        Ok(Api {
            listeners,
            first,
            clients: BTreeMap::new(),
            next,
        })
    }

    /// Accepts clients, and reads all requests.
    pub(super) fn attend(&mut self, set: &Poller, ports: &mut Ports, requests: &mut Requests) {
        self.accept(set);
        self.clients.retain(|number, client| match &client.state {
            ApiState::Asked(_) => true,
            ApiState::Answered(_) => client.give(),
            ApiState::Received => {
                let executed = match client.receive() {
                    Heard::Part => return true,
                    Heard::Gone => return false,
                    Heard::Whole(request) => request.and_then(|request| {
                        execute(request, ports, Requester::Client(*number), requests)
                    }),
                };
                // What else it sends, and its end, are no events any more.
                let _ = set.remove(fd(&client.stream));
                match executed {
                    Ok(Executed::Asked(pending)) => {
                        client.state = ApiState::Asked(pending);
                        true
                    }
                    Ok(Executed::Done(value)) => client.answer(Ok(value), set, *number),
                    Err(why) => client.answer(Err(why), set, *number),
                }
            }
        });
        // There may be room for clients that wait.
        self.accept(set);
    }

    /// The gateway process has fulfilled the request of a client, or `refused` it.
    pub(super) fn answered(&mut self, set: &Poller, number: u64, refused: Option<String>) {
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        let ApiState::Asked(pending) = &client.state else {
            return;
        };
        let answer = match refused {
            None => Ok(pending.fulfilled.clone()),
            Some(why) => Err(format!("{}{why}", pending.refused)),
        };
        if !client.answer(answer, set, number) {
            self.clients.remove(&number);
            self.accept(set);
        }
    }

    fn accept(&mut self, set: &Poller) {
        let asking = self.clients.values().filter(|client| !client.is_silent());
        let mut room = CLIENTS_MAX.saturating_sub(asking.count());
        for (listener, number) in self.listeners.iter().zip(self.first..) {
            accept::some(set, listener, number, room, |stream| {
                room -= 1;
                let watched = stream
                    .set_nonblocking(true)
                    .and_then(|()| set.add(fd(&stream), self.next, Interest::Read));
                if watched.is_ok() {
                    self.clients.insert(self.next, ApiClient::new(stream));
                    self.next += 1;
                }
            });
        }
        let beyond = self.clients.len().saturating_sub(CLIENTS_MAX);
        let silent = self.clients.iter().filter(|(_, client)| client.is_silent());
        let oldest: Vec<u64> = silent.map(|(number, _)| *number).take(beyond).collect();
        for number in oldest {
            self.clients.remove(&number);
        }
    }
}

fn fd(stream: &UnixStream) -> BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(stream)
}

/// The result of reading from a client.
enum Heard {
    /// No whole request yet.
    Part,
    /// A whole request, or why it is none.
    Whole(Result<ApiRequest, String>),
    /// The client left.
    Gone,
}

impl ApiClient {
    fn new(stream: UnixStream) -> ApiClient {
        ApiClient {
            stream,
            received: Vec::new(),
            state: ApiState::Received,
        }
    }

    /// It has not asked for anything yet.
    fn is_silent(&self) -> bool {
        matches!(self.state, ApiState::Received)
    }

    fn receive(&mut self) -> Heard {
        let mut bytes = [0; REQUEST_MAX];
        let ended = loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => break true,
                Ok(n) => self.received.extend(bytes.iter().take(n)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break false,
                Err(_) => return Heard::Gone,
            }
            if self.received.len() > REQUEST_MAX {
                return Heard::Whole(Err("bad request: too long".to_owned()));
            }
        };
        // Bytes behind the first document are no part of it.
        let mut documents = serde_json::Deserializer::from_slice(&self.received).into_iter();
        match documents.next() {
            Some(Ok(request)) => Heard::Whole(Ok(request)),
            None if ended => Heard::Gone,
            None => Heard::Part,
            Some(Err(e)) if e.is_eof() && !ended => Heard::Part,
            Some(Err(e)) => Heard::Whole(Err(format!("bad request: {e}"))),
        }
    }

    /// Begins to give the answer; true if there is more of it than the client's socket has room for.
    fn answer(&mut self, answer: Result<Value, String>, set: &Poller, number: u64) -> bool {
        let answer = match answer {
            Ok(value) => json!({ "return": value }),
            Err(desc) => json!({ "error": { "desc": desc } }),
        };
        self.state = ApiState::Answered(answer.to_string().into_bytes());
        // From now on room to write is the event.
        self.give() && set.add(fd(&self.stream), number, Interest::Write).is_ok()
    }

    /// Writes as much of the answer as the client's socket has room for; true if there is more.
    fn give(&mut self) -> bool {
        let ApiState::Answered(rest) = &mut self.state else {
            return false;
        };
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(n) => drop(rest.drain(..n)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            }
        }
        false
    }
}

/// The result of a request.
enum Executed {
    Done(Value),
    Asked(AskedGateway),
}

/// Performs a request.
fn execute(
    request: ApiRequest,
    ports: &mut Ports,
    requester: Requester,
    requests: &mut Requests,
) -> Result<Executed, String> {
    let ApiRequest { execute, arguments } = request;
    match &*execute {
        "add_hostfwd" => {
            let forward = Forward::deserialize(arguments);
            let forward = forward.map_err(|e| format!("bad request: add_hostfwd: {e}"))?;
            let request = forward.meaning()?;
            let refused = format!("bad request: add_hostfwd: {request}: ");
            let added = ports.add(&request, Some(requester), requests);
            let id =
                added.map_err(|e| refused.clone() + &errors::publish_failure(&request.publish, &e));
            Ok(Executed::Asked(AskedGateway {
                fulfilled: json!({ "id": id? }),
                refused,
            }))
        }
        "remove_hostfwd" => {
            let id = arguments.get("id").and_then(Value::as_u64);
            let id = id.and_then(|id| u32::try_from(id).ok());
            let id = id.filter(|id| ports.list().iter().any(|port| port.id == *id));
            ports.remove(id.ok_or(BAD_ID)?, Some(requester), requests);
            Ok(Executed::Asked(AskedGateway {
                fulfilled: json!({}),
                refused: "bad request: remove_hostfwd: ".to_owned(),
            }))
        }
        "list_hostfwd" => {
            let entries: Vec<_> = ports.list().iter().map(entry).collect();
            let outward: Vec<_> = ports.outward().iter().map(outward_entry).collect();
            Ok(Executed::Done(match outward.is_empty() {
                true => json!({ "entries": entries }),
                // A word of ours, beside those that engines read.
                false => json!({ "entries": entries, "outward": outward }),
            }))
        }
        _ => Err("bad request: unknown execute".to_owned()),
    }
}

impl Forward {
    /// The port.
    fn meaning(&self) -> Result<PublishRequest, String> {
        let host_end = match &*self.host_addr {
            "" => "0.0.0.0",
            text => text,
        };
        let host_end = host_end.parse::<HostEnd>();
        let host_end =
            host_end.map_err(|e| format!("bad request: add_hostfwd: bad host_addr: {e}"))?;
        let guest_addr = match &*self.guest_addr {
            "" => None,
            text => Some(
                text.parse()
                    .map_err(|_| "bad request: add_hostfwd: bad guest_addr")?,
            ),
        };
        if self.host_port == 0 || self.guest_port == 0 {
            return Err("bad request: add_hostfwd: a port is 1 to 65535".to_owned());
        }
        Ok(host_end.port(self.host_port, (guest_addr, self.guest_port), self.proto))
    }
}

fn entry(spec: &PortSpec) -> Value {
    let Publish {
        host,
        guest_addr,
        guest_port,
        proto,
        interface: _,
    } = spec.publish;
    let guest_addr = guest_addr.map(|addr| addr.to_string());
    json!({
        "id": spec.id,
        "proto": proto,
        "host_addr": host.ip().to_string(),
        "host_port": host.port(),
        "guest_addr": guest_addr.unwrap_or_default(),
        "guest_port": guest_port,
        // A word of ours: as `mbuma publish add` takes it.
        "text": spec.publish.to_string(),
    })
}

fn outward_entry(spec: &OutwardSpec) -> Value {
    let OutwardRequest {
        proto,
        guest_port,
        host_port,
    } = spec.port;
    json!({
        "id": spec.id,
        "proto": proto,
        "guest_port": guest_port,
        "host_port": host_port,
        "text": spec.port.to_string(),
    })
}

#[cfg(test)]
mod tests;

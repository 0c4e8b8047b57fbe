//! `mbuma network ls`, `inspect` and `rm`.
//!
//! Locks: that of place, to remove what a killed process left.

use std::os::fd::OwnedFd;
use std::time::Duration;

use super::joined::ask;
use super::message::{NetworkMessage, NetworkView};
use super::place::NetworkPlace;
use crate::args::network::{NetworkArgs, NetworkVerb};
use crate::channel::Channel;
use crate::errors::{EXIT_NO_ANSWER, Error};
use crate::output::print;
use crate::say;

/// The time that a network's process may take to answer: one that is stopped must not keep the others out of the list.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Runs the command. Returns the exit code.
pub(crate) fn run(args: &NetworkArgs) -> Result<u8, Error> {
    match &args.what {
        NetworkVerb::Ls { json } => list(*json),
        NetworkVerb::Inspect { names } => inspect(names),
        NetworkVerb::Rm { force, names } => each(names, |name| remove(name, *force)),
    }
}

fn list(json: bool) -> Result<u8, Error> {
    let names = NetworkPlace::names().map_err(Error::io("listing the networks"))?;
    let (mut views, mut code) = (Vec::new(), 0);
    for name in names {
        match view(&name) {
            Ok(view) => views.extend(view),
            Err(e) => {
                say(&e.to_string());
                code = EXIT_NO_ANSWER;
            }
        }
    }
    match json {
        true => print(&format!("{}\n", to_json(&views)?))?,
        false => print(&table(&views))?,
    };
    Ok(code)
}

fn table(views: &[NetworkView]) -> String {
    let name = views.iter().map(|view| view.name.len()).max().unwrap_or(0);
    let name = name.max("NAME".len());
    let head = format!("{:name$}  {:7}  {:18}  GUESTS\n", "NAME", "PID", "GATEWAY");
    let row = |view: &NetworkView| {
        let gateway = format!("{}/{}", view.gateway, view.prefix_len);
        let guests = view.guests.len();
        format!(
            "{:name$}  {:<7}  {gateway:18}  {guests}\n",
            view.name, view.pid
        )
    };
    std::iter::once(head).chain(views.iter().map(row)).collect()
}

/// Prints each as JSON.
fn inspect(names: &[String]) -> Result<u8, Error> {
    each(names, |name| match view(name)? {
        Some(view) => {
            print(&format!("{}\n", to_json(&view)?))?;
            Ok(true)
        }
        None => Ok(false),
    })
}

/// Calls a function for each network. The exit code shows whether all exist.
fn each(names: &[String], f: impl Fn(&str) -> Result<bool, Error>) -> Result<u8, Error> {
    let mut code = 0;
    for name in names {
        if !f(name)? {
            say(&format!("there is no network {name} of this user"));
            code = EXIT_NO_ANSWER;
        }
    }
    Ok(code)
}

/// Ends a network. Returns false if there is none.
fn remove(name: &str, force: bool) -> Result<bool, Error> {
    let removing = |e| Error::io(&format!("removing network {name}"))(e);
    let place = NetworkPlace::of(name).map_err(removing)?;
    let answer = match place.connect().map_err(removing)? {
        Some(stream) => ask(
            &Channel::from(OwnedFd::from(stream)),
            NetworkMessage::Remove { force },
            None,
            ANSWER_MAX,
        ),
        None => Ok(None),
    };
    match answer.map_err(removing)? {
        Some(NetworkMessage::Done) => Ok(true),
        Some(NetworkMessage::Refused(why)) => Err(Error::Netstat(format!("network {name}: {why}"))),
        _ => {
            let _lock = place.lock().map_err(removing)?;
            // Another one may have begun meanwhile.
            let is_left = place.connect().map_err(removing)?.is_none();
            Ok(is_left && place.tidy())
        }
    }
}

/// The network of this name, if there is one.
fn view(name: &str) -> Result<Option<NetworkView>, Error> {
    let asking = |e| Error::io(&format!("asking network {name}"))(e);
    let place = NetworkPlace::of(name).map_err(asking)?;
    let Some(stream) = place.connect().map_err(asking)? else {
        return Ok(None);
    };
    let channel = Channel::from(OwnedFd::from(stream));
    match ask(&channel, NetworkMessage::Inspect, None, ANSWER_MAX).map_err(asking)? {
        Some(NetworkMessage::View(view)) => Ok(Some(view)),
        _ => Ok(None),
    }
}

fn to_json(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|e| Error::io("writing JSON")(e.into()))
}

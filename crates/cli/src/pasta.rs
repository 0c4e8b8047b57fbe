//! `run` or `attach` by the command line of pasta; `attach` goes to the background once the network is up.
//!
//! ```text
//!   as started:  forks ------------> daemon: a session of its own, attach
//!                waits for `Up` <-----------   the network is up, the pid file is written
//!                exits with 0                  standard input, output and error are /dev/null
//! ```
//!
//! Invariants: until the network is up, the daemon's errors and its exit code reach the caller.
//! Locks: none.

use std::os::fd::AsFd;

use crate::args::AttachArgs;
use crate::args::pasta::PastaArgs;
use crate::attach::{self, Announcement};
use crate::channel::{self, Channel, ChannelMessage};
use crate::errors::{EXIT_OWN_FAILURE, Error};
use crate::launch;
use crate::say;
use crate::sys::fd;
use crate::sys::process::{self, Change, Pidfd};

/// Runs COMMAND to its end; or serves the namespace, and returns when the network is up or, in the foreground, at the
/// end.
pub(crate) fn run(args: &PastaArgs) -> Result<u8, Error> {
    if let Some(run) = args.to_run().map_err(Error::Usage)? {
        return launch::serve(&run, announcement(args, None));
    }
    let Some(mut attach) = args.to_attach().map_err(Error::Usage)? else {
        return Ok(0);
    };
    attach.net.detaches = !args.foreground;
    if args.foreground {
        return attach::serve(&attach, announcement(args, None));
    }
    let failed = |e| Error::io("going to the background")(e);
    let forked = channel::fork(|channel| daemon(args, &attach, channel));
    let (pid, channel) = forked.map_err(failed)?;
    let daemon = Pidfd::open(pid).map_err(failed)?;
    match channel.recv().map_err(failed)? {
        Some((ChannelMessage::Up, _)) => Ok(0),
        _ => exit_code(&daemon).map_err(failed),
    }
}

fn announcement(args: &PastaArgs, starter: Option<Channel>) -> Announcement {
    Announcement {
        pid_file: args.pid.clone(),
        starter,
        url: None,
    }
}

/// The daemon, from the fork to its exit code.
fn daemon(args: &PastaArgs, attach: &AttachArgs, starter: Channel) -> u8 {
    let led = process::lead_own_session().map_err(Error::io("leading a session"));
    let served = led.and_then(|()| attach::serve(attach, announcement(args, Some(starter))));
    served.unwrap_or_else(|e| {
        say(&e.to_string());
        e.exit_code()
    })
}

/// Waits for the end of a daemon that failed.
fn exit_code(daemon: &Pidfd) -> std::io::Result<u8> {
    fd::poll(&[daemon.as_fd()], None)?;
    Ok(match process::wait()? {
        Some((_, Change::Exited(code))) => u8::try_from(code).unwrap_or(EXIT_OWN_FAILURE),
        _ => EXIT_OWN_FAILURE,
    })
}

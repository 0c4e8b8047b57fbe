//! `run` or `attach` by the command line of pasta; `attach` goes to the background once the network is up.
//!
//! ```text
//!   as started:  forks ------------> daemon: a session of its own, attach
//!                waits for `Up` <-----------   the network is up, the pid file is written
//!                exits with 0                  standard input, output and error are /dev/null
//! ```
//!
//! With `--log-file`, standard error is that file from the beginning, but not COMMAND's.
//!
//! Invariants: until the network is up, the daemon's errors and its exit code reach the caller.
//! Locks: none.

use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::args::AttachArgs;
use crate::args::pasta::PastaArgs;
use crate::attach::{self, Announcement};
use crate::channel::{self, Channel, ChannelMessage};
use crate::errors::{EXIT_OWN_FAILURE, Error};
use crate::launch;
use crate::say;
use crate::sys::fd::{self, LetGo};
use crate::sys::process::{self, Change, Pidfd};

/// Runs COMMAND to its end; or serves the namespace, and returns when the network is up or, in the foreground, at the
/// end.
pub(crate) fn run(args: &PastaArgs) -> Result<u8, Error> {
    if let Some(run) = args.to_run().map_err(Error::Usage)? {
        let log = open_log(args)?;
        return launch::serve(&run, announcement(args, log));
    }
    let Some(mut attach) = args.to_attach().map_err(Error::Usage)? else {
        return Ok(0);
    };
    let log = open_log(args)?;
    attach.net.detaches = (!args.foreground).then_some(match log {
        Some(_) => LetGo::AllButStderr,
        None => LetGo::All,
    });
    if args.foreground {
        return attach::serve(&attach, announcement(args, log));
    }
    let failed = |e| Error::io("going to the background")(e);
    let mut begun = Some(announcement(args, log));
    let forked = channel::fork(|channel| {
        let begun = begun.take().unwrap_or_default();
        daemon(&attach, begun, channel)
    });
    let (pid, channel) = forked.map_err(failed)?;
    let daemon = Pidfd::open(pid).map_err(failed)?;
    if let Some((ChannelMessage::Up, _)) = channel.recv().map_err(failed)? {
        return Ok(0);
    }
    let code = exit_code(&daemon).map_err(failed)?;
    // The caller shows why there is no network.
    if let Some(mut log) = begun.and_then(|begun| begun.log) {
        let is_file = log.metadata().is_ok_and(|file| file.is_file());
        let copied = || {
            log.rewind()
                .and_then(|()| io::copy(&mut log, &mut io::stderr()))
        };
        // A terminal has shown it.
        let _ = is_file.then(copied);
    }
    Ok(code)
}

/// Opens the file of `--log-file`, and empties it.
fn open_log(args: &PastaArgs) -> Result<Option<File>, Error> {
    let Some(path) = &args.log_file else {
        return Ok(None);
    };
    let mut options = File::options();
    options.read(true).append(true).create(true).mode(0o600);
    // The standard library refuses this beside `append`.
    let opened = options.custom_flags(libc::O_TRUNC).open(path);
    let doing = format!("opening --log-file {}", path.display());
    opened.map(Some).map_err(Error::io(&doing))
}

fn announcement(args: &PastaArgs, log: Option<File>) -> Announcement {
    Announcement {
        pid_file: args.pid.clone(),
        log,
        ..Announcement::default()
    }
}

/// The daemon, from the fork to its exit code.
fn daemon(attach: &AttachArgs, announcement: Announcement, starter: Channel) -> u8 {
    let announcement = Announcement {
        starter: Some(starter),
        ..announcement
    };
    let led = process::lead_own_session().map_err(Error::io("leading a session"));
    let served = led.and_then(|()| attach::serve(attach, announcement));
    served.unwrap_or_else(|e| {
        say(&e.to_string());
        e.exit_code()
    })
}

/// Waits for the end of a daemon that failed.
fn exit_code(daemon: &Pidfd) -> io::Result<u8> {
    fd::poll(&[daemon.as_fd()], None)?;
    Ok(match process::wait()? {
        Some((_, Change::Exited(code))) => u8::try_from(code).unwrap_or(EXIT_OWN_FAILURE),
        _ => EXIT_OWN_FAILURE,
    })
}

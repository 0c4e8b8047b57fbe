//! `mbuma run`: COMMAND in namespaces of its own, and mbuma around it.
//!
//! ```text
//!   mbuma             guard                 child
//!     blocks signals,
//!     forks --------->  forks ------------->  new user namespace
//!     writes its id maps <------------------- says so
//!       ----------------------------------->  new network and mount namespaces; makes and
//!                                             configures tap0; resolv.conf and comforts
//!     has a Guest <-------------------------- hands over the TAP, waits
//!     monitor::serve: a process that
//!       serves it; at its `up` -------------> becomes COMMAND
//!     passes signals on
//!     until COMMAND  <- says so -
//!     ends
//!     has the rest ended, exits with COMMAND's status
//! ```
//!
//! Invariants: COMMAND starts with the descriptors, signal mask, terminal and process group that mbuma was started
//! with; if mbuma is killed, COMMAND is, and all that it started.
//! Locks: none.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::args::RunArgs;
use crate::attach::{self, Announcement};
use crate::channel::{Channel, ChannelMessage};
use crate::child::Child;
use crate::child::guard::Guard;
use crate::descendants;
use crate::errors::{EXIT_OWN_FAILURE, Error, Failure, SetupStep};
use crate::guest::{self, Guest, OwnFiles};
use crate::idmap;
use crate::lifecycle::{GuestState, Lifecycle};
use crate::monitor;
use crate::namespace_agent::NamespaceAgent;
use crate::signals::{Inherited, SignalFd};
use crate::sys::namespace::{self, NamespaceKind};
use crate::sys::process::{self, Pid};
use crate::sys::{fd, mount, tap};

/// Runs COMMAND, with a gateway of its own, to its end. Returns the status to exit with.
pub(crate) fn run(args: &RunArgs) -> Result<u8, Error> {
    serve(args, Announcement::default())
}

/// The same, with an announcement when the network is up.
pub(crate) fn serve(args: &RunArgs, announcement: Announcement) -> Result<u8, Error> {
    let (signals, inherited) = SignalFd::open().map_err(Error::io("taking over the signals"))?;
    let (guest, child, files) = start(args, &signals, inherited)?;
    announcement.begin()?;
    let agent = (!args.net.loopback.is_empty()).then(|| attach::start_agent(child.pid()));
    let mut lifecycle = CommandEnds {
        agent: agent.transpose()?,
        announcement,
        ..CommandEnds::new(child, signals, &args.command, files)
    };
    let failed = monitor::serve(guest, &args.net, &mut lifecycle)?;
    let status = lifecycle.end();
    Ok(if failed == 0 { status } else { failed })
}

/// Makes the guest, and the process that becomes COMMAND at [`Child::release`]. Returns the files to be kept, too.
pub(crate) fn start(
    args: &RunArgs,
    signals: &SignalFd,
    inherited: Inherited,
) -> Result<(Guest, Child, Option<OwnFiles>), Error> {
    // If the guard is killed, its children become ours.
    process::adopt_orphans().map_err(Failure::at(SetupStep::Child))?;
    let spared = descendants::children();
    let become_command = |channel: &Channel, parent| child_main(args, &inherited, parent, channel);
    let guard = Guard::start(signals, become_command).map_err(Failure::at(SetupStep::Child))?;
    let introduced = guard
        .introduction()?
        .ok_or_else(|| guest::not_ready(None))?;
    let child = Child::new(guard, introduced, spared);
    // COMMAND has its own copies by now.
    fd::let_go_of_stdio().map_err(Error::io("opening /dev/null"))?;

    expect_user_namespace(&child)?;
    idmap::write(child.pid(), args.map_root).map_err(Failure::at(SetupStep::IdMaps))?;
    let failed = Failure::at(SetupStep::Child);
    child
        .channel()?
        .send(&ChannelMessage::Mapped, None)
        .map_err(failed)?;
    let files = OwnFiles::receive(child.channel()?, child.pid())?;
    let guest = guest::receive(child.channel()?, &args.ifname, &args.net)?;
    Ok((guest, child, files))
}

/// Waits until the child has its user namespace.
fn expect_user_namespace(child: &Child) -> Result<(), Error> {
    match child
        .channel()?
        .recv()
        .map_err(Failure::at(SetupStep::Child))?
    {
        Some((ChannelMessage::UserNamespace, _)) => Ok(()),
        other => Err(guest::not_ready(other.map(|(message, _)| message))),
    }
}

/// The child, from the fork on. Returns only when it failed, with the exit code.
fn child_main(args: &RunArgs, inherited: &Inherited, parent: Pid, channel: &Channel) -> u8 {
    let failure = match set_up(args, channel) {
        Ok(true) => become_command(inherited, parent, &args.command),
        Ok(false) => return EXIT_OWN_FAILURE,
        Err(failure) => failure,
    };
    // If the parent has ended, no process receives the message.
    let _ = channel.send(&ChannelMessage::Failed(failure), None);
    EXIT_OWN_FAILURE
}

/// Makes the namespaces and the guest in them. Returns true if the parent lets it continue.
fn set_up(args: &RunArgs, channel: &Channel) -> Result<bool, Failure> {
    process::die_with_parent().map_err(Failure::at(SetupStep::Child))?;
    namespace::unshare(NamespaceKind::User).map_err(Failure::at(SetupStep::UserNamespace))?;
    channel
        .send(&ChannelMessage::UserNamespace, None)
        .map_err(Failure::at(SetupStep::Child))?;
    if !heard(channel, &ChannelMessage::Mapped)? {
        return Ok(false);
    }
    namespace::unshare(NamespaceKind::Net).map_err(Failure::at(SetupStep::NetNamespace))?;
    namespace::unshare(NamespaceKind::Mount).map_err(Failure::at(SetupStep::NetNamespace))?;
    mount::make_all_private().map_err(Failure::at(SetupStep::NetNamespace))?;
    let hosts = guest::name(args)?;
    let interface = guest::make_interface(&args.ifname, &args.net)?;
    tap::leave_to_namespace(&interface.taps[0]).map_err(Failure::at(SetupStep::MakeTap))?;
    let (resolv_conf, warnings) = guest::furnish(args);
    let files = hosts.into_iter().chain(resolv_conf).collect();
    guest::hand_over(files, channel)
        .and_then(|()| interface.hand_over(channel, warnings))
        .map_err(Failure::at(SetupStep::Child))?;
    // From here on the parent alone holds the TAP.
    drop(interface);
    heard(channel, &ChannelMessage::Go)
}

/// Waits for one message. Returns false if the parent gave up.
fn heard(channel: &Channel, expected: &ChannelMessage) -> Result<bool, Failure> {
    let said = channel.recv().map_err(Failure::at(SetupStep::Child))?;
    Ok(said.is_some_and(|(message, _)| message == *expected))
}

/// Executes COMMAND, or reports why not.
fn become_command(inherited: &Inherited, parent: Pid, command: &[OsString]) -> Failure {
    let prepared = || {
        process::die_with_parent()?;
        // If the parent had ended before that line, no signal would have come.
        if Pid::parent() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        inherited.restore()
    };
    match prepared() {
        Ok(()) => Failure::at(SetupStep::Exec)(process::exec(command)),
        Err(e) => Failure::at(SetupStep::Child)(e),
    }
}

/// `run` lasts until COMMAND ends.
pub(crate) struct CommandEnds<'a> {
    child: Child,
    signals: SignalFd,
    command: &'a [OsString],
    files: Option<OwnFiles>,
    announcement: Announcement,
    agent: Option<NamespaceAgent>,
}

impl<'a> CommandEnds<'a> {
    /// For the process that is to become `command`, and the files that are its own.
    pub(crate) fn new(
        child: Child,
        signals: SignalFd,
        command: &'a [OsString],
        files: Option<OwnFiles>,
    ) -> Self {
        CommandEnds {
            child,
            signals,
            command,
            files,
            announcement: Announcement::default(),
            agent: None,
        }
    }

    /// Ends COMMAND, if it is running, and all its descendants. Returns its status.
    pub(crate) fn end(&mut self) -> u8 {
        self.child.end()
    }
}

impl Lifecycle for CommandEnds<'_> {
    fn up(&mut self) -> Result<(), Error> {
        self.announcement.make()?;
        // COMMAND has its own copies, and the gateway process has those of captures.
        fd::close_left_open();
        self.child.release(self.command)
    }

    fn take_agent(&mut self) -> Option<NamespaceAgent> {
        self.agent.take()
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let own = [self.child.as_fd(), self.signals.as_fd()];
        own.into_iter()
            .chain(self.files.as_ref().map(AsFd::as_fd))
            .collect()
    }

    fn hold(&self, fd: BorrowedFd<'_>) {
        self.child.hold(fd);
    }

    fn check(&mut self) -> Result<GuestState, Error> {
        if let Some(files) = &mut self.files {
            files.check();
        }
        // Once COMMAND has ended, only mbuma can act on a signal. Signals are handled first here, so that a signal that
        // ended COMMAND still counts as sent to COMMAND.
        let ended = self.child.status().is_some();
        let mut asked = false;
        while let Some(info) = self
            .signals
            .read()
            .map_err(Error::io("reading the signals"))?
        {
            asked |= ended && info.asks_to_end();
            if info.is_for_command(self.child.recipient()) {
                self.child
                    .forward(info.signo)
                    .map_err(Error::io("passing a signal on to COMMAND"))?;
            }
        }
        self.child
            .reap()
            .map_err(Error::io("stopping along with COMMAND"))?;
        Ok(match self.child.status() {
            Some(_) if asked => GuestState::StopRequested,
            Some(_) => GuestState::Ended,
            None => GuestState::Running,
        })
    }
}

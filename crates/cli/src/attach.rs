//! `mbuma attach`: a network for a namespace that another program made.
//!
//! A forked helper enters the namespaces, makes and configures the interface there, and sends the TAP back. Then it
//! ends, unless it must open ports of the guest's loopback. mbuma itself never leaves the host's namespaces, which its
//! sockets need.
//!
//! Invariants: nothing of the namespace's owner is changed but the new interface, the loopback's state and the default
//! route. The interface goes when mbuma goes.
//! Locks: none.

mod held;
mod name;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::announce;
use crate::args::serve::ServeUrl;
use crate::args::{AttachArgs, AttachTarget, NetOpts};
use crate::channel::{self, Channel, ChannelMessage};
use crate::errors::{EXIT_OWN_FAILURE, Error, Failure, SetupStep};
use crate::guest::{self, Guest};
use crate::lifecycle::{GuestState, Lifecycle};
use crate::monitor;
use crate::namespace_agent::{self, NamespaceAgent};
use crate::sandbox::{self, Kept};
use crate::say;
use crate::signals::SignalFd;
use crate::sys::fd::{self, LetGo};
use crate::sys::namespace::{self, NamespaceKind};
use crate::sys::process::{self, Pid, Pidfd};
pub(crate) use held::HeldNetwork;
use name::NamedNetwork;

/// Serves the namespace to its end, or ours.
pub(crate) fn run(args: &AttachArgs) -> Result<u8, Error> {
    serve(args, Announcement::default())
}

/// Work to do once the network is up.
#[derive(Default)]
pub(crate) struct Announcement {
    /// The file for this process's number.
    pub(crate) pid_file: Option<PathBuf>,
    /// The file in the place of standard error.
    pub(crate) log: Option<File>,
    /// The process that started this one in the background, and waits.
    pub(crate) starter: Option<Channel>,
    /// How clients name the server, at each of its addresses.
    pub(crate) url: Option<ServeUrl>,
    /// The places at which it serves, to be printed.
    pub(crate) places: Vec<String>,
}

impl Announcement {
    /// Prints where files are served.
    pub(crate) fn of_url(url: ServeUrl) -> Announcement {
        Announcement {
            url: Some(url),
            ..Announcement::default()
        }
    }

    /// Prints into the log from now on, if there is one.
    pub(crate) fn begin(&self) -> Result<(), Error> {
        let led = self.log.as_ref().map_or(Ok(()), fd::lead_stderr_to);
        led.map_err(Error::io("printing into --log-file"))
    }

    /// Does it, once.
    pub(crate) fn make(&mut self) -> Result<(), Error> {
        if let Some(path) = self.pid_file.take() {
            let doing = format!("writing the process number to {}", path.display());
            let text = format!("{}\n", Pid::own().0);
            fs::write(&path, text).map_err(Error::io(&doing))?;
        }
        for place in self.places.drain(..) {
            announce("serving at", &place);
        }
        if let Some(starter) = self.starter.take() {
            let what = match self.log {
                Some(_) => LetGo::AllButStderr,
                None => LetGo::All,
            };
            fd::let_go(what).map_err(Error::io("letting go of the caller's files"))?;
            let told = starter.send(&ChannelMessage::Up, None);
            told.map_err(Error::io("telling the caller that the network is up"))?;
        }
        Ok(())
    }
}

/// The same, with an announcement when the network is up.
pub(crate) fn serve(args: &AttachArgs, mut announcement: Announcement) -> Result<u8, Error> {
    announcement.begin()?;
    // Before any other file is opened, while the numbers are still the caller's descriptors.
    let ready_fd = inherit(args.ready_fd, "--ready-fd")?;
    let exit_fd = inherit_end(args.exit_fd)?;
    let (signals, _) = SignalFd::open().map_err(Error::io("taking over the signals"))?;
    let place = AttachPlace::find(&args.target, args.userns_path.as_deref())?;
    refuse_our_own(&place)?;
    let (guest, agent) = make_guest(&args.ifname, &args.net, &place)?;
    if let Some(url) = announcement.url {
        announcement.places = url.at(&guest.ends);
    }
    let name = name_of(&args.target, &place.net)?;
    let mut lifecycle = NamespaceEnds {
        signals,
        announcement,
        ready_fd,
        exit_fd,
        process: place.process.filter(|_| !args.outlives_target),
        name: name.filter(|_| !args.outlives_target),
        agent,
    };
    drop(place.net);
    monitor::serve(guest, &args.net, &mut lifecycle)
}

/// Makes an interface in the network namespace `target`.
pub(crate) fn interface_in(
    target: &AttachTarget,
    ifname: &str,
    net: &NetOpts,
) -> Result<(Guest, HeldNetwork), Error> {
    let place = AttachPlace::find(target, None)?;
    refuse_our_own(&place)?;
    let (guest, _) = make_guest(ifname, net, &place)?;
    let name = name_of(target, &place.net)?;
    Ok((guest, HeldNetwork::new(place.process, name)))
}

/// Starts a process in the namespaces of process `pid`, to open ports of the guest's loopback.
pub(crate) fn start_agent(pid: Pid) -> Result<NamespaceAgent, Error> {
    let place = AttachPlace::find(&AttachTarget::Pid(pid.0), None)?;
    let agent_main = |channel| match place.enter_untraced() {
        Ok(()) => namespace_agent::main(&channel),
        // The caller finds the channel closed.
        Err(_) => EXIT_OWN_FAILURE,
    };
    let (_, channel) = channel::fork(agent_main).map_err(Failure::at(SetupStep::Child))?;
    NamespaceAgent::meet(channel)
}

/// The path to watch, if the target is one.
fn name_of(target: &AttachTarget, net: &File) -> Result<Option<NamedNetwork>, Error> {
    let AttachTarget::Path(path) = target else {
        return Ok(None);
    };
    // A descriptor of the caller's is none: the process in the background closes it.
    if ["/dev/fd", "/proc/self"]
        .iter()
        .any(|own| path.starts_with(own))
    {
        return Ok(None);
    }
    let name = net
        .metadata()
        .and_then(|file| NamedNetwork::of(path, &file));
    name.map(Some)
        .map_err(Error::io("watching the namespace's name"))
}

/// Takes over a descriptor that the caller named.
fn inherit(number: Option<i32>, option: &str) -> Result<Option<OwnedFd>, Error> {
    let Some(number) = number else {
        return Ok(None);
    };
    let usage = |why: &str| Error::Usage(format!("{option} {number}: {why}"));
    if number <= libc::STDERR_FILENO {
        return Err(usage(
            "0, 1 and 2 are mbuma's own input and output: give it another one, as `3>FILE` does",
        ));
    }
    let taken = fd::inherit(number);
    let taken =
        taken.map_err(|_| usage("mbuma was started without an open descriptor of that number"))?;
    Ok(Some(taken))
}

/// A descriptor whose other end, when it is closed, tells mbuma to end.
fn inherit_end(number: Option<i32>) -> Result<Option<OwnedFd>, Error> {
    let taken = inherit(number, "--exit-fd")?;
    let Some(end) = taken.map(File::from) else {
        return Ok(None);
    };
    let kind = end.metadata().map_err(Error::io("looking at --exit-fd"))?;
    if kind.is_file() || kind.is_dir() {
        return Err(Error::Usage(
            "--exit-fd: a file has no other end to be closed: give a pipe or a socket".to_owned(),
        ));
    }
    Ok(Some(end.into()))
}

/// mbuma sends for the guest by sockets of its own network namespace: a guest in that namespace would get its own
/// packets back.
fn refuse_our_own(place: &AttachPlace) -> Result<(), Error> {
    let find = Failure::at(SetupStep::FindNamespace);
    match is_ours(&place.net, "net").map_err(find)? {
        false => Ok(()),
        true => Err(Error::Usage(
            "that is the network that mbuma itself is in: name a process or a file of another one \
             (`unshare -n` and `ip netns add` make one, and `mbuma run` does all of it)"
                .to_owned(),
        )),
    }
}

/// Where the interface goes.
struct AttachPlace {
    /// The process that has the namespace, if it was named by a process.
    process: Option<Pidfd>,
    /// The user namespace to enter first; none if this process is in it.
    user: Option<File>,
    /// The network namespace.
    net: File,
}

impl AttachPlace {
    /// Opens the namespace of `target`.
    fn find(target: &AttachTarget, userns_path: Option<&Path>) -> Result<AttachPlace, Error> {
        let place = AttachPlace::open(target, userns_path);
        place.map_err(|failure| Error::Namespace {
            target: match target {
                AttachTarget::Pid(pid) => format!("process {pid}"),
                AttachTarget::Path(path) => path.display().to_string(),
            },
            failure,
        })
    }

    fn open(target: &AttachTarget, userns_path: Option<&Path>) -> Result<AttachPlace, Failure> {
        let process = match target {
            AttachTarget::Pid(pid) => {
                Some(Pidfd::open(Pid(*pid)).map_err(Failure::at(SetupStep::FindNamespace))?)
            }
            AttachTarget::Path(_) => None,
        };
        let net = File::open(net_path(target)).map_err(Failure::at(SetupStep::FindNamespace))?;
        let user = match userns_path {
            Some(path) => File::open(path).map_err(Failure::at(SetupStep::FindUserNamespace))?,
            None => owner_of(&net, target).map_err(Failure::at(SetupStep::FindNamespace))?,
        };
        // If a process ended in between, its number may belong to another one at the second look.
        let ended = process
            .as_ref()
            .map_or(Ok(false), |p| fd::is_ready(p.as_fd()));
        if ended.map_err(Failure::at(SetupStep::FindNamespace))? {
            return Err(Failure {
                step: SetupStep::FindNamespace,
                errno: libc::ESRCH,
            });
        }
        // setns refuses to enter the namespace in which the caller is.
        let ours = is_ours(&user, "user").map_err(Failure::at(SetupStep::FindNamespace))?;
        Ok(AttachPlace {
            process,
            user: (!ours).then_some(user),
            net,
        })
    }

    /// Moves the calling process there. Root of the namespace's user namespace may trace every process in it, but not
    /// this one, which has files of the host open.
    fn enter_untraced(&self) -> Result<(), Failure> {
        process::refuse_tracing().map_err(Failure::at(SetupStep::Child))?;
        self.enter()
    }

    fn enter(&self) -> Result<(), Failure> {
        if let Some(user) = &self.user {
            namespace::enter(user, NamespaceKind::User)
                .map_err(Failure::at(SetupStep::EnterUserNamespace))?;
        }
        namespace::enter(&self.net, NamespaceKind::Net)
            .map_err(Failure::at(SetupStep::EnterNetNamespace))
    }
}

/// The file that is the network namespace.
fn net_path(target: &AttachTarget) -> PathBuf {
    match target {
        AttachTarget::Pid(pid) => PathBuf::from(format!("/proc/{pid}/ns/net")),
        AttachTarget::Path(path) => path.clone(),
    }
}

/// The user namespace whose capabilities count in `net`.
///
/// The process may have moved to a deeper user namespace, so the owner of the network namespace is used first. The
/// kernel names that owner only if it is at or below ours; otherwise this uses the process's.
fn owner_of(net: &File, target: &AttachTarget) -> io::Result<File> {
    match (namespace::owner(net), target) {
        (Err(e), AttachTarget::Pid(pid)) if e.raw_os_error() == Some(libc::EPERM) => {
            File::open(format!("/proc/{pid}/ns/user"))
        }
        (owner, _) => owner,
    }
}

/// Whether `namespace` is the one of this kind that mbuma is in.
fn is_ours(namespace: &File, kind: &str) -> io::Result<bool> {
    let ours = fs::metadata(format!("/proc/self/ns/{kind}"))?;
    let theirs = namespace.metadata()?;
    Ok((theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino()))
}

/// Lets a helper make the interface in `place`. The helper stays if it must open ports of the guest's loopback.
fn make_guest(
    ifname: &str,
    net: &NetOpts,
    place: &AttachPlace,
) -> Result<(Guest, Option<NamespaceAgent>), Error> {
    let (_, channel) = channel::fork(|channel| helper_main(ifname, net, place, &channel))
        .map_err(Failure::at(SetupStep::Child))?;
    let guest = guest::receive(&channel, ifname, net)?;
    let agent = (!net.loopback.is_empty()).then(|| NamespaceAgent::meet(channel));
    Ok((guest, agent.transpose()?))
}

/// The helper, from the fork to its exit code.
fn helper_main(ifname: &str, net: &NetOpts, place: &AttachPlace, channel: &Channel) -> u8 {
    let made = place.enter_untraced().and_then(|()| {
        sandbox::keep_only(Kept::NetworkSetup);
        guest::make_interface(ifname, net)
    });
    match guest::answer(channel, made) {
        0 if !net.loopback.is_empty() => namespace_agent::main(channel),
        code => code,
    }
}

/// `attach` lasts until the namespace's process ends, until the namespace's name is removed, until the other end of
/// `--exit-fd` is closed, or until a signal asks.
struct NamespaceEnds {
    signals: SignalFd,
    announcement: Announcement,
    ready_fd: Option<OwnedFd>,
    exit_fd: Option<OwnedFd>,
    process: Option<Pidfd>,
    name: Option<NamedNetwork>,
    agent: Option<NamespaceAgent>,
}

impl NamespaceEnds {
    /// Descriptors that become readable at the guest's end: an engine's monitor holds the other end of `--exit-fd`
    /// while the container lives.
    fn ends(&self) -> Vec<BorrowedFd<'_>> {
        let exit_fd = self.exit_fd.as_ref().map(AsFd::as_fd);
        let process = self.process.as_ref().map(AsFd::as_fd);
        exit_fd.into_iter().chain(process).collect()
    }

    /// Whether the namespace's name was removed; prints that the first time.
    fn lost_its_name(&mut self) -> bool {
        let Some(name) = self.name.take_if(|name| name.is_gone()) else {
            return false;
        };
        say(&format!(
            "{} does not name the network namespace any more (`ip netns del` removes it): mbuma stops serving it",
            name.path().display()
        ));
        true
    }
}

impl Lifecycle for NamespaceEnds {
    fn up(&mut self) -> Result<(), Error> {
        self.announcement.make()?;
        let Some(fd) = self.ready_fd.take() else {
            return Ok(());
        };
        File::from(fd)
            .write_all(b"1")
            .map_err(Error::io("saying on --ready-fd that the network is up"))
    }

    fn take_agent(&mut self) -> Option<NamespaceAgent> {
        self.agent.take()
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let mut fds = vec![self.signals.as_fd()];
        fds.extend(self.name.as_ref().map(AsFd::as_fd));
        fds.extend(self.ends());
        fds
    }

    fn check(&mut self) -> Result<GuestState, Error> {
        let mut asked = self.signals.take_in()?;
        // Processes of the namespace may still send, but must not keep mbuma once the name is removed.
        asked |= self.lost_its_name();
        let polled = fd::poll(&self.ends(), Some(Duration::ZERO)).map_err(Error::io("polling"))?;
        let ended = polled.contains(&true);
        Ok(match (asked, ended) {
            (true, _) => GuestState::StopRequested,
            (false, true) => GuestState::Ended,
            (false, false) => GuestState::Running,
        })
    }
}

//! The monitor: the process that the user started. It forks a gateway process, which serves the guest.
//!
//! ```text
//!   monitor ----- gateway process      has the TAP, the host sockets, and every packet
//!     |  '--channel--'                 Up ->   <- Ended, Stop   Done ->   <- changes ([`requests`])
//!     '---- guard ---- COMMAND         (`run` only)
//! ```
//!
//! The gateway process parses the guest's packets. The monitor parses none: it does the work that needs files, names or
//! rights, which are the signals, COMMAND and its descendants, the terminal, the namespace's name, the names of
//! sockets, the ports that are published, and the host's resolv.conf. So the gateway process can give all of these up
//! ([`gateway_process`]).
//!
//! Invariants: one thread; at the end of [`serve`] the gateway process has ended, and the names of its sockets are
//! gone. If the monitor is killed, the kernel kills the gateway process.
//! Locks: none.

mod api;
mod followed;
mod gateway_process;
mod ports;
mod requests;
mod resolv_watch;
mod socket_name;
mod stop_deadline;

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::Duration;

use mbuma::runtime::{Interest, PollEvents, Poller};

use crate::args::NetOpts;
use crate::channel::ChannelMessage;
use crate::errors::{Error, with_remedy};
use crate::gateway;
use crate::guest::Guest;
use crate::guests::{GuestChange, JoinedGuest, NetworkRequest};
use crate::lifecycle::{GuestState, Lifecycle};
use crate::netstat::instances::{self, SocketKind};
use crate::ports::{OutwardPort, PublishedId};
use crate::sandbox::{self, Kept};
use crate::say;
use crate::serving_process::ServingProcess;
use crate::signals::SignalFd;
use api::Api;
pub(crate) use api::{BAD_ID, BAD_REQUEST};
use followed::FollowedPorts;
use ports::{Guests, Ports};
use requests::{Requester, Requests};
use resolv_watch::ResolvConfWatch;
pub(crate) use socket_name::SocketName;
use stop_deadline::{CpuWait, StopDeadline};

/// Numbers in the epoll set.
const LIFECYCLE: u64 = 0;
const GATEWAY: u64 = 1;
const LOCKS: u64 = 2;
const RESOLV_CONF: u64 = 3;
const FOLLOWED: u64 = 4;
/// The first of the numbers of the API sockets and their clients.
const APIS: u64 = 5;

/// Serves `guest` by a gateway process until `lifecycle` says stop. Returns the exit code of that process, which has
/// reported the error if the code is not 0.
///
/// # Errors
/// `lifecycle` failed, or the gateway process was killed.
pub(crate) fn serve(
    guest: Guest,
    net: &NetOpts,
    lifecycle: &mut dyn Lifecycle,
) -> Result<u8, Error> {
    // The gateway process inherits it; without a directory for it there is no socket.
    instances::own_pid();
    let mut ports = Ports::new(Guests::of(&guest, net));
    let bound = ports.begin(&net.published())?;
    let followed = lifecycle.take_agent();
    let followed = followed.map(|agent| FollowedPorts::begin(&net.loopback, agent, &mut ports));
    let followed = followed.transpose()?;
    let (control, mut names) = (own_socket(SocketKind::Control), Vec::new());
    let control = control.map(|socket| socket.keep_name(&mut names));
    // A server is no gateway: no port leads through it.
    let publishes = net.serve.alone.is_none();
    let own_api = publishes.then(|| own_socket(SocketKind::Ports)).flatten();
    let apis = [own_api, engines_socket(net)?];
    let apis = apis.into_iter().flatten();
    let apis = apis.map(|socket| socket.keep_name(&mut names)).collect();
    // If it can't be watched, the gateway keeps the servers that it read.
    let resolv_conf = net.asks_hosts_servers().then(ResolvConfWatch::begin);
    let resolv_conf = resolv_conf.and_then(Result::ok);
    if let Some(watch) = &resolv_conf {
        lifecycle.hold(watch.as_fd());
    }
    let gateway = ServingProcess::start(|monitor| {
        let handed = gateway_process::Handed {
            guest,
            control,
            ports: bound,
            monitor,
        };
        gateway_process::main(handed, net)
    });
    let gateway = gateway.map_err(Error::io("starting the process that serves the guest"))?;
    // If this process is killed, the gateway process notices only when the guard has ended COMMAND, and so resets no
    // connection before.
    lifecycle.hold(gateway.channel.as_fd());
    if !net.no_sandbox {
        sandbox::keep_only(Kept::Monitor);
    }
    let mut monitor = Monitor::new(gateway, lifecycle, ports, resolv_conf, apis)
        .map_err(Error::io("watching the process that serves the guest"))?;
    monitor.stop_max = stop_max(net);
    monitor.capture_reader = capture_reader(net);
    if let Some((followed, begun)) = followed {
        let started = monitor.follow(followed, begun);
        started.map_err(Error::io("watching the ports of the guest"))?;
    }
    // The names are removed last, so that other programs get answers until the end.
    monitor.run()
}

/// The time that the gateway process may take to stop. That of `mbuma serve` waits for its responses.
fn stop_max(net: &NetOpts) -> Option<Duration> {
    let responses = match net.serve.alone {
        Some(_) => gateway::LINGER_MAX,
        None => Duration::ZERO,
    };
    (net.watchdog > 0).then(|| Duration::from_secs(net.watchdog.into()) + responses)
}

/// The path of a capture that a program reads while it is written.
fn capture_reader(net: &NetOpts) -> Option<PathBuf> {
    let mut paths = net.pcap.iter().chain(&net.tcp_trace);
    let is_read = |path: &&PathBuf| fs::metadata(path).is_ok_and(|found| !found.is_file());
    paths.find(is_read).cloned()
}

/// A listener in the file system.
struct Socket {
    listener: UnixListener,
    name: SocketName,
}

impl Socket {
    fn keep_name(self, names: &mut Vec<SocketName>) -> UnixListener {
        names.push(self.name);
        self.listener
    }
}

/// Opens a socket for mbuma's other commands, if there is a directory for it.
fn own_socket(kind: SocketKind) -> Option<Socket> {
    let (listener, path) = instances::open(kind).ok()?;
    let name = SocketName::of(path);
    Some(Socket { listener, name })
}

/// Opens the socket of `--api-socket`.
fn engines_socket(net: &NetOpts) -> Result<Option<Socket>, Error> {
    let Some(path) = &net.api_socket else {
        return Ok(None);
    };
    let doing = format!("opening --api-socket {}", path.display());
    let (listener, name) = SocketName::listen(path).map_err(Error::io(&doing))?;
    listener.set_nonblocking(true).map_err(Error::io(&doing))?;
    Ok(Some(Socket { listener, name }))
}

/// The loop of this process.
struct Monitor<'a> {
    /// The gateway process.
    gateway: ServingProcess,
    cpu_wait: CpuWait,
    lifecycle: &'a mut dyn Lifecycle,
    /// A request to show the locks: the gateway process has them.
    show_locks: SignalFd,
    set: Poller,
    /// The last message to the gateway process.
    told: GuestState,
    /// The time that it may take to stop.
    stop_max: Option<Duration>,
    /// The pipe or terminal that a capture goes to: the gateway process waits for its reader.
    capture_reader: Option<PathBuf>,
    /// The deadline for the answer of a gateway process that was told to stop, or that the guest has ended.
    stop_by: Option<StopDeadline>,
    /// The exit code that the gateway process has announced.
    done: Option<u8>,
    ports: Ports,
    requests: Requests,
    resolv_conf: Option<ResolvConfWatch>,
    followed: Option<FollowedPorts>,
    api: Api,
}

impl<'a> Monitor<'a> {
    fn new(
        gateway: ServingProcess,
        lifecycle: &'a mut dyn Lifecycle,
        ports: Ports,
        resolv_conf: Option<ResolvConfWatch>,
        apis: Vec<UnixListener>,
    ) -> io::Result<Monitor<'a>> {
        let set = Poller::new()?;
        let show_locks = SignalFd::of_show_locks()?;
        // By edge: a descriptor that stays ready, as that of an ended process does, is handled once.
        let edge = Interest::ReadEdge;
        for fd in lifecycle.fds() {
            set.add(fd, LIFECYCLE, edge)?;
        }
        set.add(&gateway.channel, GATEWAY, edge)?;
        set.add(show_locks.as_fd(), LOCKS, edge)?;
        if let Some(watch) = &resolv_conf {
            set.add(watch, RESOLV_CONF, edge)?;
        }
        let api = Api::new(apis, &set, APIS)?;
        Ok(Monitor {
            cpu_wait: CpuWait::of(gateway.pid),
            gateway,
            lifecycle,
            show_locks,
            set,
            told: GuestState::Running,
            stop_max: None,
            capture_reader: None,
            stop_by: None,
            done: None,
            ports,
            requests: Requests::default(),
            resolv_conf,
            followed: None,
            api,
        })
    }

    /// From now on the ports are followed.
    fn follow(&mut self, mut followed: FollowedPorts, begun: Vec<OutwardPort>) -> io::Result<()> {
        self.set.add(&followed, FOLLOWED, Interest::ReadEdge)?;
        followed.start(begun, &mut self.ports, &mut self.requests);
        self.followed = Some(followed);
        Ok(())
    }

    /// Runs until the gateway process has ended. Returns its exit code.
    fn run(&mut self) -> Result<u8, Error> {
        let mut events = PollEvents::new();
        loop {
            // Something may have happened before the descriptors were watched.
            self.attend()?;
            self.hear()?;
            if let Some(code) = self.done {
                self.gateway.wait_for_end();
                return Ok(code);
            }
            self.pass_on_requests();
            let cpu_wait = &self.cpu_wait;
            let left = self.stop_by.as_mut().map(|by| by.left(cpu_wait));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(self.hangs());
            }
            let left = left.into_iter().chain(self.requests.left()).min();
            let waited = self.set.wait(&mut events, left);
            waited.map_err(Error::io("waiting for events"))?;
            for (number, _) in events.iter() {
                match number {
                    LOCKS => self.pass_on_show_locks(),
                    RESOLV_CONF => self.pass_on_name_servers(),
                    LIFECYCLE | GATEWAY => {}
                    FOLLOWED => {
                        if let Some(followed) = &mut self.followed {
                            followed.tick(&mut self.ports, &mut self.requests);
                        }
                    }
                    _ => {
                        let requests = &mut self.requests;
                        self.api.attend(&self.set, &mut self.ports, requests);
                    }
                }
            }
        }
    }

    /// Handles the guest's events, and tells the gateway process of changes.
    fn attend(&mut self) -> Result<(), Error> {
        let state = self.lifecycle.check()?;
        for request in self.lifecycle.take_requests() {
            self.pass_on(request);
        }
        // After a request to stop there is nothing to add.
        if state == self.told || self.told == GuestState::StopRequested {
            return Ok(());
        }
        self.told = state;
        let message = match state {
            GuestState::Running => return Ok(()),
            GuestState::Ended => ChannelMessage::Ended,
            GuestState::StopRequested => ChannelMessage::Stop,
        };
        self.expect_answer();
        // The end of the process is noticed by its channel.
        let _ = self.gateway.channel.send(&message, None);
        Ok(())
    }

    /// The gateway process has all of its time again.
    fn expect_answer(&mut self) {
        let deadline = |within| StopDeadline::new(within, &self.cpu_wait);
        self.stop_by = self.stop_max.map(deadline);
    }

    /// The gateway process was told of the end, and has not answered in its time.
    fn hangs(&self) -> Error {
        let seconds = self.stop_max.unwrap_or_default().as_secs();
        let after = match self.told {
            GuestState::StopRequested => "it was told to stop",
            GuestState::Running | GuestState::Ended => "the guest ended",
        };
        let mut hangs = format!("it did not answer for {seconds} s after {after}: killed");
        if let Some(path) = &self.capture_reader {
            let path = path.display();
            hangs += &format!("; the program that reads {path} may have stopped reading");
        }
        Error::io("stopping the process that serves the guest")(io::Error::other(hangs))
    }

    /// Asks the gateway process for a change of guests or ports.
    fn pass_on(&mut self, request: NetworkRequest) {
        let requests = &mut self.requests;
        match request {
            NetworkRequest::Guest(GuestChange::Joined(JoinedGuest { spec, tap })) => {
                self.ports.guest_joined(&spec);
                let requester = Some(Requester::Guest(spec.id));
                requests.push(ChannelMessage::GuestJoined(spec), vec![tap], requester);
            }
            NetworkRequest::Guest(GuestChange::Left(id)) => {
                requests.push(ChannelMessage::GuestLeft(id), Vec::new(), None);
            }
            NetworkRequest::Publish(guest, publish, addr, socket) => {
                let requester = Some(Requester::Guest(guest));
                let port = (publish, addr, socket);
                if let Err(e) = self.ports.adopt(port, requester, requests) {
                    self.lifecycle.tell_guest(guest, Some(e.to_string()));
                }
            }
            NetworkRequest::Unpublish(addr) => self.ports.guest_left(addr, requests),
        }
    }

    /// Sends the next request to the gateway process, whose end is noticed by its channel; requesters that have waited
    /// too long get an answer.
    fn pass_on_requests(&mut self) {
        while let Some((requester, opens)) = self.requests.take_overdue() {
            let refused = Some("the process that serves the guest does not answer".to_owned());
            self.answer(Some(requester), opens, refused);
        }
        while let Err(e) = self.requests.send(&self.gateway.channel) {
            self.answered(Some(e));
        }
    }

    /// The first request is fulfilled, or was `refused` for this reason.
    fn answered(&mut self, refused: Option<io::Error>) {
        if let Some(request) = self.requests.take_answered() {
            let refused = refused.map(|e| with_remedy(&e));
            self.answer(request.requester, request.opens(), refused);
        }
    }

    fn answer(
        &mut self,
        requester: Option<Requester>,
        opens: Option<PublishedId>,
        refused: Option<String>,
    ) {
        if let (Some(id), Some(why)) = (opens, &refused) {
            let mut outward = self.ports.outward().iter().map(|spec| (spec.id, spec.port));
            let port = outward.find(|(its, _)| *its == id).map(|(_, port)| port);
            let followed = self.followed.as_ref();
            if let Some(port) = port.filter(|port| followed.is_some_and(|all| all.is_given(port))) {
                say(&format!("the port {port} is closed: {why}"));
            }
            self.ports.remove(id, None, &mut self.requests);
        }
        match requester {
            Some(Requester::Client(number)) => self.api.answered(&self.set, number, refused),
            Some(Requester::Guest(guest)) => self.lifecycle.tell_guest(guest, refused),
            None => {}
        }
    }

    /// Reads the messages of the gateway process.
    fn hear(&mut self) -> Result<(), Error> {
        let doing = "serving the guest in a process of its own";
        while self.done.is_none()
            && let Some(message) = self.gateway.hear(doing)?
        {
            match message {
                ChannelMessage::Up => self.lifecycle.up()?,
                ChannelMessage::Lingers if self.told == GuestState::Ended => self.expect_answer(),
                ChannelMessage::Done(code) => self.done = Some(code),
                ChannelMessage::Answered(errno) => {
                    self.answered(errno.map(io::Error::from_raw_os_error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn pass_on_name_servers(&mut self) {
        let changed = self
            .resolv_conf
            .as_mut()
            .and_then(ResolvConfWatch::take_change);
        if let Some(servers) = changed {
            let message = ChannelMessage::NameServers(servers);
            self.requests.push(message, Vec::new(), None);
        }
    }

    fn pass_on_show_locks(&self) {
        while let Ok(Some(info)) = self.show_locks.read() {
            // One that has ended holds no locks.
            let _ = self.gateway.pidfd.signal(info.signo);
        }
    }
}

//! Runs a script: its events in their order, and the stack in between.
//!
//! 1. Time 0 is the first event's.
//! 2. A call, a packet that comes in, a command happen at their time, or at once if an expectation was met later.
//! 3. An expectation takes the oldest packet that no line has met yet, and waits for one until its time is over.
//!    So a packet that no line expects meets the next expectation.
//! 4. An event after one with a range or a wildcard counts from when that one happened; else from its written time.
//! 5. Packets of other connections than the script's last one do not count.

use std::collections::VecDeque;
use std::io::Write;
use std::net::SocketAddrV4;

use super::asserts::Variables;
use super::calls::{Sockets, Subject};
use super::dialect::Dialect;
use super::flow::ScriptFlow;
use super::host::Host;
use super::report::{Failure, ScriptReport, ScriptVerdict};
use super::settings::Settings;
use super::syntax::{Action, Line, Micros, ScriptEvent, TIME_MAX, When};
use super::sysctl::Tunables;
use super::{Script, asserts, command, info, show, states, sysctl};

mod call;
mod meet;
mod send;
mod sent;

use call::Blocked;
use sent::SentPacket;

/// The first port of connections that scripts begin.
const FIRST_REMOTE_PORT: u16 = 34_567;

/// How long a wildcard waits.
const FOREVER: Micros = 3_600_000_000;

/// Why a run ends early.
enum Stop {
    Failed(Failure),
    Unsupported(Line, String),
}

impl Stop {
    fn failed(line: Line, message: &str, expected: String, got: String) -> Self {
        Self::Failed(Failure {
            line: line.0,
            message: message.to_owned(),
            expected,
            got,
        })
    }
}

struct Runner<'a> {
    script: &'a Script,
    settings: Settings,
    dialect: Dialect,
    host: Host,
    sockets: Sockets,
    flows: Vec<ScriptFlow>,
    /// The connection that packets belong to.
    current: usize,
    /// The next SYN begins a connection.
    listens: bool,
    next_port: u16,
    sent: VecDeque<SentPacket>,
    blocked: Vec<Blocked>,
    /// The variables of its Python.
    variables: Variables,
    /// The script's time of the first event.
    base: Micros,
    /// The time that relative ones count from.
    last: Micros,
    /// The line that is being executed.
    line: Line,
    trace: Vec<String>,
    notes: Vec<String>,
    /// The packet that a connection sent last, for ICMP messages that quote none.
    last_sent: Option<Vec<u8>>,
    /// How much later than the stack the script expects each retransmission in a row.
    slop: Micros,
}

/// Runs the script on a new stack.
pub(super) fn run(
    script: &Script,
    settings: &Settings,
    capture: Option<Box<dyn Write>>,
) -> ScriptReport {
    let mut settings = settings.clone();
    let mut notes = Vec::new();
    for setting in &script.settings {
        match settings.set(setting) {
            Ok(true) => {}
            Ok(false) => notes.push(format!(
                "line {}: --{} has no effect",
                setting.line, setting.name
            )),
            Err(error) => notes.push(error.to_string()),
        }
    }
    settings.bound_times();
    let of_commands = first_commands(script).filter_map(|(_, text)| command::link_mtu(text));
    settings.mtu = of_commands.last().unwrap_or(settings.mtu);
    if let Err(why) = settings.is_mtu_possible() {
        return ScriptReport {
            script: script.name.clone(),
            verdict: ScriptVerdict::Unsupported {
                line: 1,
                message: why.to_owned(),
            },
            elapsed_us: 0,
            notes,
            trace: Vec::new(),
        };
    }
    let mut runner = Runner::new(script, settings, notes);
    if let Some(capture) = capture
        && let Err(error) = runner.host.trace().write_capture(capture)
    {
        runner.notes.push(format!("the capture: {error}"));
    }
    let verdict = match runner.events() {
        Ok(()) => ScriptVerdict::Passed,
        Err(Stop::Failed(failure)) => ScriptVerdict::Failed(failure),
        Err(Stop::Unsupported(line, message)) => ScriptVerdict::Unsupported {
            line: line.0,
            message,
        },
    };
    if let Err(error) = runner.host.trace().finish() {
        runner.notes.push(format!("the capture: {error}"));
    }
    ScriptReport {
        script: script.name.clone(),
        verdict,
        elapsed_us: runner.host.now(),
        notes: runner.notes,
        trace: runner.trace,
    }
}

/// Commands before the first other event: they are applied when the stack is made.
fn first_commands(script: &Script) -> impl Iterator<Item = (Line, &str)> {
    script.events.iter().map_while(|event| match &event.action {
        Action::Command(command) => Some((event.line, command.as_str())),
        _ => None,
    })
}

impl<'a> Runner<'a> {
    fn new(script: &'a Script, settings: Settings, mut notes: Vec<String>) -> Self {
        let addresses = settings.addresses;
        let mtu = settings.as_ipv4_mtu(settings.mtu);
        let mut tunables = Tunables::default();
        let family = settings.family;
        let dialect = settings.dialect.unwrap_or(script.dialect);
        let host = Host::new(addresses.local, addresses.gateway, mtu, family, |config| {
            // Scripts expect a whole window at once: kernels leave pacing to a queue of the device.
            config.tcp.pacing = false;
            tunables.tcp = config.tcp.clone();
            match settings.dialect {
                _ if dialect == Dialect::Linux => sysctl::set_linux_defaults(&mut tunables),
                // A script that shows no dialect expects this stack's defaults.
                None => {}
                Some(_) => sysctl::set_freebsd_defaults(&mut tunables),
            }
            notes.extend(command::set(&settings.sysctls, &mut tunables));
            for (line, text) in first_commands(script) {
                if !states::is_assertion(text) {
                    notes.extend(command::apply(line, text, &mut tunables));
                }
            }
            config.tcp = tunables.tcp.clone();
            config.tcp.recv_buffer = tunables.rounded(config.tcp.recv_buffer, settings.mss());
        });
        let slop = Micros::try_from(tunables.slop.as_micros()).unwrap_or(TIME_MAX);
        let sockets = Sockets::new(host.stack().clone(), tunables, &settings, dialect);
        let local = SocketAddrV4::new(addresses.local, settings.bind_port);
        let remote = SocketAddrV4::new(addresses.remote, FIRST_REMOTE_PORT);
        Self {
            script,
            dialect,
            host,
            sockets,
            flows: vec![ScriptFlow::new(local, remote)],
            current: 0,
            listens: false,
            next_port: FIRST_REMOTE_PORT + 1,
            sent: VecDeque::new(),
            blocked: Vec::new(),
            variables: Variables::new(),
            base: 0,
            last: 0,
            line: Line(1),
            trace: Vec::new(),
            notes,
            last_sent: None,
            slop: slop.min(TIME_MAX),
            settings,
        }
    }

    fn events(&mut self) -> Result<(), Stop> {
        let script = self.script;
        if let Some(When::Absolute(first)) = script.events.first().map(|e| e.when) {
            self.base = first;
        }
        let mut configured = first_commands(script).count();
        for event in &script.events {
            let applied = configured > 0;
            configured = configured.saturating_sub(1);
            self.event(event, applied)?;
        }
        self.wait_for_blocked()
    }

    /// The time at which an event may happen, from and to.
    fn window(&self, when: When) -> (Micros, Micros) {
        let absolute = |t: Micros| t - self.base;
        let relative = |t: Micros| self.last + t;
        match when {
            When::Absolute(t) => (absolute(t), absolute(t)),
            When::Relative(t) => (relative(t), relative(t)),
            When::AbsoluteRange(a, b) => (absolute(a), absolute(b)),
            When::RelativeRange(a, b) => (relative(a), relative(b)),
            When::Any => (self.host.now(), self.host.now() + FOREVER),
        }
    }

    /// `applied`: a command that was applied before the run.
    fn event(&mut self, event: &ScriptEvent, applied: bool) -> Result<(), Stop> {
        self.line = event.line;
        let (from, to) = self.window(event.when);
        if from.max(to) > TIME_MAX {
            let message = "this time is too far away".to_owned();
            return Err(Stop::Unsupported(self.line, message));
        }
        let is_wildcard = event.when == When::Any;
        if !matches!(event.action, Action::Expect(_)) {
            self.advance(from)?;
            self.is_on_time(event, from)?;
        }
        match &event.action {
            Action::Call(call) => {
                let until = event.until.map(|until| match event.when {
                    When::Relative(_) => self.last + until,
                    _ => until - self.base,
                });
                self.call(call, until)?;
            }
            Action::Inject(packet) => self.inject(packet)?,
            Action::Expect(packet) => self.expect(packet, from, to, is_wildcard)?,
            Action::Command(command) => self.command(command, applied)?,
            Action::Code(code) => self.code(code)?,
            Action::Lacks(feature) => {
                return Err(Stop::Unsupported(self.line, feature.clone()));
            }
        }
        self.last = match event.when {
            When::Absolute(_) | When::Relative(_) => from,
            _ => self.host.now(),
        };
        Ok(())
    }

    /// Checks the time of an event: an expectation before it may have been met too late.
    fn is_on_time(&self, event: &ScriptEvent, at: Micros) -> Result<(), Stop> {
        let now = self.host.now();
        if now <= at + self.settings.tolerance {
            return Ok(());
        }
        Err(Stop::failed(
            event.line,
            "this line's time is over",
            self.clock(at),
            self.clock(now),
        ))
    }

    /// A time of the run as the script counts it.
    fn clock(&self, at: Micros) -> String {
        show::time(at + self.base)
    }

    fn note(&mut self, text: &str) {
        let line = format!("{} {text}", self.clock(self.host.now()));
        self.trace.push(line);
    }

    /// Runs all events that are due until `until`, and moves the clock there.
    fn advance(&mut self, until: Micros) -> Result<(), Stop> {
        while self.step(until)? {}
        self.host.run_until(until);
        Ok(())
    }

    /// Runs one instant, and checks its results. False if no event is due until `until`.
    fn step(&mut self, until: Micros) -> Result<bool, Stop> {
        let stepped = self.host.step(until);
        self.collect()?;
        self.sockets.note_acknowledged(self.host.now());
        self.try_blocked()?;
        Ok(stepped)
    }

    /// Updates which connection packets belong to after a call.
    fn follow_subject(&mut self) {
        let remote_ip = self.settings.addresses.remote;
        let local_ip = self.settings.addresses.local;
        match self.sockets.subject.take() {
            None => {}
            Some(Subject::Listener) => self.listens = true,
            Some(Subject::Connection {
                local_port,
                remote_port,
            }) => self.begin_flow(
                SocketAddrV4::new(local_ip, local_port),
                SocketAddrV4::new(remote_ip, remote_port),
            ),
            Some(Subject::Datagrams { local_port }) => {
                let remote = SocketAddrV4::new(remote_ip, self.take_port());
                self.begin_flow(SocketAddrV4::new(local_ip, local_port), remote);
            }
        }
    }

    fn take_port(&mut self) -> u16 {
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(FIRST_REMOTE_PORT);
        port
    }

    fn begin_flow(&mut self, local: SocketAddrV4, remote: SocketAddrV4) {
        let same = |flow: &ScriptFlow| (flow.local, flow.remote) == (local, remote);
        self.flows.retain(|flow| !same(flow));
        self.flows.push(ScriptFlow::new(local, remote));
        self.current = self.flows.len() - 1;
        self.listens = false;
    }

    fn command(&mut self, command: &str, applied: bool) -> Result<(), Stop> {
        self.note(&format!("`{}`", command.trim()));
        if states::is_assertion(command) {
            let (holds, list) = states::check(command, self.host.stack(), &self.sockets)
                .map_err(|why| Stop::Unsupported(self.line, why))?;
            return match holds {
                true => Ok(()),
                false => Err(Stop::failed(
                    self.line,
                    "the sockets are in other states",
                    command.to_owned(),
                    list.join("; "),
                )),
            };
        }
        if !applied {
            let tunables = &mut self.sockets.tunables;
            let note = command::apply_later(self.line, command, tunables);
            self.notes.extend(note);
        }
        Ok(())
    }

    fn code(&mut self, code: &str) -> Result<(), Stop> {
        self.note("%{ assert }%");
        let dialect = self.dialect;
        let stream = self.sockets.current();
        let figure = |name: &str| {
            let found = info::constant(name, dialect);
            let found = found.or_else(|| info::figure(stream?, name, dialect));
            found.map(|n| n as f64)
        };
        match asserts::check(code, &figure, &mut self.variables) {
            Ok(()) => Ok(()),
            Err(asserts::AssertError::Unknown(what)) => Err(Stop::Unsupported(self.line, what)),
            Err(asserts::AssertError::False(text, values)) => Err(Stop::failed(
                self.line,
                "an assertion does not hold",
                text,
                values,
            )),
        }
    }
}

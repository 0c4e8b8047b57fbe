//! Calls that wait for descriptors to be ready.

use std::collections::BTreeMap;
use std::task::{Context, Waker};

use mbuma::State;

use super::{Attempt, CallOutcome, CallResult, Descriptor, Object, Problem, Sockets, args};
use crate::script::syntax::{Expr, Field};

const IN: i64 = 0x1;
const OUT: i64 = 0x4;
const ERR: i64 = 0x8;
const HUP: i64 = 0x10;
const NVAL: i64 = 0x20;
const ONESHOT: i64 = 1 << 30;
const EDGE: i64 = 1 << 31;

fn done(value: i64) -> CallResult {
    Ok(CallOutcome::value(value).into())
}

fn fails(errno: &'static str) -> CallResult {
    Ok(CallOutcome::fails(errno).into())
}

/// The events of one descriptor that an epoll set waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::script) struct Interest {
    events: i64,
    /// The events that were ready at the last wait: an edge is reported once.
    told: i64,
    /// Bytes that had been read and received then, and messages of the error queue: new ones are an edge too.
    received: u64,
    errors: u64,
}

impl Descriptor {
    /// The ready events.
    fn ready(&mut self) -> i64 {
        let (has_message, _) = self.errors.state();
        let queued = if has_message { ERR } else { 0 };
        queued | self.ready_of_object()
    }

    fn ready_of_object(&mut self) -> i64 {
        match &mut self.object {
            Object::Listener(listening) => i64::from(listening.is_ready()) * IN,
            Object::Stream(stream) => {
                let state = stream.state();
                let cx = &mut Context::from_waker(Waker::noop());
                let readable = stream.poll_readable(cx).is_ready();
                let writable = stream.poll_writable(cx).is_ready() && state != State::SynSent;
                let over = state == State::Closed;
                let failed = over && stream.error().is_some() && !self.error_was_told;
                let bits = [
                    (readable, IN),
                    (writable || over, OUT),
                    (failed, ERR),
                    (over, HUP),
                ];
                let ready = bits.into_iter().filter(|(is, _)| *is);
                ready.fold(0, |all, (_, bit)| all | bit)
            }
            Object::Datagrams(..) => OUT,
            Object::Fresh => OUT | HUP,
            Object::FreshDatagrams | Object::Epoll(_) | Object::File => 0,
        }
    }

    /// Bytes that came in so far.
    fn received(&self) -> u64 {
        match &self.object {
            Object::Stream(stream) => self.read + stream.info().recv_queue as u64,
            _ => 0,
        }
    }
}

impl Sockets {
    /// A write took less than its program gave: the descriptor is not writable any more, so the next space is an edge,
    /// also if no call waits in between.
    pub(super) fn has_filled(&mut self, fd: i64) {
        for d in self.table.values_mut() {
            if let Object::Epoll(set) = &mut d.object
                && let Some(interest) = set.get_mut(&fd)
            {
                interest.told &= !OUT;
            }
        }
    }

    /// `poll([{fd=4, events=POLLIN, revents=POLLIN}], 1, timeout)`; it blocks as long as the script says it does.
    pub(super) fn poll(&mut self, args: &[Expr], returns: &Expr) -> CallResult {
        let Some(Expr::List(all)) = args.first() else {
            return Problem::wrong("poll needs [{fd=n, events=..., revents=...}]");
        };
        let timeout = args::int(args.get(2), "a timeout")?;
        let (mut count, mut wrong) = (0, Vec::new());
        for one in all {
            let fields = args::structure(Some(one), "an entry of poll")?;
            let fd = args::int(args::field(fields, "fd"), "a descriptor")?;
            let events = args::number(args::field(fields, "events"), self.dialect)?;
            let want = args::number(args::field(fields, "revents"), self.dialect)?;
            let ready = match self.table.get_mut(&fd) {
                Some(d) => d.ready() & (events | ERR | HUP),
                None => NVAL,
            };
            count += i64::from(ready != 0);
            if ready != want {
                wrong.push(format!("revents of {fd} is {ready:#x}, not {want:#x}"));
            }
        }
        Ok(waited(count, timeout, returns, wrong))
    }

    pub(super) fn epoll_create(&mut self, returns: &Expr) -> CallResult {
        let epoll = Descriptor::new(Object::Epoll(BTreeMap::new()));
        done(self.add(returns, epoll))
    }

    pub(super) fn epoll_ctl(&mut self, args: &[Expr]) -> CallResult {
        let operation = args::name(args.get(1), "an operation")?;
        let fd = args::int(args.get(2), "a descriptor")?;
        let events = match args.get(3) {
            // Errors are reported whether or not the program asks for them.
            Some(Expr::Struct(fields)) => self.events(fields)? | ERR | HUP,
            _ => 0,
        };
        if !self.table.contains_key(&fd) {
            return fails("EBADF");
        }
        let Some(Descriptor {
            object: Object::Epoll(set),
            ..
        }) = self.descriptor(args.first())?
        else {
            return fails("EINVAL");
        };
        let interest = Interest {
            events,
            told: 0,
            received: 0,
            errors: 0,
        };
        let known = set.contains_key(&fd);
        match (operation, known) {
            ("EPOLL_CTL_ADD", true) => return fails("EEXIST"),
            ("EPOLL_CTL_ADD", false) | ("EPOLL_CTL_MOD", true) => {
                set.insert(fd, interest);
            }
            ("EPOLL_CTL_DEL", true) => {
                set.remove(&fd);
            }
            ("EPOLL_CTL_MOD" | "EPOLL_CTL_DEL", false) => return fails("ENOENT"),
            _ => return Problem::wrong(format!("{operation} is no operation of epoll_ctl")),
        }
        done(0)
    }

    fn events(&self, fields: &[Field]) -> Result<i64, Problem> {
        args::number(args::field(fields, "events"), self.dialect)
    }

    /// `epoll_wait(5, {events=EPOLLIN, fd=4}, n, timeout)`.
    pub(super) fn epoll_wait(&mut self, args: &[Expr], returns: &Expr) -> CallResult {
        let fields = args::structure(args.get(1), "an event of epoll")?;
        let want = self.events(fields)?;
        let timeout = args::int(args.get(3), "a timeout")?;
        let epoll = args::int(args.first(), "a descriptor")?;
        let ready = self.epoll_ready(epoll);
        let mut wrong = Vec::new();
        match ready.first() {
            Some((fd, events)) if *events != want => {
                wrong.push(format!("events of {fd} are {events:#x}, not {want:#x}"));
            }
            _ => {}
        }
        Ok(waited(ready.len() as i64, timeout, returns, wrong))
    }

    /// The ready events of an epoll set, which count as reported then.
    fn epoll_ready(&mut self, epoll: i64) -> Vec<(i64, i64)> {
        let set = match self.table.get(&epoll).map(|d| &d.object) {
            Some(Object::Epoll(set)) => set.clone(),
            _ => BTreeMap::new(),
        };
        let (mut ready, mut after) = (Vec::new(), set.clone());
        for (fd, mut interest) in set {
            let Some(d) = self.table.get_mut(&fd) else {
                continue;
            };
            let now = d.ready() & interest.events;
            let received = d.received();
            let (_, errors) = d.errors.state();
            let mut tell = now;
            if interest.events & EDGE != 0 {
                let mut fresh = if received > interest.received { IN } else { 0 };
                if errors > interest.errors {
                    fresh |= ERR;
                }
                tell = now & (!interest.told | fresh);
                // One edge makes epoll report all ready events.
                tell = if tell != 0 { now } else { 0 };
            }
            (interest.told, interest.received, interest.errors) = (now, received, errors);
            if tell != 0 {
                ready.push((fd, tell));
                if interest.events & ONESHOT != 0 {
                    interest.events = 0;
                }
            }
            after.insert(fd, interest);
        }
        if let Some(d) = self.table.get_mut(&epoll) {
            d.object = Object::Epoll(after);
        }
        ready
    }
}

/// No event is ready: with a timeout the call blocks, unless the script says that it returns 0.
fn waited(count: i64, timeout: i64, returns: &Expr, wrong: Vec<String>) -> Attempt {
    if count == 0 && timeout != 0 && *returns != Expr::Int(0) {
        return Attempt::Blocks;
    }
    Attempt::Done(CallOutcome {
        wrong,
        ..CallOutcome::value(count)
    })
}

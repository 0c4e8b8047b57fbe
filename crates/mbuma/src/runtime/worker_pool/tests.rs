use std::io::{self, PipeReader, PipeWriter, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use kern::{Clock, MonotonicClock};

use super::{ThreadError, WorkerPool, WorkerPoolConfig};
use crate::device::Budget;
use crate::device::epair::{EpairConfig, EpairEnd, Input};
use crate::runtime::sleeper::PRESSURE;
use crate::runtime::{
    Inbox, Interest, LocalTasks, Phase, Quiescence, Readiness, RoundError, WorkerContext, run_round,
};
use crate::{Config, Dispatch, IfConfig, Stack};

const INBOX: u64 = 9;

fn clock() -> Arc<dyn Clock> {
    Arc::new(MonotonicClock::new())
}

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Event(u64),
    Timer(u64),
    Turn(u64),
}

/// Records all calls of a worker.
struct Probe {
    context: WorkerContext,
    seen: Vec<Seen>,
    reader: PipeReader,
}

impl LocalTasks for Probe {
    fn context(&mut self) -> &mut WorkerContext {
        &mut self.context
    }

    fn event(&mut self, key: u64, readiness: Readiness) {
        assert!(readiness.readable());
        let removed = self.context.poller().remove(&self.reader);
        removed.expect("it was watched");
        self.seen.push(Seen::Event(key));
    }

    fn timer(&mut self, key: u64) {
        self.seen.push(Seen::Timer(key));
    }

    fn turn(&mut self, key: u64) {
        self.seen.push(Seen::Turn(key));
    }
}

/// The probe of worker 0, which watches the pipe.
fn probe(pool: &WorkerPool) -> (Probe, PipeWriter) {
    let context = pool.context(0, &clock());
    let (reader, writer) = io::pipe().expect("descriptors");
    let watched = context.poller().add(&reader, 1_u64, Interest::Read);
    watched.expect("it can be watched");
    let seen = Vec::new();
    let probe = Probe {
        context,
        seen,
        reader,
    };
    (probe, writer)
}

#[test]
fn a_round_takes_what_the_last_one_left_and_more() {
    // Breaks when tasks that a round left get a round of their own, are lost, or are overtaken by later ones.
    let pool = WorkerPool::new(WorkerPoolConfig::new(1).turns_max(3)).expect("descriptors");
    let _bound = pool.worker_set().bind(0);
    let (mut probe, _writer) = probe(&pool);
    let tasks = [0, 1, 2, 3, 4, 5_u64].map(|key| probe.context.ready().waker_for(key));
    tasks.iter().take(4).for_each(|task| task.wake());
    assert!(run_round(&mut probe, None).is_ok());
    assert_eq!(probe.seen, [0, 1, 2].map(Seen::Turn));
    [4, 5, 3, 0].iter().for_each(|&key| tasks[key].wake());
    assert!(run_round(&mut probe, None).is_ok());
    assert_eq!(probe.seen[3..], [3, 4, 5].map(Seen::Turn));
    assert!(run_round(&mut probe, None).is_ok());
    assert_eq!(probe.seen[6..], [Seen::Turn(0)]);
    assert!(probe.context.is_idle());
}

#[test]
fn a_report_of_memory_pressure_gives_memory_back() {
    // Breaks when the kernel says that memory is short, and no worker acts on it.
    let pool = WorkerPool::new(WorkerPoolConfig::new(1)).expect("descriptors");
    let _bound = pool.worker_set().bind(0);
    let (mut probe, _writer) = probe(&pool);
    // In the place of the kernel's trigger.
    let (reader, mut trigger) = io::pipe().expect("descriptors");
    let watched = (probe.context.poller()).add(&reader, PRESSURE, Interest::Read);
    watched.expect("it can be watched");
    trigger.write_all(b"!").expect("room");
    let drains = |probe: &Probe| {
        probe
            .context
            .reclaimer()
            .expect("worker 0's")
            .stats()
            .drains
    };
    let before = drains(&probe);
    assert!(run_round(&mut probe, None).is_ok());
    assert_eq!(drains(&probe), before + 1);
}

#[test]
fn descriptors_timers_and_wakers_name_their_task() {
    // Breaks when a task's event is lost, comes twice, or is taken for another's.
    let pool = WorkerPool::new(WorkerPoolConfig::new(1)).expect("descriptors");
    let _bound = pool.worker_set().bind(0);
    let (mut probe, mut writer) = probe(&pool);
    let waker = probe.context.ready().waker_for(3_u64);
    waker.waker().wake();
    assert!(run_round(&mut probe, None).is_ok());
    assert_eq!(probe.seen, [Seen::Turn(3)]);
    assert!(probe.context.is_idle());
    writer.write_all(b"x").expect("room");
    assert!(run_round(&mut probe, None).is_ok());
    probe.context.after(Duration::from_millis(1), 2_u64);
    let cancelled = probe.context.after(Duration::ZERO, 4_u64);
    probe.context.cancel(cancelled);
    while probe.seen.len() < 3 {
        assert!(run_round(&mut probe, None).is_ok());
    }
    assert_eq!(probe.seen[1..], [Seen::Event(1), Seen::Timer(2)]);
    assert_eq!(probe.context.timers(), 0);
}

#[test]
fn an_event_is_seen_while_tasks_always_have_turns() {
    // Breaks when tasks that wake themselves keep descriptors waiting.
    let pool = WorkerPool::new(WorkerPoolConfig::new(1).turns_max(1)).expect("descriptors");
    let _bound = pool.worker_set().bind(0);
    let (mut probe, mut writer) = probe(&pool);
    let tasks = [5, 6_u64].map(|key| probe.context.ready().waker_for(key));
    writer.write_all(b"x").expect("room");
    for _ in 0..3 {
        tasks.iter().for_each(|task| task.wake());
        assert!(run_round(&mut probe, Some(Duration::ZERO)).is_ok());
        assert!(!probe.context.is_idle());
    }
    assert!(probe.seen.contains(&Seen::Event(1)), "{:?}", probe.seen);
}

#[test]
fn a_removal_waits_for_no_worker_that_has_ended_nor_for_itself() {
    // Breaks when a program that takes a stack away waits for ever.
    let pool = WorkerPool::new(WorkerPoolConfig::new(2)).expect("descriptors");
    let mut config = Config::from_system();
    config.cpus = pool.cpus();
    let stack = Stack::new(config).expect("address space");
    let (done, is_done) = std::sync::mpsc::channel();
    let set = Arc::clone(pool.worker_set());
    let removed = stack.clone();
    std::thread::spawn(move || {
        for own in [true, false] {
            set.add(&removed);
            let bound = own.then(|| set.bind(0));
            set.remove(&removed);
            drop(bound);
            let _ = done.send(());
            (0..2).for_each(|index| set.lose(index));
        }
    });
    for _ in 0..2 {
        let long = Duration::from_secs(10);
        assert_eq!(is_done.recv_timeout(long), Ok(()), "it waits");
    }
    pool.release();
}

#[test]
fn each_stack_has_its_share_of_a_round() {
    // Breaks when the packets that wait in one stack keep those of the next ones waiting.
    let few = Budget {
        frames: 8,
        bytes: usize::MAX,
    };
    let config = WorkerPoolConfig::new(1).budget(few);
    let pool = WorkerPool::new(config).expect("descriptors");
    let _bound = pool.worker_set().bind(0);
    let (mut probe, _writer) = probe(&pool);
    let stacks = [(); 2].map(|()| {
        let mut config = Config::from_system();
        config.cpus = pool.cpus();
        config.netisr.dispatch = Dispatch::Deferred;
        let stack = Stack::new(config).expect("address space");
        pool.drive(&stack);
        stack
    });
    let own = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7);
    let sockets = stacks
        .each_ref()
        .map(|stack| stack.udp_bind(own).expect("free"));
    for (socket, count) in sockets.iter().zip([100, 1]) {
        (0..count).for_each(|_| socket.send_to(b"x", own).expect("a route"));
    }
    assert!(run_round(&mut probe, Some(Duration::ZERO)).is_ok());
    assert!(!probe.context.is_idle(), "packets wait in the first one");
    assert!(sockets[1].recv().is_ok());
    while run_round(&mut probe, Some(Duration::ZERO)).is_ok() && !probe.context.is_idle() {}
    drop((sockets, stacks));
    pool.release();
}

#[test]
fn a_worker_does_not_sleep_over_packets_that_it_queued_for_itself() {
    // Breaks when a worker asks each stack once whether packets wait, and another stack, or the program between two
    // rounds, queues packets after that. No waker is called for a CPU's own packets.
    let pool = WorkerPool::new(WorkerPoolConfig::new(1)).expect("descriptors");
    let _bound = pool.worker_set().bind(0);
    let context = pool.context(0, &clock());
    let (reader, _writer) = io::pipe().expect("descriptors");
    let seen = Vec::new();
    let mut probe = Probe {
        context,
        seen,
        reader,
    };
    let addrs = [1, 2].map(|n| Ipv4Addr::new(192, 0, 2, n));
    let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
    let stacks = [(&mut a, addrs[0]), (&mut b, addrs[1])].map(|(end, addr)| {
        let mut config = Config::from_system();
        config.cpus = pool.cpus();
        config.netisr.dispatch = Dispatch::Deferred;
        let stack = Stack::new(config).expect("address space");
        pool.drive(&stack);
        end.attach(
            &stack,
            IfConfig::new("epair0").with_addr(addr, 24),
            Input::Direct,
        )
        .unwrap();
        stack
    });
    let [from, to] = addrs.map(|addr| SocketAddrV4::new(addr, 7));
    let (client, server) = (stacks[0].udp_bind(from), stacks[1].udp_bind(to));
    let (client, server) = (client.expect("free"), server.expect("free"));
    probe.context.after(Duration::from_secs(30), 2_u64);
    // Round trips of ARP, then of datagrams.
    for _ in 0..3 {
        client.send_to(mbuf::Chain::new(), to).expect("a route");
        while server.recv().is_err() {
            assert!(run_round(&mut probe, None).is_ok());
            assert_eq!(probe.seen, [], "it slept until the timer came");
        }
    }
    drop((client, server, a, b, stacks));
    pool.release();
}

/// Passes tasks to the other worker until each has moved as often as its count says.
struct Mover {
    context: WorkerContext,
    inboxes: Arc<[Inbox<u32>; 2]>,
    delivered: usize,
}

impl Mover {
    /// Until the service can end.
    fn linger(&mut self) -> Result<(), RunError> {
        self.context.begin_votes();
        while self.context.phase() < Phase::End {
            run_round(self, Some(Duration::from_millis(100)))?;
            let vote = match self.context.is_idle() {
                true => Quiescence::Idle,
                false => Quiescence::Busy,
            };
            if self.context.vote(vote) && self.context.index() == 0 {
                break;
            }
        }
        Ok(())
    }
}

impl LocalTasks for Mover {
    fn context(&mut self) -> &mut WorkerContext {
        &mut self.context
    }

    fn event(&mut self, _key: u64, _readiness: Readiness) {}

    fn timer(&mut self, _key: u64) {}

    fn turn(&mut self, key: u64) {
        assert_eq!(key, INBOX);
        let own = self.context.index();
        for moves in self.inboxes[own].take_all() {
            match moves {
                0 => self.delivered += 1,
                _ => self.inboxes[1 - own].put(moves - 1),
            }
        }
    }
}

#[derive(Debug)]
enum RunError {
    Thread,
    Round,
    Planned,
}

impl From<ThreadError> for RunError {
    fn from(_: ThreadError) -> Self {
        Self::Thread
    }
}

impl From<RoundError> for RunError {
    fn from(_: RoundError) -> Self {
        Self::Round
    }
}

fn movers() -> (WorkerPool, Mover, Mover) {
    let pool = WorkerPool::new(WorkerPoolConfig::new(2)).expect("descriptors");
    let inboxes = Arc::new([0, 1].map(|n| Inbox::new(pool.ready(n), INBOX)));
    let [first, other] = [0, 1].map(|n| Mover {
        context: pool.context(n, &clock()),
        inboxes: Arc::clone(&inboxes),
        delivered: 0,
    });
    (pool, first, other)
}

#[test]
fn the_service_ends_when_all_that_moves_has_arrived() {
    // Breaks when workers end while a task is on its way between them, or wait for ever when none is.
    for _ in 0..20 {
        let (pool, mut first, other) = movers();
        (0..100).for_each(|moves| first.inboxes[1].put(moves % 10));
        let others = pool.run(vec![other], Mover::linger, || first.linger());
        let others = others.expect("all go well");
        assert_eq!(first.delivered + others[0].delivered, 100);
    }
}

#[test]
fn the_first_worker_hears_of_one_that_failed_and_its_error_is_the_pools() {
    // Breaks when half of the workers serve on, or when the cause of the end is lost.
    let (pool, mut first, other) = movers();
    let ended = pool.run(
        vec![other],
        |_| Err(RunError::Planned),
        || {
            while !first.context.has_lost_one() {
                run_round(&mut first, None)?;
            }
            Ok(())
        },
    );
    assert!(matches!(ended, Err(RunError::Planned)));
}

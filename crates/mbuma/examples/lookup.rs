//! The cost of a lookup for a packet, on one thread and on two: under read-mostly locks, as the stack has
//! them, and under std's read-write locks.
//!
//! `cargo run --release -p mbuma --example lookup`
//!
//! Each thread looks up connections of its own, in one table of 64 shards with 10,000 connections, and takes a
//! reference; and the one route that both use. A lookup that writes to a line which the other thread's CPU writes
//! too waits for that line: two threads then cost more each than one. In rounds, so that what else the machine does
//! meets all; the median, and where half of the rounds lie.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::Instant;

use kern::{LockClass, RmLock, order};

static CLASS: LockClass = LockClass::new("lookup", order::CONN_TABLE);

const SHARDS: usize = 64;
const CONNECTIONS: u32 = 10_000;
/// Connections that a thread has packets for.
const ACTIVE: u32 = 64;
const LOOKUPS: u32 = 400_000;
const WARM_UP: u32 = 200_000;
const ROUNDS: usize = 31;

type Key = (SocketAddrV4, SocketAddrV4);
type Map = HashMap<Key, Arc<Key>, RandomState>;

/// The two locks, as far as they matter here.
trait Lock<T>: Sync {
    fn new(value: T) -> Self;
    fn read(&self) -> impl Deref<Target = T>;
}

impl<T: Send + Sync> Lock<T> for RmLock<T> {
    fn new(value: T) -> Self {
        Self::new(&CLASS, value)
    }

    fn read(&self) -> impl Deref<Target = T> {
        self.read()
    }
}

impl<T: Send + Sync> Lock<T> for RwLock<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn read(&self) -> impl Deref<Target = T> {
        self.read().expect("no panic")
    }
}

fn key(n: u32) -> Key {
    let peer = Ipv4Addr::from(0x0a00_0000 | n);
    let local = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 80);
    (local, SocketAddrV4::new(peer, 5000))
}

struct Connections<L> {
    shards: Vec<L>,
    hash: RandomState,
}

impl<L: Lock<Map>> Connections<L> {
    fn new() -> Self {
        let hash = RandomState::new();
        let mut maps: Vec<_> = (0..SHARDS).map(|_| Map::default()).collect();
        for key in (0..CONNECTIONS).map(key) {
            maps[shard(&hash, &key)].insert(key, Arc::new(key));
        }
        Self {
            shards: maps.into_iter().map(L::new).collect(),
            hash,
        }
    }

    fn lookup(&self, key: &Key) -> Option<Arc<Key>> {
        let shard = self.shards[shard(&self.hash, key)].read();
        shard.get(key).map(Arc::clone)
    }
}

fn shard(hash: &RandomState, key: &Key) -> usize {
    hash.hash_one(key) as usize % SHARDS
}

/// The end of a route, which all its holders share.
type Interface = Arc<[u8; 64]>;

fn main() {
    let (new, old) = (
        Connections::<RmLock<Map>>::new(),
        Connections::<RwLock<Map>>::new(),
    );
    println!("a connection, each thread its own 64");
    let look = |table: &dyn Fn(&Key) -> Option<Arc<Key>>, thread: u32, n: u32| {
        black_box(table(&key(thread * ACTIVE + n % ACTIVE)));
    };
    show("read-mostly", &|thread, n| {
        look(&|k| new.lookup(k), thread, n)
    });
    show("read-write", &|thread, n| {
        look(&|k| old.lookup(k), thread, n)
    });

    println!("the same lock");
    let (mostly, write) = (RmLock::new(&CLASS, 1), RwLock::new(1));
    show("read-mostly", &|_, _| _ = black_box(*mostly.read()));
    show("read-write", &|_, _| {
        _ = black_box(*write.read().expect("no panic"))
    });

    println!("a route");
    let interface: Interface = Arc::new([0; 64]);
    let routes = RmLock::new(&CLASS, vec![interface.clone()]);
    let generation = AtomicU64::new(1);
    let cached = [(1, interface.clone()), (1, Arc::clone(&interface))];
    show("kept, with its generation", &|thread, _| {
        let (then, route) = &cached[thread as usize];
        assert_eq!(*then, generation.load(Ordering::Acquire));
        black_box(&**route);
    });
    show("looked up, with a reference", &|_, _| {
        black_box(routes.read().first().map(Arc::clone));
    });
}

fn show(name: &str, act: &(dyn Fn(u32, u32) + Sync)) {
    let mut one = Vec::new();
    let mut two = Vec::new();
    let mut ratio = Vec::new();
    for _ in 0..ROUNDS {
        let (a, b) = (time(1, act), time(2, act));
        one.push(a);
        two.push(b);
        ratio.push(b / a);
    }
    let quartiles = |mut list: Vec<f64>| {
        list.sort_by(f64::total_cmp);
        [ROUNDS / 4, ROUNDS / 2, ROUNDS * 3 / 4].map(|at| list[at])
    };
    let [[_, one, _], [_, two, _], [low, median, high]] = [one, two, ratio].map(quartiles);
    println!(
        "  {name:28} one thread {one:6.1} ns, each of two {two:6.1} ns: {median:.2} times ({low:.2} to {high:.2})"
    );
}

/// Nanoseconds a lookup on the slowest of so many threads. They begin when all of them run, each on its CPU by
/// then if there are enough.
fn time(threads: u32, act: &(dyn Fn(u32, u32) + Sync)) -> f64 {
    let ready = &AtomicU32::new(0);
    let run = |thread| {
        let mut n = 0;
        while ready.load(Ordering::Relaxed) < threads || n < WARM_UP {
            act(thread, n);
            n += 1;
            if n == WARM_UP {
                ready.fetch_add(1, Ordering::Relaxed);
            }
        }
        let begin = Instant::now();
        (0..LOOKUPS).for_each(|n| act(thread, n));
        begin.elapsed()
    };
    let longest = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|i| scope.spawn(move || run(i))).collect();
        let times = threads.into_iter().map(|t| t.join().expect("no panic"));
        times.max().unwrap_or_default()
    });
    longest.as_nanos() as f64 / f64::from(LOOKUPS)
}

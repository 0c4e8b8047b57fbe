//! Not a measurement: checks that a design keeps shared storage, and frees it once.
//!
//! Views are made, shared and released in random orders. A cluster is filled with its own word, and the whole of it is
//! checked before each release: a cluster that was freed while a view was left is soon filled with another's word,
//! since zones give out the item that was freed last. The number of items out of the zones is compared with the
//! expected one.

use crate::harness::pinned::{self, Meeting, Span};
use crate::harness::sys;
use crate::refs::design::{Design, Shape};
use kern::Random;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread;

/// One thread, which knows at each step how many clusters there must be.
pub(crate) fn alone<D: Design>(design: &D, shape: Shape, seed: u64, steps: u64) {
    let mut random = Random::from_seed(seed);
    let mut groups: Vec<Vec<Stamped<D>>> = Vec::new();
    for step in 0..steps {
        match random.below(5) {
            0 => groups.push(vec![Stamped::fresh(design, shape, step)]),
            1 | 2 if !groups.is_empty() => {
                let group = pick(&mut groups, &mut random);
                let at = random.below(group.len() as u64) as usize;
                let share = group[at].share(design);
                group.push(share);
            }
            _ if !groups.is_empty() => {
                let group = pick(&mut groups, &mut random);
                let at = random.below(group.len() as u64) as usize;
                group.swap_remove(at).release(design, seed);
                groups.retain(|group| !group.is_empty());
            }
            _ => {}
        }
        let views: usize = groups.iter().map(Vec::len).sum();
        let live = design.live();
        let clusters = groups.len() * shape.clusters;
        assert!(
            live.clusters.is_none_or(|live| live == clusters),
            "seed {seed}, step {step}: {live:?}, not {clusters} clusters"
        );
        let mbufs = views * shape.clusters;
        assert!(
            live.mbufs
                .is_none_or(|live| (mbufs..=mbufs + clusters).contains(&live)),
            "seed {seed}, step {step}: {live:?} for {mbufs} mbufs in use"
        );
    }
    for view in groups.into_iter().flatten() {
        view.release(design, seed);
    }
    balanced(design, seed);
}

/// Two threads that only share and release the same cluster, to the last view, again and again.
pub(crate) fn rush<D: Design>(design: &D, shape: Shape, seed: u64, rounds: u64) {
    let cpus = sys::allowed_cpus();
    for round in 0..rounds {
        let mut first = Stamped::fresh(design, shape, round);
        let second = first.share(design);
        let meeting = &Meeting::of(2);
        let works = [first, second].into_iter().zip(0..).map(|(own, id)| {
            let random = Random::from_seed(seed << 32 | round << 1 | id);
            let work = move || {
                Span::of(meeting, || share_and_release(design, own, random, seed));
            };
            (cpus[id as usize % cpus.len()], work)
        });
        pinned::all(works.collect::<Vec<_>>());
        balanced(design, seed);
    }
}

fn share_and_release<D: Design>(design: &D, own: Stamped<D>, mut random: Random, seed: u64) {
    let mut mine = vec![own];
    for _ in 0..RUSH_STEPS {
        let at = random.below(mine.len() as u64) as usize;
        if mine.len() == 1 || (mine.len() < 4 && random.chance(0.5)) {
            let share = mine[at].share(design);
            mine.push(share);
        } else {
            // SAFETY: it came from this design. Looking at it first would let the other thread get ahead.
            unsafe { design.release(mine.swap_remove(at).view) };
        }
    }
    mine.into_iter().for_each(|view| view.release(design, seed));
}

/// Shares and releases of a thread in a round.
const RUSH_STEPS: u64 = 20_000;

/// So many threads, which hand views to each other.
pub(crate) fn together<D: Design>(design: &D, shape: Shape, threads: u64, seed: u64, steps: u64) {
    let exchange = &Mutex::new(Vec::<Stamped<D>>::new());
    thread::scope(|scope| {
        let work = |id| move || walk(design, shape, id, seed, steps, exchange);
        let running: Vec<_> = (1..=threads).map(|id| scope.spawn(work(id))).collect();
        for thread in running {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
    let left = std::mem::take(&mut *exchange.lock().expect("no thread panicked"));
    for view in left {
        view.release(design, seed);
    }
    balanced(design, seed);
}

fn walk<D: Design>(
    design: &D,
    shape: Shape,
    id: u64,
    seed: u64,
    steps: u64,
    exchange: &Mutex<Vec<Stamped<D>>>,
) {
    let mut random = Random::from_seed(seed << 8 | id);
    let mut mine: Vec<Stamped<D>> = Vec::new();
    for step in 0..steps {
        let at = random.below(mine.len().max(1) as u64) as usize;
        match random.below(8) {
            0 if mine.len() < IN_FLIGHT => {
                mine.push(Stamped::fresh(design, shape, id << 32 | step))
            }
            1 | 2 if !mine.is_empty() => {
                let share = mine[at].share(design);
                // Now two threads have the cluster.
                exchange.lock().expect("no thread panicked").push(share);
            }
            3 | 4 => mine.extend(exchange.lock().expect("no thread panicked").pop()),
            5.. if !mine.is_empty() => mine.swap_remove(at).release(design, seed),
            _ => {}
        }
    }
    mine.into_iter().for_each(|view| view.release(design, seed));
}

/// Views that a thread makes, at most.
const IN_FLIGHT: usize = 32;

/// Fails unless all is back.
fn balanced<D: Design>(design: &D, seed: u64) {
    let live = design.live();
    assert!(live.is_none(), "seed {seed}: left are {live:?}");
}

fn pick<'a, T>(all: &'a mut [T], random: &mut Random) -> &'a mut T {
    &mut all[random.below(all.len() as u64) as usize]
}

/// A view, and the word that its clusters are full of.
struct Stamped<D: Design> {
    view: D::View,
    word: u64,
}

impl<D: Design> Stamped<D> {
    fn fresh(design: &D, shape: Shape, word: u64) -> Self {
        let view = design.fresh(&word.to_ne_bytes().repeat(shape.bytes() / 8));
        Self { view, word }
    }

    fn share(&mut self, design: &D) -> Self {
        Self {
            // SAFETY: it came from this design.
            view: unsafe { design.share(&mut self.view) },
            word: self.word,
        }
    }

    fn release(self, design: &D, seed: u64) {
        let word = self.word.to_ne_bytes();
        for piece in D::pieces(&self.view) {
            let (words, rest) = piece.as_chunks::<8>();
            assert!(
                rest.is_empty() && words.iter().all(|found| *found == word),
                "seed {seed}: a cluster changed while it was shared"
            );
        }
        // SAFETY: it came from this design.
        unsafe { design.release(self.view) };
    }
}

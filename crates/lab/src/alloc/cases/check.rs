//! Not a measurement: whether a design is an allocator at all.
//!
//! Threads allocate and free at random and hand items to each other; an item carries its owner's word at both ends for
//! as long as it is owned. The check of the word finds a design that gives an item out twice, or writes into a live
//! item.

use crate::alloc::design::Design;
use std::panic::resume_unwind;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::thread;

/// `threads` threads do `steps` steps each; then all items are freed.
pub(crate) fn run<D: Design>(design: &D, size: usize, threads: u64, steps: u64) {
    let shared = &Mutex::new(Vec::<Owned<D>>::new());
    thread::scope(|scope| {
        let work = |id: u64| {
            move || {
                design.enter();
                walk(design, size, id, steps, shared);
                design.leave();
            }
        };
        let running: Vec<_> = (1..=threads).map(|id| scope.spawn(work(id))).collect();
        for thread in running {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
    design.enter();
    let left = std::mem::take(&mut *shared.lock().expect("no thread panicked"));
    for owned in left {
        owned.free(design, size);
    }
    design.reclaim();
    let mut fresh = Owned::alloc(design, size, u64::MAX);
    fresh.check(size);
    fresh.free(design, size);
    design.leave();
}

fn walk<D: Design>(design: &D, size: usize, id: u64, steps: u64, shared: &Mutex<Vec<Owned<D>>>) {
    let mut mine = Vec::new();
    let mut random = id;
    for step in 0..steps {
        // The classic generator of Knuth's MMIX: the threads only have to differ.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        match random >> 61 {
            0..4 if mine.len() < IN_FLIGHT => {
                mine.push(Owned::alloc(design, size, id << 32 | step))
            }
            4 | 5 if !mine.is_empty() => {
                let at = (random >> 32) as usize % mine.len();
                mine.swap_remove(at).free(design, size);
            }
            6 => shared
                .lock()
                .expect("no thread panicked")
                .extend(mine.pop()),
            _ => mine.extend(shared.lock().expect("no thread panicked").pop()),
        }
        if step.is_multiple_of(4096) {
            design.reclaim();
        }
    }
    mine.into_iter().for_each(|owned| owned.free(design, size));
}

/// Items that a thread has, at most.
const IN_FLIGHT: usize = 600;

/// An item and the word that is in it.
struct Owned<D: Design> {
    item: D::Item,
    word: u64,
}

impl<D: Design> Owned<D> {
    fn alloc(design: &D, size: usize, word: u64) -> Self {
        let mut item = design.alloc();
        for at in ends(D::bytes(&mut item), size) {
            // SAFETY: both ends are within the item, which is ours alone.
            unsafe { at.write(word) };
        }
        Self { item, word }
    }

    fn check(&mut self, size: usize) {
        for at in ends(D::bytes(&mut self.item), size) {
            // SAFETY: written in `alloc`, and within the item.
            let word = unsafe { at.read() };
            assert_eq!(word, self.word, "another thread wrote into an item");
        }
    }

    fn free(mut self, design: &D, size: usize) {
        self.check(size);
        // SAFETY: it came from this design.
        unsafe { design.free(self.item) };
    }
}

fn ends(item: NonNull<u8>, size: usize) -> [NonNull<u64>; 2] {
    let first = item.cast::<u64>();
    // SAFETY: the last word of an item of `size` bytes, a multiple of 8, is within it.
    [first, unsafe { first.add(size / 8 - 1) }]
}

//! Two pinned threads that share and release: clusters of their own, or one.
//!
//! With one CPU one thread does the same; two threads with clusters of their own are compared with that.

use super::pairs;
use crate::harness::pinned::{self, Meeting, Span};
use crate::harness::rounds::Took;
use crate::refs::design::{Design, Shape};

/// `n` shares on each CPU, each of a cluster of its own.
pub(crate) fn different<D: Design>(design: &D, cpus: &[usize], shape: Shape, n: u64) -> Took {
    let from = &vec![1; shape.bytes()];
    let meeting = &Meeting::of(cpus.len());
    let work = move || work(design, design.fresh(from), meeting, n);
    Span::together(&pinned::all(cpus.iter().map(|&cpu| (cpu, work))))
}

/// `n` shares on each CPU, all of one cluster.
pub(crate) fn same<D: Design>(design: &D, cpus: &[usize], shape: Shape, n: u64) -> Took {
    let mut view = design.fresh(&vec![1; shape.bytes()]);
    let meeting = &Meeting::of(cpus.len());
    let works: Vec<_> = cpus
        .iter()
        .map(|&cpu| {
            // SAFETY: it came from this design.
            let own = unsafe { design.share(&mut view) };
            (cpu, move || work(design, own, meeting, n))
        })
        .collect();
    let took = Span::together(&pinned::all(works));
    // SAFETY: as above.
    unsafe { design.release(view) };
    took
}

fn work<D: Design>(design: &D, mut view: D::View, meeting: &Meeting, n: u64) -> Span {
    // SAFETY: it came from this design.
    let span = Span::of(meeting, || unsafe { pairs(design, &mut view, n) });
    // SAFETY: as above.
    unsafe { design.release(view) };
    span
}

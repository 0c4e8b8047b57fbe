//! Tests of the comparison: that every design shares as it says, and that the output can be parsed.

use super::design::{Absent, Design, Live, Shape};
use super::designs::{Mbufs, counted::Counted, leader::Leader, proxy::Proxy, ring::Ring};
use super::*;
use crate::harness::table;
use crate::harness::test_output::{json_lines, output};

/// A run that takes no time worth mentioning.
fn short() -> Comparison {
    Comparison::short(0.002, 2)
}

fn made(entry: &Entry, shape: Shape) -> Box<dyn subject::Subject> {
    (entry.make)(shape).unwrap_or_else(|why: Absent| panic!("{}: {why}", entry.name))
}

#[test]
fn a_cluster_goes_with_its_last_view() {
    // Breaks when a design frees a cluster early, late or twice, or changes its bytes: after each random share or
    // release, by whichever mbuf, the clusters out of the zone are those that views are left of.
    for entry in CATALOG {
        for (shape, steps) in [(Shape::FRAME, 4000), (Shape::SEGMENT, 500)] {
            for seed in 1..=4 {
                made(entry, shape).check(1, seed, steps);
            }
        }
    }
}

#[test]
fn many_threads_share_and_none_frees_early() {
    // Breaks when a hand-over of the last reference is missed or seen twice by threads that have views of the same
    // cluster: a byte changes while it is read, a zone finds a double free, or a buffer is left.
    for entry in CATALOG {
        for threads in [2, 4] {
            made(entry, Shape::FRAME).check(threads, threads, 20_000);
        }
    }
}

fn new<D: Design>() -> D {
    D::new(Shape::FRAME).unwrap_or_else(|why| panic!("{why}"))
}

fn live(mbufs: usize, records: usize) -> Live {
    Live {
        mbufs: Some(mbufs),
        clusters: Some(usize::from(mbufs > 0)),
        records,
    }
}

/// The items that are out after: a fresh view, a share, the release of the first, the release of the share.
#[allow(unsafe_code)] // as the cases: a view goes back to the design that it came from
fn first_goes_first<D: Design>() -> [Live; 4] {
    let design = new::<D>();
    let mut first = design.fresh(&[1; 2048]);
    let fresh = design.live();
    // SAFETY: it came from this design.
    let share = unsafe { design.share(&mut first) };
    let shared = design.live();
    // SAFETY: as above.
    unsafe { design.release(first) };
    let left = design.live();
    assert_eq!(design::first_word::<D>(&share), u64::from_ne_bytes([1; 8]));
    // SAFETY: as above.
    unsafe { design.release(share) };
    [fresh, shared, left, design.live()]
}

#[test]
fn each_protocol_pays_what_the_seed_says() {
    // Breaks when a baseline differs from its system: a freed leader must stay until the last reference goes, a proxy
    // must appear with the first share and stay until the end, and a ring must need neither.
    let plain = [live(1, 0), live(2, 0), live(1, 0), live(0, 0)];
    assert_eq!(first_goes_first::<Mbufs<Ring>>(), plain);
    assert_eq!(first_goes_first::<Mbufs<Counted<256>>>(), plain);
    assert_eq!(first_goes_first::<Mbufs<Counted<64>>>(), plain);
    let stays = [live(1, 0), live(2, 0), live(2, 0), live(0, 0)];
    assert_eq!(first_goes_first::<Mbufs<Leader>>(), stays);
    let proxied = [live(1, 0), live(2, 1), live(1, 1), live(0, 0)];
    assert_eq!(first_goes_first::<Mbufs<Proxy>>(), proxied);
}

#[test]
fn every_case_runs_and_its_lines_are_json() {
    // Breaks when a case panics on some design, leaves one out, or prints output that a program cannot parse.
    let options = Comparison {
        json: true,
        ..short()
    };
    let lines = json_lines(&output(|out| run(&options, out)));
    for line in &lines {
        assert_eq!(line["experiment"], "refs");
        let note = line["note"].as_str().unwrap_or_default();
        let measured = line["median"].as_f64().is_some_and(|median| median > 0.0);
        assert!(measured != note.starts_with("skipped: "), "{line}");
    }
    for case in Case::ALL {
        for entry in CATALOG {
            let is = |l: &&serde_json::Value| l["case"] == case.name() && l["design"] == entry.name;
            assert!(lines.iter().any(|l| is(&l)), "{case} {}", entry.name);
        }
    }
}

#[test]
fn a_case_with_two_figures_shows_both() {
    // Breaks when the splice loses its rate or its cost, or when what two CPUs do is not compared with one.
    let ours = Comparison {
        designs: vec!["mbuma".to_owned()],
        ..short()
    };
    let choice = choose(&ours).expect("a choice");
    if choice.effort.pair_of_cpus().is_none() {
        return;
    }
    let units = |case| {
        let records = measure(case, &choice, &mut Progress::new(false));
        let mut units: Vec<_> = records.iter().map(|r| (r.unit, r.threads)).collect();
        units.sort_unstable();
        units.dedup();
        units
    };
    assert_eq!(units(Case::Splice), [("Gbit/s", None), ("ns/item", None)]);
    assert_eq!(
        units(Case::TwoDifferent),
        [
            ("ns/share", Some(1)),
            ("ns/share", Some(2)),
            ("x one thread", None)
        ]
    );
}

#[test]
fn a_wrong_name_is_answered_with_the_right_ones() {
    // Breaks when a wrong name is not refused.
    let options = Comparison {
        designs: vec!["rings".to_owned()],
        ..short()
    };
    let error = run(&options, &mut Vec::new())
        .expect_err("a typo")
        .to_string();
    assert!(
        error.contains("`rings`") && error.contains("leader"),
        "{error}"
    );
    let never = Comparison { reps: 0, ..short() };
    assert!(run(&never, &mut Vec::new()).is_err());
}

#[test]
fn the_list_names_everything() {
    // Breaks when a design or a case is missing from --list, or a line does not fit a terminal.
    let text = list();
    for name in CATALOG
        .iter()
        .map(|e| e.name)
        .chain(Case::ALL.map(Case::name))
    {
        assert!(text.contains(&format!("  {name} ")), "{name}");
    }
    assert!(text.lines().all(|line| line == table::cut(line)), "{text}");
}

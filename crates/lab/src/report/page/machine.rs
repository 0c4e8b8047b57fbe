//! Where it was measured, as a table.

use super::figure;
use crate::harness::summary::Summary;
use crate::report::date;
use crate::report::results::Results;
use maud::{Markup, html};

pub(super) fn table(results: &Results) -> Markup {
    let (head, machine) = (&results.head, &results.head.machine);
    let virtual_machine = match machine.virtual_machine {
        true => "yes: the host\u{2019}s other load is not visible here",
        false => "no, or it does not say so",
    };
    let percpu = match machine.percpu.as_str() {
        "rseq" => "restartable sequences (rseq)",
        _ => "try-locks: this system has no restartable sequences",
    };
    let peers = match head.peers {
        true => "built in",
        false => "not built in (--features peers)",
    };
    html! {
        section #machine {
            h2 { "Machine" }
            dl.machine {
                (entry("processor", &machine.cpu))
                (entry("CPUs", &format!("{} online, {} for this run", machine.cpus, machine.allowed)))
                (entry("memory", &format!("{} MiB", figure::plain(machine.memory_mib as f64))))
                (entry("kernel", &machine.kernel))
                (entry("virtual machine", virtual_machine))
                (entry("per-CPU caches", percpu))
                (entry("CPU to CPU", &latency(results)))
                (entry("load before", &figure::maybe(machine.load)))
                (entry("began", &date::utc(head.began)))
                (entry("took", &took(results)))
                (entry("mbuma", &head.build))
                (entry("others\u{2019} allocators", peers))
            }
        }
    }
}

fn entry(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

/// The time of a cache line: before the run, and beside the readings that depend on it.
fn latency(results: &Results) -> String {
    let Some(before) = results.head.machine.xcore_ns else {
        return "there is one CPU".to_owned();
    };
    let rows = results.sections.iter().flat_map(|section| &section.rows);
    let beside = |mode: &str| {
        let of_mode = rows.clone().filter(|row| row.mode.as_deref() == Some(mode));
        let between = Summary::of(of_mode.filter_map(|row| row.xcore_ns))?;
        Some(format!(
            ", {:.0} ns beside readings when {mode}",
            between.median
        ))
    };
    let beside: String = ["near", "far"].into_iter().filter_map(beside).collect();
    format!("a cache line took {before:.0} ns before the run{beside}")
}

fn took(results: &Results) -> String {
    let ended = results
        .sections
        .iter()
        .filter_map(|section| section.ended.as_ref());
    let seconds: f64 = ended.clone().map(|ended| ended.seconds).sum();
    format!(
        "{}, {} experiments",
        figure::seconds(seconds),
        ended.count()
    )
}

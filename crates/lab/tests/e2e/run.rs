//! `cargo lab run`: this program between two namespaces, as the experiment starts it, its peers and all that is
//! measured.

use std::fs;

use std::path::Path;

use crate::common::needs::{guests, programs};
use crate::common::{MBUMA, kill, program, wait_until};

/// The tool was built beside the laboratory, as a test of the whole workspace does.
fn tool() -> Result<(), String> {
    match Path::new(MBUMA).with_file_name("mbuma").is_file() {
        true => Ok(()),
        false => Err("the tool was not built".into()),
    }
}

/// The processes whose environment has this word.
fn marked(word: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").expect("it is there");
    let pids = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let has = |pid: &String| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|one| one == word.as_bytes())
    };
    pids.filter(|pid| pid.parse::<u32>().is_ok())
        .filter(has)
        .collect()
}

/// The CPU time of processes, in 1/100 s.
fn ticks(pids: &[String]) -> u64 {
    let of = |pid: &String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
    };
    pids.iter().filter_map(of).sum()
}

#[test]
fn every_case_passes_through_the_tool() {
    // Breaks when the guest's programs do not reach the host's through our tool, or a figure is missing.
    needs!(
        guests(),
        tool(),
        programs(&["unshare", "nsenter", "setpriv", "ip"])
    );
    // A reading this short is not made longer until it agrees with others. On a busy machine it may see nothing: then
    // all are read again.
    let run = "run --design mbuma --seconds-per-case 0.024 --reps 1 --json";
    let read = || {
        let output = program(MBUMA)
            .args(run.split(' '))
            .env("MBUMA_TEST", "every_case")
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let lines = |text: &str| -> Vec<serde_json::Value> {
        let lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect(line));
        lines.collect()
    };
    // The figure of streams and its CPU time, three of round trips or two, four of many downloads,
    // three of connections, two of starts and of leases, three of a scan.
    let cases = [
        ("up1", 2),
        ("up8", 2),
        ("down1", 2),
        ("down8", 2),
        ("rr", 2),
        ("rr-up", 3),
        ("rr-down", 3),
        ("share8", 4),
        ("share64", 4),
        ("share512", 4),
        ("conn1", 3),
        ("conn16", 3),
        ("start", 2),
        ("lease", 2),
        ("scan", 3),
    ];
    let is_whole = |text: &String| {
        let lines = lines(text);
        let count = |case: &str| lines.iter().filter(|line| line["case"] == case).count();
        lines.iter().all(|line| line["median"].is_number())
            && cases.iter().all(|(case, rows)| count(case) == *rows)
    };
    let found = (0..3).map(|_| read()).find(is_whole);
    assert!(found.is_some(), "no whole set of figures in three runs");
    assert_eq!(marked("MBUMA_TEST=every_case"), [""; 0]);
}

#[test]
fn a_killed_experiment_leaves_no_process_or_namespace() {
    // Breaks when processes and namespaces outlive the experiment, however it ends.
    needs!(guests(), tool(), programs(&["unshare", "setpriv", "ip"]));
    let word = "MBUMA_TEST=killed";
    let mut running = program(MBUMA)
        .args("run --design mbuma --case up1 --seconds-per-case 120 --reps 1".split(' '))
        .env("MBUMA_TEST", "killed")
        .spawn()
        .expect("it starts");
    // Its parts then wait for each other, not for it: setting up takes no second of a CPU.
    wait_until("a stream under way", || ticks(&marked(word)) > 100);
    assert_eq!(
        marked(word).len(),
        5,
        "it, a process on each side, the tool's monitor and gateway"
    );
    kill("KILL", &running.id().to_string());
    running.wait().expect("it was killed");
    wait_until("the end of all of it", || marked(word).is_empty());
}

//! The settings of the peers of `mbuma-lab alloc`.

use super::MBUMA;
use std::process::Command;

#[test]
fn malloc_runs_with_the_cache_of_its_note() {
    // Breaks when the laboratory measures the system's malloc with the small cache that it has unless the environment
    // says otherwise at its start.
    let run = |tunables: Option<&str>| {
        let mut command = Command::new(MBUMA);
        let args = "alloc --case get --design malloc --reps 1 --seconds-per-case 0.01 --json";
        command.args(args.split(' ')).env_remove("GLIBC_TUNABLES");
        command.envs(tunables.map(|value| ("GLIBC_TUNABLES", value)));
        let out = command.output().unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    assert!(run(None).contains("tcache_count=2000"));
    assert!(run(Some("glibc.malloc.tcache_count=5")).contains("tcache_count=5"));
}

#[test]
fn all_experiments_are_listed() {
    // Breaks when `--list` fails, or names other experiments than the help.
    let print = |arg| {
        let out = Command::new(MBUMA).arg(arg).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    let (list, help) = (print("--list"), print("--help"));
    let of_help = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let of_help = of_help.take_while(|line| !line.is_empty());
    // Lines that go on with the one before are set off further.
    let names = of_help.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: Vec<_> = names
        .filter(|name| !["", "all", "help"].contains(name))
        .collect();
    assert!(names.len() > 10, "{help}");
    for name in names {
        let is_of = |line: &str| line.split_whitespace().next() == Some(name);
        assert!(list.lines().any(is_of), "{name}: {list}");
    }
}

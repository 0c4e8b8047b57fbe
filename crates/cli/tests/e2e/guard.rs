//! No process that COMMAND started outlives mbuma: neither when mbuma is killed, nor when COMMAND ends by itself, nor
//! when the guard between them is killed. Each test is on a test host, where it sees every process that is left.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::needs::{guests, programs, root};
use crate::common::test_host::{make_tun, processes};
use crate::common::{
    AS_NOBODY, MBUMA, PATIENCE, Running, Scratch, kill, mbuma, program, wait_until,
};

/// The longest time that a process may live on; children are killed one generation after the other. It takes far less
/// than a second, but the machine may be busy. If they are not killed, they live for a minute.
const AT_MOST: Duration = Duration::from_secs(10);

/// Children of all kinds: in a session of its own; orphaned, and in another session; deaf to SIGTERM; stopped; with
/// children; five generations deep; a daemon that restarts killed processes; and one that changes its process id all
/// the time. Prints a line when all are there.
const FAMILY: &str = r#"
sleeps='while :; do sleep 0.05; done'
setsid sh -c "$sleeps" &
(setsid sh -c "echo 1 >> $NOTES; $sleeps" &)
setsid sh -c "trap '' TERM HUP INT; echo 1 >> $NOTES; $sleeps" &
sh -c 'echo 1 >> $NOTES; kill -STOP $$; sleep 60' &
sh -c "sh -c \"sh -c 'sh -c \\\"echo 1 >> $NOTES; sleep 60; :\\\"; :'; :\"; :" &
(setsid sh -c "echo 1 >> $NOTES; while :; do sh -c 'sleep 60'; done" &)
run() { sleep 0.01; run & }
(echo 1 >> $NOTES; run) &
while [ "$(wc -l < $NOTES)" -lt 6 ]; do sleep 0.01; done
echo family $$
"#;

/// mbuma with a COMMAND that has such a family, and then does what `and_then` says.
fn start_family(mut mbuma: std::process::Command, scratch: &Scratch, and_then: &str) -> Running {
    let notes = scratch.write("notes", b"");
    // COMMAND writes there, as any user.
    crate::common::test_host::shell(&format!("chmod 666 {notes}"));
    let script = format!("exec 2>/dev/null; NOTES={notes}; export NOTES; {FAMILY} {and_then}");
    mbuma.args(["run", "--publish", "8080:80", "--", "sh", "-c", &script]);
    let running = Running::start(mbuma);
    running.wait_for("family");
    assert!(processes().len() > 9, "no family: {:?}", processes());
    running
}

/// mbuma as an ordinary user's program.
fn as_nobody(scratch: &Scratch) -> std::process::Command {
    let copy = scratch.copy("mbuma", Path::new(MBUMA));
    let mut command = program(AS_NOBODY[0]);
    command.args(&AS_NOBODY[1..]).arg(copy);
    command
}

/// Every process but the test ends, soon after this is called.
fn nothing_is_left(at_most: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < at_most {
        if processes().is_empty() {
            // A process that starts others while it ends may have had no child at that moment.
            thread::sleep(Duration::from_millis(20));
            if processes().is_empty() {
                return;
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("left after {:?}: {:?}", begun.elapsed(), processes());
}

/// The number of the process between mbuma and COMMAND.
fn guard_of(running: &Running) -> String {
    let mbuma = running.id();
    let list = format!("/proc/{mbuma}/task/{mbuma}/children");
    let children = std::fs::read_to_string(list).expect("mbuma runs");
    let is_guard = |pid: &&str| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name == "guest-guard\n")
    };
    let guard = children.split_whitespace().find(is_guard);
    guard.expect("mbuma has a guard").to_owned()
}

#[test]
fn a_killed_mbuma_leaves_nothing() {
    // Breaks when a process that COMMAND started in the background lives on without a network.
    needs!(guests(), programs(&["setsid"]));
    on_test_host!();
    let scratch = Scratch::new();
    let running = start_family(program(MBUMA), &scratch, "sleep 60");
    running.signal("KILL");
    nothing_is_left(AT_MOST);
    assert_eq!(running.finish().signal, Some(9));
}

#[test]
fn a_users_killed_mbuma_leaves_nothing() {
    // Breaks when ending COMMAND's processes takes a privilege that an ordinary user does not have.
    needs!(guests(), root(), programs(&["setpriv", "setsid"]));
    on_test_host!();
    needs!(make_tun("666"));
    let scratch = Scratch::new();
    let running = start_family(as_nobody(&scratch), &scratch, "sleep 60");
    running.signal("KILL");
    nothing_is_left(AT_MOST);
    assert_eq!(running.finish().signal, Some(9));
}

#[test]
fn a_killed_process_group_leaves_nothing() {
    // Breaks when the guard is killed along with mbuma, by `kill -9 -PGID` or a shell's `kill -9 %1`.
    needs!(guests(), programs(&["setsid"]));
    on_test_host!();
    let scratch = Scratch::new();
    let running = start_family(program(MBUMA), &scratch, "sleep 60");
    kill("KILL", &format!("-{}", running.id()));
    nothing_is_left(AT_MOST);
    running.finish();
}

#[test]
fn commands_end_leaves_nothing() {
    // Breaks when COMMAND's own end leaves its children, or costs it its status.
    needs!(guests(), root(), programs(&["setpriv", "setsid"]));
    on_test_host!();
    needs!(make_tun("666"));
    let scratch = Scratch::new();
    for mbuma in [program(MBUMA), as_nobody(&scratch)] {
        let running = start_family(mbuma, &scratch, "exit 3");
        nothing_is_left(AT_MOST);
        let ended = running.finish();
        assert_eq!((ended.code, &*ended.err), (Some(3), ""), "{ended:#?}");
    }
}

#[test]
fn a_killed_guard_ends_command_and_leaves_nothing() {
    // Breaks when mbuma waits for ever for a message of a guard that is gone.
    needs!(guests(), programs(&["setsid"]));
    on_test_host!();
    let scratch = Scratch::new();
    let running = start_family(program(MBUMA), &scratch, "sleep 60");
    kill("KILL", &guard_of(&running));
    nothing_is_left(AT_MOST);
    let ended = running.finish();
    assert_eq!((ended.code, &*ended.err), (Some(137), ""), "{ended:#?}");
}

#[test]
fn a_stopped_guard_does_not_keep_the_rest() {
    // Breaks when mbuma cannot end because the guard does not answer.
    needs!(guests(), programs(&["setsid"]));
    on_test_host!();
    let scratch = Scratch::new();
    let mut running = start_family(program(MBUMA), &scratch, "read go; sleep 60");
    let guard = guard_of(&running);
    kill("STOP", &guard);
    running.say("go");
    running.signal("KILL");
    // The stopped guard can only act when it continues.
    thread::sleep(Duration::from_millis(50));
    kill("CONT", &guard);
    nothing_is_left(AT_MOST);
    running.finish();
}

#[test]
fn mbuma_is_killed_at_any_moment() {
    // Breaks when there is a moment of a guest's start or end at which a killed mbuma leaves processes.
    needs!(guests(), programs(&["setsid"]));
    on_test_host!();
    for step in 0..60 {
        let script = "setsid sleep 60 & (setsid sleep 60 &); sleep 0.01";
        let running = Running::start(mbuma(&[], script));
        thread::sleep(Duration::from_micros(step * 700));
        running.signal("KILL");
        // The kernel frees a namespace at a time of its own choice while it makes another.
        nothing_is_left(PATIENCE);
        running.finish();
    }
}

#[test]
fn no_zombie_waits_while_command_runs() {
    // Breaks when orphans of COMMAND's that end are not reaped, and a long-lived guest fills up.
    needs!(guests());
    on_test_host!();
    let script =
        "i=0; while [ $i -lt 20 ]; do (sleep 0.01 &); i=$((i+1)); done; echo done; read go; exit 0";
    let running = Running::start(mbuma(&[], script));
    running.wait_for("done");
    let zombies = || {
        let stats = std::fs::read_dir("/proc")
            .expect("/proc is there")
            .flatten();
        let stats = stats.filter_map(|e| std::fs::read_to_string(e.path().join("stat")).ok());
        stats.filter(|stat| stat.contains(") Z ")).count()
    };
    wait_until("no zombie", || zombies() == 0 && processes().len() == 4);
    running.finish().good();
}

//! The rights that are left to the process that reads the guest's packets.

use std::fs;
use std::path::Path;

use crate::common::needs::{guests, programs, root};
use crate::common::test_host::{ip, make_tun, shell};
use crate::common::{AS_NOBODY, MBUMA, Running, Scratch, program, wait_until};

/// Makes a debug build try the steps of an exploit, in the process that reads packets.
const EXPLOIT: &str = "MBUMA_TEST_EXPLOIT";

/// The values of one row of each thread's status.
fn row(status: &str, name: &str) -> String {
    let mut rows = status.lines().filter_map(|line| line.split_once(":\t"));
    let found = rows.find(|(row, _)| *row == name);
    found
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_else(|| panic!("no {name}: {status}"))
}

/// The same, of a process with two workers and the watch.
fn holds_nothing(pid: u32) {
    assert!(threads(pid) >= 3, "{}", threads(pid));
    hold_nothing(pid);
}

/// No thread of the process has a right, and it can open no file.
fn hold_nothing(pid: u32) {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    for task in tasks.flatten() {
        let status = fs::read_to_string(task.path().join("status")).expect("it runs");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(row(&status, set), "0000000000000000", "{set}: {status}");
        }
        let expected = [
            ("NoNewPrivs", "1"),
            ("Seccomp", "2"),
            ("Uid", "65534\t65534\t65534\t65534"),
            ("Gid", "65534\t65534\t65534\t65534"),
            ("Groups", ""),
        ];
        for (name, value) in expected {
            assert_eq!(row(&status, name), value, "{name}: {status}");
        }
    }
    let mounts = fs::read_to_string(format!("/proc/{pid}/mounts")).expect("it runs");
    assert!(
        mounts.starts_with("tmpfs / tmpfs ro,nosuid,nodev,noexec"),
        "{mounts}"
    );
    assert_eq!(mounts.lines().count(), 1, "{mounts}");
    let entries = fs::read_dir(format!("/proc/{pid}/root")).expect("root may look");
    assert_eq!(entries.count(), 0, "the root is not empty");
    // A process that may not be dumped has root's files in /proc (proc(5)): its user cannot trace it.
    let owner = std::os::unix::fs::MetadataExt::uid(
        &fs::metadata(format!("/proc/{pid}/mem")).expect("it runs"),
    );
    assert_eq!(owner, 0);
}

/// The processes beside it, which parse nothing, keep little: they end what runs as another user, and bind ports.
fn others_keep_little(monitor: u32) {
    let list = format!("/proc/{monitor}/task/{monitor}/children");
    let children = fs::read_to_string(list).expect("mbuma runs");
    let others = children
        .split_whitespace()
        .map(|pid| crate::common::number(pid) as u32);
    for pid in others.chain([monitor]) {
        // CAP_KILL, and for the monitor CAP_NET_BIND_SERVICE and CAP_DAC_READ_SEARCH.
        const LITTLE: u64 = 1 << 5 | 1 << 10 | 1 << 2;
        // The process that reads packets may begin before the others have given up their rights, which takes several
        // calls.
        wait_until("fewer rights", || {
            // A process that only prepares the others may have ended since, and keeps nothing.
            let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
                return pid != monitor;
            };
            let effective = u64::from_str_radix(&row(&status, "CapEff"), 16).expect("a set");
            row(&status, "NoNewPrivs") == "1" && effective & !LITTLE == 0
        });
    }
}

/// The exploit was tried, and every attempt failed.
fn got_nothing(running: &Running) {
    if !cfg!(debug_assertions) {
        return;
    }
    running.wait_for_complaint("exploit: over");
    let said = running.complaints();
    let attempts: Vec<_> = said
        .lines()
        .filter(|line| line.contains("exploit: "))
        .collect();
    assert!(attempts.len() > 2 * 16, "in two threads: {said}");
    // If a directory is served, openat2 is allowed, but finds no file outside.
    let refused = |line: &&str| {
        line.contains("not permitted")
            || line.contains("over")
            || line.contains("openat2: No such file")
    };
    let got: Vec<_> = attempts.iter().filter(|line| !refused(line)).collect();
    assert!(got.is_empty(), "{got:#?}");
}

/// `mbuma` as this user, beginning with `before`.
fn mbuma(before: &[&str], mbuma: &str, arguments: &[&str]) -> Running {
    let words = [before, &[mbuma], arguments].concat();
    let mut command = program(words[0]);
    command.args(&words[1..]).env(EXPLOIT, "1");
    Running::start(command)
}

/// Two workers, so that each thread is seen.
const WORKERS: [&str; 2] = ["--workers", "2"];

#[test]
fn serving_files_gives_no_other_right() {
    // Breaks when the call that opens served files opens others, or another layer is left out for it.
    needs!(guests(), root(), programs(&["setpriv", "curl"]));
    on_test_host!();
    needs!(make_tun("666"));
    let scratch = Scratch::new();
    scratch.write("file", b"served\n");
    let copy = scratch.copy("mbuma", Path::new(MBUMA));
    let dir = scratch.text("");
    for before in [&[][..], &AS_NOBODY] {
        let script = "curl -sS http://10.0.2.2/files/file; echo UP; read go";
        let arguments = [
            "run",
            "--workers",
            "2",
            "--serve",
            &dir,
            "--",
            "sh",
            "-c",
            script,
        ];
        let mut running = mbuma(before, &copy, &arguments);
        running.wait_for("served");
        running.wait_for("UP");
        got_nothing(&running);
        holds_nothing(running.gateway());
        running.say("");
        assert_eq!(running.finish().code, Some(0));
    }
}

#[test]
fn run_holds_nothing_as_root_and_as_a_user() {
    // Breaks when code that an attacker took over by a packet keeps a right, a file or a call that serving does not
    // need.
    needs!(guests(), root(), programs(&["setpriv", "curl"]));
    on_test_host!();
    needs!(make_tun("666"));
    let scratch = Scratch::new();
    let copy = scratch.copy("mbuma", Path::new(MBUMA));
    for before in [&[][..], &AS_NOBODY] {
        let script = "curl -sS http://10.0.2.2/ | tail -n 1; echo UP; read go";
        let arguments = [&["run"][..], &WORKERS, &["--", "sh", "-c", script]].concat();
        let running = mbuma(before, &copy, &arguments);
        running.wait_for("</html>");
        running.wait_for("UP");
        wait_until("all threads", || threads(running.gateway()) >= 3);
        holds_nothing(running.gateway());
        others_keep_little(running.id());
        got_nothing(&running);
        assert_eq!(running.finish().code, Some(1), "`read` found the end");
    }
}

#[test]
fn root_that_can_not_become_another_user_is_named() {
    // Breaks when the process that reads the guest's packets stays root in a container without CAP_SETUID, without a
    // word.
    needs!(guests(), root(), programs(&["setpriv"]));
    on_test_host!();
    let mut command = program("setpriv");
    command.args(["--bounding-set=-setuid,-setgid", MBUMA, "run", "--", "true"]);
    let ended = Running::start(command).finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let lack = "less isolation than usual: user and groups (";
    assert!(ended.err.contains(lack), "{ended:#?}");
}

fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, |tasks| tasks.count())
}

#[test]
fn attach_holds_nothing_as_root_and_as_a_user() {
    // Breaks as above, for an engine's namespace.
    needs!(guests(), root(), programs(&["setpriv", "unshare"]));
    on_test_host!();
    needs!(make_tun("666"));
    let scratch = Scratch::new();
    let copy = scratch.copy("mbuma", Path::new(MBUMA));

    ip("netns add blue");
    attached(&[], &copy, "/run/netns/blue");

    let mut holder = program(AS_NOBODY[0]);
    holder.args(&AS_NOBODY[1..]);
    holder.args(["unshare", "-Urn", "sh", "-c", "echo ready; cat"]);
    let holder = Running::start(holder);
    holder.wait_for("ready");
    attached(&AS_NOBODY, &copy, &holder.id().to_string());
}

fn attached(before: &[&str], copy: &str, target: &str) {
    let arguments = [&["attach", target][..], &WORKERS].concat();
    let running = mbuma(before, copy, &arguments);
    wait_until("all threads", || threads(running.gateway()) >= 3);
    // When all threads are there, the process has given all rights up.
    holds_nothing(running.gateway());
    others_keep_little(running.id());
    got_nothing(&running);
    running.signal("TERM");
    assert_eq!(running.finish().code, Some(0));
}

#[test]
fn vm_serve_and_relay_hold_nothing_as_root_and_as_a_user() {
    // Breaks when under one of the verbs that read packets, code that an attacker took over keeps a right, a file or a
    // call.
    needs!(guests(), root(), programs(&["setpriv", "unshare"]));
    on_test_host!();
    needs!(make_tun("666"));
    let scratch = Scratch::new();
    let copy = scratch.copy("mbuma", Path::new(MBUMA));
    let (dir, holder) = (scratch.text("run"), ["unshare", "-Urn", "sh", "-c"]);
    shell(&format!("mkdir {dir}; chown 65534:65534 {dir}"));
    for before in [&[][..], &AS_NOBODY] {
        // A user may not replace the socket that root's machine left.
        let name = |kind| format!("{dir}/{kind}-{}.sock", before.len());
        let (socket, shared) = (name("vm"), name("shared"));
        let words = [before, &holder, &["echo ready; cat"]].concat();
        let mut command = program(words[0]);
        command.args(&words[1..]);
        let holder = Running::start(command);
        holder.wait_for("ready");
        let pid = holder.id().to_string();
        let taken = format!("in={pid},address=10.0.3.2/24,port=80");
        for arguments in [
            &["vm", "--socket", &socket][..],
            &["vm", "--vhost-user", "--socket", &shared],
            &["serve", &dir, "--in", &pid],
            &["relay", &taken, "to=10.0.3.1:8080"],
        ] {
            let running = mbuma(before, &copy, arguments);
            got_nothing(&running);
            let isolated = isolated(running.id());
            wait_until("its threads", || threads(isolated) >= 2);
            hold_nothing(isolated);
            others_keep_little(running.id());
            running.signal("TERM");
            let ended = running.finish();
            assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:#?}");
        }
    }
}

/// The child that reads packets, which names itself.
fn isolated(pid: u32) -> u32 {
    let mut found = None;
    wait_until("the process that reads packets", || {
        let list = format!("/proc/{pid}/task/{pid}/children");
        let children = fs::read_to_string(list).unwrap_or_default();
        let mut children = children.split_whitespace();
        let is_it = |pid: &&str| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            ["mbuma-gateway\n", "mbuma-relay\n"].contains(&&*name)
        };
        found = children.find(is_it).map(crate::common::number);
        found.is_some()
    });
    found.expect("it was found") as u32
}

#[test]
fn no_sandbox_says_so() {
    // Breaks when a switch that takes the isolation away does so in silence, or netstat shows an isolation that is not
    // there.
    needs!(guests(), root());
    on_test_host!();
    shell("mkdir -m 700 /run/mbuma-test");
    for (options, told) in [
        (&["--no-sandbox"][..], "nothing given up"),
        (
            &[],
            "user 65534, no capabilities, empty root, Landlock, few system calls",
        ),
    ] {
        let mut command = crate::common::mbuma(options, "echo UP; read go");
        command.env("XDG_RUNTIME_DIR", "/run/mbuma-test");
        let running = Running::start(command);
        running.wait_for("UP");
        let mut netstat = program(MBUMA);
        netstat.args(["netstat", &running.id().to_string()]);
        netstat.env("XDG_RUNTIME_DIR", "/run/mbuma-test");
        let out = netstat.output().expect("it is there");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let line = text.lines().find(|line| line.starts_with("isolation: "));
        assert!(line.is_some_and(|line| line.contains(told)), "{out:?}");
        let ended = running.finish();
        assert_eq!(
            ended.err.contains("--no-sandbox: "),
            !options.is_empty(),
            "{ended:?}"
        );
    }
}

#[test]
fn files_and_other_processes_are_out_of_reach_without_the_list_of_calls() {
    // Breaks when the other layers depend on the list of calls: a mistake in it would then give access to everything.
    needs!(guests(), root(), programs(&["setpriv"]));
    on_test_host!();
    needs!(make_tun("666"));
    if !cfg!(debug_assertions) {
        return;
    }
    let scratch = Scratch::new();
    let copy = scratch.copy("mbuma", Path::new(MBUMA));
    for before in [&[][..], &AS_NOBODY] {
        let words = [before, &[&*copy], &["run", "--", "sh", "-c", "read go"]].concat();
        let mut command = program(words[0]);
        command.args(&words[1..]).env(EXPLOIT, "without-filter");
        let running = Running::start(command);
        running.wait_for_complaint("exploit: over");
        let said = running.complaints();
        for what in ["openat", "execve", "ptrace", "packet socket", "setuid"] {
            let mut answers = said
                .lines()
                .filter(|line| line.contains(&format!("exploit: {what}: ")));
            assert!(
                answers.all(|line| !line.ends_with("success")),
                "{what}: {said}"
            );
        }
        running.finish();
    }
}

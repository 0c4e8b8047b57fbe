//! `mbuma run` and `mbuma attach` as a user meets them: the built program, real namespaces, real signals.
//!
//! A test of a feature that the machine lacks reports that and is skipped; the file that MBUMA_SKIPS names counts it.
//! Tests that need another /dev/net/tun than the machine's make one in a mount namespace of their own, so that nothing
//! of the machine changes.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The program under test.
const MBUMA: &str = env!("CARGO_BIN_EXE_mbuma");
/// Longer than anything here takes: a hang fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(20);
/// An ordinary user that every system has.
const AS_NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";

/// Ends the test, saying why, unless everything it needs is there.
macro_rules! needs {
    ($($condition:expr),+) => {
        $(if let Err(reason) = $condition {
            return skipped(&reason);
        })+
    };
}

#[test]
fn status_passes_through() {
    // Breaks when a script cannot tell how its program ended.
    needs!(namespaces(), tun());
    for (script, want) in [
        ("true", 0),
        ("exit 7", 7),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ] {
        let out = run(&["--", "sh", "-c", script]);
        assert_eq!(out.status.code(), Some(want), "{script}: {out:?}");
        assert!(
            out.stdout.is_empty() && out.stderr.is_empty(),
            "{script}: {out:?}"
        );
    }
}

#[test]
fn what_cannot_be_executed_is_told_apart() {
    // Breaks when "not found" and "not executable" look alike, or look like COMMAND's own status.
    needs!(namespaces(), tun());
    let out = run(&["--", "no-such-program-anywhere"]);
    assert_eq!(out.status.code(), Some(127));
    assert!(stderr(&out).contains("no-such-program-anywhere"), "{out:?}");
    let out = run(&["--", ""]);
    assert_eq!(out.status.code(), Some(127));
    assert!(stderr(&out).contains("COMMAND is empty"), "{out:?}");
    let out = run(&["--", "/etc/passwd"]);
    assert_eq!(out.status.code(), Some(126));
    assert!(stderr(&out).contains("chmod +x"), "{out:?}");
}

#[test]
fn mistakes_in_the_options_exit_2() {
    // Breaks when a typo starts COMMAND anyway, or exits as if COMMAND had failed.
    let lines: [&[&str]; 7] = [
        &[],
        &["run"],
        &["run", "--bogus", "true"],
        &["run", "--mtu", "9", "true"],
        &["run", "--publish", "80", "true"],
        &["attach"],
        &["attach", "1", "--ready-fd", "77"],
    ];
    for line in lines {
        let out = finish(spawn(Command::new(MBUMA).args(line)));
        assert_eq!(out.status.code(), Some(2), "{line:?}: {out:?}");
    }
}

#[test]
fn attach_says_what_is_wrong_with_a_descriptor() {
    // Breaks when the message gives another reason, or a descriptor without an end counts as ended.
    for (redirected, said) in [
        ("--ready-fd 1", "0, 1 and 2"),
        ("--ready-fd 77", "without an open descriptor"),
        ("--exit-fd 3 3</etc/passwd", "a pipe or a socket"),
    ] {
        let line = format!("exec {MBUMA} attach 1 {redirected}");
        let out = finish(spawn(Command::new("sh").args(["-c", &line])));
        assert_eq!(out.status.code(), Some(2), "{line}: {out:?}");
        assert!(stderr(&out).contains(said), "{line}: {out:?}");
    }
}

#[test]
fn attach_leaves_its_own_network_alone() {
    // Breaks when mbuma replaces the default route of the namespace in which it was started: its own packets would come
    // back to it.
    needs!(root(), namespaces(), tun(), program("unshare"));
    for target in ["$$", "/proc/self/ns/net"] {
        let script = format!("{MBUMA} attach {target}; echo $?; cat /proc/net/dev");
        let out = finish(spawn(
            Command::new("unshare").args(["-n", "sh", "-c", &script]),
        ));
        assert!(stdout(&out).starts_with("2\n"), "{out:?}");
        assert!(!stdout(&out).contains("tap0"), "{out:?}");
        assert!(stderr(&out).contains("that mbuma itself is in"), "{out:?}");
    }
}

#[test]
fn help_shows_examples() {
    // Breaks when --help lacks an example.
    for verb in ["run", "attach"] {
        let out = finish(spawn(Command::new(MBUMA).args([verb, "--help"])));
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(
            out.status.success() && text.contains("Examples:") && text.contains("10.0.2.3"),
            "{text}"
        );
    }
}

#[test]
fn the_guest_has_its_network() {
    // Breaks when the interface lacks its name, MTU, address or default route.
    needs!(namespaces(), tun());
    let script = "cat /proc/net/dev /proc/net/route /proc/net/fib_trie /sys/class/net/wire0/mtu";
    let out = run(&[
        "--ifname", "wire0", "--mtu", "4321", "--", "sh", "-c", script,
    ]);
    let text = stdout(&out);
    let default_route = text
        .lines()
        .find(|l| l.starts_with("wire0\t00000000\t0202000A"));
    assert!(default_route.is_some(), "no default route: {text}");
    assert!(
        text.contains("/32 host LOCAL") && text.contains("10.0.2.100"),
        "no address: {text}"
    );
    assert!(text.lines().any(|l| l == "4321"), "wrong MTU: {text}");
    let foreign = text
        .lines()
        .filter(|l| l.contains(": ") && l.contains("eth"));
    assert_eq!(foreign.count(), 0, "the host's interfaces show: {text}");
}

#[test]
fn names_are_asked_of_us_inside_only() {
    // Breaks when COMMAND asks a resolver it cannot reach, or the host's file changes.
    needs!(namespaces(), tun(), exists("/etc/resolv.conf"));
    let before = fs::read("/etc/resolv.conf").expect("read");
    let out = run(&["--", "cat", "/etc/resolv.conf"]);
    assert!(stdout(&out).starts_with("nameserver 10.0.2.3\n"), "{out:?}");
    assert_eq!(fs::read("/etc/resolv.conf").expect("read"), before);
    assert!(
        !fs::read_to_string("/proc/self/mounts")
            .expect("read")
            .contains("/etc/resolv.conf tmpfs")
    );
}

#[test]
fn a_linked_resolv_conf_is_followed() {
    // Breaks where /etc/resolv.conf is a link into /run, as systemd makes it; or where there is none.
    needs!(root(), namespaces(), tun(), program("unshare"));
    let script = format!(
        "mount -t tmpfs none /mnt && mkdir /mnt/etc /mnt/run && cp /etc/passwd /mnt/etc &&
         ln -s /mnt/run/stub.conf /mnt/etc/resolv.conf && mount --bind /mnt/etc /etc &&
         {MBUMA} run -- sh -c 'test ! -e /etc/resolv.conf && echo none' &&
         printf 'nameserver 127.0.0.53\\nsearch a.example\\n' > /mnt/run/stub.conf &&
         {MBUMA} run -- sh -c 'cat /etc/resolv.conf; ls /mnt/run' && cat /mnt/run/stub.conf"
    );
    let out = finish(spawn(
        Command::new("unshare").args(["-m", "sh", "-c", &script]),
    ));
    let want = "none\nnameserver 10.0.2.3\nsearch a.example\nstub.conf\nnameserver 127.0.0.53\nsearch a.example\n";
    assert_eq!(stdout(&out), want, "{out:?}");
}

#[test]
fn an_ordinary_user_needs_no_root() {
    // Breaks when mbuma needs a privilege that a user does not have.
    needs!(
        root(),
        namespaces(),
        tun(),
        program("unshare"),
        program("setpriv")
    );
    let script = "id -u; cat /etc/resolv.conf; cat /proc/sys/net/ipv4/ping_group_range \
                  /proc/sys/net/ipv4/ip_unprivileged_port_start; grep -c 10.0.2.100 /proc/net/fib_trie";
    let scratch = Scratch::new();
    let out = scratch.with_tun(
        Some("666"),
        &format!("{AS_NOBODY} ./mbuma run -- sh -c '{script}'"),
    );
    let text = stdout(&out);
    assert!(
        out.status.success() && text.starts_with("65534\nnameserver 10.0.2.3\n"),
        "{out:?}"
    );
    assert!(
        text.contains("65534\t65534\n0\n"),
        "cannot ping or listen on port 80: {text}"
    );
    let out = scratch.with_tun(Some("666"), &format!("{AS_NOBODY} ./mbuma run -r -- id -u"));
    assert_eq!(stdout(&out), "0\n", "{out:?}");
    // execvp calls it "permission denied" when one directory of PATH may not be looked into.
    let nowhere = "mkdir -m 700 locked; PATH=$PATH:$PWD/locked";
    let out = scratch.with_tun(
        Some("666"),
        &format!("{nowhere} {AS_NOBODY} ./mbuma run -- no-such-program"),
    );
    assert_eq!(out.status.code(), Some(127), "{out:?}");
}

#[test]
fn a_closed_or_missing_tun_says_what_to_do() {
    // Breaks when a user is left with "Permission denied" or "No such file".
    needs!(
        root(),
        namespaces(),
        tun(),
        program("unshare"),
        program("setpriv")
    );
    let scratch = Scratch::new();
    let out = scratch.with_tun(Some("600"), &format!("{AS_NOBODY} ./mbuma run -- true"));
    assert_eq!(out.status.code(), Some(125));
    assert!(stderr(&out).contains("chmod 666 /dev/net/tun"), "{out:?}");
    let out = scratch.with_tun(None, "./mbuma run -- true");
    assert_eq!(out.status.code(), Some(125));
    assert!(
        stderr(&out).contains("modprobe tun") && stderr(&out).contains("--device /dev/net/tun"),
        "{out:?}"
    );
}

#[test]
fn forbidden_namespaces_are_told_with_the_setting() {
    // Breaks when the message does not name the setting that forbids namespaces.
    needs!(namespaces(), program("unshare"));
    let script = format!("echo 0 > /proc/sys/user/max_user_namespaces; exec {MBUMA} run -- true");
    let out = finish(spawn(
        Command::new("unshare").args(["-Ur", "sh", "-c", &script]),
    ));
    assert_eq!(out.status.code(), Some(125));
    assert!(
        stderr(&out).contains("user.max_user_namespaces = 0  <- `sysctl -w"),
        "{out:?}"
    );
}

#[test]
fn signals_go_on_to_command() {
    // Breaks when a signal of a supervisor to mbuma does not reach COMMAND.
    needs!(namespaces(), tun(), program("kill"));
    let script = "trap 'echo usr1' USR1; trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = spawn(Command::new(MBUMA).args(["run", "--", "sh", "-c", script]));
    wait_for_word(&mut child, "ready");
    kill("USR1", child.id());
    wait_for_word(&mut child, "usr1");
    kill("TERM", child.id());
    let out = finish(child);
    assert_eq!(
        (out.status.code(), stdout(&out)),
        (Some(5), "term\n".into())
    );
}

#[test]
fn a_stopped_command_goes_on_with_mbuma() {
    // Breaks when SIGCONT does not reach a COMMAND that stopped, or its stop is taken for its end.
    needs!(namespaces(), tun(), program("kill"));
    let script = "echo ready $$; kill -STOP $$; exit 4";
    let mut child = spawn(Command::new(MBUMA).args(["run", "--", "sh", "-c", script]));
    let command = wait_for_word(&mut child, "ready");
    let command = command.trim().trim_start_matches("ready ");
    wait_until("COMMAND to stop", || state(command) == Some('T'));
    thread::sleep(Duration::from_millis(200));
    assert!(
        child.try_wait().expect("wait").is_none(),
        "ended while COMMAND was stopped"
    );
    kill("CONT", child.id());
    assert_eq!(finish(child).status.code(), Some(4));
}

#[test]
fn a_terminals_key_reaches_command_once() {
    // Breaks when Ctrl-C is delivered by the terminal and by mbuma: programs count the second as "now!".
    needs!(namespaces(), tun(), program("script"), keys());
    // Pending signals of one kind merge, so mbuma is held back until COMMAND has dealt with its own.
    // Between mbuma and COMMAND is the guard.
    let count = "read -r _ _ _ mbuma _ < /proc/$PPID/stat; \
                 trap 'n=$((n+1))' INT; n=0; kill -STOP $mbuma; echo ready; \
                 while [ $n = 0 ]; do sleep 0.05; done; kill -CONT $mbuma; \
                 i=0; while [ $i -lt 8 ]; do sleep 0.05; i=$((i+1)); done; echo got $n";
    let mut script = Command::new("script");
    let inner = format!("trap : INT; {MBUMA} run -- sh -c \"$COUNT\"; echo end");
    script
        .args(["-qec", &inner, "/dev/null"])
        .env("COUNT", count)
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped());
    let mut child = spawn(&mut script);
    let mut keys = child.stdin.take().expect("a pipe");
    wait_for_word(&mut child, "ready");
    keys.write_all(b"\x03").expect("write");
    let out = finish(child);
    assert!(stdout(&out).contains("got 1"), "{out:?}");
}

#[test]
fn a_shells_job_stops_and_goes_on_as_one() {
    // Breaks when `fg` brings back mbuma and not COMMAND, or mbuma stops again for a stop that is over.
    needs!(
        namespaces(),
        tun(),
        program("script"),
        program("bash"),
        keys()
    );
    let mut script = Command::new("script");
    script
        .args(["-qec", "bash --norc --noprofile -i", "/dev/null"])
        .env("GO", "echo ready $$; exec sleep 60")
        .env("PS1", "prompt\\n")
        .env("SHELL", "/bin/sh")
        .env("TERM", "dumb")
        .stdin(Stdio::piped());
    let mut child = spawn(&mut script);
    let mut keys = child.stdin.take().expect("a pipe");
    let mut typed = |text: &str| keys.write_all(text.as_bytes()).expect("write");
    // Input may be lost while the terminal changes its foreground process group, so each step waits for that change.
    wait_for_word(&mut child, "prompt");
    typed(&format!("{MBUMA} run -- sh -c \"$GO\"\n"));
    let seen = wait_for_word(&mut child, "ready ");
    let command = seen.rsplit("ready ").next().expect("a line").trim();
    typed("\x1a");
    wait_for_word(&mut child, "Stopped");
    wait_for_word(&mut child, "prompt");
    wait_until("COMMAND to stop", || state(command) == Some('T'));
    typed("fg; echo back $?\n");
    // The shell hands over the terminal before it has the job go on.
    wait_until("COMMAND to go on", || state(command) == Some('S'));
    thread::sleep(Duration::from_millis(200));
    typed("\x03");
    let seen = wait_for_word(&mut child, "back 1");
    assert!(seen.contains("back 130"), "{seen}");
    wait_for_word(&mut child, "prompt");
    typed("exit\n");
    finish(child);
}

#[test]
fn nothing_stays_behind() {
    // Breaks when a daemon that COMMAND started outlives it without a network, whether it obeys SIGTERM or ignores it.
    needs!(namespaces(), tun(), program("setsid"));
    let scratch = Scratch::new();
    let (stubborn, polite) = (scratch.path("stubborn"), scratch.path("polite"));
    // The one that obeys SIGTERM has a fifth of a second, and less on a busy machine: it only has to wake up and write
    // into a pipe.
    let script = format!(
        "exec 3>&1 >/dev/null 2>&1
         setsid sh -c 'trap \"\" TERM; echo $$ > {stubborn}; while :; do sleep 0.1; done' 3>&- &
         (setsid sh -c 'trap \"echo bye >&3; exit\" TERM; sleep 60 3>&- & echo $$ > {polite}; wait' &)
         while [ ! -s {stubborn} ] || [ ! -s {polite} ]; do sleep 0.02; done; exit 3",
        stubborn = stubborn.display(),
        polite = polite.display(),
    );
    let begun = Instant::now();
    let out = run(&["--", "sh", "-c", &script]);
    assert_eq!(out.status.code(), Some(3), "{out:?}");
    // By themselves they would have gone on for a minute, or for ever.
    assert!(begun.elapsed() < PATIENCE, "took {:?}", begun.elapsed());
    let pids = [stubborn, polite].map(|file| fs::read_to_string(file).expect("a pid"));
    let left: Vec<_> = pids
        .iter()
        .filter(|pid| Path::new("/proc").join(pid.trim()).exists())
        .collect();
    left.iter()
        .for_each(|pid| kill("KILL", pid.trim().parse().expect("a pid")));
    assert!(left.is_empty(), "processes {left:?} live on");
    assert_eq!(stdout(&out), "bye\n", "no SIGTERM before SIGKILL");
}

#[test]
fn children_of_before_are_spared() {
    // Breaks when mbuma, executed by `exec` in a shell, ends the shell's background processes.
    needs!(namespaces(), tun());
    let script = format!(
        "sleep 60 >/dev/null 2>&1 & echo $!; exec {MBUMA} run -- sh -c 'sleep 9 >/dev/null 2>&1 &'"
    );
    let out = finish(spawn(Command::new("sh").args(["-c", &script])));
    let pid = stdout(&out).trim().to_owned();
    let alive = fs::read_to_string(format!("/proc/{pid}/comm"));
    assert_eq!(alive.expect("the shell's child is gone").trim(), "sleep");
    kill("KILL", pid.parse().expect("a pid"));
}

#[test]
fn command_dies_with_mbuma() {
    // Breaks when a killed mbuma leaves COMMAND running without a network.
    needs!(namespaces(), tun(), program("kill"));
    let scratch = Scratch::new();
    let pid_file = scratch.path("pid");
    let script = format!(
        "echo $$ > {}; echo ready; exec sleep 60",
        pid_file.display()
    );
    let mut child = spawn(Command::new(MBUMA).args(["run", "--", "sh", "-c", &script]));
    wait_for_word(&mut child, "ready");
    child.kill().expect("kill");
    child.wait().expect("wait");
    let pid = fs::read_to_string(pid_file).expect("a pid");
    let gone = || match fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
        Ok(stat) => stat.contains(") Z "),
        Err(_) => true,
    };
    wait_until("COMMAND to die", gone);
}

#[test]
fn command_starts_with_what_mbuma_was_started_with() {
    // Breaks when a descriptor, a blocked or an ignored signal of mbuma's leaks into COMMAND.
    needs!(namespaces(), tun());
    let script =
        "ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status; ulimit -n; umask; pwd";
    let bare = finish(spawn(Command::new("sh").args(["-c", script])));
    let ours = run(&["--", "sh", "-c", script]);
    assert_eq!(stdout(&ours), stdout(&bare));
    let ignoring = format!("trap '' HUP CHLD; exec {MBUMA} run -- grep SigIgn /proc/self/status");
    let out = finish(spawn(Command::new("sh").args(["-c", &ignoring])));
    let ignored =
        u64::from_str_radix(stdout(&out).trim_start_matches("SigIgn:").trim(), 16).expect("a mask");
    assert_eq!(ignored & 1, 1, "nohup is lost: {out:?}");
}

#[test]
fn commands_streams_are_commands_alone() {
    // Breaks when mbuma holds COMMAND's output open after COMMAND closed it, or eats its input.
    needs!(namespaces(), tun());
    let fed = format!("echo in | {MBUMA} run -- cat");
    let out = finish(spawn(Command::new("sh").args(["-c", &fed])));
    assert_eq!(stdout(&out), "in\n");
    // COMMAND ends when its output is closed; if mbuma held it open, neither would end.
    let scratch = Scratch::new();
    let closed = scratch.path("closed");
    let closed = closed.display();
    let waits = format!(
        "{MBUMA} run -- sh -c 'exec >&- 2>&-; while [ ! -e {closed} ]; do sleep 0.05; done' |
         {{ cat; : > {closed}; echo closed; }}"
    );
    let out = finish(spawn(Command::new("sh").args(["-c", &waits])));
    assert_eq!(stdout(&out), "closed\n", "{out:?}");
}

#[test]
fn a_port_in_use_is_said_before_command_starts() {
    // Breaks when COMMAND runs although a port it was promised is in use.
    needs!(namespaces(), tun());
    let other = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = other.local_addr().expect("addr").port();
    let out = run(&["--publish", &format!("{port}:80"), "--", "echo", "started"]);
    assert_eq!(out.status.code(), Some(125));
    assert!(
        stdout(&out).is_empty() && stderr(&out).contains(&format!("127.0.0.1:{port}:80")),
        "{out:?}"
    );
    assert!(stderr(&out).contains("listens there"), "{out:?}");
}

#[test]
fn stats_are_json_when_asked() {
    // Breaks when a program that reads --stats=json finds something else on standard error.
    needs!(namespaces(), tun());
    let out = run(&["--stats=json", "--", "true"]);
    let stats: serde_json::Value = serde_json::from_slice(&out.stderr).expect("one JSON value");
    assert!(stats.is_object(), "{stats}");
    assert!(stdout(&out).is_empty());
}

#[test]
fn attach_serves_a_process_until_it_ends() {
    // Breaks when an engine waits in vain for readiness, or mbuma outlives the container.
    needs!(
        root(),
        namespaces(),
        tun(),
        program("unshare"),
        program("nsenter")
    );
    let scratch = Scratch::new();
    let ready = scratch.path("ready");
    let mut holder = Command::new("unshare")
        .args(["-n", "sleep", "60"])
        .spawn()
        .expect("unshare");
    let pid = holder.id().to_string();
    wait_until("a namespace", || other_net(&pid));
    let script = format!(
        "exec {MBUMA} attach {pid} --ifname c0 --mtu 9000 --ready-fd 3 3>{}",
        ready.display()
    );
    let attach = spawn(Command::new("sh").args(["-c", &script]));
    wait_until("readiness", || {
        fs::read(&ready).is_ok_and(|text| text == b"1")
    });
    let inside = |script: &str| {
        finish(spawn(
            Command::new("nsenter").args(["-t", &pid, "-n", "sh", "-c", script]),
        ))
    };
    let text = stdout(&inside(
        "cat /proc/net/route /proc/net/fib_trie; cat /proc/net/dev",
    ));
    assert!(
        text.contains("c0\t00000000\t0202000A") && text.contains("10.0.2.100"),
        "{text}"
    );
    holder.kill().expect("kill");
    holder.wait().expect("wait");
    let out = finish(attach);
    assert!(
        out.status.success() && stdout(&out).is_empty() && stderr(&out).is_empty(),
        "{out:?}"
    );
}

#[test]
fn attach_ends_with_its_exit_fd_and_takes_the_interface_along() {
    // Breaks when mbuma stays when its engine has gone, or leaves its interface behind.
    needs!(
        root(),
        namespaces(),
        tun(),
        program("unshare"),
        program("nsenter")
    );
    let mut holder = Command::new("unshare")
        .args(["-n", "sleep", "60"])
        .spawn()
        .expect("unshare");
    let pid = holder.id().to_string();
    wait_until("a namespace", || other_net(&pid));
    let shows = |name: &str| {
        let dev = fs::read_to_string(format!("/proc/{pid}/net/dev")).expect("read");
        dev.contains(&format!("{name}:"))
    };
    let mut sh = Command::new("sh");
    sh.args([
        "-c",
        &format!("exec {MBUMA} attach /proc/{pid}/ns/net --exit-fd 3 3<&0"),
    ])
    .stdin(Stdio::piped());
    let mut attach = spawn(&mut sh);
    let pipe = attach.stdin.take();
    wait_until("the interface", || shows("tap0"));
    thread::sleep(Duration::from_millis(100));
    assert!(
        attach.try_wait().expect("wait").is_none(),
        "ended while the descriptor is open"
    );
    drop(pipe);
    let out = finish(attach);
    assert!(out.status.success(), "{out:?}");
    assert!(!shows("tap0"), "the interface outlived mbuma");
    holder.kill().expect("kill");
    holder.wait().expect("wait");
}

#[test]
fn attach_enters_the_users_namespace() {
    // Breaks when a rootless container's namespace, owned by its user, cannot be served by that user.
    needs!(
        root(),
        namespaces(),
        tun(),
        program("unshare"),
        program("setpriv")
    );
    let scratch = Scratch::new();
    let script = format!(
        "{AS_NOBODY} unshare -Urn sleep 60 & pid=$!
         until [ \"$(cat /proc/$pid/comm)\" = sleep ]; do sleep 0.02; done
         {AS_NOBODY} ./mbuma attach $pid --ready-fd 3 3>ready & mbuma=$!
         n=0; until [ -s ready ] || [ $n -ge 500 ]; do sleep 0.02; n=$((n+1)); done
         grep -c 0202000A /proc/$pid/net/route
         kill -TERM $mbuma; wait $mbuma; echo ended $?; kill -KILL $pid"
    );
    let out = scratch.with_tun(Some("666"), &script);
    assert_eq!(stdout(&out), "1\nended 0\n", "{out:?}");
}

#[test]
fn attach_to_nothing_says_so() {
    // Breaks when a wrong PID or path ends in silence or a panic.
    let gone = Command::new("true")
        .spawn()
        .and_then(|mut c| c.wait().map(|_| c.id()))
        .expect("true");
    let out = finish(spawn(
        Command::new(MBUMA).args(["attach", &gone.to_string()]),
    ));
    assert_eq!(out.status.code(), Some(125));
    assert!(
        stderr(&out).contains("no such process") || stderr(&out).contains("No such process"),
        "{out:?}"
    );
    let out = finish(spawn(Command::new(MBUMA).args(["attach", "/etc/passwd"])));
    assert_eq!(out.status.code(), Some(125));
    assert!(stderr(&out).contains("no network namespace"), "{out:?}");
}

#[test]
fn a_taken_interface_name_says_so() {
    // Breaks when a second mbuma takes over, or breaks, the first one's interface.
    needs!(root(), namespaces(), tun(), program("unshare"));
    let scratch = Scratch::new();
    let ready = scratch.path("ready");
    let script = format!(
        "unshare -n sleep 60 & h=$!
         until [ \"$(readlink /proc/$h/ns/net)\" != \"$(readlink /proc/$$/ns/net)\" ]; do sleep 0.02; done
         {MBUMA} attach $h --ready-fd 3 3>{ready} & a=$!; until [ -s {ready} ]; do sleep 0.02; done
         {MBUMA} attach $h; echo $?; kill -TERM $a; wait $a; echo $?; kill $h",
        ready = ready.display(),
    );
    let out = finish(spawn(Command::new("sh").args(["-c", &script])));
    assert_eq!(stdout(&out), "125\n0\n", "{out:?}");
    assert!(stderr(&out).contains("--ifname"), "{out:?}");
}

/// Starts `mbuma run` with these arguments and waits for its end.
fn run(args: &[&str]) -> Output {
    finish(spawn(Command::new(MBUMA).arg("run").args(args)))
}

/// Starts a program with its output in pipes, and nothing to read unless the caller said otherwise.
fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// Waits for the end of a program and of its output, not for ever.
fn finish(mut child: Child) -> Output {
    let (stdout, stderr) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().expect("wait") {
            Some(status) => break status,
            None if begun.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(2)),
            None => {
                child.kill().expect("kill");
                panic!("still running after {PATIENCE:?}");
            }
        }
    };
    let whole = |end: Receiver<Vec<u8>>| {
        end.recv_timeout(PATIENCE)
            .expect("a process holds its output open")
    };
    Output {
        status,
        stdout: whole(stdout),
        stderr: whole(stderr),
    }
}

/// Reads a pipe to its end, aside.
fn collect(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        sender.send(bytes)
    });
    receiver
}

/// Reads a program's output up to `word` and the end of its line, and gives it. A program that says nothing for too
/// long is killed, and so has ended.
fn wait_for_word(child: &mut Child, word: &str) -> String {
    let (_found, wait) = mpsc::channel::<()>();
    let pid = child.id();
    thread::spawn(move || {
        if wait.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            kill("KILL", pid);
        }
    });
    let out = child.stdout.as_mut().expect("a pipe");
    let (mut seen, mut byte) = (String::new(), [0]);
    while !(seen.contains(word) && seen.ends_with('\n')) {
        assert_eq!(
            out.read(&mut byte).expect("read"),
            1,
            "ended after {seen:?}"
        );
        seen.push(byte[0].into());
    }
    seen
}

/// Waits for a condition, not for ever.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// What a process does, as proc(5) has it: `T` is stopped.
fn state(pid: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Sends a signal by name.
fn kill(signal: &str, pid: u32) {
    let sent = Command::new("kill")
        .args([format!("-{signal}"), pid.to_string()])
        .status();
    assert!(sent.expect("kill").success());
}

fn stdout(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Whether process `pid` has a network namespace other than ours.
fn other_net(pid: &str) -> bool {
    let net = |who: &str| fs::read_link(format!("/proc/{who}/ns/net")).ok();
    net(pid) != net("self")
}

/// A directory that goes away, with a copy of mbuma that every user can reach.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir =
            std::env::temp_dir().join(format!("mbuma-launch-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).expect("mkdir");
        // Not by this process: one that another test starts meanwhile would have a copy of our descriptor for a while, and a
        // program that a process has open for writing can't be started (ETXTBSY).
        let copied = Command::new("cp").arg(MBUMA).arg(&dir).status();
        assert!(copied.expect("cp").success(), "no copy of {MBUMA}");
        Scratch(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs a script in a mount namespace whose /dev/net/tun has this mode, or is not there.
    fn with_tun(&self, mode: Option<&str>, script: &str) -> Output {
        let place = match mode {
            Some(mode) => format!("mknod -m {mode} /dev/net/tun c 10 200"),
            None => "true".into(),
        };
        let cover = "mount -t tmpfs -o mode=755 none /dev/net";
        let script = format!(
            "{cover} && {place} && cd {} || exit 99\n{script}",
            self.0.display()
        );
        finish(spawn(
            Command::new("unshare").args(["-m", "sh", "-c", &script]),
        ))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Counts a test that this machine cannot run.
fn skipped(reason: &str) {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    println!("skipped: {test}: {reason}");
    if let Some(path) = std::env::var_os("MBUMA_SKIPS") {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .expect("MBUMA_SKIPS");
        // In one piece, because tests run side by side.
        file.write_all(format!("{test}: {reason}\n").as_bytes())
            .expect("MBUMA_SKIPS");
    }
}

/// User and network namespaces can be made, as another program finds.
fn namespaces() -> Result<(), String> {
    program("unshare")?;
    let made = Command::new("unshare").args(["-Urn", "true"]).output();
    match made {
        Ok(out) if out.status.success() => Ok(()),
        _ => Err("no user and network namespaces here".into()),
    }
}

/// /dev/net/tun can be opened.
fn tun() -> Result<(), String> {
    let opened = File::options().read(true).write(true).open("/dev/net/tun");
    opened.map(|_| ()).map_err(|e| format!("/dev/net/tun: {e}"))
}

/// Ctrl-C reaches the programs that the tests start: a shell's background job ignores it, and so do its children.
fn keys() -> Result<(), String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    // Signal 2 is bit 1.
    match ignored {
        Some(set) if set & 2 != 0 => Err("SIGINT is ignored here, as in a background job".into()),
        _ => Ok(()),
    }
}

/// The tests run as root.
fn root() -> Result<(), String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uids = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .unwrap_or_default();
    let root = uids.split_whitespace().nth(1) == Some("0");
    root.then_some(()).ok_or_else(|| "not root".into())
}

/// A program is in PATH.
fn program(name: &str) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    found
        .then_some(())
        .ok_or_else(|| format!("no program {name}"))
}

/// A file is there.
fn exists(path: &str) -> Result<(), String> {
    Path::new(path)
        .exists()
        .then_some(())
        .ok_or_else(|| format!("no {path}"))
}

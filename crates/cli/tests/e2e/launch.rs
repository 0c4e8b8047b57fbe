//! `mbuma run` and `mbuma attach` as a user meets them: the built program, real namespaces, real signals.
//!
//! Tests that need another /dev/net/tun than the machine's make one in a mount namespace of their own, so that nothing
//! of the machine changes.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::needs::{exists, guests, keys, namespaces, programs, root};
use crate::common::{
    AS_NOBODY, Ended, MBUMA, PATIENCE, Running, Scratch, kill, mbuma, program, wait_until,
};

#[test]
fn status_passes_through() {
    // Breaks when a script cannot tell how its program ended.
    needs!(guests());
    for (script, want) in [
        ("true", 0),
        ("exit 7", 7),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ] {
        let ended = run(&["--", "sh", "-c", script]);
        assert_eq!(ended.code, Some(want), "{script}: {ended:?}");
        assert!(
            ended.out.is_empty() && ended.err.is_empty(),
            "{script}: {ended:?}"
        );
    }
}

#[test]
fn what_cannot_be_executed_is_told_apart() {
    // Breaks when "not found" and "not executable" look alike, or look like COMMAND's own status.
    needs!(guests());
    let ended = run(&["--", "no-such-program-anywhere"]);
    assert_eq!(ended.code, Some(127));
    assert!(ended.err.contains("no-such-program-anywhere"), "{ended:?}");
    let ended = run(&["--", ""]);
    assert_eq!(ended.code, Some(127));
    assert!(ended.err.contains("COMMAND is empty"), "{ended:?}");
    let ended = run(&["--", "/etc/passwd"]);
    assert_eq!(ended.code, Some(126));
    assert!(ended.err.contains("chmod +x"), "{ended:?}");
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
        let ended = finish(MBUMA, line);
        assert_eq!(ended.code, Some(2), "{line:?}: {ended:?}");
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
        let ended = sh(&line);
        assert_eq!(ended.code, Some(2), "{line}: {ended:?}");
        assert!(ended.err.contains(said), "{line}: {ended:?}");
    }
}

#[test]
fn attach_leaves_its_own_network_alone() {
    // Breaks when mbuma replaces the default route of the namespace in which it was started: its own packets would come
    // back to it.
    needs!(root(), guests(), programs(&["unshare"]));
    for target in ["$$", "/proc/self/ns/net"] {
        let script = format!("{MBUMA} attach {target}; echo $?; cat /proc/net/dev");
        let ended = finish("unshare", &["-n", "sh", "-c", &script]);
        assert!(ended.out.starts_with("2\n"), "{ended:?}");
        assert!(!ended.out.contains("tap0"), "{ended:?}");
        assert!(ended.err.contains("that mbuma itself is in"), "{ended:?}");
    }
}

#[test]
fn help_shows_examples() {
    // Breaks when --help lacks an example.
    for verb in ["run", "attach"] {
        let ended = finish(MBUMA, &[verb, "--help"]);
        let text = &ended.out;
        assert!(
            ended.code == Some(0) && text.contains("Examples:") && text.contains("10.0.2.3"),
            "{text}"
        );
    }
}

#[test]
fn help_on_a_full_disk_is_an_error() {
    // Breaks when a script takes a help text, or a list, that was not written for one that was.
    for args in ["--help", "run --help", "--version", "network ls"] {
        let ended = finish("sh", &["-c", &format!("{MBUMA} {args} >/dev/full")]);
        assert_eq!(ended.code, Some(125), "{args}: {ended:?}");
        assert!(ended.err.contains("No space left"), "{args}: {ended:?}");
    }
    let ended = finish("sh", &["-c", &format!("{MBUMA} nothing 2>/dev/full")]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
}

#[test]
fn the_guest_has_its_network() {
    // Breaks when the interface lacks its name, MTU, address or default route.
    needs!(guests());
    let script = "cat /proc/net/dev /proc/net/route /proc/net/fib_trie /sys/class/net/wire0/mtu";
    let ended = run(&[
        "--ifname", "wire0", "--mtu", "4321", "--", "sh", "-c", script,
    ]);
    let text = &ended.out;
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
    needs!(guests(), exists("/etc/resolv.conf"));
    let before = fs::read("/etc/resolv.conf").expect("read");
    let ended = run(&["--", "cat", "/etc/resolv.conf"]);
    assert!(ended.out.starts_with("nameserver 10.0.2.3\n"), "{ended:?}");
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
    needs!(root(), guests(), programs(&["unshare"]));
    let script = format!(
        "mount -t tmpfs none /mnt && mkdir /mnt/etc /mnt/run && cp /etc/passwd /mnt/etc &&
         ln -s /mnt/run/stub.conf /mnt/etc/resolv.conf && mount --bind /mnt/etc /etc &&
         {MBUMA} run -- sh -c 'test ! -e /etc/resolv.conf && echo none' &&
         printf 'nameserver 127.0.0.53\\nsearch a.example\\n' > /mnt/run/stub.conf &&
         {MBUMA} run -- sh -c 'cat /etc/resolv.conf; ls /mnt/run' && cat /mnt/run/stub.conf"
    );
    let ended = finish("unshare", &["-m", "sh", "-c", &script]);
    assert_eq!(
        ended.err.matches("/etc/resolv.conf").count(),
        1,
        "{ended:?}"
    );
    let want = "none\nnameserver 10.0.2.3\nsearch a.example\nstub.conf\nnameserver 127.0.0.53\nsearch a.example\n";
    assert_eq!(ended.out, want, "{ended:?}");
}

#[test]
fn an_ordinary_user_needs_no_root() {
    // Breaks when mbuma needs a privilege that a user does not have.
    needs!(root(), guests(), programs(&["unshare", "setpriv"]));
    let script = "id -u; cat /etc/resolv.conf; cat /proc/sys/net/ipv4/ping_group_range \
                  /proc/sys/net/ipv4/ip_unprivileged_port_start; grep -c 10.0.2.100 /proc/net/fib_trie";
    let (scratch, nobody) = (Scratch::new(), AS_NOBODY.join(" "));
    let ended = with_tun(
        &scratch,
        Some("666"),
        &format!("{nobody} ./mbuma run -- sh -c '{script}'"),
    );
    let text = &ended.out;
    assert!(
        ended.code == Some(0) && text.starts_with("65534\nnameserver 10.0.2.3\n"),
        "{ended:?}"
    );
    assert!(
        text.contains("65534\t65534\n0\n"),
        "cannot ping or listen on port 80: {text}"
    );
    let ended = with_tun(
        &scratch,
        Some("666"),
        &format!("{nobody} ./mbuma run -r -- id -u"),
    );
    assert_eq!(ended.out, "0\n", "{ended:?}");
    // execvp calls it "permission denied" when one directory of PATH may not be looked into.
    let nowhere = "mkdir -m 700 locked; PATH=$PATH:$PWD/locked";
    let ended = with_tun(
        &scratch,
        Some("666"),
        &format!("{nowhere} {nobody} ./mbuma run -- no-such-program"),
    );
    assert_eq!(ended.code, Some(127), "{ended:?}");
}

#[test]
fn a_closed_or_missing_tun_says_what_to_do() {
    // Breaks when a user is left with "Permission denied" or "No such file".
    needs!(root(), guests(), programs(&["unshare", "setpriv"]));
    let (scratch, nobody) = (Scratch::new(), AS_NOBODY.join(" "));
    let ended = with_tun(
        &scratch,
        Some("600"),
        &format!("{nobody} ./mbuma run -- true"),
    );
    assert_eq!(ended.code, Some(125));
    assert!(ended.err.contains("chmod 666 /dev/net/tun"), "{ended:?}");
    let ended = with_tun(&scratch, None, "./mbuma run -- true");
    assert_eq!(ended.code, Some(125));
    assert!(
        ended.err.contains("modprobe tun") && ended.err.contains("--device /dev/net/tun"),
        "{ended:?}"
    );
}

#[test]
fn forbidden_namespaces_are_told_with_the_setting() {
    // Breaks when the message does not name the setting that forbids namespaces.
    needs!(namespaces(), programs(&["unshare"]));
    let script = format!("echo 0 > /proc/sys/user/max_user_namespaces; exec {MBUMA} run -- true");
    let ended = finish("unshare", &["-Ur", "sh", "-c", &script]);
    assert_eq!(ended.code, Some(125));
    assert!(
        ended
            .err
            .contains("user.max_user_namespaces = 0  <- `sysctl -w"),
        "{ended:?}"
    );
}

#[test]
fn signals_go_on_to_command() {
    // Breaks when a signal of a supervisor to mbuma does not reach COMMAND.
    needs!(guests());
    let script = "trap 'echo usr1' USR1; trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let running = Running::start(mbuma(&[], script));
    running.wait_for("ready");
    running.signal("USR1");
    running.wait_for("usr1");
    running.signal("TERM");
    let ended = running.finish();
    assert_eq!((ended.code, &*ended.out), (Some(5), "ready\nusr1\nterm\n"));
}

#[test]
fn a_stopped_command_goes_on_with_mbuma() {
    // Breaks when SIGCONT does not reach a COMMAND that stopped, or its stop is taken for its end.
    needs!(guests());
    let script = "echo ready $$; kill -STOP $$; exit 4";
    let mut running = Running::start(mbuma(&[], script));
    let command = running.wait_for("ready");
    wait_until("COMMAND to stop", || state(&command) == Some('T'));
    thread::sleep(Duration::from_millis(200));
    assert!(!running.has_ended(), "ended while COMMAND was stopped");
    running.signal("CONT");
    assert_eq!(running.finish().code, Some(4));
}

#[test]
fn a_terminals_key_reaches_command_once() {
    // Breaks when Ctrl-C is delivered by the terminal and by mbuma: programs count the second as "now!".
    needs!(guests(), keys(), programs(&["script"]));
    // Pending signals of one kind merge, so mbuma is held back until COMMAND has dealt with its own.
    // Between mbuma and COMMAND is the guard.
    let count = "read -r _ _ _ mbuma _ < /proc/$PPID/stat; \
                 trap 'n=$((n+1))' INT; n=0; kill -STOP $mbuma; echo ready; \
                 while [ $n = 0 ]; do sleep 0.05; done; kill -CONT $mbuma; \
                 i=0; while [ $i -lt 8 ]; do sleep 0.05; i=$((i+1)); done; echo got $n";
    let mut script = program("script");
    let inner = format!("trap : INT; {MBUMA} run -- sh -c \"$COUNT\"; echo end");
    script
        .args(["-qec", &inner, "/dev/null"])
        .env("COUNT", count)
        .env("SHELL", "/bin/sh");
    let mut running = Running::start(script);
    running.wait_for("ready");
    running.press("\x03");
    let ended = running.finish();
    assert!(ended.out.contains("got 1"), "{ended:?}");
}

#[test]
fn a_shells_job_stops_and_goes_on_as_one() {
    // Breaks when `fg` brings back mbuma and not COMMAND, or mbuma stops again for a stop that is over.
    needs!(guests(), keys(), programs(&["script", "bash"]));
    let mut script = program("script");
    script
        .args(["-qec", "bash --norc --noprofile -i", "/dev/null"])
        .env("GO", "echo ready $$; exec sleep 60")
        .env("PS1", "prompt\\n")
        .env("TERM", "dumb")
        .env("SHELL", "/bin/sh");
    let mut running = Running::start(script);
    // Input may be lost while the terminal changes its foreground process group, so each step waits for that change.
    let prompts = |running: &Running, n| {
        let shown = || running.output().matches("prompt").count();
        wait_until("a prompt", || shown() >= n);
    };
    prompts(&running, 1);
    running.say(&format!("{MBUMA} run -- sh -c \"$GO\""));
    let command = running.wait_for("ready");
    running.press("\x1a");
    prompts(&running, 2);
    assert!(running.output().contains("Stopped"));
    wait_until("COMMAND to stop", || state(&command) == Some('T'));
    running.say("fg; echo back $?");
    // The shell hands over the terminal before it has the job go on.
    wait_until("COMMAND to go on", || state(&command) == Some('S'));
    thread::sleep(Duration::from_millis(200));
    running.press("\x03");
    prompts(&running, 3);
    let seen = running.output();
    assert!(seen.contains("back 130"), "{seen}");
    running.say("exit");
    running.finish();
}

#[test]
fn nothing_stays_behind() {
    // Breaks when a daemon that COMMAND started outlives it without a network, whether it obeys SIGTERM or ignores it.
    needs!(guests(), programs(&["setsid"]));
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
    let ended = run(&["--", "sh", "-c", &script]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    // By themselves they would have gone on for a minute, or for ever.
    assert!(begun.elapsed() < PATIENCE, "took {:?}", begun.elapsed());
    let pids = [stubborn, polite].map(|file| fs::read_to_string(file).expect("a pid"));
    let left: Vec<_> = pids
        .iter()
        .filter(|pid| Path::new("/proc").join(pid.trim()).exists())
        .collect();
    left.iter().for_each(|pid| kill("KILL", pid.trim()));
    assert!(left.is_empty(), "processes {left:?} live on");
    assert_eq!(ended.out, "bye\n", "no SIGTERM before SIGKILL");
}

#[test]
fn children_of_before_are_spared() {
    // Breaks when mbuma, executed by `exec` in a shell, ends the shell's background processes.
    needs!(guests());
    let script = format!(
        "sleep 60 >/dev/null 2>&1 & echo $!; exec {MBUMA} run -- sh -c 'sleep 9 >/dev/null 2>&1 &'"
    );
    let ended = sh(&script);
    let pid = ended.out.trim().to_owned();
    let alive = fs::read_to_string(format!("/proc/{pid}/comm"));
    assert_eq!(alive.expect("the shell's child is gone").trim(), "sleep");
    kill("KILL", &pid);
}

#[test]
fn command_dies_with_mbuma() {
    // Breaks when a killed mbuma leaves COMMAND running without a network.
    needs!(guests());
    let scratch = Scratch::new();
    let pid_file = scratch.path("pid");
    let script = format!(
        "echo $$ > {}; echo ready; exec sleep 60",
        pid_file.display()
    );
    let running = Running::start(mbuma(&[], &script));
    running.wait_for("ready");
    running.signal("KILL");
    running.finish();
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
    needs!(guests());
    let script =
        "ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status; ulimit -n; umask; pwd";
    // By its path, as mbuma: so std starts both by posix_spawn, in which glibc ignores two signals of its own.
    let bare = finish("/bin/sh", &["-c", script]);
    let ours = run(&["--", "sh", "-c", script]);
    assert_eq!(ours.out, bare.out);
    let ignoring =
        format!("trap '' HUP PIPE CHLD; exec {MBUMA} run -- grep SigIgn /proc/self/status");
    let ended = sh(&ignoring);
    let ignored =
        u64::from_str_radix(ended.out.trim_start_matches("SigIgn:").trim(), 16).expect("a mask");
    assert_eq!(ignored & 1, 1, "nohup is lost: {ended:?}");
    let pipe = 1 << (libc::SIGPIPE - 1);
    assert_eq!(
        ignored & pipe,
        pipe,
        "a service dies with its client: {ended:?}"
    );
}

#[test]
fn what_command_closes_is_closed() {
    // Breaks when mbuma, its guard or its gateway process keeps a descriptor that the caller left open: a lock stays
    // held, and the reader of a pipe waits, after COMMAND let go of it.
    needs!(guests(), programs(&["flock"]));
    let scratch = Scratch::new();
    let lock = scratch.text("lock");
    let script = format!(
        "exec 9>{lock}; flock 9; exec {MBUMA} run -- sh -c 'exec 9>&-; echo up; read line || true'"
    );
    let running = start("sh", &["-c", &script]);
    running.wait_for("up");
    fs::File::open(&lock)
        .expect("it was made")
        .try_lock()
        .expect("no process has it");
    running.finish();
}

/// Executes its other arguments in a place where a system call, the first one, is refused by EPERM.
const REFUSE: &str = "
import ctypes, os, struct, sys
rows = [(0x20, 0, 0, 0), (0x15, 0, 1, int(sys.argv[1])), (6, 0, 0, 0x50001), (6, 0, 0, 0x7fff0000)]
rows = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *row) for row in rows))
program = struct.pack('HxxxxxxP', 4, ctypes.addressof(rows))
prctl = ctypes.CDLL(None).prctl
if prctl(38, 1, 0, 0, 0) or prctl(22, 2, program, 0, 0): sys.exit('no seccomp')
os.execv(sys.argv[2], sys.argv[2:])
";

#[test]
fn a_refused_system_call_is_done_without_or_named() {
    // Breaks in a container whose list of allowed calls is older than a call of mbuma's: it ends without a word of the
    // reason, or by a panic.
    needs!(guests(), programs(&["python3"]));
    let without = |call: i64| {
        let call = call.to_string();
        let run = [MBUMA, "run", "--", "true"];
        finish(
            "python3",
            &[&["-I", "-S", "-c", REFUSE, &call][..], &run].concat(),
        )
    };
    let ended = without(libc::SYS_close_range);
    assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{ended:?}");
    for (call, word) in [
        (libc::SYS_pidfd_open, "pidfd_open"),
        (libc::SYS_getrandom, "getrandom"),
    ] {
        let ended = without(call);
        assert!(
            ended.code == Some(125) && ended.err.contains(word),
            "{ended:?}"
        );
    }
}

#[test]
fn commands_streams_are_commands_alone() {
    // Breaks when mbuma holds COMMAND's output open after COMMAND closed it, or eats its input.
    needs!(guests());
    let fed = format!("echo in | {MBUMA} run -- cat");
    let ended = sh(&fed);
    assert_eq!(ended.out, "in\n");
    // COMMAND ends when its output is closed; if mbuma held it open, neither would end.
    let scratch = Scratch::new();
    let closed = scratch.path("closed");
    let closed = closed.display();
    let waits = format!(
        "{MBUMA} run -- sh -c 'exec >&- 2>&-; while [ ! -e {closed} ]; do sleep 0.05; done' |
         {{ cat; : > {closed}; echo closed; }}"
    );
    let ended = sh(&waits);
    assert_eq!(ended.out, "closed\n", "{ended:?}");
}

#[test]
fn a_port_in_use_is_said_before_command_starts() {
    // Breaks when COMMAND runs although a port it was promised is in use.
    needs!(guests());
    let other = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = other.local_addr().expect("addr").port();
    let ended = run(&["--publish", &format!("{port}:80"), "--", "echo", "started"]);
    assert_eq!(ended.code, Some(125));
    assert!(
        ended.out.is_empty() && ended.err.contains(&format!("127.0.0.1:{port}:80")),
        "{ended:?}"
    );
    assert!(ended.err.contains("listens there"), "{ended:?}");
}

#[test]
fn stats_are_json_when_asked() {
    // Breaks when a program that reads --stats=json finds something else on standard error.
    needs!(guests());
    let ended = run(&["--stats=json", "--", "true"]);
    let stats: serde_json::Value = serde_json::from_str(&ended.err).expect("one JSON value");
    assert!(stats.is_object(), "{stats}");
    assert!(ended.out.is_empty());
}

#[test]
fn attach_serves_a_process_until_it_ends() {
    // Breaks when an engine waits in vain for readiness, or mbuma outlives the container.
    needs!(root(), guests(), programs(&["unshare", "nsenter"]));
    let scratch = Scratch::new();
    let ready = scratch.path("ready");
    let (holder, pid) = namespace();
    let script = format!(
        "exec {MBUMA} attach {pid} --ifname c0 --mtu 9000 --ready-fd 3 3>{}",
        ready.display()
    );
    let attach = start("sh", &["-c", &script]);
    wait_until("readiness", || {
        fs::read(&ready).is_ok_and(|text| text == b"1")
    });
    let look = "cat /proc/net/route /proc/net/fib_trie; cat /proc/net/dev";
    let text = finish("nsenter", &["-t", &pid, "-n", "sh", "-c", look]).out;
    assert!(
        text.contains("c0\t00000000\t0202000A") && text.contains("10.0.2.100"),
        "{text}"
    );
    drop(holder);
    let ended = attach.finish();
    assert!(
        ended.code == Some(0) && ended.out.is_empty() && ended.err.is_empty(),
        "{ended:?}"
    );
}

#[test]
fn attach_ends_with_its_exit_fd_and_takes_the_interface_along() {
    // Breaks when mbuma stays when its engine has gone, or leaves its interface behind.
    needs!(root(), guests(), programs(&["unshare", "nsenter"]));
    let (holder, pid) = namespace();
    let shows = |name: &str| {
        let dev = fs::read_to_string(format!("/proc/{pid}/net/dev")).expect("read");
        dev.contains(&format!("{name}:"))
    };
    let script = format!("exec {MBUMA} attach /proc/{pid}/ns/net --exit-fd 3 3<&0");
    let mut attach = start("sh", &["-c", &script]);
    wait_until("the interface", || shows("tap0"));
    thread::sleep(Duration::from_millis(100));
    assert!(!attach.has_ended(), "ended while the descriptor is open");
    // Its standard input, which is the descriptor, is closed.
    let ended = attach.finish();
    assert!(ended.code == Some(0), "{ended:?}");
    assert!(!shows("tap0"), "the interface outlived mbuma");
    drop(holder);
}

#[test]
fn attach_enters_the_users_namespace() {
    // Breaks when a rootless container's namespace, owned by its user, cannot be served by that user.
    needs!(root(), guests(), programs(&["unshare", "setpriv"]));
    let (scratch, nobody) = (Scratch::new(), AS_NOBODY.join(" "));
    let script = format!(
        "{nobody} unshare -Urn sleep 60 & pid=$!
         until [ \"$(cat /proc/$pid/comm)\" = sleep ]; do sleep 0.02; done
         {nobody} ./mbuma attach $pid --ready-fd 3 3>ready & mbuma=$!
         n=0; until [ -s ready ] || [ $n -ge 500 ]; do sleep 0.02; n=$((n+1)); done
         grep -c 0202000A /proc/$pid/net/route
         kill -TERM $mbuma; wait $mbuma; echo ended $?; kill -KILL $pid"
    );
    let ended = with_tun(&scratch, Some("666"), &script);
    assert_eq!(ended.out, "1\nended 0\n", "{ended:?}");
}

#[test]
fn attach_to_nothing_says_so() {
    // Breaks when a wrong PID or path ends in silence or a panic, or the message does not say which it is.
    let ended = start("true", &[]);
    let gone = ended.id();
    ended.finish();
    let ended = finish(MBUMA, &["attach", &gone.to_string()]);
    assert_eq!(ended.code, Some(125));
    assert!(ended.err.contains("No such process"), "{ended:?}");
    assert!(
        ended.err.contains(&format!("process {gone}: ")),
        "{ended:?}"
    );
    let ended = finish(MBUMA, &["attach", "/etc/passwd"]);
    assert_eq!(ended.code, Some(125));
    assert!(ended.err.contains("no network namespace"), "{ended:?}");
    assert!(ended.err.contains("/etc/passwd: "), "{ended:?}");
}

#[test]
fn a_taken_interface_name_says_so() {
    // Breaks when a second mbuma takes over, or breaks, the first one's interface.
    needs!(root(), guests(), programs(&["unshare"]));
    let scratch = Scratch::new();
    let ready = scratch.path("ready");
    let script = format!(
        "unshare -n sleep 60 & h=$!
         until [ \"$(readlink /proc/$h/ns/net)\" != \"$(readlink /proc/$$/ns/net)\" ]; do sleep 0.02; done
         {MBUMA} attach $h --ready-fd 3 3>{ready} & a=$!; until [ -s {ready} ]; do sleep 0.02; done
         {MBUMA} attach $h; echo $?; kill -TERM $a; wait $a; echo $?; kill $h",
        ready = ready.display(),
    );
    let ended = sh(&script);
    assert_eq!(ended.out, "125\n0\n", "{ended:?}");
    assert!(ended.err.contains("--ifname"), "{ended:?}");
}

/// Starts a program.
fn start(name: &str, args: &[&str]) -> Running {
    let mut command = program(name);
    command.args(args);
    Running::start(command)
}

/// Runs a program to its end.
fn finish(name: &str, args: &[&str]) -> Ended {
    start(name, args).finish()
}

/// Runs `mbuma run` with these arguments to its end.
fn run(args: &[&str]) -> Ended {
    finish(MBUMA, &[&["run"], args].concat())
}

/// Runs a script to its end.
fn sh(script: &str) -> Ended {
    finish("sh", &["-c", script])
}

/// A process in a network namespace of its own, and its number.
fn namespace() -> (Running, String) {
    let holder = start("unshare", &["-n", "sleep", "60"]);
    let pid = holder.id().to_string();
    let net = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    wait_until("a namespace", || net(&pid) != net("self"));
    (holder, pid)
}

/// The state of a process, as proc(5) has it: `T` is stopped.
fn state(pid: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Runs a script in a mount namespace whose /dev/net/tun has this mode, or is not there, beside a copy of mbuma.
fn with_tun(scratch: &Scratch, mode: Option<&str>, script: &str) -> Ended {
    if !scratch.path("mbuma").exists() {
        scratch.copy("mbuma", Path::new(MBUMA));
    }
    let place = match mode {
        Some(mode) => format!("mknod -m {mode} /dev/net/tun c 10 200"),
        None => "true".into(),
    };
    let dir = scratch.text("");
    let script = format!(
        "mount -t tmpfs -o mode=755 none /dev/net && {place} && cd {dir} || exit 99\n{script}"
    );
    finish("unshare", &["-m", "sh", "-c", &script])
}

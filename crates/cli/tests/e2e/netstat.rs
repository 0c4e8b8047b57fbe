//! `mbuma netstat` and running instances: as root, as an ordinary user, with several, with none, with the files of
//! killed ones, and with one that hangs.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::common::needs::{guests, programs, root};
use crate::common::scratch::{copy_program, noise};
use crate::common::test_host::make_tun;
use crate::common::{
    AS_NOBODY, Ended, MBUMA, Running, Scratch, alone, http, kill, program, wait_until,
};

/// A home for control sockets that no other test has.
struct Home {
    scratch: Scratch,
    /// The program under test.
    mbuma: String,
}

impl Home {
    fn new() -> Home {
        Home {
            scratch: Scratch::new(),
            mbuma: MBUMA.to_owned(),
        }
    }

    /// On a test host: where not even root finds an mbuma of the machine's.
    fn alone() -> Result<Home, String> {
        tmpfs("/mnt")?;
        let mbuma = "/mnt/mbuma".to_owned();
        copy_program(MBUMA.as_ref(), mbuma.as_ref());
        tmpfs("/run")?;
        tmpfs("/tmp")?;
        Ok(Home {
            scratch: Scratch::new(),
            mbuma,
        })
    }

    /// A command line of mbuma that has its socket, or looks for sockets, here.
    fn mbuma(&self, args: &[&str]) -> Command {
        let mut command = program(&self.mbuma);
        command
            .env("XDG_RUNTIME_DIR", self.scratch.path(""))
            .args(args);
        command
    }

    /// An mbuma whose COMMAND runs until its input ends.
    fn start(&self, options: &[&str], script: &str) -> Running {
        let mut command = self.mbuma(&["run"]);
        let script = format!("{script}\necho ready; cat >/dev/null");
        command.args(options).args(["--", "sh", "-c", &script]);
        let running = Running::start(command);
        running.wait_for("ready");
        running
    }

    fn netstat(&self, args: &[&str]) -> Ended {
        let mut command = self.mbuma(&["netstat"]);
        command.args(args);
        Running::start(command).finish()
    }

    /// The output of netstat about this instance: root sees those of other tests too.
    fn ask(&self, whom: &Running, args: &[&str]) -> String {
        let pid = whom.id().to_string();
        self.netstat(&[&[&*pid], args].concat()).good()
    }

    fn socket(&self, pid: u32) -> PathBuf {
        self.scratch.path("mbuma").join(format!("{pid}.sock"))
    }
}

#[test]
fn every_section_says_what_is_there() {
    // Breaks when netstat cannot look into a running mbuma, or shows figures that are not its.
    needs!(guests(), programs(&["nc", "curl"]));
    let home = Home::new();
    let server = http::serve(noise(100_000, 5));
    let port = server.port();
    // A shell whose child was ended by a signal prints a line, if it is not ended first itself: the line is discarded.
    let fetch = format!(
        "curl -sS -o /dev/null http://10.0.2.2:{port}/
         (sleep 1000 | nc 10.0.2.2 {port} >/dev/null) 2>/dev/null &"
    );
    let running = home.start(&["--host-loopback"], &fetch);
    let says = |args: &[&str], words: &str| home.ask(&running, args).contains(words);
    wait_until("nc", || says(&[], "2 from the guest"));
    wait_until("its connection", || says(&["-a"], "ESTABLISHED"));
    let text = home.ask(&running, &[]);
    for words in [
        &*format!("mbuma {}: up", running.id()),
        "10.0.2.100",
        "2 from the guest",
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    let text = home.ask(&running, &["-a"]);
    let row = text
        .lines()
        .find(|l| l.contains("ESTABLISHED"))
        .unwrap_or_else(|| panic!("{text}"));
    assert!(
        row.contains("10.0.2.100:") && row.contains(&format!("10.0.2.2:{port}")),
        "{row}"
    );
    let text = home.ask(&running, &["-m", "-z", "-s", "-i", "--locks"]);
    for words in [
        "mbufs in use (current/cache/total)",
        "ITEM",
        "cluster",
        "longest tick",
        "segments in",
        "delivered",
        "tap0",
        "connection table",
        "no thread waits for a lock",
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    ended_well(&home, running);
}

#[test]
fn programs_get_one_document() {
    // Breaks when --json is no JSON, lacks a section, or has others than were asked for.
    needs!(guests());
    let home = Home::new();
    let running = home.start(&[], "");
    let all = ["-a", "-m", "-s", "-z", "-i", "--locks", "--json"];
    let document = json(&home.ask(&running, &all));
    assert_eq!(document["pid"], running.id());
    assert!(document["connections"]["tcp"].is_array());
    assert!(document["mbufs"]["zones"].is_array());
    assert!(document["protocols"]["tcp"]["segments_in"].is_u64());
    let zones = document["zones"].as_array().expect("a list");
    assert!(zones.iter().any(|z| z["name"] == "mbuf"), "{zones:?}");
    assert!(zones.iter().all(|z| z["census"]["holders"].is_array()));
    assert!(zones.iter().any(|z| z["shortages"]["at_limit"] == 0));
    assert!(document["reclaim"]["longest_tick_us"].is_u64());
    assert_eq!(document["interfaces"][0]["name"], "tap0");
    assert!(document["locks"]["classes"].is_array());
    assert!(document.get("overview").is_none());
    let document = json(&home.ask(&running, &["--json"]));
    assert_eq!(document["overview"]["guest"]["addr"], "10.0.2.100");
    assert_eq!(document.as_object().expect("an object").len(), 2);
    ended_well(&home, running);
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Ends it, and looks whether its socket ended too.
fn ended_well(home: &Home, running: Running) {
    let pid = running.id();
    assert!(home.socket(pid).exists());
    assert_eq!(running.finish().good(), "ready\n");
    assert!(!home.socket(pid).exists(), "a socket was left behind");
}

#[test]
fn the_one_that_is_meant_is_found() {
    // Breaks when netstat wants a number although there is one instance, wants none although there are several, or does
    // not report that there is none.
    needs!(guests(), root());
    on_test_host!();
    let home = Home::alone().expect("the test host is ours to change");
    let none = home.netstat(&[]);
    assert_eq!((none.code, &*none.out), (Some(1), ""), "{none:#?}");
    assert!(none.err.contains("no mbuma runs"), "{none:#?}");

    let first = home.start(&[], "");
    let text = home.netstat(&[]).good();
    assert!(text.contains(&format!("mbuma {}:", first.id())), "{text}");

    let second = home.start(&["--ifname", "eth7"], "");
    let (one, two) = (first.id().to_string(), second.id().to_string());
    let several = home.netstat(&["-m"]);
    assert_eq!((several.code, &*several.out), (Some(2), ""), "{several:#?}");
    for words in [&*one, &*two, "--ifname eth7"] {
        assert!(several.err.contains(words), "{words}: {several:#?}");
    }
    assert!(home.ask(&second, &["-i"]).contains("eth7"));
    assert!(home.ask(&first, &["-i"]).contains("tap0"));

    let wrong = home.netstat(&["1"]);
    assert_eq!(wrong.code, Some(1), "{wrong:#?}");
    assert!(wrong.err.contains("process 1 is no mbuma"), "{wrong:#?}");
    assert_eq!(home.netstat(&["nonsense"]).code, Some(2));
    for running in [first, second] {
        ended_well(&home, running);
    }
}

#[test]
fn what_a_killed_one_left_is_removed() {
    // Breaks when a socket without a listener is taken for a running mbuma, or stays for ever.
    needs!(guests());
    let home = Home::new();
    let stale = |home: &Home| {
        let running = home.start(&[], "");
        let socket = home.socket(running.id());
        kill("KILL", &running.id().to_string());
        assert_eq!(running.finish().signal, Some(9));
        assert!(socket.exists(), "no process could remove it");
        // The kernel ends the gateway process, which listens, some time after the monitor.
        wait_until("the end of the listener", || {
            let refused = UnixStream::connect(&socket).map_err(|e| e.kind());
            matches!(refused, Err(ErrorKind::ConnectionRefused))
        });
        socket
    };
    let socket = stale(&home);
    let ended = home.netstat(&["999999999"]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(!socket.exists(), "netstat saw that it has no listener");

    let socket = stale(&home);
    let running = home.start(&[], "");
    assert!(
        !socket.exists(),
        "the next mbuma saw that it has no listener"
    );
    ended_well(&home, running);
}

#[test]
fn without_a_place_for_sockets_it_runs() {
    // Breaks when a read-only or foreign runtime directory stops a run, or netstat does not say why it finds none.
    needs!(guests(), root());
    on_test_host!();
    let home = Home::alone().expect("the test host is ours to change");
    // In both places a file has the name of the directory.
    home.scratch.write("mbuma", b"");
    fs::write("/tmp/mbuma-0", "").expect("a file of the test host");
    let mut command = home.mbuma(&["run"]);
    command.args(["--", "echo", "ran"]);
    assert_eq!(Running::start(command).finish().good(), "ran\n");
    let ended = home.netstat(&[]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("it is no directory"), "{ended:#?}");
}

#[test]
fn an_ordinary_user_sees_their_own_and_root_everybodys() {
    // Breaks when netstat needs root, a user sees another's connections, or root cannot see a user's.
    needs!(guests(), root(), programs(&["setpriv"]));
    on_test_host!();
    needs!(make_tun("666"));
    let home = Home::alone().expect("the test host is ours to change");
    let copy = home.mbuma.clone();
    let tmp = program("chmod").args(["1777", "/tmp"]).status();
    assert!(tmp.expect("chmod is there").success());
    let as_nobody = |args: &[&str]| {
        let mut command = program(AS_NOBODY[0]);
        command.args(&AS_NOBODY[1..]).arg(&copy).args(args);
        command.env_remove("XDG_RUNTIME_DIR");
        Running::start(command)
    };
    let theirs = as_nobody(&["run", "--", "sh", "-c", "echo ready; cat"]);
    theirs.wait_for("ready");
    let pid = theirs.id().to_string();
    let text = as_nobody(&["netstat", &pid, "-s"]).finish().good();
    assert!(text.contains("segments in"), "{text}");

    let text = home.netstat(&[&pid, "-i"]).good();
    assert!(text.contains("tap0"), "{text}");

    let roots = home.start(&[], "");
    let pid = roots.id().to_string();
    let ended = as_nobody(&["netstat", &pid]).finish();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    // Nor by asking for it where it is.
    let mut command = program(AS_NOBODY[0]);
    command
        .args(&AS_NOBODY[1..])
        .arg(&copy)
        .args(["netstat", &pid]);
    command.env("XDG_RUNTIME_DIR", home.scratch.path(""));
    let ended = Running::start(command).finish();
    assert_eq!((ended.code, &*ended.out), (Some(1), ""), "{ended:#?}");
    theirs.finish().good();
    ended_well(&home, roots);
}

#[test]
fn root_asks_one_in_a_users_namespace() {
    // Breaks when an mbuma in a user namespace refuses root, whose user id is not mapped there.
    needs!(guests(), root(), programs(&["setpriv", "unshare"]));
    on_test_host!();
    needs!(make_tun("666"));
    let home = Home::alone().expect("the test host is ours to change");
    let tmp = program("chmod").args(["1777", "/tmp"]).status();
    assert!(tmp.expect("chmod is there").success());
    let mut command = program(AS_NOBODY[0]);
    command.args(&AS_NOBODY[1..]).args(["unshare", "-Ur"]);
    command.arg(&home.mbuma).env_remove("XDG_RUNTIME_DIR");
    command.args(["run", "--", "sh", "-c", "echo ready; cat"]);
    let theirs = Running::start(command);
    theirs.wait_for("ready");
    let text = home.netstat(&[&theirs.id().to_string(), "-i"]).good();
    assert!(text.contains("tap0"), "{text}");
    theirs.finish().good();
}

#[test]
fn an_attached_one_is_asked_as_well() {
    // Breaks when only `run` has a control socket.
    needs!(guests(), programs(&["unshare"]));
    let home = Home::new();
    let mut holder = program("unshare");
    holder.args(["-Urn", "sh", "-c", "echo ready; cat"]);
    let holder = Running::start(holder);
    holder.wait_for("ready");
    let attached = Running::start(home.mbuma(&["attach", &holder.id().to_string()]));
    wait_until("the socket", || home.socket(attached.id()).exists());
    assert!(home.ask(&attached, &["-i"]).contains("tap0"));
    let socket = home.socket(attached.id());
    holder.finish().good();
    attached.finish().good();
    assert!(!socket.exists());
}

#[test]
fn the_signal_shows_locks_and_is_not_commands() {
    // Breaks when the locks can only be shown by the event loop, or COMMAND gets or loses a signal.
    needs!(guests(), programs(&["bash"]));
    let home = Home::new();
    let script = "trap 'echo usr1' USR1; trap 'echo mine' RTMIN+1
                  while :; do echo ready; sleep 0.05; done";
    let running = Running::start(home.mbuma(&["run", "--", "bash", "-c", script]));
    running.wait_for("ready");
    running.signal("RTMIN+1");
    running.wait_for_complaint("no thread waits for a lock");
    running.wait_for_complaint("acquisitions");
    running.signal("USR1");
    running.wait_for("usr1");
    running.signal("TERM");
    let ended = running.finish();
    assert_eq!(ended.code, Some(143), "{ended:#?}");
    assert!(!ended.out.contains("mine"), "{ended:#?}");
    assert_eq!(ended.err.matches("a signal asks").count(), 1, "{ended:#?}");
}

#[test]
fn a_loop_that_hangs_is_told_of() {
    // Breaks when netstat waits for ever for an mbuma that hangs, or gets no information about it.
    needs!(guests(), programs(&["mkfifo", "curl"]));
    let _alone = alone();
    let home = Home::new();
    let (fifo, mut reader) = fifo(&home);
    // A capture into a pipe without a reader: the loop hangs in its write.
    let running = home.start(&["--pcap", &fifo, "--watchdog", "1"], "");
    let mut idle = running.complaints();
    assert!(idle.is_empty(), "{idle}");
    thread::sleep(Duration::from_secs(3));
    idle = running.complaints();
    assert!(idle.is_empty(), "an idle loop does not hang: {idle}");

    let server = http::serve(noise(1_000_000, 7));
    drop(running);
    let fetch = format!("curl -sS -o /dev/null http://10.0.2.2:{}/ &", server.port());
    // One worker: of two, the other would answer.
    let options = [
        "--workers",
        "1",
        "--host-loopback",
        "--pcap",
        &fifo,
        "--watchdog",
        "1",
    ];
    let running = home.start(&options, &fetch);
    running.wait_for_complaint("the loop has been in one round for 1s");
    running.wait_for_complaint("acquisitions");
    let pid = running.id().to_string();
    let ended = home.netstat(&[&pid]);
    assert_eq!((ended.code, &*ended.out), (Some(1), ""), "{ended:#?}");
    assert!(
        ended.err.contains(&format!("kill -s RTMIN+1 {pid}")),
        "{ended:#?}"
    );
    running.signal("RTMIN+1");
    running.wait_for_complaint("a signal asks for the locks");
    if cfg!(debug_assertions) {
        // WITNESS knows what the loop holds while it writes.
        running.wait_for_complaint("  holds ");
    }

    // The test reads, and the loop goes on. The pipe has no end, since its reader could write too.
    thread::spawn(move || {
        let mut bytes = [0; 64 << 10];
        while reader.read(&mut bytes).is_ok_and(|n| n > 0) {}
    });
    wait_until("an answer", || home.netstat(&[&pid]).code == Some(0));
    let ended = running.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(
        ended.err.matches("in one round").count(),
        1,
        "once: {}",
        ended.err
    );
}

/// Covers a directory with an empty one, for this mount namespace.
fn tmpfs(dir: &str) -> Result<(), String> {
    let mounted = program("mount").args(["-t", "tmpfs", "none", dir]).output();
    match mounted {
        Ok(out) if out.status.success() => Ok(()),
        other => Err(format!("{dir}: {other:?}")),
    }
}

/// A named pipe, and an open end, so that opening the other end does not wait.
fn fifo(home: &Home) -> (String, File) {
    let path = home.scratch.text("capture");
    let made = program("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo is there").success());
    let both = OpenOptions::new().read(true).write(true).open(&path);
    (path, both.expect("a pipe can be opened"))
}

#[test]
fn an_interval_and_published_ports_are_shown() {
    // Breaks if -w prints only once or outlives the mbuma that it asks, if published ports are missing, or if programs
    // read the Ethernet address as a list of numbers.
    needs!(guests());
    let home = Home::new();
    let port = crate::common::server::closed_port();
    let published = format!("{port}:80");
    let running = home.start(&["--publish", &published], "");
    let text = home.ask(&running, &[]);
    let line = format!("published: 127.0.0.1:{port}:80\n");
    assert!(text.contains(&line), "{text}");
    let json: Value = serde_json::from_str(&home.ask(&running, &["--json"])).expect("JSON");
    let mac = json["overview"]["guest"]["mac"]
        .as_str()
        .unwrap_or_default();
    assert_eq!(mac.split(':').count(), 6, "{json}");

    let pid = running.id().to_string();
    let watching = Running::start(home.mbuma(&["netstat", &pid, "-w", "1", "--json"]));
    let documents = || watching.output().lines().count();
    wait_until("a second document", || documents() >= 2);
    running.finish().good();
    watching.finish().good();
}

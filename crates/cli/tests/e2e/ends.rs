//! The end when a process is killed in the middle of a transfer: each side gets a clear error, and no process is left.
//! Each test is on a test host, where it sees every process that is left.

use std::fs::OpenOptions;
use std::io::Read;
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::common::http::Endless;
use crate::common::needs::{guests, programs};
use crate::common::scratch::Scratch;
use crate::common::server::{TcpServer, closed_port};
use crate::common::test_host::processes;
use crate::common::{Ended, Running, Stats, kill, mbuma, program, wait_until};

/// Bytes after which a transfer is well under way.
const UNDER_WAY: u64 = 5_000_000;

/// A guest that fetches without end, and the server that it fetches from.
struct Transfer {
    server: Endless,
    running: Running,
    command: String,
}

impl Transfer {
    /// Starts it, and waits until it is well under way.
    fn start() -> Transfer {
        let server = Endless::start();
        let port = server.port();
        let fetch = format!("curl -sS -o /dev/null http://10.0.2.2:{port}/");
        let script = format!("echo pid $$; read go; exec {fetch}");
        let mut running = Running::start(mbuma(&["--host-loopback", "--stats=json"], &script));
        let command = running.wait_for("pid");
        running.say("go");
        wait_until("a transfer", || server.sent() > UNDER_WAY);
        Transfer {
            server,
            running,
            command,
        }
    }

    /// Waits for the end of everything.
    fn finish(self) -> Ended {
        let Transfer {
            server, running, ..
        } = self;
        let ended = running.finish();
        wait_until("the end at the host's side", || server.ended() == 1);
        nothing_is_left();
        ended
    }
}

/// Every process but the test ends.
fn nothing_is_left() {
    let mut left = Vec::new();
    wait_until("every process to end", || {
        let before = std::mem::replace(&mut left, processes());
        if left != before {
            println!("left: {left:?}");
        }
        left.is_empty()
    });
}

#[test]
fn command_is_killed() {
    // Breaks when mbuma, or the host's peer, waits for a guest that is gone; or a buffer stays behind.
    needs!(guests(), programs(&["curl"]));
    on_test_host!();
    let transfer = Transfer::start();
    kill("KILL", &transfer.command);
    let ended = transfer.finish();
    assert_eq!(ended.code, Some(137), "{ended:#?}");
    Stats::checked(&ended.err);
}

#[test]
fn mbuma_is_told_to_end() {
    // Breaks when SIGTERM does not end a busy COMMAND, and the transfer's two ends with it.
    needs!(guests(), programs(&["curl"]));
    on_test_host!();
    let transfer = Transfer::start();
    transfer.running.signal("TERM");
    let ended = transfer.finish();
    assert_eq!(ended.code, Some(143), "{ended:#?}");
    Stats::checked(&ended.err);
}

#[test]
fn mbuma_is_killed() {
    // Breaks when COMMAND goes on without its network, sees its connection reset before it ends, or the host's peer is
    // not told.
    needs!(guests(), programs(&["curl"]));
    on_test_host!();
    let transfer = Transfer::start();
    transfer.running.signal("KILL");
    let ended = transfer.finish();
    assert_eq!(ended.signal, Some(9), "{ended:#?}");
    // The gateway process may have the time for its summary.
    assert!(!ended.err.contains("curl"), "{ended:#?}");
}

#[test]
fn the_interface_is_deleted() {
    // Breaks when mbuma spins on a TAP that is gone, or leaves COMMAND without a network and without a message.
    needs!(guests(), programs(&["curl", "ip"]));
    on_test_host!();
    let server = Endless::start();
    let script = format!(
        "curl -sS -o /dev/null http://10.0.2.2:{}/ & read go; ip link delete tap0; wait",
        server.port()
    );
    let mut running = Running::start(mbuma(&["--host-loopback"], &script));
    wait_until("a transfer", || server.sent() > UNDER_WAY);
    running.say("go");
    let ended = running.finish();
    assert_eq!(ended.code, Some(125), "{ended:#?}");
    assert!(ended.err.contains("interface is gone"), "{ended:#?}");
    wait_until("the end at the host's side", || server.ended() == 1);
    nothing_is_left();
}

#[test]
fn the_hosts_server_is_killed() {
    // Breaks when the guest waits for a server that is gone, whether it sends or receives.
    needs!(guests(), programs(&["nc"]));
    on_test_host!();
    for (server, client) in [("</dev/zero", "-d"), (">/dev/null", "</dev/zero")] {
        let port = closed_port();
        let mut listening = program("sh");
        let script = format!("exec nc -l 127.0.0.1 {port} {server}");
        listening.args(["-c", &script]);
        let listening = Running::start(listening);
        wait_until("a listener", || is_listening(port));
        let script = format!("echo pid $$; nc {client} 10.0.2.2 {port} | wc -c; echo over");
        let running = Running::start(mbuma(&["--host-loopback", "--stats=json"], &script));
        running.wait_for("pid");
        wait_until("a transfer", || is_busy(listening.id()));
        listening.signal("KILL");
        running.wait_for("over");
        let ended = running.finish();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        Stats::checked(&ended.err);
        listening.finish();
        nothing_is_left();
    }
}

#[test]
fn a_signal_ends_the_wait_for_what_command_left() {
    // Breaks when Ctrl-C does nothing while mbuma delivers an ended COMMAND's last bytes to a slow server, or when the
    // gateway process counts as hung meanwhile.
    needs!(guests(), programs(&["nc"]));
    on_test_host!();
    let (over, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let server = TcpServer::start(move |mut stream| {
        // The server reads so slowly that the bytes last longer than the test. mbuma gives up a server that takes none
        // for some seconds, but not this one.
        let wait = wait.lock().expect("one connection");
        while wait.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Timeout) {
            let _ = stream.read(&mut [0; 4096]);
        }
    });
    // The guest's kernel goes on sending its bytes after the writer has ended.
    let script = format!(
        "echo pid $$; head -c 20000000 /dev/zero | timeout 1 nc -N 10.0.2.2 {}; exit 6",
        server.port()
    );
    let mut running = Running::start(mbuma(&["--host-loopback", "--watchdog", "1"], &script));
    let command = running.wait_for("pid");
    wait_until("COMMAND to end", || {
        !std::path::Path::new(&format!("/proc/{command}")).exists()
    });
    // For longer than the watchdog lets a process hang.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!running.has_ended(), "nothing to wait for");
    running.signal("TERM");
    let ended = running.finish();
    // A gateway that still waited would be killed, with an error.
    assert_eq!((ended.code, &*ended.err), (Some(6), ""), "{ended:#?}");
    drop(over);
    nothing_is_left();
}

/// Whether a port of 127.0.0.1 has a listener.
fn is_listening(port: u16) -> bool {
    // The address in network order, the state LISTEN.
    let line = format!(" 0100007F:{port:04X} 00000000:0000 0A ");
    let table = std::fs::read_to_string("/proc/net/tcp").expect("/proc is there");
    table.contains(&line)
}

/// Whether a process has read or written much.
fn is_busy(pid: u32) -> bool {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).expect("it runs");
    let figures = io.lines().filter_map(|line| line.split_once(": "));
    let mut chars = figures.filter(|(name, _)| *name == "wchar");
    chars.any(|(_, n)| crate::common::number(n) > UNDER_WAY)
}

#[test]
fn grandchildren_of_command_end_with_it() {
    // Breaks when background processes of COMMAND with open connections go on after COMMAND's end.
    needs!(guests(), programs(&["curl"]));
    on_test_host!();
    let server = Endless::start();
    let script = format!(
        "curl -sS -o /dev/null http://10.0.2.2:{}/ 2>/dev/null & read go; exit 3",
        server.port()
    );
    let mut running = Running::start(mbuma(&["--host-loopback"], &script));
    wait_until("a transfer", || server.sent() > UNDER_WAY);
    running.say("go");
    let ended = running.finish();
    assert_eq!((ended.code, &*ended.err), (Some(3), ""), "{ended:#?}");
    wait_until("the end at the host's side", || server.ended() == 1);
    nothing_is_left();
}

#[test]
fn a_killed_gateway_process_ends_command() {
    // Breaks when COMMAND goes on without a network, or mbuma waits for a process that is gone.
    needs!(guests());
    on_test_host!();
    let running = Running::start(mbuma(&[], "echo UP; exec sleep 1000"));
    running.wait_for("UP");
    running.signal_gateway("KILL");
    let ended = running.finish();
    assert_eq!(ended.code, Some(125), "{ended:#?}");
    assert!(ended.err.contains("it was killed"), "{ended:#?}");
    nothing_is_left();
}

#[test]
fn a_gateway_process_that_hangs_ends_after_command() {
    // Breaks when mbuma waits without end for a gateway process that hangs after COMMAND ended by itself, or does not
    // say that a reader of the capture may be the reason.
    needs!(guests(), programs(&["mkfifo", "curl"]));
    on_test_host!();
    let scratch = Scratch::new();
    for workers in ["1", "2"] {
        let fifo = scratch.text(workers);
        let made = program("mkfifo").arg(&fifo).status();
        assert!(made.expect("mkfifo is there").success());
        // This reader takes nothing, so the gateway process waits once the pipe is full.
        let reader = OpenOptions::new().read(true).write(true).open(&fifo);
        let reader = reader.expect("a pipe can be opened");
        let server = Endless::start();
        let fetch = format!("curl -sS -o /dev/null http://10.0.2.2:{}/", server.port());
        let script = format!("{fetch} & read go; exit 6");
        let options = [
            "--host-loopback",
            "--watchdog",
            "1",
            "--pcap",
            &fifo,
            "--workers",
            workers,
        ];
        let mut running = Running::start(mbuma(&options, &script));
        running.wait_for_complaint("in one round for 1s");
        running.say("go");
        let ended = running.finish();
        assert_eq!(ended.code, Some(125), "{ended:#?}");
        let said =
            "it did not answer for 1 s after the guest ended: killed; the program that reads ";
        assert!(ended.err.contains(&format!("{said}{fifo}")), "{ended:#?}");
        nothing_is_left();
        drop(reader);
    }
}

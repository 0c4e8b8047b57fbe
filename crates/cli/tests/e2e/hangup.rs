//! A terminal that is closed.

use std::thread::sleep;
use std::time::Duration;

use crate::common::needs::{guests, programs};
use crate::common::{MBUMA, Running, Scratch, program};

/// Starts mbuma as the leader of a session on a new terminal, closes the terminal, and prints how mbuma ended and
/// whether COMMAND lives on.
const CLOSE: &str = "
import os, pty, signal, sys, time
pid, terminal = pty.fork()
if pid == 0:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the caller of the tests may ignore it, as nohup does
    os.execv(sys.argv[1], [sys.argv[1], 'run', '--', 'sh', '-c', 'echo ready $$; exec sleep 60'])
said = b''
while b'\\n' not in said:
    said += os.read(terminal, 1000)
command = int(said.split()[1])
os.close(terminal)
ended, status, since = 0, 0, time.monotonic()
while not ended and time.monotonic() - since < 15:
    ended, status = os.waitpid(pid, os.WNOHANG)
    time.sleep(0.01)
print('mbuma:', os.waitstatus_to_exitcode(status) if ended else 'runs')
print('COMMAND:', 'runs' if os.path.exists(f'/proc/{command}') else 'ended')
if not ended:
    os.kill(pid, 9)
";

#[test]
fn a_closed_terminal_ends_both() {
    // Breaks when mbuma leads the session, as in a window of tmux or under `ssh -t`, and keeps the terminal's SIGHUP,
    // which the kernel sends to the leader alone, to itself.
    needs!(guests(), programs(&["python3"]));
    let mut python = program("python3");
    python.args(["-I", "-S", "-u", "-W", "ignore", "-c", CLOSE, MBUMA]);
    let out = Running::start(python).finish().good();
    // 128 and SIGHUP: the status of COMMAND, which that signal ended.
    assert_eq!(out, "mbuma: 129\nCOMMAND: ended\n");
}

#[test]
fn a_service_under_nohup_outlives_its_terminal() {
    // Breaks when an mbuma without COMMAND takes a SIGHUP that its caller had ignored as a request to end: `nohup mbuma
    // serve ... &` ended with the session that had started it.
    for (trap, outlives) in [("trap '' HUP", true), ("trap - HUP", false)] {
        let scratch = Scratch::new();
        let mut command = program("env");
        command.args(["--default-signal=HUP", "sh", "-c"]);
        command.arg(format!("{trap}; exec \"$0\" vm --socket \"$1\""));
        command.args([MBUMA, &scratch.text("vm.sock")]);
        let mut vm = Running::start(command);
        vm.wait_for("listening at");
        vm.signal("HUP");
        if outlives {
            // Time enough to end, if it does.
            sleep(Duration::from_millis(300));
            assert!(!vm.has_ended());
            vm.signal("TERM");
        }
        assert_eq!(vm.finish().code, Some(0));
    }
}

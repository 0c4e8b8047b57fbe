//! The tool's memory during and after a spike of connections.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::http::Endless;
use crate::common::needs::{guests, programs, root};
use crate::common::{MBUMA, Running, alone, mbuma_python, number, program};

/// Connections of the spike.
const DOWNLOADS: &str = "512";
/// The time within which memory must be given back. On an idle machine it takes some 4 s.
const BACK_WITHIN: Duration = Duration::from_secs(25);

/// KiB that the spike may take: 16 KiB for each connection, and as much for larger buffers, connections, packets and
/// cached storage together.
const SPIKE_MAX: u64 = 18 << 10;

/// For each number that it reads, opens that many connections at once, reads from them, lets their data wait, and
/// closes them. Small receive buffers, so that the data wait in mbuma and not in the guest.
const SPIKE: &str = "
import select, socket, sys, time
def spike(n):
    poll = select.epoll()
    streams = {}
    for _ in range(n):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 15)
        s.connect(('10.0.2.2', int(sys.argv[1])))
        s.sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
        s.setblocking(False)
        streams[s.fileno()] = s
        poll.register(s, select.EPOLLIN)
    end = time.monotonic() + 2
    into = bytearray(1 << 17)
    while time.monotonic() < end:
        for fd, _ in poll.poll(0.1):
            streams[fd].recv_into(into)
    time.sleep(1)
    print('peak', n)
    sys.stdin.readline()
    for s in streams.values():
        s.close()
    print('closed', n)
for line in iter(sys.stdin.readline, '0\\n'):
    spike(int(line))
";

/// The resident memory of a process, in KiB.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let lines = status.lines().filter_map(|l| l.strip_prefix("VmRSS:"));
    let row = lines.map(|l| l.trim_end_matches("kB")).next();
    number(row.expect("Linux says it"))
}

/// Has the guest make a spike; gives the resident memory at its peak.
fn spike(guest: &mut Running, downloads: &str) -> u64 {
    guest.say(downloads);
    guest.wait_for(&format!("peak {downloads}"));
    let peak = resident(guest.gateway());
    guest.say("");
    guest.wait_for(&format!("closed {downloads}"));
    peak
}

/// The resident memory once it has not shrunk for two seconds.
fn settled(pid: u32) -> u64 {
    let (mut least, mut since) = (resident(pid), Instant::now());
    while since.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(50));
        let now = resident(pid);
        if now < least {
            (least, since) = (now, Instant::now());
        }
    }
    least
}

/// The figures of reclaiming in `mbuma netstat -z`.
fn reclaimed(pid: u32) -> Value {
    let mut netstat = program(MBUMA);
    netstat.args(["netstat", "-z", "--json", &pid.to_string()]);
    let answer = Running::start(netstat).finish().good();
    let document: Value = serde_json::from_str(&answer).expect("JSON");
    document["reclaim"].clone()
}

#[test]
fn a_spike_of_downloads_takes_bounded_memory_and_gives_it_back() {
    // Breaks when downloads that the guest has no room for take much memory, or when what they took stays with the
    // process: 200 MB for ever, where 6 MB serve.
    needs!(guests(), programs(&["python3"]));
    let _alone = alone();
    let server = Endless::start();
    let port = server.port().to_string();
    let mut guest = Running::start(mbuma_python(&["--host-loopback"], SPIKE, &[&port]));
    // The first connections bring the code that serves them into memory, where it stays.
    spike(&mut guest, "8");
    let start = settled(guest.gateway());
    let peak = spike(&mut guest, DOWNLOADS);
    assert!(
        peak > start + start / 2,
        "no spike: {start} KiB, then {peak} KiB"
    );
    assert!(
        peak < start + SPIKE_MAX,
        "too much: {start} KiB, then {peak} KiB"
    );
    let begun = Instant::now();
    let most = start + start / 10;
    while resident(guest.gateway()) > most {
        let now = resident(guest.gateway());
        let figures = format!("start {start} KiB, peak {peak} KiB, now {now} KiB");
        assert!(begun.elapsed() < BACK_WITHIN, "{figures}");
        std::thread::sleep(Duration::from_millis(100));
    }
    println!(
        "start {start} KiB, peak {peak} KiB, back after {:?}",
        begun.elapsed()
    );
    let reclaim = reclaimed(guest.id());
    println!("{reclaim}");
    let pages = reclaim["pages"].as_u64().expect("a number");
    let longest = reclaim["longest_tick_us"].as_u64().expect("a number");
    assert!(pages > 0 && longest > 0, "{reclaim}");
    guest.say("0");
    guest.finish().good();
}

/// A cgroup with little memory, until it is dropped.
struct SmallCgroup(PathBuf);

impl SmallCgroup {
    /// # Errors
    /// The machine's cgroups are not those of version 1, or may not be changed.
    fn new(bytes: u64) -> Result<SmallCgroup, String> {
        let group = PathBuf::from(format!("{ALL}/mbuma-e2e-{}", std::process::id()));
        let made = fs::create_dir(&group)
            .and_then(|()| fs::write(group.join("memory.limit_in_bytes"), bytes.to_string()));
        let group = SmallCgroup(group);
        made.map(|()| group)
            .map_err(|e| format!("no memory cgroup of version 1 can be made: {e}"))
    }
}

impl Drop for SmallCgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// The hierarchy of memory.
const ALL: &str = "/sys/fs/cgroup/memory";

#[test]
fn a_spike_does_not_end_a_gateway_with_little_memory() {
    // Breaks when the gateway process takes more for the packets of 900 downloads than its cgroup has, 24 MiB: the
    // kernel then kills it. Or when no line on standard error tells that buffers came near to their limit.
    needs!(guests(), root(), programs(&["python3"]));
    let _alone = alone();
    let group = SmallCgroup::new(24 << 20);
    needs!(group.as_ref().map(|_| ()).map_err(Clone::clone));
    let group = group.expect("it was made");
    let server = Endless::start_for_many();
    let port = server.port().to_string();
    let join = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.0.display());
    // COMMAND is a process of the guest, whose memory does not count here.
    let leave = format!("echo $$ > {ALL}/cgroup.procs; exec \"$@\"");
    let mut command = program("sh");
    command.args(["-c", &join, "sh", MBUMA, "run", "--host-loopback", "--"]);
    command.args(["sh", "-c", &leave, "sh"]);
    command.args(["python3", "-I", "-S", "-u", "-c", SPIKE, &port]);
    let mut guest = Running::start(command);
    let peak = spike(&mut guest, "900");
    println!("peak {peak} KiB");
    guest.say("0");
    let ended = guest.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let told = ["buffers: zone ", " % of its limit were reached"];
    assert!(
        told.iter().all(|part| ended.err.contains(part)),
        "{ended:#?}"
    );
}

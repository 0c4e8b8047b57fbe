//! A real web server and a real client, each in a network namespace of its own behind a TAP, with an epair between the
//! TAPs: the kernel's TCP at both ends, and only the hand-off in the middle is ours.
//!
//! ```text
//!   namespace 1                      a process in a namespace of its own                    namespace 2
//!   nginx -- tap1 ==== thread --> [plug a] == epair == [plug b] --> task ==== tap2 -- curl
//!                 ==== task   <--                               <-- thread ====
//! ```
//!
//! curl reports for each page how long connecting took, which stalled in seed 003.
//!
//! Invariants: every process that was started is ended; a note reports a machine that cannot run the case.

use super::histogram::Histogram;
use super::options::Options;
use super::result::{Shown, empty, times};
use super::runner::Runner;
use super::{Case, Design};
use crate::Error;
use crate::harness::namespace::{self, check};
use crate::harness::progress::Progress;
use crate::harness::tap;
use kern::{Task, Taskqueue};
use mbuf::{MbufPool, Mbufq, PoolConfig};
use mbuma::device::epair::{EpairConfig, EpairEnd, Plug};
use mbuma::device::tap::{Offloads, Tap, TapOptions};
use mbuma::device::{Budget, Device};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

const SERVER: &str = "192.0.2.1";
const PORT: &str = "8080";
const TAP: TapOptions = TapOptions {
    mtu: 1500,
    offloads: Offloads::NONE,
};

/// Starts the process, and counts the lines of its output.
pub(crate) fn measure(options: &Options, progress: &mut Progress) -> Shown {
    progress.say("programs: a server and a client, in namespaces");
    let mut shown = Shown::default();
    match run_child(options) {
        Ok(text) => fill(&mut shown, &text),
        Err(why) => {
            let mut record = empty(Case::Programs, Design::Mbuma, "us");
            record.note = format!("skipped: {why}");
            shown.records.push(record);
        }
    }
    shown
}

/// Lines of the child: the server, then two numbers a page.
fn fill(shown: &mut Shown, text: &str) {
    let mut lines = text.lines();
    let served = lines.next().unwrap_or_default();
    let (mut connect, mut whole) = (Histogram::new(), Histogram::new());
    for line in lines {
        let mut ns = line
            .split(' ')
            .filter_map(|s| s.parse::<f64>().ok().map(|s| (s * 1e9) as u64));
        if let (Some(connected), Some(done)) = (ns.next(), ns.next()) {
            connect.add(connected);
            whole.add(done);
        }
    }
    let note = format!("{} pages, connecting", whole.total());
    shown
        .records
        .extend(times(Case::Programs, Design::Mbuma, &connect, &note));
    shown.histograms.push((Design::Mbuma.name(), connect));
    shown.note = format!(
        "\n  {served} to curl; a page took {:.0} us or less in 99 of 100, {:.0} us at worst\n",
        whole.quantile_ns(0.99) / 1e3,
        whole.worst_ns() as f64 / 1e3
    );
}

/// Runs this program in a namespace where it may make devices.
fn run_child(options: &Options) -> Result<String, String> {
    let Some((program, arguments)) = options.child.split_first() else {
        return Err("it takes a process of its own".to_owned());
    };
    let way = namespace::way(namespace::MAY_MAKE_TAPS)
        .ok_or("no /dev/net/tun, or no right to make a namespace")?;
    let output = Command::new("unshare")
        .args(way)
        .arg(program)
        .args(arguments)
        .arg(options.pages.to_string())
        .output()
        .map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(said),
    }
}

/// The work of the process in the namespace: makes the network, gets `pages` pages, writes the server and the time of
/// each.
///
/// # Errors
/// [`Error`]: a program is missing or failed, or `out` cannot be written.
pub fn child(pages: &str, out: &mut dyn Write) -> Result<(), Error> {
    let pages: u64 = pages
        .parse()
        .map_err(|_| Error::Bad(format!("`{pages}` is no number of pages")))?;
    // The end of the process ends the threads that read from TAPs, which no other event wakes.
    serve_and_get(pages, out).map_err(|source| Error::Io {
        doing: "running programs in namespaces".to_owned(),
        source,
    })
}

fn serve_and_get(pages: u64, out: &mut dyn Write) -> io::Result<()> {
    let pool = MbufPool::new(PoolConfig::default()).map_err(io::Error::other)?;
    let runner = Runner::new();
    let (a, b) = EpairEnd::pair(EpairConfig::default());
    let server = Namespace::new("tap1", "192.0.2.1/24", &a, &pool, runner.queue())?;
    let client = Namespace::new("tap2", "192.0.2.2/24", &b, &pool, runner.queue())?;
    let scratch = Scratch::new()?;
    let (mut serving, what) = start_server(&server, scratch.path())?;
    let up = wait_until_served(&client);
    let got = if up {
        get(&client, pages)
    } else {
        Err(io::Error::other("the server does not answer"))
    };
    end(&mut serving);
    writeln!(out, "{what}")?;
    out.write_all(&got?)
}

/// A namespace with one interface, whose other end this process has.
struct Namespace {
    /// It lasts as long as this process, which only sleeps.
    holder: Child,
}

impl Namespace {
    /// Makes a namespace and its TAP, and joins that to an end of the epair.
    fn new(
        name: &str,
        addr: &str,
        end: &EpairEnd,
        pool: &MbufPool,
        queue: &Arc<Taskqueue>,
    ) -> io::Result<Self> {
        let fd = tap::make(name)?;
        let holder = Command::new("unshare")
            .args(["--net", "sleep", "600"])
            .spawn()?;
        let this = Self { holder };
        this.wait_for_it()?;
        let pid = this.holder.id().to_string();
        check(Command::new("ip").args(["link", "set", name, "netns", &pid]))?;
        check(this.command("ip").args(["link", "set", "lo", "up"]))?;
        check(this.command("ip").args(["addr", "add", addr, "dev", name]))?;
        check(this.command("ip").args(["link", "set", name, "up"]))?;
        let tap = Arc::new(Tap::from_fd(fd, TAP, pool));
        let plug = Arc::new(end.plug());
        plug.set_waker(to_tap(&plug, &tap, queue));
        thread::spawn(move || from_tap(&tap, &plug));
        Ok(this)
    }

    /// A command that runs inside.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.holder.id()));
        command.arg("--").arg(program);
        command
    }

    /// unshare has entered its namespace when that is another than ours.
    fn wait_for_it(&self) -> io::Result<()> {
        let begin = Instant::now();
        let theirs = format!("/proc/{}/ns/net", self.holder.id());
        while fs::read_link(&theirs)? == fs::read_link("/proc/self/ns/net")? {
            if begin.elapsed() > PATIENCE {
                return Err(io::Error::other("unshare --net has no effect"));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        end(&mut self.holder);
    }
}

/// Moves frames from the guest to the cable, for ever.
fn from_tap(tap: &Tap, plug: &Plug) {
    let one = Budget {
        frames: 1,
        bytes: usize::MAX,
    };
    let mut frames = Mbufq::new();
    while tap.receive(&mut frames, one).is_ok() && plug.transmit(&mut frames).is_ok() {
        // A frame without room is lost, as on a wire.
        drop(frames.take_all());
    }
}

/// A task that moves frames from the cable to the guest, and its waker.
fn to_tap(plug: &Arc<Plug>, tap: &Arc<Tap>, queue: &Arc<Taskqueue>) -> Waker {
    struct OnTask(Arc<Taskqueue>, Arc<Task>);
    impl Wake for OnTask {
        fn wake(self: Arc<Self>) {
            self.0.enqueue(&self.1);
        }
    }
    let (plug, tap, comes_back) = (Arc::downgrade(plug), Arc::clone(tap), Arc::downgrade(queue));
    let task = Arc::new_cyclic(|me: &Weak<Task>| {
        let me = Weak::clone(me);
        Task::new(move || {
            let mut frames = Mbufq::new();
            let all = Budget {
                frames: usize::MAX,
                bytes: usize::MAX,
            };
            let more = plug
                .upgrade()
                .is_some_and(|plug| plug.receive(&mut frames, all).unwrap_or(false));
            // The removal of the TAP ends the thread that reads from it.
            let _ = tap.transmit(&mut frames);
            if let (true, Some(queue), Some(me)) = (more, comes_back.upgrade(), me.upgrade()) {
                queue.enqueue(&me);
            }
        })
    });
    Arc::new(OnTask(Arc::clone(queue), task)).into()
}

/// nginx, where it is installed, else the server that comes with Python; one process, so that killing it ends it.
fn start_server(at: &Namespace, scratch: &Path) -> io::Result<(Child, &'static str)> {
    fs::write(scratch.join("index.html"), [b'x'; 600])?;
    let quiet = |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if found("nginx") {
        let dir = scratch.display();
        // nginx gives its directories to its user, and the user namespace of an ordinary user has only root.
        let config = format!(
            "user root; daemon off; master_process off; pid {dir}/pid; error_log {dir}/errors; events {{}} \
             http {{ access_log off; client_body_temp_path {dir}; proxy_temp_path {dir}; \
             fastcgi_temp_path {dir}; uwsgi_temp_path {dir}; scgi_temp_path {dir}; \
             server {{ listen {SERVER}:{PORT}; root {dir}; }} }}"
        );
        let path = scratch.join("nginx.conf");
        fs::write(&path, config)?;
        let child = quiet(
            at.command("nginx")
                .arg("-c")
                .arg(path)
                .arg("-p")
                .arg(scratch),
        )?;
        return Ok((child, "nginx"));
    }
    let child = quiet(
        at.command("python3")
            .args(["-m", "http.server", PORT, "--bind", SERVER, "--directory"])
            .arg(scratch),
    )?;
    Ok((child, "python3 -m http.server (nginx is not installed)"))
}

fn found(program: &str) -> bool {
    Command::new(program).arg("-v").output().is_ok()
}

fn wait_until_served(client: &Namespace) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if get(client, 1).is_ok() {
            return true;
        }
        thread::sleep(Duration::from_millis(50));
    }
    false
}

/// Connects, gets and closes, `pages` times one after the other; two times in seconds a line.
fn get(client: &Namespace, pages: u64) -> io::Result<Vec<u8>> {
    let output = client
        .command("curl")
        .args([
            "-sS",
            "--noproxy",
            "*",
            "-m",
            "30",
            "-H",
            "Connection: close",
            "-o",
            "/dev/null",
        ])
        .args(["-w", "%{time_connect} %{time_total}\n"])
        .arg(format!("http://{SERVER}:{PORT}/index.html?[1-{pages}]"))
        .output()?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )),
    }
}

fn end(child: &mut Child) {
    // It fails if the process has ended.
    let _ = child.kill();
    let _ = child.wait();
}

/// A directory that is removed with its owner.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("mbuma-lab-{}", process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A file left in a directory of temporary files does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The time that a process may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

//! The servers: one thread each, on a CPU of its own, with the files of all cases.

use super::case::{CASES, Case};
use super::client;
use crate::harness::choice::Kind;
use crate::harness::namespace::{check, ip};
use crate::harness::process::Kept;
use crate::run::found::Found;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A line of the list.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// The name, in all output.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// One line for `--list`.
    pub(crate) about: &'static str,
    start: fn(&Place<'_>) -> io::Result<Kept>,
}

/// All servers, in the order in which they are shown.
pub(crate) const CATALOG: &[Entry] = &[
    Entry {
        name: "mbuma",
        kind: Kind::Ours,
        about: "this program, as `mbuma serve --workers 1`, by a TAP",
        start: mbuma,
    },
    Entry {
        name: "nginx",
        kind: Kind::Peer,
        about: "nginx with one worker process and sendfile, by a veth pair",
        start: nginx,
    },
];

/// Where a server starts.
struct Place<'a> {
    tool: &'a Path,
    /// The directory of the files, and another one for a configuration.
    files: &'a Path,
    scratch: &'a Path,
    cpu: usize,
}

/// A server that serves, and the CPU of its client.
pub(crate) struct Contest {
    server: Kept,
    client_cpu: usize,
    _scratch: ScratchDir,
}

/// The server's address.
const ADDR: &str = "192.0.2.2";
const PORT: u16 = 80;
/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(10);

impl Contest {
    /// Makes the files and starts the server; returns no note.
    pub(crate) fn new(
        entry: &Entry,
        tool: &Path,
        (server_cpu, client_cpu): (usize, usize),
    ) -> io::Result<(Self, String)> {
        ip("link set lo up")?;
        let scratch = ScratchDir::new()?;
        let files = scratch.0.join("files");
        fs::create_dir(&files)?;
        for case in CASES {
            fs::write(files.join(name_of(case)), noise(case.size))?;
        }
        let server = (entry.start)(&Place {
            tool,
            files: &files,
            scratch: &scratch.0,
            cpu: server_cpu,
        })?;
        let mut this = Self {
            server,
            client_cpu,
            _scratch: scratch,
        };
        this.wait_until_served()?;
        Ok((this, String::new()))
    }

    fn wait_until_served(&mut self) -> io::Result<()> {
        let begin = Instant::now();
        loop {
            let Err(why) = self.fetch(&CASES[0], Duration::ZERO) else {
                return Ok(());
            };
            if self.server.has_ended() {
                return Err(io::Error::other("the server ended"));
            }
            if begin.elapsed() > PATIENCE {
                return Err(why);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// One reading.
    pub(crate) fn reading(&mut self, case: &Case, time: Duration) -> io::Result<Found> {
        let before = self.server.cpu_time();
        let mut found = self.fetch(case, time)?;
        let took = self.server.cpu_time().saturating_sub(before);
        found.peak_mb = self.server.peak_mb();
        found.cpu_s_per_gb = (found.bytes > 0 && !took.is_zero())
            .then(|| took.as_nanos() as f64 / found.bytes as f64);
        Ok(found)
    }

    fn fetch(&self, case: &Case, time: Duration) -> io::Result<Found> {
        let at = SocketAddr::new(ADDR.parse().map_err(io::Error::other)?, PORT);
        client::fetch(at, &name_of(case), case.connections, time, self.client_cpu)
    }
}

fn mbuma(place: &Place<'_>) -> io::Result<Kept> {
    let mut command = Command::new("taskset");
    command.args(["-c", &place.cpu.to_string()]).arg(place.tool);
    command.arg("serve").arg(place.files);
    command.args([
        "--tap",
        "srv0",
        "--address",
        &format!("{ADDR}/24"),
        "--workers",
        "1",
    ]);
    started(command)
}

fn nginx(place: &Place<'_>) -> io::Result<Kept> {
    let (root, scratch) = (place.files.display(), place.scratch.display());
    let conf = format!(
        "user root; daemon off; worker_processes 1; pid {scratch}/pid; error_log /dev/null;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ sendfile on; tcp_nopush on; access_log off; keepalive_requests 1000000000;\n\
         client_body_temp_path {scratch}; proxy_temp_path {scratch}; fastcgi_temp_path {scratch};\n\
         uwsgi_temp_path {scratch}; scgi_temp_path {scratch};\n\
         server {{ listen {PORT}; root {root}; }} }}\n"
    );
    let path = place.scratch.join("nginx.conf");
    fs::write(&path, conf)?;
    let mut command = Command::new("unshare");
    command.args([
        "--net",
        "taskset",
        "-c",
        &place.cpu.to_string(),
        "nginx",
        "-c",
    ]);
    command.arg(&path);
    let mut server = started(command)?;
    join_namespaces(&mut server)?;
    Ok(server)
}

/// Joins this namespace with that of a server by a veth pair, once the server has one of its own.
fn join_namespaces(server: &mut Kept) -> io::Result<()> {
    let net = format!("/proc/{}/ns/net", server.id());
    let (ours, begin) = (fs::read_link("/proc/self/ns/net")?, Instant::now());
    while fs::read_link(&net)? == ours {
        if server.has_ended() || begin.elapsed() > PATIENCE {
            return Err(io::Error::other("it did not start: is nginx installed?"));
        }
        thread::sleep(Duration::from_millis(1));
    }
    ip(&format!(
        "link add near0 type veth peer name far0 netns {}",
        server.id()
    ))?;
    ip("addr add 192.0.2.1/24 dev near0")?;
    ip("link set near0 up")?;
    for words in [
        &format!("addr add {ADDR}/24 dev far0")[..],
        "link set far0 up",
    ] {
        let ip = ["--", "ip"].into_iter().chain(words.split(' '));
        check(Command::new("nsenter").arg(format!("--net={net}")).args(ip))?;
    }
    Ok(())
}

fn started(mut command: Command) -> io::Result<Kept> {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null());
    Kept::start(silent.stderr(Stdio::null()))
}

/// The file of a case.
fn name_of(case: &Case) -> String {
    format!("{}.bin", case.size)
}

/// Bytes without a pattern.
fn noise(len: usize) -> Vec<u8> {
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        // Marsaglia's xorshift.
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A directory that goes away.
struct ScratchDir(PathBuf);

impl ScratchDir {
    fn new() -> io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("mbuma-lab-serve-{}", std::process::id()));
        fs::create_dir(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

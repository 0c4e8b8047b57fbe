//! The servers: one thread each, on one CPU.

use super::case::{Case, Load};
use super::client::{self, Answers};
use super::files::ScratchDir;
use super::quota::CpuQuota;
use super::slow::SlowClients;
use crate::harness::choice::Kind;
use crate::harness::namespace::{check, ip};
use crate::harness::process::Kept;
use crate::run::found::Found;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
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
        about: "this program, as `mbuma serve --workers 1 --cache 2G`, by a TAP",
        start: mbuma,
    },
    Entry {
        name: "nginx",
        kind: Kind::Peer,
        about: "nginx with one worker process, sendfile and open_file_cache, OpenSSL, by a veth pair",
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
    identity: Option<Identity>,
    quota: Option<&'a CpuQuota>,
    connections_max: usize,
}

/// Seconds for the head of a request, of both servers.
const HEAD_SECONDS: u32 = 10;

/// A certificate of a key on P-256, and the key.
struct Identity {
    certificate: PathBuf,
    key: PathBuf,
}

/// A server that serves, and the CPU of its client.
pub(crate) struct Contest {
    case: &'static Case,
    /// Declared before the server, so that they end first.
    slow: Option<SlowClients>,
    server: Kept,
    /// Declared behind the server, so that the server ends first.
    quota: Option<CpuQuota>,
    client_cpu: usize,
    scratch: ScratchDir,
}

/// The server's address.
const ADDR: &str = "192.0.2.2";
/// The time that a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(10);

impl Contest {
    /// Starts the server; returns a note.
    pub(crate) fn new(
        entry: &Entry,
        case: &'static Case,
        tool: &Path,
        files: &Path,
        cpus: (usize, usize),
    ) -> io::Result<(Self, String)> {
        ip("link set lo up")?;
        let scratch = ScratchDir::new("server")?;
        let (cpu, client_cpu) = case.cpus(cpus);
        let quota = case.quota.map(CpuQuota::new).transpose()?;
        let server = (entry.start)(&Place {
            tool,
            files,
            scratch: scratch.path(),
            cpu,
            identity: case
                .tls
                .then(|| Identity::made(scratch.path()))
                .transpose()?,
            quota: quota.as_ref(),
            connections_max: case.connections_max(),
        })?;
        let mut this = Self {
            case,
            slow: None,
            server,
            quota,
            client_cpu,
            scratch,
        };
        this.wait_until_served()?;
        if let Some(quota) = &this.quota {
            quota.impose()?;
        }
        if case.slow > 0 {
            let at = this.address()?;
            this.slow = Some(SlowClients::start(at, case.slow, client_cpu)?);
        }
        Ok((this, note(entry, case)))
    }

    fn wait_until_served(&mut self) -> io::Result<()> {
        let begin = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(begin.elapsed());
            let Err(why) = TcpStream::connect_timeout(&self.address()?, left) else {
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
    pub(crate) fn reading(&mut self, time: Duration) -> io::Result<Found> {
        let before = self.server.cpu_time();
        let answers = self.load(time)?;
        let took = self.server.cpu_time().saturating_sub(before).as_secs_f64();
        if let Some(quota) = &self.quota {
            quota.check_used(took, answers.seconds)?;
        }
        self.slow.as_ref().map_or(Ok(()), SlowClients::check)?;
        // A client that waits for the server's next period measures the quota, and no latency.
        let latency = |us: Option<f64>| us.filter(|_| self.quota.is_none());
        let for_cpu = |much: f64| (much > 0.0 && took > 0.0).then(|| much / took);
        Ok(Found {
            bytes: answers.bytes,
            gbps: Some(answers.bytes as f64 * 8e-9 / answers.seconds),
            per_s: Some(answers.count as f64 / answers.seconds),
            per_cpu_s: for_cpu(answers.count as f64),
            p50_us: latency(answers.p50_us),
            p99_us: latency(answers.p99_us),
            client_percent: Some(answers.cpu_percent),
            peak_mb: self.server.peak_mb(),
            // Handshakes carry little payload, so these cases have no CPU time for each GB.
            cpu_s_per_gb: for_cpu(answers.bytes as f64)
                .filter(|_| self.case.load == Load::Requests)
                .map(|rate| 1e9 / rate),
            ..Found::default()
        })
    }

    fn load(&self, time: Duration) -> io::Result<Answers> {
        let (at, case) = (self.address()?, self.case);
        client::load(at, case, time, self.client_cpu, self.scratch.path())
    }

    fn address(&self) -> io::Result<SocketAddr> {
        let addr = ADDR.parse().map_err(io::Error::other)?;
        Ok(SocketAddr::new(addr, port_of(self.case.tls)))
    }
}

impl Identity {
    fn made(scratch: &Path) -> io::Result<Self> {
        let this = Self {
            certificate: scratch.join("certificate.pem"),
            key: scratch.join("key.pem"),
        };
        let mut command = Command::new("openssl");
        command
            .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes".split(' '));
        command.args(["-days", "30", "-subj", "/CN=lab", "-out"]);
        command.arg(&this.certificate).arg("-keyout").arg(&this.key);
        check(&mut command)?;
        Ok(this)
    }
}

/// The conditions of a server's figures, beside those of its case.
fn note(entry: &Entry, case: &Case) -> String {
    let no_ktls = entry.kind == Kind::Peer && case.tls && !has_ktls();
    let notes = [
        no_ktls.then(|| "this kernel has no TLS".to_owned()),
        case.quota.map(|percent| {
            let handshakes = match case.load {
                Load::Requests => "",
                _ => ", P-256, one request a connection, no resumption",
            };
            format!("one worker with {percent} % of a CPU (cgroup){handshakes}")
        }),
    ];
    notes.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn port_of(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

/// Whether this kernel seals records for sockets.
fn has_ktls() -> bool {
    Path::new("/proc/net/tls_stat").exists()
}

fn mbuma(place: &Place<'_>) -> io::Result<Kept> {
    let mut command = Command::new("taskset");
    command.args(["-c", &place.cpu.to_string()]).arg(place.tool);
    command.arg("serve").arg(place.files);
    command.args(["--tap", "srv0", "--address", &format!("{ADDR}/24")]);
    // A file takes a quarter of the cache at most.
    command.args(["--workers", "1", "--cache", "2G"]);
    command.args(["--connections", &place.connections_max.to_string()]);
    if let Some(Identity { certificate, key }) = &place.identity {
        command.arg("--tls").arg(certificate).arg(key);
    }
    started(place, command)
}

fn nginx(place: &Place<'_>) -> io::Result<Kept> {
    let (root, scratch) = (place.files.display(), place.scratch.display());
    let (port, connections) = (port_of(place.identity.is_some()), place.connections_max);
    let tls = place.identity.as_ref().map_or(String::new(), |identity| {
        let (certificate, key) = (identity.certificate.display(), identity.key.display());
        format!(
            "ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_buffer_size 16k;\n\
             ssl_protocols TLSv1.2 TLSv1.3; ssl_prefer_server_ciphers on;\n\
             ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; ssl_conf_command Options KTLS;\n"
        )
    });
    let ssl = if tls.is_empty() { "" } else { " ssl" };
    let conf = format!(
        "user root; daemon off; worker_processes 1; pid {scratch}/pid; error_log /dev/null;\n\
         worker_rlimit_nofile {}; events {{ worker_connections {connections}; }}\n\
         http {{ sendfile on; tcp_nopush on; access_log off; keepalive_requests 1000000000;\n\
         client_header_timeout {HEAD_SECONDS}s;\n\
         open_file_cache max=100; open_file_cache_valid 60s; open_file_cache_min_uses 1;\n\
         client_body_temp_path {scratch}; proxy_temp_path {scratch}; fastcgi_temp_path {scratch};\n\
         uwsgi_temp_path {scratch}; scgi_temp_path {scratch};\n\
         server {{ listen {port}{ssl} backlog=4096; {tls} root {root}; }} }}\n",
        connections + 100
    );
    let path = place.scratch.join("nginx.conf");
    fs::write(&path, conf)?;
    let mut command = Command::new("unshare");
    command.args(["--net", "taskset", "-c", &place.cpu.to_string()]);
    command.args(["nginx", "-c"]).arg(&path);
    let mut server = started(place, command)?;
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

fn started(place: &Place<'_>, command: Command) -> io::Result<Kept> {
    let mut command = match place.quota {
        Some(quota) => quota.inside(&command),
        None => command,
    };
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null());
    Kept::start(silent.stderr(Stdio::null()))
}

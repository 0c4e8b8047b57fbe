//! `mbuma-sim script FILE...`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use sim::script::{Dialect, Script, ScriptReport, ScriptVerdict, Settings};

/// Runs packet scripts.
#[derive(Debug, clap::Args)]
pub(crate) struct ScriptArgs {
    /// Scripts, and folders of scripts (*.pkt).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How far a packet may be from its time, in microseconds. Default 4000.
    #[arg(long = "tolerance_usecs", value_name = "US")]
    tolerance: Option<i64>,
    /// The system whose sockets and defaults the scripts expect: linux or bsd. By default the dialect of the script's
    /// text; without one, BSD's sockets and the stack's own defaults.
    #[arg(long, value_parser = dialect)]
    dialect: Option<Dialect>,
    /// A sysctl that is set before each script; may be given several times.
    #[arg(long = "sysctl", value_name = "NAME=VALUE")]
    sysctls: Vec<String>,
    /// A name for the scripts' #ifdef, or one that stands for a value; may be given several times. Without any,
    /// STANDARD.
    #[arg(short = 'D', long = "define", value_name = "NAME[=VALUE]")]
    defines: Vec<String>,
    /// The MTU of the link. Default 1500.
    #[arg(long)]
    mtu: Option<u16>,
    /// Runs them over IPv6: addresses stand for others, and MTUs are 20 bytes larger.
    #[arg(long)]
    ipv6: bool,
    /// Order and padding of TCP options count.
    #[arg(long)]
    strict_options: bool,
    /// Prints every script's trace, not only a failed one's.
    #[arg(long, short)]
    verbose: bool,
    /// Prints each report as a line of JSON.
    #[arg(long)]
    json: bool,
    /// Writes the frames of the one script to FILE.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Scripts that run at once. Default: as many as there are CPUs.
    #[arg(short, long)]
    jobs: Option<usize>,
}

fn dialect(name: &str) -> Result<Dialect, String> {
    Dialect::named(name).ok_or_else(|| format!("{name} is not bsd or linux"))
}

/// Runs them all, and prints their reports to `out`. The exit status is 0 if all passed, 1 if one did not, 2 if one is
/// no script.
///
/// # Errors
/// `out` takes no more.
pub(crate) fn run(args: &ScriptArgs, out: &mut impl Write) -> io::Result<ExitCode> {
    let began = Instant::now();
    let mut files = Vec::new();
    for path in &args.files {
        if let Err(error) = find(path, &mut files) {
            eprintln!("mbuma-sim: {}: {error}", path.display());
            return Ok(ExitCode::from(2));
        }
    }
    if args.pcap.is_some() && files.len() != 1 {
        eprintln!("mbuma-sim: --pcap takes one script, not {}", files.len());
        return Ok(ExitCode::from(2));
    }
    let results = run_all(&files, args);
    let mut counts = Counts::default();
    for (file, result) in files.iter().zip(&results) {
        match result {
            Ok(report) => {
                counts.add(&report.verdict);
                show(report, args, out)?;
            }
            Err(error) => {
                counts.invalid += 1;
                writeln!(out, "{}: no script: {error}", file.display())?;
            }
        }
    }
    if !args.json {
        counts.print(began, out)?;
    }
    Ok(counts.status())
}

/// Adds a file, or all scripts of a folder in the order of their names.
fn find(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        std::fs::metadata(path)?;
        files.push(path.to_owned());
        return Ok(());
    }
    let entries: io::Result<Vec<_>> = path.read_dir()?.collect();
    let mut paths: Vec<PathBuf> = entries?.iter().map(std::fs::DirEntry::path).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() || path.extension().is_some_and(|e| e == "pkt") {
            find(&path, files)?;
        }
    }
    Ok(())
}

/// The reports in the order of the files. Several threads each take the next file.
fn run_all(files: &[PathBuf], args: &ScriptArgs) -> Vec<Result<ScriptReport, String>> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.unwrap_or(cpus).clamp(1, files.len().max(1));
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![None; files.len()]);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                // Relaxed: only decides which thread takes which file.
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = run_one(file, args);
                    let place = files.iter().position(|f| f == file);
                    let mut results = results.lock().unwrap_or_else(|e| e.into_inner());
                    if let Some(slot) = place.and_then(|i| results.get_mut(i)) {
                        *slot = Some(result);
                    }
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(|e| e.into_inner());
    let missing = || Err("it was not run".to_owned());
    results
        .into_iter()
        .map(|result| result.unwrap_or_else(missing))
        .collect()
}

fn run_one(file: &Path, args: &ScriptArgs) -> Result<ScriptReport, String> {
    let text = std::fs::read_to_string(file).map_err(|e| e.to_string())?;
    let mut defines: BTreeSet<String> = args.defines.iter().cloned().collect();
    if defines.is_empty() {
        defines.insert("STANDARD".to_owned());
    }
    let name = file.display().to_string();
    let script = Script::parse(name, &text, &defines).map_err(|e| e.to_string())?;
    let mut settings = Settings::default();
    settings.tolerance = args.tolerance.unwrap_or(settings.tolerance);
    settings.mtu = args.mtu.unwrap_or(settings.mtu);
    settings.dialect = args.dialect;
    settings.strict_options = args.strict_options;
    settings.sysctls.clone_from(&args.sysctls);
    if args.ipv6 {
        settings = settings.over_ipv6();
    }
    match &args.pcap {
        None => Ok(script.run(&settings)),
        Some(path) => {
            let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
            Ok(script.run_captured(&settings, Box::new(BufWriter::new(file))))
        }
    }
}

fn show(report: &ScriptReport, args: &ScriptArgs, out: &mut impl Write) -> io::Result<()> {
    if args.json {
        return match serde_json::to_string(report) {
            Ok(line) => writeln!(out, "{line}"),
            Err(error) => writeln!(out, "{{\"error\": {:?}}}", error.to_string()),
        };
    }
    if args.verbose && report.passed() {
        let mut lines = report.trace.iter();
        lines.try_for_each(|line| writeln!(out, "    {line}"))?;
    }
    write!(out, "{report}")
}

#[derive(Debug, Default)]
struct Counts {
    passed: usize,
    failed: usize,
    unsupported: usize,
    invalid: usize,
}

impl Counts {
    fn add(&mut self, verdict: &ScriptVerdict) {
        match verdict {
            ScriptVerdict::Passed => self.passed += 1,
            ScriptVerdict::Failed(_) => self.failed += 1,
            ScriptVerdict::Unsupported { .. } => self.unsupported += 1,
        }
    }

    fn print(&self, began: Instant, out: &mut impl Write) -> io::Result<()> {
        let total = self.passed + self.failed + self.unsupported + self.invalid;
        writeln!(
            out,
            "\n scripts  passed  failed  unsupported  invalid  seconds"
        )?;
        writeln!(
            out,
            "{total:8}{:8}{:8}{:13}{:9}{:9.2}",
            self.passed,
            self.failed,
            self.unsupported,
            self.invalid,
            began.elapsed().as_secs_f64()
        )
    }

    fn status(&self) -> ExitCode {
        match (self.invalid, self.failed + self.unsupported) {
            (0, 0) => ExitCode::SUCCESS,
            (0, _) => ExitCode::FAILURE,
            _ => ExitCode::from(2),
        }
    }
}

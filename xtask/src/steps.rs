//! The steps of `ci`, each a command or a check.

use std::env;
use std::fs;
use std::panic;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crate::compare::output;
use crate::{programs, retest, tidy, witness_cost};

/// One step.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) in_ci: bool,
    lane: Lane,
    run: fn() -> bool,
}

/// Steps that run one after the other. The first lane runs alone, because its steps fail fastest; then the others run
/// at the same time, because each of them has long builds and long tests on one CPU, and tests that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    First,
    /// Has tests of real processes: the lanes below have a lower priority.
    Tests,
    Models,
    /// One thread links the release build, for longer than any other step.
    Release,
}

/// The packages with a library that programs build on.
const LIBRARIES: [&str; 5] = [
    "mbuma-kern",
    "mbuma-uma",
    "mbuma-mbuf",
    "mbuma-wire",
    "mbuma",
];

/// The profile of optimised builds that only steps use, and the directory of its builds below `target`.
const QUICK: &str = "quick";

/// Every step, each lane in the order of `ci`.
pub(crate) fn all() -> Vec<Step> {
    let new = |in_ci, lane, name, run| Step {
        name,
        in_ci,
        lane,
        run,
    };
    let step = |lane, name, run| new(true, lane, name, run);
    let aside = |name, run| new(false, Lane::First, name, run);
    vec![
        step(Lane::First, "fmt", || cargo("fmt --all --check", &[])),
        step(Lane::First, "tidy", tidy::run),
        step(Lane::First, "clippy", || {
            let clippy = ["clippy", "-q", "--all-targets"];
            let all = [&clippy[..], &programs::WITH, &["--", "-D", "warnings"]].concat();
            cargo(&all.join(" "), &[])
        }),
        step(Lane::Tests, "doc", doc),
        step(Lane::Tests, "package", package),
        step(Lane::Tests, "test", test),
        step(Lane::Tests, "engines", engines),
        step(Lane::Tests, "features", features),
        step(Lane::Tests, "giant", giant),
        step(Lane::Tests, "uma", uma),
        step(Lane::Tests, "storm", storm),
        step(Lane::Models, "shuttle", shuttle),
        step(Lane::Models, "loom", loom),
        step(Lane::Models, "witness-cost", || {
            witness_cost::run(QUICK, &target_dir().join(QUICK))
        }),
        step(Lane::Release, "readme", readme),
        aside("schemes", schemes),
        aside("invariants", invariants),
        aside("asan", asan),
    ]
}

/// Runs the steps. After the first that fails no lane begins another.
pub(crate) fn run(steps: &[Step]) -> ExitCode {
    let failed = Mutex::new(Vec::new());
    let run_lane = |lane| {
        for step in steps.iter().filter(|step| step.lane == lane) {
            let is_over = !failed.lock().expect("no step panics").is_empty();
            if is_over {
                break;
            }
            if !step.run() {
                failed.lock().expect("no step panics").push(step.name);
            }
        }
    };
    run_lane(Lane::First);
    thread::scope(|scope| {
        for lane in [Lane::Models, Lane::Release] {
            scope.spawn(move || {
                if steps.len() > 1 {
                    lower_priority();
                }
                run_lane(lane);
            });
        }
        run_lane(Lane::Tests);
    });
    let failed = failed.into_inner().expect("no step panics");
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    // Other lanes may have printed much since.
    println!("== FAILED: {}", failed.join(", "));
    ExitCode::FAILURE
}

/// Gives this thread, and so the processes that it starts, a lower priority than all tests of the lane of tests. A
/// system that refuses it runs them at the usual one.
fn lower_priority() {
    let thread = fs::read_link("/proc/thread-self").unwrap_or_default();
    if let Some(id) = thread.file_name() {
        let _ = Command::new("renice")
            .args(["-n", "15", "-p"])
            .arg(id)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

impl Step {
    /// Runs it, and prints the result. A step that panics has failed.
    fn run(&self) -> bool {
        println!("== {}", self.name);
        let start = Instant::now();
        let ok = panic::catch_unwind(self.run).unwrap_or(false);
        let result = if ok { "ok" } else { "FAILED" };
        println!("== {}: {result} in {:.0?}", self.name, start.elapsed());
        ok
    }
}

fn cargo(args: &str, vars: &[(&str, &str)]) -> bool {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args.split(' ')).envs(vars.iter().copied());
    run_command(&mut command)
}

pub(crate) fn run_command(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(e) => {
            eprintln!("can't run {:?}: {e}", command.get_program());
            false
        }
    }
}

/// Documentation without a warning: of the published libraries as their users build them, with default features and
/// with all, and of the other crates. Links to items of a feature fail only where the feature is off.
fn doc() -> bool {
    let each = |flag| LIBRARIES.map(|name| format!("{flag} {name}")).join(" ");
    let published = each("-p");
    let all_features = format!("{published} --all-features");
    let others = format!("--workspace {}", each("--exclude"));
    [&others, &published, &all_features].iter().all(|what| {
        cargo(
            &format!("doc -q --no-deps {what}"),
            &[("RUSTDOCFLAGS", "-D warnings")],
        )
    })
}

/// Checks that a registry would accept each crate as a package: names, versions and files. It builds none of them. The
/// licence asks that its text goes with each copy, so each package has it.
fn package() -> bool {
    let others = "--exclude mbuma-lab --exclude xtask";
    cargo(
        &format!("package -q --workspace {others} --no-verify --allow-dirty"),
        &[],
    ) && [&LIBRARIES[..], &["mbuma-sim", "mbuma-cli"]]
        .concat()
        .iter()
        .all(|name| has_license(name))
}

fn has_license(package: &str) -> bool {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut list = Command::new(cargo);
    list.args(["package", "-q", "--list", "--allow-dirty", "-p", package]);
    let has = output(&mut list).is_some_and(|files| files.lines().any(|file| file == "LICENSE"));
    if !has {
        eprintln!("{package}: its package lacks LICENSE, a link to the one at the root");
    }
    has
}

/// All tests. A test that this machine can't run writes a line to the file that `MBUMA_SKIPS` names.
fn test() -> bool {
    let skips = target_dir().join("skipped-tests");
    let _ = fs::remove_file(&skips);
    let ok = retest::run(&[("MBUMA_SKIPS", &skips.to_string_lossy())]);
    let text = fs::read_to_string(&skips).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines.iter().for_each(|line| println!("skipped: {line}"));
    println!(
        "{} tests skipped, because this machine lacks their needs",
        lines.len()
    );
    ok
}

/// Libraries without the features that all other steps turn on: sockets under tokio, TLS, extras of the allocator.
fn features() -> bool {
    cargo(
        "clippy -q -p mbuma -p mbuma-sim -p mbuma-uma --lib -- -D warnings",
        &[],
    )
}

/// Tests of the stack again with Giant over every stack: WITNESS must stay silent, and no test may hang.
fn giant() -> bool {
    let tests = ["mbuma", "giant", "epair", "net", "netisr_threads", "unix"];
    retest::run_package("mbuma", &tests, &[("MBUMA_GIANT", "1")])
}

/// Every interleaving of hand-off protocols.
fn loom() -> bool {
    // Tests of the same packages, so that dependencies with the same features are built once.
    let packages = "-p mbuma-kern -p mbuma-uma -p mbuma-mbuf";
    under(
        "loom",
        &[
            &format!("{packages} --test models"),
            &format!("{packages} --lib -- models"),
        ],
    )
}

/// Random orders of the protocols of the allocator, of packets that share clusters, of the stack and of
/// hand-offs, by a seed.
fn shuttle() -> bool {
    under(
        "shuttle",
        &[
            "-p mbuma-uma -p mbuma-mbuf -p mbuma --lib -- models",
            "-p mbuma-kern --test models",
        ],
    )
}

/// Random orders of the hand-offs of seed 003, which must be found wrong.
fn schemes() -> bool {
    under("shuttle", &["-p mbuma-lab --lib -- epair::schedules"])
}

/// Models by a checker, in a directory of its own, because the flag rebuilds everything. One model at a time: the
/// checkers map a stack for each thread of each order, and unmapping one in a process with two busy threads interrupts
/// the other CPU. Two models at a time take longer than one after the other.
fn under(checker: &str, tests: &[&str]) -> bool {
    let flags = format!("--cfg {checker}");
    let directory = target_dir().join(checker);
    let vars = [
        ("RUSTFLAGS", &*flags),
        ("CARGO_TARGET_DIR", &*directory.to_string_lossy()),
    ];
    tests.iter().all(|test| {
        let separator = if test.contains(" -- ") { "" } else { " --" };
        cargo(
            &format!("test -q --profile {QUICK} {test}{separator} --test-threads 1"),
            &vars,
        )
    })
}

/// The allocator again: with its caches under locks, as on systems without sections; and with the expensive checks.
fn uma() -> bool {
    let names = ["--lib".to_owned()].into_iter().chain(tests_of("uma"));
    let all = names.collect::<Vec<_>>().join(" ");
    retest::run_package("uma", &[], &[("UMA_PERCPU", "locked")])
        && with_feature("uma", "invariants", &all)
        && with_feature("uma", "invariants", "--doc")
        && with_feature("mbuf", "invariants", "--lib --test fail")
}

/// The arguments that choose all test programs of a crate, but that of its library.
fn tests_of(package: &str) -> Vec<String> {
    let files = fs::read_dir(format!("crates/{package}/tests")).expect("the crate has tests");
    let paths = files.map(|file| file.expect("the directory can be read").path());
    let is_program = |path: &PathBuf| match path.is_dir() {
        true => path.join("main.rs").exists(),
        false => path.extension().is_some_and(|end| end == "rs"),
    };
    let name = |path: PathBuf| Some(format!("--test {}", path.file_stem()?.to_str()?));
    paths.filter(is_program).filter_map(name).collect()
}

/// The allocator's sections, stretched so that many are interrupted, for some seconds; and
/// unannounced, when the same test must see them break.
fn storm() -> bool {
    with_feature("uma", "stretched", "--test storm")
}

/// These tests of a crate, with one more feature. The tool is named beside it, although it has none of the tests: the
/// packages of others then have the features with which they were built before, and are not built again.
fn with_feature(package: &str, feature: &str, tests: &str) -> bool {
    let package = format!("mbuma-{package}");
    cargo(
        &format!("test -q -p {package} -p mbuma-cli --features {package}/{feature} {tests}"),
        &[],
    )
}

/// Invariants where they cost: in release builds they are checked with the feature, and without it their conditions are
/// not evaluated. The tests know in which of the two builds they run.
fn invariants() -> bool {
    ["", " --features invariants"].iter().all(|feature| {
        let test = |name| format!("test -q --profile {QUICK} --lib -p {name}{feature} --");
        cargo(&format!("{} invariant", test("mbuma-kern")), &[])
            && cargo(&format!("{} tcp::reass", test("mbuma")), &[])
    })
}

fn asan() -> bool {
    let dir = target_dir().join("asan");
    let vars = [
        ("RUSTC_BOOTSTRAP", "1"),
        ("RUSTFLAGS", "-Zsanitizer=address --cfg uma_asan"),
        ("CARGO_TARGET_DIR", &*dir.to_string_lossy()),
    ];
    cargo(
        "test -q -p mbuma-uma -p mbuma-mbuf --lib --tests --target x86_64-unknown-linux-gnu",
        &vars,
    ) && cargo(
        "test -q -p mbuma --test epair --test churn --target x86_64-unknown-linux-gnu",
        &vars,
    )
}

/// Container engines with the tool in the place of slirp4netns; names the parts that it skips.
fn engines() -> bool {
    // The tests have made its debug build. Built alone, it would be built again, with fewer features of its
    // dependencies.
    programs::build().is_some() && run_command(&mut Command::new("scripts/engines.sh"))
}

/// The README's first command: a page from inside the stack.
fn readme() -> bool {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut build = Command::new(&cargo);
    if !run_command(build.args(["build", "-q", "--release"])) {
        return false;
    }
    let page = "run -q --release -- run -- curl -sS http://10.0.2.2/";
    match Command::new(&cargo).args(page.split(' ')).output() {
        Ok(out) if out.status.success() => String::from_utf8_lossy(&out.stdout).contains("mbuma"),
        Ok(out) => {
            let text = String::from_utf8_lossy(&out.stderr);
            let unable = ["/dev/net/tun", "user namespace"]
                .iter()
                .any(|w| text.contains(w));
            println!("{text}");
            if unable {
                println!("skipped: this machine does not let us make the guest's network");
            }
            unable
        }
        Err(_) => false,
    }
}

pub(crate) fn target_dir() -> PathBuf {
    let dir =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let _ = fs::create_dir_all(&dir);
    fs::canonicalize(&dir).unwrap_or(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn a_lane_ends_after_a_failure_in_another() {
        // Breaks if a failed step is not reported, or others begin after it.
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        let step = |lane, run| Step {
            name: "a test's step",
            in_ci: true,
            lane,
            run,
        };
        let begin: fn() -> bool = || {
            BEGUN.fetch_add(1, Relaxed);
            true
        };
        let all = [
            step(Lane::Tests, begin),
            step(Lane::Models, begin),
            step(Lane::Models, begin),
        ];
        assert_eq!(run(&all), ExitCode::SUCCESS);
        assert_eq!(BEGUN.swap(0, Relaxed), 3);
        let first_fails = [step(Lane::First, || false), step(Lane::Tests, begin)];
        assert_eq!(run(&first_fails), ExitCode::FAILURE);
        assert_eq!(BEGUN.swap(0, Relaxed), 0);
    }
}

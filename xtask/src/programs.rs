//! The test programs that `cargo test --workspace` built, run again as they are.
//!
//! Cargo builds a crate's tests anew when they are tested alone: the features of its dependencies depend on the
//! packages that are built with it. That would cost a minute.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The features with which all packages are built and tested, beside their defaults, so that one build serves every
/// step.
pub(crate) const WITH: [&str; 3] = ["--workspace", "--features", "mbuma/tokio,mbuma-sim/tls"];

/// Builds all tests. Returns their programs, or `None` if the build fails.
pub(crate) fn build() -> Option<Vec<Program>> {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["test", "-q", "--no-run"])
        .args(WITH)
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output();
    let output = output
        .inspect_err(|e| eprintln!("can't run cargo: {e}"))
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output
        .status
        .success()
        .then(|| text.lines().filter_map(parse).collect())
}

/// A test program that is built.
pub(crate) struct Program {
    directory: PathBuf,
    pub(crate) name: String,
    file: String,
}

/// The test program of a line of cargo's, if it has one.
fn parse(line: &str) -> Option<Program> {
    let (head, target) = line.split_once("\"target\":{")?;
    let (target, profile) = target.split_once("\"profile\":{")?;
    let (profile, _) = profile.split_once('}')?;
    let test = profile.contains("\"test\":true") && !target.contains("[\"example\"]");
    let program = Program {
        directory: Path::new(field(head, "manifest_path")?).parent()?.into(),
        name: field(target, "name")?.into(),
        file: field(line, "executable")?.into(),
    };
    test.then_some(program)
}

/// A text of this name. Cargo escapes no characters in file names without quotes.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

impl Program {
    /// The directory of its package, under `crates`.
    pub(crate) fn package(&self) -> Option<&str> {
        self.directory.file_name()?.to_str()
    }

    /// The program, to be run as cargo would.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command.arg("-q").current_dir(&self.directory);
        command
    }

    /// The same, at a lower priority than programs whose tests wait for real processes.
    pub(crate) fn command_beside(&self) -> Command {
        let mut command = Command::new("nice");
        command
            .args(["-n", "10", &self.file, "-q"])
            .current_dir(&self.directory);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_programs_are_found() {
        // Breaks if a program that is no test is run, or a test's name or crate is taken for another's.
        let line = |kind: &str, test: bool| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///w/crates/uma#0.1.0\",\
                 \"manifest_path\":\"/w/crates/uma/Cargo.toml\",\"target\":{{\"kind\":[\"{kind}\"],\"crate_types\":\
                 [\"bin\"],\"name\":\"storm\",\"doc\":false,\"test\":true}},\"profile\":{{\"opt_level\":\"1\",\
                 \"test\":{test}}},\"features\":[],\"executable\":\"/t/debug/deps/storm-1\",\"fresh\":true}}"
            )
        };
        let found = line("test", true);
        let program = parse(&found).expect("a test program");
        assert_eq!(program.package(), Some("uma"));
        assert_eq!(
            (&*program.name, &*program.file),
            ("storm", "/t/debug/deps/storm-1")
        );
        assert!(parse(&line("example", true)).is_none());
        assert!(parse(&line("bin", false)).is_none());
        assert!(parse("{\"reason\":\"build-finished\",\"success\":true}").is_none());
    }
}

//! The test programs that `cargo test --workspace` built, run again as they are.
//!
//! Cargo builds a crate's tests anew when they are tested alone: the features of its dependencies depend on the
//! packages that are built with it. That would cost a minute.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::steps::run_command;

/// Runs a crate's test programs, all or those of these names, in its directory.
pub(crate) fn run(package: &str, names: &[&str], vars: &[(&str, &str)]) -> bool {
    run_with(package, names, vars, &[])
}

/// The same, with arguments for each of the programs.
pub(crate) fn run_with(
    package: &str,
    names: &[&str],
    vars: &[(&str, &str)],
    args: &[&str],
) -> bool {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["test", "-q", "--workspace", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output();
    let Ok(output) = output.inspect_err(|e| eprintln!("can't run cargo: {e}")) else {
        return false;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let wanted = |program: &Program<'_>| {
        program.package() == Some(package) && (names.is_empty() || names.contains(&program.name))
    };
    let found: Vec<_> = text.lines().filter_map(parse).filter(wanted).collect();
    if !output.status.success() || found.is_empty() || found.len() < names.len() {
        eprintln!("{} programs of {package}", found.len());
        return false;
    }
    found.iter().all(|program| program.run(vars, args))
}

struct Program<'a> {
    directory: &'a Path,
    name: &'a str,
    file: &'a str,
}

/// The test program of a line of cargo's, if it has one.
fn parse(line: &str) -> Option<Program<'_>> {
    let (head, target) = line.split_once("\"target\":{")?;
    let (target, profile) = target.split_once("\"profile\":{")?;
    let (profile, _) = profile.split_once('}')?;
    let test = profile.contains("\"test\":true") && !target.contains("[\"example\"]");
    let program = Program {
        directory: Path::new(field(head, "manifest_path")?).parent()?,
        name: field(target, "name")?,
        file: field(line, "executable")?,
    };
    test.then_some(program)
}

/// A text of this name. Cargo escapes no characters in file names without quotes.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

impl Program<'_> {
    fn package(&self) -> Option<&str> {
        self.directory.file_name()?.to_str()
    }

    fn run(&self, vars: &[(&str, &str)], args: &[&str]) -> bool {
        let mut command = Command::new(self.file);
        command
            .arg("-q")
            .args(args)
            .current_dir(self.directory)
            .envs(vars.iter().copied());
        run_command(&mut command)
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
            (program.name, program.file),
            ("storm", "/t/debug/deps/storm-1")
        );
        assert!(parse(&line("example", true)).is_none());
        assert!(parse(&line("bin", false)).is_none());
        assert!(parse("{\"reason\":\"build-finished\",\"success\":true}").is_none());
    }
}

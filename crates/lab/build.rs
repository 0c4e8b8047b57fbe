//! Names the build: the version, and the commit if it was built in a repository.
//!
//! `cargo lab all` writes it into its report: a figure without the code that it is of is worth little.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let build = match git(&["describe", "--always", "--dirty", "--abbrev=12", "--match="]) {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo::rustc-env=MBUMA_BUILD={build}");
    // Another commit, or another source: then it is another build.
    println!("cargo::rerun-if-changed=..");
    let head = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    for file in head.iter().filter(|file| Path::new(file).exists()) {
        println!("cargo::rerun-if-changed={file}");
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

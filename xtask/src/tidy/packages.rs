//! Bounds the number of external packages that the tool links, because each is built before a first command runs, and
//! each is trusted. Checks that the tool is built without features that are for other programs.

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::Command;

use crate::compare::output;

/// Packages that are not of this workspace, at most. To be lowered; raised only with the reason for the new dependency:
/// landlock and seccompiler, with what they derive from, isolate the process that parses packets; httpdate, mime_guess
/// (with mime and unicase) and percent-encoding are the parts of HTTP that are lists and corner cases; rustls (with
/// webpki, pki-types, subtle, zeroize, untrusted and once_cell) does the handshakes for `serve --tls`, aws-lc-rs (with
/// aws-lc-sys) has its ciphers, and rcgen (with yasna and time, which is five) makes its certificate; simple-dns reads
/// questions about names of a network's guests; vm-memory maps memory that a virtual machine shares.
const EXTERNAL_MAX: usize = 61;

/// Counts the packages of the tool, and complains if there are too many.
pub(super) fn check(complaints: &mut Vec<String>) {
    let Some(tree) = tree_of(Path::new("")) else {
        return complaints.push("cargo can't list the tool's packages".into());
    };
    let extras = tree
        .lines()
        .find(|line| line.starts_with("mbuma-uma ") && line.contains("extras"));
    complaints.extend(
        extras.map(|line| format!("the tool must not have the allocator's extras: {line}")),
    );
    let external = external(&tree);
    println!("{} external packages in the tool", external.len());
    if external.len() > EXTERNAL_MAX {
        let all: Vec<_> = external.into_iter().collect();
        complaints.push(format!(
            "the tool links {} external packages, {EXTERNAL_MAX} may be: {}",
            all.len(),
            all.join(", ")
        ));
    }
}

/// How many packages of others the tool of a tree links.
pub(super) fn count(root: &Path) -> Option<usize> {
    tree_of(root).map(|tree| external(&tree).len())
}

/// Cargo's list of the tool's packages, a line each, with their features.
fn tree_of(root: &Path) -> Option<String> {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut tree = Command::new(cargo);
    tree.args(["tree", "--locked", "-e", "normal", "--prefix", "none"]);
    tree.args(["--format", "{p} {f}", "--manifest-path"]);
    output(tree.arg(root.join("crates/cli/Cargo.toml")))
}

/// Names and versions of the packages in cargo's list that have no path in this tree.
fn external(tree: &str) -> BTreeSet<String> {
    let is_external = |line: &&str| !line.is_empty() && !line.contains("(/");
    let named = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    tree.lines().filter(is_external).map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::external;

    #[test]
    fn a_package_counts_once_and_ours_do_not() {
        // Breaks if a repeated line counts twice, or a crate of this workspace counts.
        let tree = "mbuma-cli v0.1.0 (/src/crates/cli)\nsyn v2.0.1\nserde_derive v1.0.2 (proc-macro)\nsyn v2.0.1 (*)\n\
                    mbuma-kern v0.1.0 (/src/crates/kern) (*)\nsyn v3.0.0\n";
        let names: Vec<_> = external(tree).into_iter().collect();
        assert_eq!(names, ["serde_derive v1.0.2", "syn v2.0.1", "syn v3.0.0"]);
    }
}

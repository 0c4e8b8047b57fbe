//! WITNESS takes no instruction in release: shown by comparing instructions, not times.
//!
//! The example `witness_cost` of kern has two functions that do the same, one through a mutex that
//! WITNESS knows and one without. Their assembly must be the same, but for the names of labels.
//! With the feature `witness` they must differ, or the comparison is blind.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// As they stand in a mangled name, of either scheme: the length, then the name.
const FUNCTIONS: [&str; 2] = ["12with_witness", "15without_witness"];

/// Whether the instructions are as they must be, in a build by this profile, with the assembly in this directory.
/// Prints the numbers of those that were compared.
pub(crate) fn run(profile: &str, dir: &Path) -> bool {
    let functions = |build, features| functions(profile, dir, build, features);
    let Some([with, without]) = functions("release", &[]) else {
        return false;
    };
    println!("release: {} and {} instructions", with.len(), without.len());
    if with != without {
        println!(
            "they differ:\n{}\n\n{}",
            with.join("\n"),
            without.join("\n")
        );
        return false;
    }
    let Some([with, without]) = functions("witness", &["--features", "witness"]) else {
        return false;
    };
    println!("witness: {} and {} instructions", with.len(), without.len());
    if with == without {
        println!("the same with WITNESS built in: the comparison is blind");
        return false;
    }
    true
}

/// The instructions of both functions, in a build with these arguments.
fn functions(
    profile: &str,
    dir: &Path,
    build: &str,
    features: &[&str],
) -> Option<[Vec<String>; 2]> {
    // A file for each build: cargo runs the compiler again only if the sources have changed.
    let assembly = dir.join(format!("witness_cost-{build}.s"));
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let status = Command::new(cargo)
        .args(["rustc", "-q", "--profile", profile, "-p", "mbuma-kern"])
        .args(["--example", "witness_cost"])
        .args(features)
        // The assembly of several units would be in several files.
        .args(["--", "-Ccodegen-units=1"])
        .arg(format!("--emit=asm={}", assembly.display()))
        .status();
    if !status.is_ok_and(|status| status.success()) {
        println!("the example does not build");
        return None;
    }
    let text = fs::read_to_string(&assembly).unwrap_or_default();
    let found = FUNCTIONS.map(|name| instructions(&text, name));
    if found.iter().any(Vec::is_empty) {
        println!("{} has not got both functions", assembly.display());
        return None;
    }
    Some(found)
}

/// The instructions of one function, without addresses.
fn instructions(text: &str, name: &str) -> Vec<String> {
    let is_start =
        |line: &&str| line.contains(name) && line.ends_with(':') && line.starts_with('_');
    text.lines()
        .skip_while(|line| !is_start(line))
        .skip(1)
        .take_while(|line| !line.contains(".cfi_endproc"))
        .filter(|line| line.starts_with('\t') && !line.starts_with("\t."))
        .map(|line| {
            line.split_whitespace()
                .map(unlabelled)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

/// A word of assembly; labels of code and of constants are all the same.
fn unlabelled(word: &str) -> String {
    let from = [".L", "anon."]
        .iter()
        .filter_map(|label| word.find(label))
        .min();
    let Some(from) = from else {
        return word.into();
    };
    let label = |c: char| c.is_alphanumeric() || "._$".contains(c);
    let rest = word[from..].trim_start_matches(label);
    format!("{}LABEL{rest}", &word[..from])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_count_and_instructions_do() {
        // Breaks if two equal functions differ by their numbers, or two different ones do not.
        let function = |name: &str, number: u32, constant: u32| {
            format!(
                "_ZN7example{name}17h0E:\n\t.cfi_startproc\n.LBB{number}_1:\n\taddl\t${constant}, %eax\n\
                 \tleaq\t.Lanon.f{number}.3(%rip), %rdx\n\tjne\t.LBB{number}_1\n\tretq\n\t.cfi_endproc\n"
            )
        };
        let [with, without] = FUNCTIONS;
        let text = function(with, 3, 1) + &function(without, 4, 1);
        let same = instructions(&text, with);
        assert_eq!(same.len(), 4);
        assert_eq!(same, instructions(&text, without));
        let text = function(with, 3, 1) + &function(without, 4, 2);
        assert_ne!(instructions(&text, with), instructions(&text, without));
    }
}

//! Lines with code of a crate, as the tool is built: an item whose condition does not hold is left out, with its file
//! if it is a module.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cfg;
use crate::compare::output;

/// The product's part of a crate.
pub(super) struct Product {
    pub(super) krate: &'static str,
    /// By path from the tree's root: the code of each file.
    pub(super) code: BTreeMap<String, Vec<String>>,
    pub(super) unsafe_uses: usize,
    pub(super) safety_arguments: usize,
}

impl Product {
    pub(super) fn of(
        root: &Path,
        krate: &'static str,
        features: Option<&BTreeSet<String>>,
    ) -> Self {
        let none = BTreeSet::new();
        let mut product = Self {
            krate,
            code: BTreeMap::new(),
            unsafe_uses: 0,
            safety_arguments: 0,
        };
        let source = root.join("crates").join(krate).join("src");
        for file in ["lib.rs", "main.rs"] {
            product.read(root, source.join(file), features.unwrap_or(&none));
        }
        product
    }

    /// Adds a file and those of its modules.
    fn read(&mut self, root: &Path, file: PathBuf, features: &BTreeSet<String>) {
        let Ok(text) = fs::read_to_string(&file) else {
            return;
        };
        self.safety_arguments += text
            .lines()
            .filter(|line| line.contains("// SAFETY:"))
            .count();
        let lines = built_lines(&text, features);
        let modules: Vec<_> = module_files(&file, &lines).collect();
        let code: Vec<_> = lines.iter().map(|line| uncommented(line)).collect();
        let is_unsafe = |line: &&&str| line.contains("unsafe {") || line.contains("unsafe impl");
        self.unsafe_uses += code.iter().filter(is_unsafe).count();
        let code: Vec<_> = code.into_iter().map(str::to_owned).collect();
        let code = code.into_iter().filter(|line| !line.trim().is_empty());
        let name = file.strip_prefix(root).unwrap_or(&file);
        self.code
            .insert(name.to_string_lossy().into_owned(), code.collect());
        for module in modules {
            self.read(root, module, features);
        }
    }

    /// The files, with the number of their lines.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, usize)> {
        self.code
            .iter()
            .map(|(file, code)| (file.as_str(), code.len()))
    }

    pub(super) fn lines(&self) -> usize {
        self.files().map(|(_, lines)| lines).sum()
    }
}

/// The lines of items whose conditions hold. Rustfmt's layout tells where an item ends.
fn built_lines(text: &str, features: &BTreeSet<String>) -> Vec<String> {
    let lines: Vec<_> = text.lines().collect();
    let (mut built, mut at) = (Vec::new(), 0);
    while let Some(line) = lines.get(at) {
        match condition(&lines[at..]) {
            Some((text, length)) if !cfg::holds(&text, features) => {
                at = end_of_item(&lines, at + length)
            }
            Some((_, length)) => at += length,
            None => {
                built.push((*line).to_owned());
                at += 1;
            }
        }
    }
    built
}

/// The condition of the attribute that begins here, and how many lines it has.
fn condition(lines: &[&str]) -> Option<(String, usize)> {
    lines.first()?.trim_start().strip_prefix("#[cfg(")?;
    let length = lines
        .iter()
        .position(|line| line.trim_end().ends_with(")]"))?
        + 1;
    let text = lines[..length].join(" ");
    let text = text.trim().strip_prefix("#[cfg(")?.strip_suffix(")]")?;
    Some((text.to_owned(), length))
}

/// The line behind the item, or the statement, that begins at a line or behind its attributes.
fn end_of_item(lines: &[&str], mut at: usize) -> usize {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_before = |line: &&str| line.trim_start().starts_with(['#', '/']);
    while lines.get(at).is_some_and(is_before) {
        at += 1;
    }
    let Some(first) = lines.get(at) else {
        return at;
    };
    if first.trim_end().ends_with([';', ',', '}']) {
        return at + 1;
    }
    let rest = lines[at + 1..].iter();
    let closes =
        |line: &&&str| indent(line) == indent(first) && line.trim_end().ends_with(['}', ';', ',']);
    at + 1 + rest.take_while(|line| !closes(line)).count() + 1
}

/// The files of the modules that a file declares.
fn module_files(file: &Path, lines: &[String]) -> impl Iterator<Item = PathBuf> {
    let parent = file.parent().unwrap_or(Path::new(""));
    let stem = file
        .file_stem()
        .and_then(|s| s.to_str())
        .unwrap_or_default();
    let dir = match stem {
        "lib" | "main" | "mod" => parent.to_path_buf(),
        _ => parent.join(stem),
    };
    lines.iter().enumerate().filter_map(move |(at, line)| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub").map_or(line, |rest| {
            rest.split_once("mod ")
                .map_or(line, |(scope, _)| &rest[scope.len()..])
        });
        let name = line.trim_start().strip_prefix("mod ")?.strip_suffix(';')?;
        let above = at
            .checked_sub(1)
            .map(|above| lines[above].trim())
            .unwrap_or_default();
        if let Some(path) = above.strip_prefix("#[path = \"") {
            return Some(parent.join(path.trim_end_matches("\"]")));
        }
        let flat = dir.join(format!("{name}.rs"));
        Some(if flat.exists() {
            flat
        } else {
            dir.join(name).join("mod.rs")
        })
    })
}

fn uncommented(line: &str) -> &str {
    match line.trim_start().starts_with("//") {
        true => "",
        false => line,
    }
}

/// By crate, the features with which the tool is built.
pub(super) fn features_of_the_tool(root: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut tree = Command::new(cargo);
    tree.args([
        "tree",
        "--locked",
        "-e",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p} {f}",
        "--manifest-path",
    ]);
    let text = output(tree.arg(root.join("crates/cli/Cargo.toml"))).unwrap_or_default();
    let mut all = BTreeMap::<_, BTreeSet<_>>::new();
    for line in text.lines().filter(|line| line.contains("/crates/")) {
        let Some((package, features)) = line.split_once(')') else {
            continue;
        };
        let krate = package.rsplit('/').next().unwrap_or_default().to_owned();
        let features = features
            .trim_end_matches("(*)")
            .split(',')
            .map(|f| f.trim().to_owned());
        all.entry(krate).or_default().extend(features);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::built_lines;

    #[test]
    fn an_item_that_is_not_built_is_left_out_as_a_whole() {
        // Breaks if lines of a test, a model or a feature that is off count, or those behind them do not.
        let text = "use a;\n#[cfg(test)]\nmod tests;\n#[cfg(feature = \"x\")]\n/// Doc.\n#[inline]\nfn x(\n    a: u8,\n\
                    ) -> u8 {\n    if a {\n    }\n}\nfn y() {\n    #[cfg(loom)]\n    point();\n    end();\n}\n\
                    #[cfg(all(\n    test,\n    loom\n))]\nmod b {\n}\n";
        assert_eq!(
            built_lines(text, &[].into()),
            ["use a;", "fn y() {", "    end();", "}"]
        );
    }
}

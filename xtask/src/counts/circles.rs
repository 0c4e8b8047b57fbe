//! The largest set of source files of a crate, each of which uses each other one, directly or by others.
//!
//! A file uses another one if its code has a path into that: from the crate's root, or by `super`. A module's own
//! parents and children are left out, because a module names its parts and the parts use its names.

use std::collections::{BTreeMap, BTreeSet};

use super::lines::Product;

/// The files of the largest circle, as paths of modules; one or none if there is no circle.
pub(super) fn largest(product: &Product) -> Vec<String> {
    let modules: BTreeMap<_, _> = product
        .code
        .iter()
        .map(|(file, code)| (module_of(file), code))
        .collect();
    let exports = modules
        .get("")
        .map_or_else(BTreeMap::new, |code| exports(code));
    let mut uses = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (module, code) in &modules {
        let text = code.join("\n");
        let lists = module == "protosw" || module == "state" || module.is_empty();
        let targets = paths(&text, module)
            .into_iter()
            .filter_map(|path| resolve(&path, &modules, &exports));
        let others = targets.filter(|target| !lists && !is_kin(module, target));
        uses.entry(module).or_default().extend(others);
    }
    let reach: BTreeMap<_, _> = uses
        .keys()
        .map(|module| (*module, reached(module, &uses)))
        .collect();
    let circle = |module: &&str| -> Vec<String> {
        let all = &reach[module];
        let back = |other: &&&str| reach.get(*other).is_some_and(|all| all.contains(module));
        all.iter()
            .filter(back)
            .map(|name| (*name).to_owned())
            .collect()
    };
    reach
        .keys()
        .map(circle)
        .max_by_key(Vec::len)
        .unwrap_or_default()
}

/// `crates/mbuma/src/tcp/ack.rs` is `tcp::ack`.
fn module_of(file: &str) -> String {
    let path = file
        .split("/src/")
        .nth(1)
        .unwrap_or_default()
        .trim_end_matches(".rs");
    let path = path.trim_end_matches("/mod");
    match path {
        "lib" | "main" => String::new(),
        path => path.replace('/', "::"),
    }
}

/// Whether one module is inside of the other.
fn is_kin(a: &str, b: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    b.is_empty() || within(a, b) || within(b, a)
}

/// Names that the crate's root exports, with their modules.
fn exports(root: &[String]) -> BTreeMap<String, String> {
    let text = root.join(" ");
    let items = text
        .split("use ")
        .skip(1)
        .map(|item| item.split(';').next().unwrap_or_default());
    let mut found = BTreeMap::new();
    for item in items {
        for path in expand(item) {
            if let Some((module, name)) = path.rsplit_once("::") {
                found.insert(name.to_owned(), format!("{module}::{name}"));
            }
        }
    }
    found
}

/// The paths in a file's code that lead into the crate, from its root.
fn paths(text: &str, module: &str) -> Vec<String> {
    let mut found = Vec::new();
    let from_root = text.split("crate::").skip(1);
    found.extend(from_root.flat_map(expand));
    for (at, _) in text.match_indices("super::") {
        let mut rest = &text[at..];
        let mut parent = module;
        while let Some(next) = rest.strip_prefix("super::") {
            parent = parent.rsplit_once("::").map_or("", |(parent, _)| parent);
            rest = next;
        }
        let is_first = !text[..at].ends_with("super::");
        let inside = expand(rest)
            .into_iter()
            .map(|path| format!("{parent}::{path}"));
        found.extend(
            inside
                .filter(|_| is_first)
                .map(|path| path.trim_start_matches("::").to_owned()),
        );
    }
    found
}

/// A path with its groups written out: `a::{b, c::D}` is `a::b` and `a::c::D`.
fn expand(text: &str) -> Vec<String> {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let text = text.trim_start();
    let end = text.find(|c| !is_path(c)).unwrap_or(text.len());
    let (head, rest) = text.split_at(end);
    let Some(group) = rest
        .strip_prefix('{')
        .filter(|_| head.is_empty() || head.ends_with("::"))
    else {
        return vec![head.trim_end_matches(':').to_owned()];
    };
    let (mut depth, mut start, mut found) = (1, 0, Vec::new());
    for (at, c) in group.char_indices() {
        depth += match c {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        if depth == 0 || (depth == 1 && c == ',') {
            let inner = expand(&group[start..at]).into_iter();
            found.extend(
                inner
                    .filter(|path| !path.is_empty())
                    .map(|path| format!("{head}{path}")),
            );
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    found
}

/// The module that has what a path names: the longest part of it that is a file.
fn resolve<'a>(
    path: &str,
    modules: &'a BTreeMap<String, &Vec<String>>,
    exports: &BTreeMap<String, String>,
) -> Option<&'a str> {
    let first = path.split("::").next().unwrap_or_default();
    let path = exports.get(first).map_or(path, String::as_str);
    let mut part = path;
    loop {
        if let Some((name, _)) = modules.get_key_value(part) {
            return Some(name);
        }
        part = part.rsplit_once("::")?.0;
    }
}

fn reached<'a>(from: &str, uses: &BTreeMap<&str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        for &used in uses.get(module).into_iter().flatten() {
            if seen.insert(used) {
                next.push(used);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::{expand, is_kin, module_of, paths};

    #[test]
    fn paths_lead_to_files() {
        // Breaks if an import in a group, or one by `super`, is not seen.
        assert_eq!(module_of("crates/a/src/tcp/mod.rs"), "tcp");
        assert_eq!(module_of("crates/a/src/tcp/ack.rs"), "tcp::ack");
        assert_eq!(expand("a::{b, c::{D, e}};"), ["a::b", "a::c::D", "a::c::e"]);
        let found = paths(
            "use crate::ip::Send;\nuse super::pcb::Tcb;\nsuper::super::udp::run()",
            "tcp::ack",
        );
        assert_eq!(found, ["ip::Send", "tcp::pcb::Tcb", "udp::run"]);
        assert!(is_kin("tcp::ack", "tcp") && !is_kin("tcp::ack", "tcp::a"));
    }
}

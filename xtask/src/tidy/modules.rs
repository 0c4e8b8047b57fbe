//! Layers inside a crate: a module uses modules of its own layer and of those below it.
//!
//! `lib.rs` lists its modules top to bottom, and an empty line ends a layer. An import that points up, or a circle
//! inside a layer, makes a crate hard to read and to cut: both need an entry with a reason in [`CIRCLES`].
//! Crates without such a list must have no circle of files at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::counts;

/// Crates without a circle of files.
const WITHOUT_CIRCLES: [&str; 2] = ["wire", "cli"];

/// Crates whose `lib.rs` lists layers.
const LAYERED: [&str; 4] = ["kern", "uma", "mbuf", "mbuma"];

/// Modules that are plain lists: their purpose is that lower layers use them though they name higher ones.
const LISTS: [(&str, &str); 2] = [("mbuma", "protosw"), ("mbuma", "state")];

/// Imports that still point up. Entries may only be removed.
const UPWARD: [(&str, &str, &str, &str); 1] = [(
    "mbuma",
    "config",
    "tcp",
    "names the congestion control of new connections",
)];

/// Modules of one layer that use each other in a circle, and why that is right.
const CIRCLES: [(&str, &[&str], &str); 5] = [
    (
        "kern",
        &["fork", "lock", "thread", "witness"],
        "a lock names its waiting thread, WITNESS lists a thread's locks, and a fork takes the locks of all",
    ),
    (
        "uma",
        &["builder", "raw", "raw_ref"],
        "a handle has a builder, and a builder makes a handle",
    ),
    (
        "uma",
        &[
            "invariants",
            "keg",
            "warning",
            "weak",
            "zone_inner",
            "census",
            "stats",
        ],
        "a keg takes the caches of its zones back, a zone takes items from its keg and reports on itself",
    ),
    (
        "mbuf",
        &["chain", "ext_pgs", "list", "packet"],
        "a packet is a chain with a header: each becomes the other",
    ),
    (
        "mbuf",
        &["ext", "mbuf", "pool", "raw", "tag"],
        "an mbuf has the address of its pool's zones, whose hooks make and end mbufs",
    ),
];

/// The largest circle of files in a crate: how many they are, and why they are not fewer. A bound may only fall.
const FILE_CIRCLES: [(&str, usize, &str); 4] = [
    (
        "kern",
        2,
        "a lock names its waiting thread, and a thread lists its locks",
    ),
    (
        "uma",
        6,
        "a keg takes the caches of its zones back, and a zone takes items from its keg",
    ),
    (
        "mbuf",
        5,
        "an mbuf has the address of its pool's zones, whose hooks make and end mbufs",
    ),
    (
        "mbuma",
        14,
        "a socket of unix/ has a receive buffer, which has messages, which may have sockets of every kind",
    ),
];

/// Files beside the product code: models and tests.
const BESIDE: [&str; 5] = ["tests", "models", "model", "modelled", "misuse"];

/// Checks the layers of all crates that list them.
pub(super) fn check(complaints: &mut Vec<String>, files: &[PathBuf]) {
    for krate in LAYERED {
        let root = PathBuf::from(format!("crates/{krate}/src"));
        let lib = fs::read_to_string(root.join("lib.rs")).unwrap_or_default();
        let layers = Layers::of(&lib);
        let mut uses = BTreeMap::<_, BTreeSet<_>>::new();
        for file in files.iter().filter(|file| file.starts_with(&root)) {
            let Some(module) = module_of(&root, file) else {
                continue;
            };
            let text = fs::read_to_string(file).unwrap_or_default();
            let is_list = |module: &str| LISTS.contains(&(krate, module));
            let others = layers.used(&text).filter(|used| *used != module);
            for used in others.filter(|used| !is_list(used) && !is_list(&module)) {
                if is_known_upward(krate, &module, &used) {
                    continue;
                }
                complaints.extend(layers.upward(&module, &used, file));
                uses.entry(module.clone()).or_default().insert(used);
            }
        }
        complaints.extend(circles(krate, &uses));
    }
    let without = WITHOUT_CIRCLES.map(|krate| (krate, 1));
    let known = FILE_CIRCLES.map(|(krate, most, _)| (krate, most));
    for (krate, most) in without.into_iter().chain(known) {
        let circle = counts::largest_circle(Path::new(""), krate);
        if circle.len() > most {
            let files = circle.join(", ");
            complaints.push(format!("crates/{krate}: {files} use each other"));
        }
    }
}

/// Whether the list of exceptions has this import.
fn is_known_upward(krate: &str, module: &str, used: &str) -> bool {
    let mut known = UPWARD.iter();
    known.any(|&(k, from, to, _)| (k, from, to) == (krate, module, used))
}

/// The modules of a crate with the numbers of their layers, and the names that its root re-exports.
struct Layers {
    layer: BTreeMap<String, usize>,
    exported: BTreeMap<String, String>,
}

impl Layers {
    fn of(lib: &str) -> Self {
        let (mut layer, mut number) = (BTreeMap::new(), 0);
        for line in lib.lines() {
            let item = line.strip_prefix("pub ").unwrap_or(line);
            match item.strip_prefix("mod ").and_then(|m| m.strip_suffix(';')) {
                Some(module) => _ = layer.insert(module.to_owned(), number),
                None => number += usize::from(line.is_empty()),
            }
        }
        let mut exported = BTreeMap::new();
        for item in lib.split("pub use ").skip(1) {
            let item = &item[..item.find(';').unwrap_or(item.len())];
            let Some((module, names)) = item.split_once("::") else {
                continue;
            };
            let names = names.split(|c: char| !c.is_alphanumeric() && c != '_');
            exported.extend(names.map(|name| (name.to_owned(), module.to_owned())));
        }
        Self { layer, exported }
    }

    /// The modules that a file uses: by paths from the root of its crate, and by fields of the stack's state, each of
    /// which has the name of its module.
    fn used(&self, text: &str) -> impl Iterator<Item = String> {
        let code: Vec<_> = super::product_part(text)
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default())
            .collect();
        let code = code.join("\n");
        let paths = code.split("crate::").skip(1).flat_map(first_names);
        let fields = code.split("stack.").skip(1).map(first_name);
        let names: Vec<_> = paths.chain(fields).collect();
        names.into_iter().filter_map(|name| {
            let module = self.exported.get(&name).unwrap_or(&name);
            self.layer.contains_key(module).then(|| module.clone())
        })
    }

    fn upward(&self, module: &str, used: &str, file: &Path) -> Option<String> {
        let (from, to) = (self.layer.get(module)?, self.layer.get(used)?);
        (to < from).then(|| {
            let file = file.display();
            format!("{file}: {module} must not use {used}, which lib.rs lists in a layer above it")
        })
    }
}

fn first_name(path: &str) -> String {
    let path = path.trim_start();
    path.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// The first names of a path, or of each path in a group: `a::B` and `{a::B, C}`.
fn first_names(path: &str) -> Vec<String> {
    let Some(group) = path.strip_prefix('{') else {
        return vec![first_name(path)];
    };
    let (mut depth, mut names, mut start) = (1, Vec::new(), 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && c == ',') {
            names.push(first_name(&group[start..at]));
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    names
}

/// The top-level module that a file belongs to, if it is product code.
fn module_of(root: &Path, file: &Path) -> Option<String> {
    let parts: Vec<_> = file.strip_prefix(root).ok()?.iter().collect();
    let parts: Vec<_> = parts.iter().filter_map(|part| part.to_str()).collect();
    let is_beside = |part: &&str| BESIDE.contains(&part.trim_end_matches(".rs"));
    let module = parts.first()?.trim_end_matches(".rs");
    (module != "lib" && !parts.iter().any(is_beside)).then(|| module.to_owned())
}

/// Complaints about modules that reach each other and are not on the list.
fn circles(krate: &str, uses: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let reach = |from: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            for used in uses.get(module).into_iter().flatten() {
                if seen.insert(used.clone()) {
                    next.push(used);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<_, _> = uses.keys().map(|module| (module, reach(module))).collect();
    let mut found = Vec::new();
    for (module, all) in &reached {
        for other in all.iter().filter(|other| other > module) {
            let back = reached.get(other).is_some_and(|all| all.contains(*module));
            let known = CIRCLES.iter().any(|(k, names, _)| {
                *k == krate && names.contains(&module.as_str()) && names.contains(&other.as_str())
            });
            if back && !known {
                found.push(format!(
                    "crates/{krate}: {module} and {other} use each other: cut the circle, or say why in tidy/modules.rs"
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Layers, circles, first_names, module_of};
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    const LIB: &str =
        "//! Head.\n\npub mod top;\n\nmod low;\nmod lower;\n\npub use low::{Item, Other};\n";

    #[test]
    fn an_import_that_points_up_is_found() {
        // Breaks if a re-exported name, or a name in a group, hides the module that is used.
        let layers = Layers::of(LIB);
        let file = Path::new("low.rs");
        assert!(layers.upward("low", "top", file).is_some());
        assert!(layers.upward("low", "lower", file).is_none());
        assert!(layers.upward("top", "low", file).is_none());
        let used: Vec<_> = layers
            .used("use crate::{Item, top::{A, B}};\n// crate::lower")
            .collect();
        assert_eq!(used, ["low", "top"]);
        let used: Vec<_> = layers.used("batch.stack.low.count()").collect();
        assert_eq!(used, ["low"]);
        assert_eq!(first_names("top::thing()"), ["top"]);
    }

    #[test]
    fn a_circle_needs_a_reason() {
        // Breaks if modules of a layer may use each other without an entry on the list.
        let of = |pairs: &[(&str, &str)]| -> BTreeMap<String, BTreeSet<String>> {
            let mut uses = BTreeMap::<_, BTreeSet<_>>::new();
            for (from, to) in pairs {
                uses.entry((*from).into()).or_default().insert((*to).into());
            }
            uses
        };
        assert_eq!(circles("uma", &of(&[("a", "b"), ("b", "c")])).len(), 0);
        assert_eq!(circles("uma", &of(&[("a", "b"), ("b", "a")])).len(), 1);
        assert_eq!(
            circles("uma", &of(&[("keg", "weak"), ("weak", "keg")])).len(),
            0
        );
        assert_eq!(
            circles("mbuf", &of(&[("keg", "weak"), ("weak", "keg")])).len(),
            1
        );
    }

    #[test]
    fn tests_belong_to_no_layer() {
        // Breaks if a test's imports count, or a file in a folder is not its module's.
        let module = |file| {
            module_of(
                Path::new("crates/uma/src"),
                &Path::new("crates/uma/src").join(file),
            )
        };
        assert_eq!(module("keg/closed.rs").as_deref(), Some("keg"));
        assert_eq!(module("keg.rs").as_deref(), Some("keg"));
        assert_eq!(module("keg/tests.rs"), None);
        assert_eq!(module("lib.rs"), None);
    }
}

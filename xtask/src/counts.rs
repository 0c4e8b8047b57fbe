//! The figures of the whole tree, alone or beside those of a commit: `cargo xtask counts [COMMIT]`.
//!
//! | figure | meaning |
//! |---|---|
//! | product lines | lines with code in the product's crates, as the tool is built: without tests, models, and features that it lacks |
//! | in files that COMMIT lacks | those of them in files that COMMIT has under no name |
//! | largest circle | source files of a crate that use each other in a circle ([`circles`]) |
//! | dialect words, "what" clauses | as `tidy` counts them |
//! | repeated type names | as `tidy` counts them |
//! | external packages | as `tidy` counts them |
//! | `unsafe`, SAFETY | blocks and implementations in product lines, and the arguments of whole files |

mod cfg;
mod circles;
mod lines;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compare::{Tree, output};
use crate::tidy;
use lines::Product;

/// Crates that are the product.
pub(crate) const PRODUCT: [&str; 6] = ["kern", "uma", "mbuf", "wire", "mbuma", "cli"];

/// Prints the figures; beside those of the commit that the first argument names, if there is one.
pub(crate) fn run(args: &[String]) -> bool {
    let here = PathBuf::from(".");
    let Some(commit) = args.first() else {
        Figures::of(&here).print();
        return true;
    };
    let Some(before) = Tree::of_commit(commit) else {
        return false;
    };
    let added = added_since(commit);
    let (old, new) = (Figures::of(&before.source), Figures::of(&here));
    let in_added = new
        .product
        .iter()
        .flat_map(Product::files)
        .filter(|(file, _)| added.contains(*file));
    let in_added: usize = in_added.map(|(_, lines)| lines).sum();
    println!("figure: {commit} -> here");
    for ((name, old), (_, new)) in old.rows().into_iter().zip(new.rows()) {
        println!("{name}: {old} -> {new}");
    }
    let in_both = new.lines() - in_added;
    println!(
        "product lines here: {in_both} in files that {commit} has, {in_added} in files that it lacks"
    );
    true
}

/// Files that the tree has and the commit lacks; a renamed file is in both.
fn added_since(commit: &str) -> BTreeSet<String> {
    let diff = [
        "diff",
        "--name-only",
        "--diff-filter=A",
        "-M",
        commit,
        "--",
        "crates",
    ];
    let names = output(Command::new("git").args(diff)).unwrap_or_default();
    names.lines().map(str::to_owned).collect()
}

/// The files of a crate's largest circle: none, or one, if there is no circle.
pub(crate) fn largest_circle(root: &Path, krate: &'static str) -> Vec<String> {
    circles::largest(&Product::of(root, krate, None))
}

/// The figures of one tree.
struct Figures {
    product: Vec<Product>,
    circles: Vec<Vec<String>>,
    words: Vec<(&'static str, u32, f64)>,
    repeated: usize,
    packages: Option<usize>,
}

impl Figures {
    fn of(root: &Path) -> Self {
        let features = lines::features_of_the_tool(root);
        let of_crate = |krate: &&'static str| Product::of(root, krate, features.get(*krate));
        let product: Vec<_> = PRODUCT.iter().map(of_crate).collect();
        Self {
            circles: product.iter().map(circles::largest).collect(),
            words: tidy::words_of(root),
            repeated: tidy::repeated_types_of(root),
            packages: tidy::packages_of(root),
            product,
        }
    }

    fn lines(&self) -> usize {
        self.product.iter().map(Product::lines).sum()
    }

    fn rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
        for product in &self.product {
            row(
                &format!("lines of {}", product.krate),
                product.lines().to_string(),
            );
        }
        row("product lines", self.lines().to_string());
        for (product, circle) in self.product.iter().zip(&self.circles) {
            row(
                &format!("largest circle of {}", product.krate),
                circle.len().to_string(),
            );
        }
        for (name, count, rate) in &self.words {
            row(name, format!("{count} ({rate:.2} of 1,000 words)"));
        }
        row("repeated type names", self.repeated.to_string());
        let packages = self.packages.map_or("unknown".into(), |n| n.to_string());
        row("external packages of the tool", packages);
        let sum =
            |of: fn(&Product) -> usize| self.product.iter().map(of).sum::<usize>().to_string();
        row("unsafe blocks and implementations", sum(|p| p.unsafe_uses));
        row("SAFETY arguments", sum(|p| p.safety_arguments));
        rows
    }

    fn print(&self) {
        self.rows()
            .iter()
            .for_each(|(name, value)| println!("{name}: {value}"));
        for (product, circle) in self.product.iter().zip(&self.circles) {
            if circle.len() > 1 {
                println!("  {}: {}", product.krate, circle.join(" "));
            }
        }
    }
}

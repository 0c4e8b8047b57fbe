//! The options that all guests of a network share: compared, and the differing ones named.
//!
//! Locks: none.

use std::collections::BTreeMap;

use crate::args::NetOpts;

/// The options as text, a field a line, to be compared with those of another run.
pub(super) fn text(net: &NetOpts) -> String {
    let shared = NetOpts {
        publish: Vec::new(),
        ..net.clone()
    };
    format!("{shared:#?}")
}

/// The same; `None` if all have their defaults.
pub(super) fn given(net: &NetOpts) -> Option<String> {
    let given = text(net);
    (given != text(&NetOpts::default())).then_some(given)
}

/// The names of the options in which two texts differ, such as `--mtu`.
pub(super) fn differences(a: &str, b: &str) -> Vec<String> {
    let (a, b) = (by_option(a), by_option(b));
    let names = a.keys().filter(|name| a.get(*name) != b.get(*name));
    names.cloned().collect()
}

/// The lines of each option. A field that is no option is a group of options, with fields of its own.
fn by_option(text: &str) -> BTreeMap<String, Vec<&str>> {
    let mut all: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let (mut name, mut is_group) = (String::new(), false);
    for line in text.lines() {
        let level = (line.len() - line.trim_start().len()) / 4;
        let field = line.trim_start().split_once(": ").map(|(field, _)| field);
        if let Some(field) = field.filter(|_| level == 1 || (level == 2 && is_group)) {
            let option = NetOpts::option_of(field);
            is_group = level == 2 || option.is_none();
            name = option.unwrap_or_else(|| field.to_owned());
        }
        all.entry(name.clone()).or_default().push(line);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_that_differs_is_named() {
        // Breaks if a user who joins a network with other options must guess which of them is meant.
        let of = |change: fn(&mut NetOpts)| {
            let mut net = NetOpts::default();
            change(&mut net);
            text(&net)
        };
        let plain = of(|_| {});
        assert!(differences(&plain, &plain).is_empty());
        type Case = (&'static str, fn(&mut NetOpts));
        let cases: [Case; 6] = [
            ("--host-loopback", |net| net.host_loopback = true),
            ("--cidr", |net| {
                net.cidr = "10.9.0.0/24".parse().expect("a network")
            }),
            ("--dns", |net| net.dns.push([192, 0, 2, 1].into())),
            ("--allow", |net| net.allow.push([169, 254, 1, 1].into())),
            ("--mtu", |net| net.mtu = Some(9000)),
            ("--serve", |net| net.serve.dir = Some("/tmp".into())),
        ];
        for (name, change) in cases {
            let other = of(change);
            for (a, b) in [(&plain, &other), (&other, &plain)] {
                assert_eq!(differences(a, b), [name]);
            }
        }
        let two = of(|net| {
            net.dns.push([192, 0, 2, 1].into());
            net.mtu = Some(9000);
        });
        assert_eq!(differences(&plain, &two), ["--dns", "--mtu"]);
    }
}

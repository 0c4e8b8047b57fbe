use super::super::figures::tests::figures;
use super::{size, span};

#[test]
fn the_page_has_no_gaps() {
    // Breaks when the page names a figure that there is not, or leaves a brace.
    let page = include_str!("../status.html");
    let names = page.split("{{").skip(1).map(|rest| rest.split("}}").next());
    for name in names {
        let name = name.expect("a name ends");
        assert!(!figures().named(name).is_empty(), "{name}");
    }
    let filled = figures().fill(page);
    assert!(!filled.contains("{{") && !filled.contains("}}"));
    for text in [
        "10.0.2.100",
        "1.5 MB",
        "ip bad checksum",
        "the whole stack",
        "mbuf_cluster",
        "1.50 s",
    ] {
        assert!(filled.contains(text), "{text}");
    }
    assert_eq!(figures().fill("a {{no such}} b {{uptime"), "a  b {{uptime");
}

#[test]
fn people_can_read_sizes() {
    // Breaks when a large transfer is shown in a unit that hides it.
    assert_eq!(size(0), "0 B");
    assert_eq!(size(999), "999 B");
    assert_eq!(size(1000), "1.0 kB");
    assert_eq!(size(u64::MAX), "18446.7 PB");
    assert_eq!(span(0.25), "0.25 s");
    assert_eq!(span(61.0), "1 min 1 s");
    assert_eq!(span(7260.0), "2 h 1 min");
}

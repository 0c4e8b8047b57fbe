use super::super::figures::tests::figures;
use super::{Filler, size, span};

const TEMPLATES: [&str; 3] = [
    include_str!("../templates/status.html"),
    include_str!("../templates/summary.txt"),
    include_str!("../templates/overview.txt"),
];

#[test]
fn no_template_has_a_gap() {
    // Breaks when a template names a figure that does not exist, or leaves a brace in the text.
    let figures = figures();
    let filler = Filler::new(&figures);
    for template in TEMPLATES {
        let names = template.split("{{").skip(1);
        for name in names.map(|rest| rest.split("}}").next().expect("a name ends")) {
            assert!(filler.named(name).is_some(), "{name}");
        }
        let filled = figures.fill(template);
        assert!(!filled.contains("{{") && !filled.contains("}}"));
    }
    assert_eq!(figures.fill("a {{no such}} b {{uptime"), "a  b {{uptime");
}

#[test]
fn the_page_shows_its_figures() {
    // Breaks when a name of the page means another figure, or a unit is wrong.
    let page = figures().fill(TEMPLATES[0]);
    for text in [
        "10.0.2.100",
        "1.5 MB",
        "ip bad checksum",
        "the whole stack",
        "mbuf_cluster",
        "1.50 s",
        "<tr><th>open now</th><td>3</td></tr>",
        "<tr><th>received</th><td>12</td></tr>",
    ] {
        assert!(page.contains(text), "{text} is not in\n{page}");
    }
}

#[test]
fn the_overview_names_the_guest_of_a_port() {
    // Breaks when a user of a network does not see which guest a published port leads to.
    let text = figures().fill(TEMPLATES[2]);
    let line = "published: 127.0.0.1:8080:10.0.2.101:80\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn the_summary_has_everything_once() {
    // Breaks when a line of it is lost, or shows another's figure.
    let text = figures().fill(TEMPLATES[1]);
    for words in [
        "mbuma: 1.50 s, MTU 1500\n",
        "connections: 7 from the guest, 0 from clients, 0 refused, 3 open at the end\nworker 0: 5 connections",
        "TCP: 1.5 MB guest to host, 0 B host to guest\n",
        "Giant: ",
        "packets: 12 received, 10 delivered\ntap0: 12 frames",
        "dropped: 2 ip_bad_checksum\n",
    ] {
        assert_eq!(text.matches(words).count(), 1, "{words} in\n{text}");
    }
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

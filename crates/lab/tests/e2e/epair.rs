//! `cargo lab epair` with real programs: a web server and curl in namespaces of their own, each behind its
//! TAP, an epair between.

use crate::common::needs::{guests, programs};
use crate::common::{MBUMA, program};

#[test]
fn pages_pass_between_two_namespaces() {
    // Breaks when the kernel's TCP at both ends does not find a cable in our epair, or a page is lost.
    needs!(
        guests(),
        programs(&["unshare", "nsenter", "ip", "curl", "python3"])
    );
    let run = "epair --case programs --pages 20 --json";
    let output = program(MBUMA)
        .args(run.split(' '))
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    let worst = lines.iter().find(|line| line["measure"] == "worst");
    assert_eq!(worst.expect(&text)["n"], 20, "{text}");
}

//! Tests of jobs.

use super::*;

fn job() -> Job {
    Job {
        case: Case::Spike,
        design: "freebsd4".to_owned(),
        size: 2048,
        megabytes: 8,
        survivors_percent: 1.5,
        cpus: (0, 0),
        seconds: 0.05,
        purge: PurgedBy::Own,
    }
}

#[test]
fn a_job_survives_the_command_line() {
    // Breaks when a child does another job than its parent's.
    assert_eq!(job().to_string().parse::<Job>().expect("a job"), job());
    for bad in [
        "",
        "spike",
        "spike x 1 1 1 1 1 1 1",
        "pear x 1 1 1 0 1 1 told",
    ] {
        assert!(bad.parse::<Job>().is_err(), "{bad}");
    }
}

#[test]
fn a_child_that_fails_says_why() {
    // Breaks when a design that crashed counts as one that gave all memory back.
    let command = ["sh", "-c", "echo why >&2; exit 1"].map(OsString::from);
    assert_eq!(
        job().ask::<Vec<u8>>(&command),
        Err("failed: why".to_owned())
    );
    let command = ["sh", "-c", "echo 'mbuma: skipped: not there' >&2; exit 2"].map(OsString::from);
    let skipped = Err("skipped: not there".to_owned());
    assert_eq!(job().ask::<Vec<u8>>(&command), skipped);
    assert!(job().ask::<Vec<u8>>(&["true".into()]).is_err(), "no result");
    let unknown = Job {
        design: "x".to_owned(),
        ..job()
    };
    assert!(unknown.ask::<Vec<u8>>(&[]).is_err());
}

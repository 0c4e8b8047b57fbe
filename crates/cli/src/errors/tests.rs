//! Tests of messages and exit codes.

use super::*;
use crate::args::PublishRange;

fn failure(step: SetupStep, errno: i32) -> String {
    Failure { step, errno }.to_string()
}

#[test]
fn each_error_has_the_documented_exit_code() {
    // Breaks when a script that tells 127 from 126 from 125 would be misled.
    let exec =
        |errno| Error::exec(OsStr::new("./x"), io::Error::from_raw_os_error(errno)).exit_code();
    assert_eq!(exec(libc::ENOENT), 127);
    assert_eq!(exec(libc::EACCES), 126);
    assert_eq!(exec(libc::ENOEXEC), 126);
    assert_eq!(Error::Usage(String::new()).exit_code(), 2);
    assert_eq!(
        Error::Setup(Failure {
            step: SetupStep::OpenTun,
            errno: libc::ENOENT
        })
        .exit_code(),
        125
    );
}

#[test]
fn a_message_says_what_to_do() {
    // Breaks when the message of a failure that a user can mend does not name the remedy.
    assert!(failure(SetupStep::OpenTun, libc::ENOENT).contains("modprobe tun"));
    assert!(failure(SetupStep::OpenTun, libc::EPERM).contains("--device /dev/net/tun"));
    assert!(failure(SetupStep::OpenTun, libc::EACCES).contains("chmod 666 /dev/net/tun"));
    assert!(failure(SetupStep::MakeTap, libc::EBUSY).contains("--ifname"));
    assert!(failure(SetupStep::MakeHostTap, libc::EBUSY).contains("--tap"));
    assert!(failure(SetupStep::UserNamespace, libc::EPERM).contains("user.max_user_namespaces"));
    assert!(failure(SetupStep::MakeTap, libc::ENOTTY).contains("is another device"));
    assert!(failure(SetupStep::Child, libc::ENOENT).contains("mount -t proc"));
    assert!(failure(SetupStep::Child, libc::EMFILE).contains("ulimit -n"));
    assert!(failure(SetupStep::Child, libc::EAGAIN).contains("ulimit -u"));
    assert!(failure(SetupStep::FindUserNamespace, libc::ENOENT).contains("--userns-path"));
    let range: PublishRange = "8080:80".parse().expect("two ports");
    let publish = range.ports().next().expect("a port").publish;
    let busy = Error::Publish {
        publish,
        source: io::Error::from_raw_os_error(libc::EADDRINUSE),
    }
    .to_string();
    assert!(
        busy.contains("127.0.0.1:8080:80") && busy.contains("sport = :8080"),
        "{busy}"
    );
}

#[test]
fn a_setting_is_blamed_only_when_it_forbids() {
    // Breaks when a message blames a setting that permits the operation, or does not name one that forbids it.
    assert!(forbids("0", "1") && !forbids("1", "1"));
    assert!(forbids("1", "0") && !forbids("0", "0"));
    assert!(forbids("0", "15000") && !forbids("96365", "15000"));
}

#[test]
fn root_is_not_told_to_become_root() {
    // Breaks when the message to root says that root is needed.
    let is_root = crate::sys::process::ids().0 == 0;
    for (step, errno) in [
        (SetupStep::OpenTun, libc::ENOENT),
        (SetupStep::FindNamespace, libc::EPERM),
    ] {
        let advice = failure(step, errno);
        assert_eq!(advice.contains("as root"), !is_root, "{advice}");
    }
}

//! Tests of the command line.

use clap::{CommandFactory, Parser};

use super::*;

fn publish(text: &str) -> Result<String, String> {
    let range: PublishRange = text.parse()?;
    let ports: Vec<_> = range.ports().map(|port| port.to_string()).collect();
    Ok(ports.join(" "))
}

#[test]
fn clap_accepts_the_definition() {
    // Breaks when two options share a letter or a default does not parse.
    Args::command().debug_assert();
}

#[test]
fn examples_and_exit_codes_are_not_wrapped() {
    // Breaks when clap wraps a line of the text after the options: users could not copy an example any more.
    let mut commands = vec![Args::command()];
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().cloned());
        let text = command.get_after_help().map(ToString::to_string);
        for line in text.iter().flat_map(|text| text.lines()) {
            let len = line.chars().count();
            assert!(len <= HELP_WIDTH, "{}: {line}", command.get_name());
        }
    }
}

#[test]
fn publish_reads_every_form() {
    // Breaks when a form that the manual names stops parsing, or parses into something else.
    for (text, want) in [
        ("8080:80", "localhost:8080:80"),
        ("8080:80/tcp", "localhost:8080:80"),
        ("127.0.0.1:8080:80", "127.0.0.1:8080:80"),
        ("*:8080:80/udp", "*:8080:80/udp"),
        ("5353:53/udp", "localhost:5353:53/udp"),
        ("0.0.0.0:8080:80", "0.0.0.0:8080:80"),
        ("[::1]:8080:80/udp", "[::1]:8080:80/udp"),
        (
            "8080-8081:80-81/udp",
            "localhost:8080:80/udp localhost:8081:81/udp",
        ),
        ("0.0.0.0:65535-65535:80", "0.0.0.0:65535:80"),
        ("8080:10.0.2.101:80", "localhost:8080:10.0.2.101:80"),
        ("[::1]:8080:[fd00::7]:80/udp", "[::1]:8080:[fd00::7]:80/udp"),
        (
            "1-2:127.0.0.1:3-4",
            "localhost:1:127.0.0.1:3 localhost:2:127.0.0.1:4",
        ),
        ("*%eth0:53:53/udp", "*%eth0:53:53/udp"),
        ("192.0.2.1%eth0:80:80", "192.0.2.1%eth0:80:80"),
        (
            "[fe80::1%7]%eth0:80:10.0.2.9:80",
            "[fe80::1%7]%eth0:80:10.0.2.9:80",
        ),
    ] {
        assert_eq!(publish(text).as_deref(), Ok(want), "{text}");
        // What mbuma prints, it takes.
        for port in want.split(' ') {
            assert_eq!(publish(port).as_deref(), Ok(port), "{text}");
        }
    }
}

#[test]
fn publish_refuses_what_it_could_only_guess() {
    // Breaks when the parser accepts as a port, address or protocol a word that is none.
    for text in [
        "",
        "80",
        "80:",
        ":80",
        "0:80",
        "80:0",
        "80:65536",
        "80-81:80",
        "81-80:81-80",
        "80-65536:80-65536",
        "80-:80",
        "a:80",
        "::1:80:80",
        "[1.2.3.4]:80:80",
        "1.2.3:80:80",
        "[fe80::1%no-such-if]:80:80",
        "[::1]:80",
        "127.0.0.1:80",
        "8080:[10.0.2.9]:80:80",
        "8080:[fd00::7:80",
        "8080:fd00::7:80",
        "*%:80:80",
        "*%a/b:80:80",
        "80:80/sctp",
        "80:80/",
        "80:80/udp/udp",
        "/udp",
    ] {
        assert!(publish(text).is_err(), "{text} was taken");
    }
}

#[test]
fn what_follows_command_is_commands() {
    // Breaks when COMMAND's own options are taken for mbuma's, or mbuma's typos for COMMAND.
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for line in [
        "mbuma run -- curl --mtu x",
        "mbuma run curl --mtu x",
        "mbuma run -r curl --mtu x",
    ] {
        let Verb::Run(run) = Args::try_parse_from(words(line)).expect(line).verb else {
            panic!("{line}")
        };
        assert_eq!(run.command, ["curl", "--mtu", "x"], "{line}");
    }
    for line in [
        "mbuma run",
        "mbuma run --",
        "mbuma run --bogus curl",
        "mbuma run --mtu 68 true",
        "mbuma run --mtu 65522 true",
        "mbuma run --ifname a/b true",
        "mbuma run --ifname all true",
        "mbuma run --ifname default true",
        "mbuma run --ifname lo true",
        "mbuma run --stats=xml true",
    ] {
        assert!(
            Args::try_parse_from(words(line)).is_err(),
            "{line} was taken"
        );
    }
}

#[test]
fn stats_takes_no_word_of_commands() {
    // Breaks when `--stats true` swallows COMMAND as its format.
    for (flag, want) in [
        ("--stats", StatsFormat::Text),
        ("--stats=json", StatsFormat::Json),
    ] {
        let args = Args::try_parse_from(["mbuma", "run", flag, "true"]).expect(flag);
        let Verb::Run(run) = args.verb else {
            panic!("{flag}")
        };
        assert_eq!((run.net.stats, run.command.len()), (Some(want), 1));
    }
}

#[test]
fn digits_are_a_process() {
    // Breaks when a PID is taken for a file or the other way round.
    assert_eq!(attach_target("123"), Ok(AttachTarget::Pid(123)));
    assert_eq!(
        attach_target("./123"),
        Ok(AttachTarget::Path("./123".into()))
    );
    assert_eq!(
        attach_target("/run/netns/x"),
        Ok(AttachTarget::Path("/run/netns/x".into()))
    );
    assert!(attach_target("0").is_err() && attach_target("99999999999").is_err());
}

#[test]
fn help_and_version_are_answered_everywhere() {
    // Breaks if `mbuma help` or `mbuma run --version` is an error.
    use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
    for (words, answer) in [
        ("mbuma help", DisplayHelp),
        ("mbuma help run", DisplayHelp),
        ("mbuma run --version", DisplayVersion),
        ("mbuma netstat --version", DisplayVersion),
    ] {
        let refused = Args::try_parse_from(words.split(' ')).map_err(|e| e.kind());
        assert_eq!(refused.map(drop), Err(answer), "{words}");
    }
}

#[test]
fn a_mistaken_number_of_a_published_port_is_explained() {
    // Breaks when the message speaks of digits, and does not name the numbers in use.
    let mistaken = Args::try_parse_from(["mbuma", "publish", "remove", "x"]);
    let message = mistaken.expect_err("it is no number").to_string();
    assert!(message.contains("`mbuma publish list`"), "{message}");
}

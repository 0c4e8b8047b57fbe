//! Names inside: the guest's own, hosts that are added, and the name server that is asked.

use crate::common::nameserver::{ANSWER, NameServer};
use crate::common::needs::{guests, programs, root};
use crate::common::test_host::{make_tun, resolve_with, shell};
use crate::common::{AS_NOBODY, MBUMA, Running, Scratch, output_of, program};

#[test]
fn a_guest_has_the_names_that_are_asked_for_and_the_host_keeps_its_own() {
    // Breaks when an option changes the host's files, or an ordinary user cannot use it.
    needs!(guests(), root(), programs(&["setpriv", "getent"]));
    on_test_host!();
    needs!(make_tun("666"));
    resolve_with("nameserver 127.0.0.1\nsearch host.example\noptions ndots:2\n");
    let scratch = Scratch::new();
    let copy = scratch.copy("mbuma", std::path::Path::new(MBUMA));
    let own = ["/etc/hosts", "/proc/sys/kernel/hostname"].map(std::fs::read_to_string);
    let own = own.map(|text| text.expect("every host has one"));
    let script =
        "uname -n; getent hosts web; getent hosts db; getent hosts host; cat /etc/resolv.conf";
    for before in [&[][..], &AS_NOBODY] {
        let options = "run --hostname web --add-host db:192.0.2.7 --add-host host:host-gateway --search a.example";
        let words = [
            before,
            &[&*copy],
            &options.split(' ').collect::<Vec<_>>(),
            &["--", "sh", "-c", script],
        ];
        let words = words.concat();
        let mut command = program(words[0]);
        command.args(&words[1..]);
        let out = Running::start(command).finish().good();
        let words: Vec<_> = out.split_whitespace().collect();
        // Of both addresses this shows the one of IPv6.
        let expected = "web fd00::100 web 192.0.2.7 db 10.0.2.2 host \
                        nameserver 10.0.2.3 search a.example options ndots:2";
        assert_eq!(words.join(" "), expected);
    }
    let now = ["/etc/hosts", "/proc/sys/kernel/hostname"].map(std::fs::read_to_string);
    assert_eq!(now.map(|text| text.expect("as before")), own);
}

#[test]
fn another_name_server_is_asked() {
    // Breaks when the address of --dns goes into the guest's resolv.conf, although the guest can't reach it, or the
    // option is ignored.
    needs!(guests(), root(), programs(&["dig"]));
    on_test_host!();
    // The host's own refuses.
    resolve_with("nameserver 127.0.0.9\n");
    let _server = NameServer::start("127.0.0.1");
    let ask = "dig +short +tries=1 +time=5 host.example";
    assert_eq!(output_of(&["--dns", "127.0.0.1"], ask).trim(), ANSWER);
    let ended = Running::start(crate::common::mbuma(&[], ask)).finish();
    assert!(!ended.out.contains(ANSWER), "{ended:?}");
    // The host moves to another network while the guest runs, and its resolv.conf is written anew. Breaks if the guest
    // goes on asking the name server of the network that the host has left.
    let until = format!("until {ask} | grep -qx {ANSWER}; do sleep 0.1; done; echo found");
    let script = format!("{ask} | grep -x {ANSWER} || echo none; {until}");
    let guest = Running::start(crate::common::mbuma(&[], &script));
    guest.wait_for("none");
    std::fs::write("/run/resolv.conf", "nameserver 127.0.0.1\n").expect("a file of the test host");
    assert_eq!(guest.finish().good(), "none\nfound\n");
    // The same, by the renaming of another file over it, as most programs replace it.
    have_own_etc();
    let guest = Running::start(crate::common::mbuma(&[], &script));
    guest.wait_for("none");
    holds_no_watch(guest.gateway());
    shell("echo nameserver 127.0.0.1 >/etc/new; mv /etc/new /etc/resolv.conf");
    assert_eq!(guest.finish().good(), "none\nfound\n");
}

#[test]
fn a_guest_keeps_its_files_when_the_host_replaces_its_own() {
    // Breaks when the guest loses a mount when the host replaces the file below it: its programs would ask the host's
    // resolvers, which they can't reach, and find no added host.
    let used = ["setpriv", "getent"];
    needs!(guests(), root(), programs(&used));
    on_test_host!();
    needs!(make_tun("666"));
    resolve_with("nameserver 127.0.0.9\n");
    have_own_etc();
    let changes = [
        "echo nameserver 127.0.0.8 >/etc/new; mv /etc/new /etc/resolv.conf",
        "echo nameserver 127.0.0.7 >/etc/new; mv /etc/new /etc/resolv.conf",
        // A link to a file, that file, and a file again.
        "echo nameserver 127.0.0.6 >/run/stub; ln -s /run/stub /etc/new; mv /etc/new /etc/resolv.conf",
        "echo nameserver 127.0.0.5 >/run/new; mv /run/new /run/stub",
        "echo nameserver 127.0.0.9 >/etc/new; mv /etc/new /etc/resolv.conf",
        "cp /etc/hosts /etc/new; mv /etc/new /etc/hosts",
    ];
    let scratch = Scratch::new();
    let copy = scratch.copy("mbuma", std::path::Path::new(MBUMA));
    // The guest waits until it sees its own files, as often as the host replaces one.
    let script = format!(
        "echo written >>/etc/hosts
         for i in $(seq {}); do
             echo seen $i; read go
             until grep -q 10.0.2.3 /etc/resolv.conf && getent hosts db; do sleep 0.05; done
         done; cat /etc/resolv.conf; tail -n 1 /etc/hosts",
        changes.len()
    );
    for before in [&[][..], &AS_NOBODY] {
        let words = ["run", "-r", "--add-host", "db:192.0.2.7", "--", "sh", "-c"];
        let words = [before, &[&*copy], &words, &[&*script]].concat();
        let mut command = program(words[0]);
        command.args(&words[1..]);
        let mut guest = Running::start(command);
        for (i, change) in changes.iter().enumerate() {
            guest.wait_for(&format!("seen {}", i + 1));
            shell(change);
            guest.say("go");
        }
        let out = guest.finish().good();
        assert!(out.ends_with("nameserver 10.0.2.3\nwritten\n"), "{out}");
        let host = std::fs::read_to_string("/etc/resolv.conf");
        assert_eq!(host.expect("the host's"), "nameserver 127.0.0.9\n");
    }
}

#[test]
fn the_port_of_encrypted_questions_leads_to_the_same_resolvers() {
    // Breaks when DNS over TLS or QUIC fails though a resolver of the host speaks it; when a guest waits where none
    // does; or when a resolver that does not is asked no plain questions either.
    needs!(guests(), root(), programs(&["dig"]));
    on_test_host!();
    let _plain = NameServer::start("127.0.0.1");
    resolve_with("nameserver 127.0.0.1\nnameserver 127.0.0.9\n");
    let dig = "dig +tries=1 +time=15 host.example A";
    let encrypted = format!("for at in 10.0.2.3 fd00::3; do {dig} -p 853 +tcp @$at; done");
    let script = format!("{encrypted}; {dig} +short; {dig} +short +tcp");
    let ended = Running::start(crate::common::mbuma(&[], &script)).finish();
    let refused = ended.out.matches("connection refused").count();
    assert!(refused >= 2, "{ended:?}");
    assert!(
        ended.out.ends_with(&format!("\n{ANSWER}\n{ANSWER}\n")),
        "{ended:?}"
    );
    // The second one speaks it. mbuma only passes the bytes on, so this test does without encryption.
    let server = NameServer::start_at("127.0.0.9:853");
    let tcp = format!("for at in 10.0.2.3 fd00::3; do {dig} +short -p 853 +tcp @$at; done");
    let answers = format!("{ANSWER}\n{ANSWER}\n");
    assert_eq!(output_of(&[], &tcp), answers);
    assert_eq!((server.connections(), server.udp_questions()), (2, 0));
    let quic = format!("{dig} +short -p 853 @10.0.2.3");
    assert_eq!(output_of(&["--dns", "127.0.0.9"], &quic).trim(), ANSWER);
    assert_eq!((server.connections(), server.udp_questions()), (2, 1));
}

/// Gives the test host a directory /etc with few files, which may be replaced.
fn have_own_etc() {
    shell(
        "umount $(readlink -f /etc/resolv.conf)
         mkdir /run/etc
         cp -a /etc/passwd /etc/group /etc/hosts /etc/nsswitch.conf /run/etc/
         mount --bind /run/etc /etc
         echo nameserver 127.0.0.9 >/etc/resolv.conf",
    );
}

/// The process that reads the guest's packets has no watch on the host's files, from which it would learn their names.
fn holds_no_watch(gateway: u32) {
    let fds = std::fs::read_dir(format!("/proc/{gateway}/fd")).expect("it runs");
    for fd in fds {
        // One may be gone by now.
        let link = fd.and_then(|fd| std::fs::read_link(fd.path()));
        let is_watch = link.is_ok_and(|link| link.to_string_lossy().contains("inotify"));
        assert!(!is_watch, "an inotify instance");
    }
}

#[test]
fn a_long_list_of_hosts_in_any_encoding_is_kept() {
    // Breaks when the host's file does not fit the file system that ours is written to, or is refused because a comment
    // in it is not UTF-8.
    needs!(guests(), root(), programs(&["getent"]));
    on_test_host!();
    let mut text = b"# f\xfcr alle\n".to_vec();
    for n in 0..50_000 {
        text.extend(format!("0.0.0.0 refused{n}.example.org\n").into_bytes());
    }
    std::fs::write("/run/hosts", text).expect("/run of the test host can be written");
    shell("mount --bind /run/hosts $(readlink -f /etc/hosts)");
    let script = "getent ahostsv4 web; getent ahostsv4 refused49999.example.org";
    let out = output_of(&["--hostname", "web"], script);
    assert!(out.starts_with("10.0.2.100"), "{out}");
    assert!(out.contains("\n0.0.0.0"), "{out}");
}

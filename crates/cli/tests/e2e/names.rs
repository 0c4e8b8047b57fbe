//! Names inside: the guest's own, hosts that are added, and the name server that is asked.

use crate::common::island::{make_tun, resolve_with, shell};
use crate::common::nameserver::{ANSWER, NameServer};
use crate::common::needs::{an_island, guests, programs, root};
use crate::common::{AS_NOBODY, MBUMA, Running, Scratch, output_of, program};

#[test]
fn a_guest_has_the_names_that_are_asked_for_and_the_host_keeps_its_own() {
    // Breaks when an option changes the host's files, or an ordinary user cannot use it.
    needs!(
        guests(),
        root(),
        an_island(),
        programs(&["setpriv", "getent"])
    );
    on_an_island!();
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
    // Breaks when --dns is taken for the guest's resolv.conf, whose address the guest cannot reach, or is ignored.
    needs!(guests(), root(), an_island(), programs(&["dig"]));
    on_an_island!();
    // The host's own refuses.
    resolve_with("nameserver 127.0.0.9\n");
    let _server = NameServer::start("127.0.0.1");
    let ask = "dig +short +tries=1 +time=5 host.example";
    assert_eq!(output_of(&["--dns", "127.0.0.1"], ask).trim(), ANSWER);
    let ended = Running::start(crate::common::mbuma(&[], ask)).finish();
    assert!(!ended.out.contains(ANSWER), "{ended:?}");
    // The host moves to another network while the guest runs, and its resolv.conf is written anew. Breaks if the guest goes on
    // asking the name server of the network that the host has left.
    let until = format!("until {ask} | grep -qx {ANSWER}; do sleep 0.1; done; echo found");
    let script = format!("{ask} | grep -x {ANSWER} || echo none; {until}");
    let guest = Running::start(crate::common::mbuma(&[], &script));
    guest.wait_for("none");
    std::fs::write("/run/resolv.conf", "nameserver 127.0.0.1\n").expect("the island's");
    assert_eq!(guest.finish().good(), "none\nfound\n");
    // The same, by the renaming of another file over it, as most programs replace it. The kernel takes away all that is mounted
    // over a file that is replaced, the guest's own resolv.conf too: so the guest names the gateway's server.
    shell(
        "umount $(readlink -f /etc/resolv.conf)
         mkdir /run/etc
         cp -a /etc/passwd /etc/group /etc/hosts /etc/nsswitch.conf /run/etc/
         mount --bind /run/etc /etc
         echo nameserver 127.0.0.9 >/etc/resolv.conf",
    );
    let script = script.replace("dig", "dig @10.0.2.3");
    let guest = Running::start(crate::common::mbuma(&[], &script));
    guest.wait_for("none");
    holds_no_watch(guest.gateway());
    shell("echo nameserver 127.0.0.1 >/etc/new; mv /etc/new /etc/resolv.conf");
    assert_eq!(guest.finish().good(), "none\nfound\n");
}

/// The process that reads what the guest sends has no watch of the host's files, from which it would learn their names.
fn holds_no_watch(gateway: u32) {
    let fds = std::fs::read_dir(format!("/proc/{gateway}/fd")).expect("it runs");
    for fd in fds {
        // One may be gone by now.
        let link = fd.and_then(|fd| std::fs::read_link(fd.path()));
        let is_watch = link.is_ok_and(|link| link.to_string_lossy().contains("inotify"));
        assert!(!is_watch, "an inotify instance");
    }
}

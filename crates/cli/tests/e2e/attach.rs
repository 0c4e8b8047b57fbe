//! `mbuma attach`, as container engines start it, with a namespace that `ip netns` made.

use std::fs;
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::needs::{guests, programs, root};
use crate::common::scratch::noise;
use crate::common::server::TcpServer;
use crate::common::test_host::{ip, shell};
use crate::common::{MBUMA, Running, Scratch, Stats, http, program, wait_until};

/// A shell that becomes `mbuma attach`, so that the script chooses its descriptors.
fn attach(arguments: &str) -> Running {
    let mut command = program("sh");
    command.args(["-c", &format!("exec {MBUMA} attach {arguments}")]);
    Running::start(command)
}

/// A script in the network namespace `blue`.
fn in_blue(script: &str) -> Command {
    let mut command = program("ip");
    command.args(["netns", "exec", "blue", "sh", "-c", script]);
    command
}

#[test]
fn a_named_namespace_gets_a_network() {
    // Breaks when an engine that speaks slirp4netns's convention cannot use mbuma instead.
    needs!(guests(), root(), programs(&["curl"]));
    on_test_host!();
    ip("netns add blue");
    let scratch = Scratch::new();
    let ready = scratch.text("ready");
    let server = http::serve(noise(1_000_000, 13));
    let attached = attach(&format!(
        "/run/netns/blue --ifname eth7 --mtu 9000 --host-loopback --stats=json --ready-fd 3 3>{ready}"
    ));
    wait_until("readiness", || {
        fs::read(&ready).is_ok_and(|said| said == b"1")
    });
    let script = format!(
        "cat /sys/class/net/eth7/mtu
         curl -sS http://10.0.2.2/ | tail -n 1
         curl -sS -o /dev/null -w '%{{size_download}}\\n' http://10.0.2.2:{}/",
        server.port()
    );
    let out = Running::start(in_blue(&script)).finish().good();
    assert_eq!(out, "9000\n</html>\n1000000\n");
    attached.signal("TERM");
    let ended = attached.finish();
    assert_eq!((ended.code, &*ended.out), (Some(0), ""), "{ended:#?}");
    Stats::checked(&ended.err);
    let gone = Running::start(in_blue("test ! -e /sys/class/net/eth7")).finish();
    assert_eq!(gone.code, Some(0), "the interface outlived mbuma");
}

#[test]
fn a_socket_takes_a_quarter_of_a_mebibyte_that_it_cannot_send_yet() {
    // Breaks when an upload writes megabytes at once, for which other programs of its CPU wait; or when the bound that
    // a namespace's owner chose is changed.
    needs!(guests(), root());
    on_test_host!();
    let bound = "/proc/sys/net/ipv4/tcp_notsent_lowat";
    for (name, chosen, expected) in [("blue", None, "262144\n"), ("red", Some(9000), "9000\n")] {
        ip(&format!("netns add {name}"));
        if let Some(chosen) = chosen {
            shell(&format!(
                "ip netns exec {name} sh -c 'echo {chosen} > {bound}'"
            ));
        }
        let attached = attach(&format!("/run/netns/{name} --ready-fd 3 3>&1 1>&2"));
        attached.wait_for_end_of_output();
        let mut command = program("ip");
        command.args(["netns", "exec", name, "cat", bound]);
        assert_eq!(Running::start(command).finish().good(), expected, "{name}");
        attached.signal("TERM");
        attached.finish();
    }
}

#[test]
fn a_port_of_a_named_namespace_is_published() {
    // Breaks when a client cannot reach a container's server, also one on 127.0.0.1 alone, or the port stays in use
    // after the end.
    needs!(guests(), root(), programs(&["python3", "curl"]));
    on_test_host!();
    ip("netns add blue");
    let attached = attach("/run/netns/blue --publish 8080:80 --ready-fd 3 3>&1 1>&2");
    assert_eq!(attached.wait_for_end_of_output(), "1");
    for addr in ["0.0.0.0", "127.0.0.1"] {
        let script =
            format!("cd / && exec python3 -I -u -m http.server --bind {addr} 80 2>/dev/null");
        let web = Running::start(in_blue(&script));
        web.wait_for("Serving HTTP");
        shell("curl -sS http://127.0.0.1:8080/etc/passwd | cmp - /etc/passwd");
        web.signal("TERM");
        web.finish();
    }
    attached.signal("TERM");
    let ended = attached.finish();
    assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{ended:#?}");
}

#[test]
fn a_signal_ends_it_at_once() {
    // Breaks when an engine that stops the network of a busy container must wait until the container's bytes are
    // delivered.
    needs!(guests(), root(), programs(&["nc"]));
    on_test_host!();
    ip("netns add blue");
    let taken = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&taken);
    let server = TcpServer::start(move |mut stream| {
        let mut piece = [0; 1 << 16];
        while let Ok(n @ 1..) = io::Read::read(&mut stream, &mut piece) {
            count.fetch_add(n as u64, Ordering::AcqRel);
        }
    });
    for signal in ["TERM", "INT"] {
        let attached =
            attach("/run/netns/blue --host-loopback --stats=json --ready-fd 3 3>&1 1>&2");
        attached.wait_for_end_of_output();
        let before = taken.load(Ordering::Acquire);
        let script = format!("exec nc 10.0.2.2 {} </dev/zero", server.port());
        let sender = Running::start(in_blue(&script));
        wait_until("a transfer", || {
            taken.load(Ordering::Acquire) > before + 5_000_000
        });
        attached.signal(signal);
        let ended = attached.finish();
        // The guest sends without end: a gateway that waited for its bytes would be killed, with an error.
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        Stats::checked(&ended.err);
        sender.signal("KILL");
        sender.finish();
    }
}

#[test]
fn a_deleted_interface_ends_it() {
    // Breaks when mbuma spins, or stays, with nothing to serve.
    needs!(guests(), root());
    on_test_host!();
    ip("netns add blue");
    let attached = attach("/run/netns/blue --ready-fd 3 3>&1 1>&2");
    attached.wait_for_end_of_output();
    ip("-n blue link delete tap0");
    let ended = attached.finish();
    assert_eq!(ended.code, Some(125), "{ended:#?}");
    assert!(ended.err.contains("interface is gone"), "{ended:#?}");
}

#[test]
fn a_deleted_name_ends_it() {
    // Breaks when mbuma keeps a namespace alive, and serves it, that `ip netns del` was to end.
    needs!(guests(), root());
    on_test_host!();
    ip("netns add blue");
    let mut attached = attach("/run/netns/blue --ready-fd 3 3>&1 1>&2");
    attached.wait_for_end_of_output();
    // mbuma checks once a second.
    std::thread::sleep(Duration::from_millis(1200));
    assert!(!attached.has_ended(), "{}", attached.complaints());
    ip("netns del blue");
    let ended = attached.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let said = "/run/netns/blue does not name the network namespace any more";
    assert!(ended.err.contains(said), "{ended:#?}");
}

#[test]
fn the_helper_refuses_tracing_before_it_enters() {
    // Breaks when root of a hostile user namespace can trace the helper, which has descriptors of the host.
    needs!(
        guests(),
        root(),
        programs(&["strace", "unshare", "setpriv"])
    );
    let mut holder = program("setpriv");
    holder.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    holder.args(["unshare", "-Urn", "sh", "-c", "echo ready; cat"]);
    let holder = Running::start(holder);
    holder.wait_for("ready");
    let mut strace = program("strace");
    let pid = holder.id().to_string();
    strace.args(["-f", "-e", "trace=prctl,setns", "-e", "signal=none"]);
    strace.args([MBUMA, "attach", &pid]);
    let strace = Running::start(strace);
    strace.wait_for_complaint("CLONE_NEWNET");
    holder.finish();
    let ended = strace.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let at = |call: &str| ended.err.find(call);
    let (refused, entered) = (
        at("PR_SET_DUMPABLE, SUID_DUMP_DISABLE"),
        at("CLONE_NEWUSER"),
    );
    assert!(refused.is_some() && refused < entered, "{ended:#?}");
}

#[test]
fn a_name_in_another_users_directory_is_watched() {
    // Breaks when root's mbuma, which gives up root's rights over files, never learns that an engine of a user's
    // removed the namespace's name.
    needs!(guests(), root());
    on_test_host!();
    shell(
        "ip netns add blue; mkdir -m 700 /run/theirs; touch /run/theirs/blue
         mount --bind /run/netns/blue /run/theirs/blue; chown 65534:65534 /run/theirs",
    );
    let scratch = Scratch::new();
    let ready = scratch.text("ready");
    let attached = attach(&format!("/run/theirs/blue --ready-fd 3 3>{ready}"));
    wait_until("readiness", || {
        fs::read(&ready).is_ok_and(|said| said == b"1")
    });
    shell("umount /run/theirs/blue; rm /run/theirs/blue");
    let ended = attached.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.err.contains("does not name"), "{ended:#?}");
}

//! A real kernel: QEMU without KVM boots a kernel of the system, with busybox as its only program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{vm, vm_at};
use crate::common::needs::programs;
use crate::common::scratch::noise;
use crate::common::server::TcpServer;
use crate::common::{Running, Scratch, alone, program};

/// A machine without KVM boots slowly, and more slowly beside other tests.
const BOOT: Duration = Duration::from_secs(300);
/// Bytes of the long page.
const LONG: usize = 500_000;
/// Modules of virtio's network card. Which needs which differs between kernels, so the machine tries all of them three
/// times.
const MODULES: [&str; 7] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "failover",
    "net_failover",
];

/// The newest kernel in /boot whose modules are there, and their directory.
fn kernel() -> Result<(PathBuf, PathBuf), String> {
    let mut found = Vec::new();
    for file in fs::read_dir("/boot").into_iter().flatten().flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let Some(release) = name.strip_prefix("vmlinuz-") else {
            continue;
        };
        let modules = Path::new("/lib/modules").join(release).join("kernel");
        if modules.is_dir() {
            found.push((file.path(), modules));
        }
    }
    found.sort();
    found
        .pop()
        .ok_or_else(|| "no kernel with modules in /boot".to_owned())
}

/// busybox, linked statically.
fn busybox() -> Result<PathBuf, String> {
    let path = PathBuf::from("/bin/busybox");
    let linked = Command::new("ldd").arg(&path).output();
    let is_static = linked.is_ok_and(|out| !out.status.success());
    match path.is_file() && is_static {
        true => Ok(path),
        false => Err("no static /bin/busybox".to_owned()),
    }
}

/// The machine's first program. udhcpc sets the address itself; the script that it runs does so.
const INIT: &str = "#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
for n in 1 2 3; do for m in /modules/*.ko; do insmod $m 2>/dev/null; done; done
ip link set lo up; ip link set eth0 up
udhcpc -n -q -t 20 -i eth0 -s /udhcpc.sh -O mtu && echo LEASE $(ip -4 -o addr show eth0 | tr -s ' ' | cut -d' ' -f4)
echo HOSTNAME $(hostname)
wget -q -O - http://10.0.2.2:PORT/ && echo
ping -c 1 -W 10 10.0.2.2 > /dev/null && echo PONG
ip addr flush dev eth0; ip link set eth0 down; ip link set eth1 up
udhcpc -n -q -t 20 -i eth1 -s /udhcpc.sh -O mtu && echo SHARED LEASE \
$(ip -4 -o addr show eth1 | tr -s ' ' | cut -d' ' -f4)
wget -q -O - http://10.0.2.2:PORT/long | md5sum | sed 's/^/SHARED /'
ping -c 1 -W 10 -s 3000 10.0.2.2 > /dev/null && echo SHARED PONG
poweroff -f
";
const UDHCPC: &str = "#!/bin/sh
[ \"$1\" = bound ] || exit 0
ip addr add $ip/$mask dev $interface
ip route add default via $router
ip link set $interface mtu $mtu
hostname $hostname
";

/// An initial file system with busybox, the modules and the script.
fn initramfs(scratch: &Scratch, busybox: &Path, modules: &Path, port: u16) -> String {
    let root = scratch.path("root");
    for dir in ["bin", "proc", "sys", "dev", "modules"] {
        fs::create_dir_all(root.join(dir)).expect("ours");
    }
    fs::copy(busybox, root.join("bin/busybox")).expect("ours");
    for name in [
        "sh", "mount", "insmod", "ip", "udhcpc", "wget", "ping", "poweroff", "hostname", "tr",
        "cut", "echo", "md5sum", "sed",
    ] {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(name)).expect("ours");
    }
    for (n, name) in MODULES.iter().chain(&["virtio_net"]).enumerate() {
        // A module that is built in has no file.
        if let Some(file) = find(modules, &format!("{name}.ko")) {
            fs::copy(file, root.join(format!("modules/{n:02}-{name}.ko"))).expect("ours");
        }
    }
    let init = INIT.replace("PORT", &port.to_string());
    for (name, text) in [("init", &*init), ("udhcpc.sh", UDHCPC)] {
        let path = root.join(name);
        fs::write(&path, text).expect("ours");
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    let archive = scratch.text("initramfs");
    let script = format!(
        "cd {} && find . | cpio -o -H newc --quiet > {archive}",
        root.display()
    );
    let packed = program("sh").args(["-c", &script]).status();
    assert!(packed.expect("sh is there").success());
    archive
}

/// A file of this name below a directory.
fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).ok()?;
    entries.flatten().find_map(|entry| {
        let path = entry.path();
        match path.is_dir() {
            true => find(&path, name),
            false => (entry.file_name().to_str() == Some(name)).then_some(path),
        }
    })
}

/// The digest of the long page, as md5sum has it.
fn digest(scratch: &Scratch) -> String {
    let path = scratch.path("long");
    fs::write(&path, noise(LONG, 7)).expect("ours");
    let out = program("md5sum").arg(path).output().expect("it is there");
    let text = String::from_utf8(out.stdout).expect("text");
    text.split(' ').next().expect("a digest").to_owned()
}

#[test]
fn a_kernel_boots_and_fetches_a_page() {
    // Breaks when QEMU does not connect, a real client gets no lease, or a machine's kernel does not reach the host: by
    // frames in a stream, and then by memory that it shares.
    needs!(
        programs(&["qemu-system-x86_64", "cpio", "md5sum"]),
        kernel(),
        busybox()
    );
    let _alone = alone();
    let (Ok((kernel, modules)), Ok(busybox)) = (kernel(), busybox()) else {
        return;
    };
    let scratch = Scratch::new();
    let server = TcpServer::start(|mut stream| {
        use std::io::{Read, Write};
        let mut request = [0; 1000];
        let _ = stream.read(&mut request);
        let body = match request.starts_with(b"GET /long ") {
            true => &noise(LONG, 7)[..],
            false => b"FETCHED IT",
        };
        let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let _ = stream.write_all(&[head.as_bytes(), body].concat());
    });
    let archive = initramfs(&scratch, &busybox, &modules, server.port());
    let vm = vm(
        &scratch,
        &["--host-loopback", "--hostname", "web", "--mtu", "4000"],
    );
    let options = ["--vhost-user", "--host-loopback", "--mtu", "4000"];
    let shared = vm_at(&scratch, "shared.sock", &options);
    let mut qemu = program("qemu-system-x86_64");
    qemu.args([
        "-machine",
        "q35,accel=tcg",
        "-cpu",
        "max",
        "-m",
        "256",
        "-nodefaults",
        "-display",
        "none",
    ])
    .args([
        "-serial",
        "stdio",
        "-no-reboot",
        "-device",
        "virtio-net-pci,netdev=n,romfile=",
        "-object",
        "memory-backend-memfd,id=m,size=256M,share=on",
        "-numa",
        "node,memdev=m",
        "-device",
        // Without a vector: QEMU 7.2 without KVM crashes when it sets those of a vhost-user device up.
        "virtio-net-pci,netdev=v,romfile=,vectors=0",
        "-netdev",
        "vhost-user,id=v,chardev=c",
        "-chardev",
    ])
    .arg(format!("socket,id=c,path={}", scratch.text("shared.sock")))
    .args([
        "-append",
        "console=ttyS0 quiet panic=-1",
        "-initrd",
        &archive,
    ])
    .arg("-netdev")
    .arg(format!(
        "stream,id=n,addr.type=unix,addr.path={}",
        scratch.text("vm.sock")
    ))
    .arg("-kernel")
    .arg(kernel);
    let ended = Running::start(qemu).with_patience(BOOT).finish();
    let digest = format!("SHARED {}", digest(&scratch));
    for words in [
        "LEASE 10.0.2.100/24",
        "HOSTNAME web",
        "FETCHED IT",
        "PONG",
        "SHARED LEASE 10.0.2.100/24",
        &digest,
        "SHARED PONG",
    ] {
        assert!(ended.out.contains(words), "no {words}: {ended:#?}");
    }
    super::end(vm);
    super::end(shared);
}

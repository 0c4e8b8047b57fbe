//! Root of the guest at its own TAP: nothing that it sets or sends there may end mbuma, or cause a wrong report.

use std::net::TcpListener;

use crate::common::needs::{guests, programs, root};
use crate::common::{Running, mbuma_python};

/// Opens a queue of its own of tap0, and tries every setting that a TAP has; sends, and is sent to, under each. Then
/// puts the settings back, and fetches the status page.
const SETTINGS: &str = "
import fcntl, socket, struct, subprocess, time
TAP, NO_PI, VNET, MULTI = 2, 0x1000, 0x4000, 0x100
queue = open('/dev/net/tun', 'r+b', buffering=0)
def set(number, value):
    try:
        fcntl.ioctl(queue, number, value)
        return 'taken'
    except OSError as e:
        return e.strerror
def ip(*words):
    subprocess.run(['ip', 'link', 'set', 'tap0', *words], stderr=subprocess.DEVNULL)
def talk():
    for n in range(30):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setblocking(False)
        try:
            s.sendto(b'x' * 3000, ('10.0.2.2', 2000 + n))
            t = socket.socket()
            t.setblocking(False)
            t.connect_ex(('10.0.2.2', 80))
        except OSError:
            pass
    time.sleep(0.05)
number = lambda value: struct.pack('i', value)
TUNSETIFF, OFFLOAD, SNDBUF, HDRSZ = 0x400454ca, 0x400454d0, 0x400454d4, 0x400454d8
name = struct.pack('16sH22x', b'tap0', TAP | NO_PI | VNET | MULTI)
print('queue', set(TUNSETIFF, name))
for offloads in (0xff, 0x7f, 0x8f, 0xff, 0):
    print('offloads', hex(offloads), set(OFFLOAD, offloads))
    talk()
set(OFFLOAD, 1)
for size in (12, 24, 4096, 65536, 10):
    print('header', size, set(HDRSZ, number(size)))
    talk()
for size in (1, 0, -1, 2**31 - 1):
    print('send buffer', size, set(SNDBUF, number(size)))
    talk()
for big, little in ((1, 0), (0, 1), (0, 0)):
    print('big-endian', set(0x400454de, number(big)), 'little-endian', set(0x400454dc, number(little)))
    talk()
program = struct.pack('HBBI', 6, 0, 0, 0)
import ctypes
code = ctypes.create_string_buffer(program, len(program))
filter = struct.pack('HxxxxxxQ', 1, ctypes.addressof(code))
print('filter', set(0x401054d5, filter))
talk()
print('no filter', set(0x401054d6, filter))
for flags in (TAP | NO_PI | MULTI, TAP | VNET | MULTI, TAP | MULTI, TAP | NO_PI | VNET | MULTI):
    queue.close()
    queue = open('/dev/net/tun', 'r+b', buffering=0)
    print('flags', hex(flags), set(TUNSETIFF, struct.pack('16sH22x', b'tap0', flags)))
    talk()
for detach in (0x400, 0x200):
    print('queue', set(0x400454d9, struct.pack('16sH22x', b'', detach)))
    talk()
print('not persistent', set(0x400454cb, 0), 'owner', set(0x400454cc, 0), 'kind', set(0x400454cd, 512))
for words in (['down'], ['up'], ['mtu', '68'], ['mtu', '65521'], ['mtu', '65520'], ['txqueuelen', '0'],
              ['txqueuelen', '1000'], ['arp', 'off'], ['arp', 'on'], ['promisc', 'on'], ['down'], ['name', 'tap1'],
              ['name', 'tap0'], ['up']):
    if words[0] == 'name':
        old = 'tap0' if words[1] == 'tap1' else 'tap1'
        subprocess.run(['ip', 'link', 'set', old, *words], stderr=subprocess.DEVNULL)
    else:
        ip(*words)
    talk()
set(OFFLOAD, 1)
queue.close()
subprocess.run(['ip', 'route', 'replace', 'default', 'via', '10.0.2.2'])
s = socket.create_connection(('10.0.2.2', 80), 10)
s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
print('page', s.recv(100).split(b'\\r\\n')[0].decode())
";

#[test]
fn no_setting_of_the_tap_ends_mbuma() {
    // Breaks when mbuma takes an error of a read or a write that the guest's root causes, as EFAULT by TUNSETOFFLOAD,
    // for the end of the TAP.
    needs!(guests(), root(), programs(&["python3", "ip"]));
    for workers in ["1", "2"] {
        let running = Running::start(mbuma_python(&["--workers", workers], SETTINGS, &[]));
        let ended = running.finish();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert!(ended.out.contains("page HTTP/1.1 200"), "{ended:#?}");
    }
}

/// Sends SYNs of which the guest's kernel knows nothing, so that it resets each answer.
const FOREIGN_SYNS: &str = "
import socket, struct, sys, time
def checksum(data):
    total = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
guest, gateway = socket.inet_aton('10.0.2.100'), socket.inet_aton('10.0.2.2')
for port in range(20000, 20020):
    syn = lambda sum: struct.pack('!HHIIBBHHH', port, int(sys.argv[1]), 1, 0, 0x50, 2, 65535, sum, 0)
    raw.sendto(syn(checksum(guest + gateway + struct.pack('!HH', 6, 20) + syn(0))), ('10.0.2.2', 0))
    time.sleep(0.02)
";

#[test]
fn a_guest_that_resets_its_own_connection_is_no_published_port() {
    // Breaks if the end of a half-open connection of the guest is reported as that of a client of a published port.
    needs!(guests(), root(), programs(&["python3"]));
    let server = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = server.local_addr().expect("bound").port().to_string();
    let guest = mbuma_python(&["--host-loopback"], FOREIGN_SYNS, &[&port]);
    let ended = Running::start(guest).finish();
    assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{ended:#?}");
    // The gateway did connect.
    server.accept().expect("a connection of the guest");
}

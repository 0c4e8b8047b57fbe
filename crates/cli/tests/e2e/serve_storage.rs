//! Where the bytes of served files come from: a file system that does not answer, and copies in memory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use crate::common::needs::{fuse, guests, programs, root};
use crate::common::scratch::noise;
use crate::common::test_host::shell;
use crate::common::{MBUMA, Running, Scratch, Stats, program, wait_until};

/// A server of the site at 192.0.2.2, once it serves.
fn serving(scratch: &Scratch, options: &[&str]) -> Running {
    let mut command = program(MBUMA);
    command.args(["serve", &scratch.text("site"), "--tap", "srv0"]);
    command.args(["--address", "192.0.2.2/24", "--stats=json", "--status"]);
    command.args(options);
    let running = Running::start(command);
    running.wait_for("serving at");
    running
}

/// A file system at argv[1] with one file, whose bytes come after a line on standard input, and so does the answer
/// where `late` is: the kernel's protocol of FUSE.
const SLOW_FILES: &str = "
import ctypes, os, select, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open('/dev/fuse', os.O_RDWR)
options = f'fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other'.encode()
assert libc.mount(b'slow', sys.argv[1].encode(), b'fuse', 0, options) == 0, os.strerror(ctypes.get_errno())
size = 3 << 20
def attr(node):
    mode, length = (0o40755, 0) if node == 1 else (0o100644, size)
    return struct.pack('<6Q10I', node, length, length // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
def answer(unique, body=b'', error=0):
    os.write(fd, struct.pack('<IiQ', 16 + len(body), -error, unique) + body)
def read(unique, offset, length):
    answer(unique, bytes((n >> 9) & 255 for n in range(offset, min(offset + length, size))))
waiting, looked, free = [], [], False
print('mounted', flush=True)
while True:
    ready, _, _ = select.select([fd, 0], [], [])
    if 0 in ready:
        if not sys.stdin.readline():
            break
        free = True
        for request in waiting:
            read(*request)
        for unique in looked:
            answer(unique, error=2)
        waiting, looked = [], []
    if fd in ready:
        request = os.read(fd, 1 << 18)
        _, opcode, unique, node = struct.unpack_from('<IIQQ', request)
        if opcode == 26:
            answer(unique, struct.pack('<4I2H2I2H8I', 7, 31, 1 << 17, 0, 12, 9, 4096, 1, 0, 0, *[0] * 8))
        elif opcode == 1 and request[40:].startswith(b'late'):
            if free:
                answer(unique, error=2)
            else:
                looked.append(unique)
                print('looked', flush=True)
        elif opcode == 1:
            answer(unique, struct.pack('<4Q2I', 2, 0, 1000, 1000, 0, 0) + attr(2))
        elif opcode == 3:
            answer(unique, struct.pack('<QII', 1000, 0, 0) + attr(node))
        elif opcode in (14, 27):
            # What was read stays in memory: an open does not wait for reads that are under way.
            answer(unique, struct.pack('<QII', 1, 2, 0))
        elif opcode == 15:
            _, offset, length = struct.unpack_from('<QQI', request, 40)
            if free:
                read(unique, offset, length)
            else:
                waiting.append((unique, offset, length))
                if len(waiting) == 1:
                    print('asked', flush=True)
        elif opcode in (18, 25, 29):
            answer(unique)
        elif opcode not in (2, 42, 36):
            answer(unique, error=38)
";

#[test]
fn a_file_system_that_does_not_answer_keeps_no_other_client_waiting() {
    // Breaks when a worker waits for a disk: here the only one would wait for ever.
    needs!(
        guests(),
        root(),
        fuse(),
        programs(&["curl", "python3", "cmp"])
    );
    on_test_host!();
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("site/slow")).expect("the temporary directory can be written");
    scratch.write("site/ten", b"0123456789");
    let big = scratch.write("site/big", &noise(8 << 20, 41));
    let mut command = program("python3");
    command.args(["-I", "-c", SLOW_FILES, &scratch.text("site/slow")]);
    let mut slow = Running::start(command);
    slow.wait_for("mounted");
    let server = serving(&scratch, &["--workers", "1"]);
    let copy = |n: usize| scratch.text(&format!("copy{n}"));
    let fetch = |n: usize| {
        let mut command = program("curl");
        command.args(["-sS", "-o", &copy(n), "http://192.0.2.2/slow/file"]);
        Running::start(command)
    };
    // More requests than there are reader threads for one file system.
    let fetches: Vec<_> = (0..6).map(fetch).collect();
    slow.wait_for("asked");
    // More requests than threads that may look for files of one file system.
    let late = |n: usize| {
        let mut command = program("curl");
        let url = format!("http://192.0.2.2/slow/late{n}");
        command.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url]);
        Running::start(command)
    };
    let late: Vec<_> = (0..6).map(late).collect();
    slow.wait_for("looked");
    shell(&format!(
        "for n in 1 2 3 4 5 6 7 8; do test \"$(curl -sS http://192.0.2.2/ten)\" = 0123456789; done
         curl -sS http://192.0.2.2/big | cmp - {big}
         test \"$(curl -sS -o /dev/null -w '%{{http_code}}' http://192.0.2.2/none)\" = 404"
    ));
    slow.say("now");
    let expected: Vec<u8> = (0..3 << 20).map(|n| (n >> 9) as u8).collect();
    for (n, fetch) in fetches.into_iter().enumerate() {
        fetch.finish().good();
        let got = fs::read(copy(n)).expect("the copy");
        assert!(got == expected, "copy {n} differs");
    }
    for fetch in late {
        assert_eq!(fetch.finish().good(), "404");
    }
    server.signal("TERM");
    let ended = server.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(Stats::checked(&ended.err).number("file_lookups") >= 12);
    assert!(Stats::checked(&ended.err).number("file_reads") >= 6);
    slow.finish();
}

/// Responses from copies so far.
fn from_copies(base: &str) -> u64 {
    let metrics = format!("{base}/.mbuma/metrics");
    let out = program("curl").args(["-ksS", &metrics]).output();
    let text = String::from_utf8_lossy(&out.expect("curl").stdout).into_owned();
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix("mbuma_files_from_copies_total "));
    value.map_or(0, crate::common::number)
}

#[test]
fn a_copy_is_used_as_long_as_the_file_is_the_same() {
    // Breaks when a client gets a former state of a file, halves of two states, or a file that the server may not read.
    needs!(guests(), root(), programs(&["curl", "cmp"]));
    on_test_host!();
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("site")).expect("the temporary directory can be written");
    let first = scratch.write("first", &noise(3 << 20, 51));
    let second = scratch.write("second", &noise(3 << 20, 52));
    let path = scratch.write("site/file", &noise(3 << 20, 51));
    let past = SystemTime::now() - Duration::from_secs(3600);
    let age = || {
        let file = fs::File::options().append(true).open(&path);
        file.and_then(|file| file.set_modified(past))
            .expect("our file");
    };
    age();
    for (base, tls) in [
        ("http://192.0.2.2", &[][..]),
        ("https://192.0.2.2", &["--tls=self-signed"]),
    ] {
        fs::write(&path, noise(3 << 20, 51)).expect("our file");
        age();
        let server = serving(&scratch, &[&["--cache", "16M"], tls].concat());
        let url = format!("{base}/file");
        let same = |expected: &str| shell(&format!("curl -ksS {url} | cmp - {expected}"));
        wait_until("a copy is sent", || {
            same(&first);
            from_copies(base) > 0
        });
        // Amid a response from a copy the file goes, and the response goes on.
        let copy = scratch.text("copy");
        _ = fs::remove_file(&copy);
        let mut slow = program("curl");
        slow.args(["-ksS", "--limit-rate", "2M", "-o", &copy, &url]);
        let slow = Running::start(slow);
        wait_until("a part of the file", || {
            fs::metadata(&copy).is_ok_and(|file| file.len() > 1 << 16)
        });
        fs::write(&path, noise(3 << 20, 52)).expect("our file");
        age();
        same(&second);
        slow.finish().good();
        shell(&format!("cmp {copy} {first}"));
        // Another file of the same name, and one that may not be read.
        let other = scratch.write("site/other", &noise(3 << 20, 51));
        fs::rename(&other, &path).expect("our files");
        same(&first);
        let status = |code: u16| {
            shell(&format!(
                "test \"$(curl -ksS -o /dev/null -w '%{{http_code}}' {url})\" = {code}"
            ));
        };
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("our file");
        status(403);
        fs::remove_file(&path).expect("our file");
        status(404);
        server.signal("TERM");
        assert_eq!(server.finish().code, Some(0));
    }
}

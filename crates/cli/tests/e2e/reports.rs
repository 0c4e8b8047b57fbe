//! The reports of mbuma: the status page, the figures, the capture; and that it prints and does nothing without a
//! request.

use std::collections::HashSet;
use std::fs;
use std::thread;
use std::time::Duration;

use crate::common::needs::{guests, programs};
use crate::common::scratch::noise;
use crate::common::{
    MBUMA, Running, Scratch, Stats, alone, http, mbuma, number, output_of, program,
};

#[test]
fn the_status_page_is_served_from_inside() {
    // Breaks when the first command of the README does not work.
    needs!(guests(), programs(&["curl"]));
    for options in [&[][..], &["--host-loopback"]] {
        let page = output_of(options, "curl -sSi http://10.0.2.2/");
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert!(
            page.contains("text/html") && page.contains("mbuma") && page.contains("</html>"),
            "{page}"
        );
        assert!(!page.contains("{{"), "a figure is missing: {page}");
    }
}

#[test]
fn the_status_page_keeps_to_http() {
    // Breaks when a valid or invalid HTTP request gets another answer than the standard requires.
    needs!(guests(), programs(&["curl", "nc"]));
    let status = "-o /dev/null -w '%{http_code} %{num_connects}\\n'";
    let script = format!(
        "curl -sS {status} http://10.0.2.2/ {status} http://10.0.2.2/nothing {status} http://10.0.2.2/metrics
         curl -sS {status} -I http://10.0.2.2/
         curl -sS {status} -d x http://10.0.2.2/
         printf 'what?\\r\\n\\r\\n' | nc -q 5 10.0.2.2 80 | head -n 1"
    );
    let out = output_of(&[], &script);
    let lines: Vec<_> = out.lines().map(str::trim).collect();
    // The first three requests share one connection.
    assert_eq!(
        lines[..5],
        ["200 1", "404 0", "200 0", "200 1", "405 1"],
        "{out}"
    );
    assert!(lines[5].starts_with("HTTP/1.1 400"), "{out}");
}

#[test]
fn the_metrics_are_what_prometheus_reads() {
    // Breaks when a scrape fails, or figures stand still.
    needs!(guests(), programs(&["curl"]));
    let text = output_of(&[], "curl -sS http://10.0.2.2/metrics");
    let mut typed = HashSet::new();
    let mut samples = 0;
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["#", "HELP", _, ..] => {}
            ["#", "TYPE", name, "counter" | "gauge"] => {
                assert!(typed.insert(name.to_owned()), "{line}");
            }
            ["#", "TYPE", name, "histogram"] => {
                let series = ["bucket", "sum", "count"].map(|part| format!("{name}_{part}"));
                assert!(series.into_iter().all(|name| typed.insert(name)), "{line}");
            }
            [.., value] => {
                let name = line.split(['{', ' ']).next().expect("a name");
                assert!(typed.contains(name), "no type: {line}");
                assert!(name.starts_with("mbuma_"), "{line}");
                assert!(value.parse::<f64>().is_ok(), "{line}");
                samples += 1;
            }
            [] => panic!("an empty line in {text}"),
        }
    }
    assert!(samples > 20, "{text}");
    let received = text
        .lines()
        .find_map(|line| line.strip_prefix("mbuma_packets_received_total "));
    assert!(number(received.expect("a total")) > 0);
}

#[test]
fn stats_account_for_everything() {
    // Breaks when figures do not add up, or a buffer stays behind.
    needs!(guests(), programs(&["curl", "ping"]));
    let server = http::serve(noise(200_000, 3));
    let script = format!(
        "curl -sS -o /dev/null http://10.0.2.2:{}/; ping -q -c 1 10.0.2.2 >/dev/null",
        server.port()
    );
    let ended = Running::start(mbuma(&["--host-loopback", "--stats=json"], &script)).finish();
    let stats = Stats::checked(&ended.err);
    assert_eq!((ended.code, &*ended.out), (Some(0), ""));
    assert_eq!(stats.number("connections_out"), 1);
    assert!(stats.number("bytes_down") > 200_000, "{}", ended.err);

    // The same under one lock, for people.
    let args = ["--host-loopback", "--giant", "--stats"];
    let ended = Running::start(mbuma(&args, &script)).finish();
    assert_eq!((ended.code, &*ended.out), (Some(0), ""));
    for word in [
        "connections: 1 from the guest",
        "Giant: over the stack; device tap0: MP-safe",
        "mbuf",
        "0 mbufs, 0 clusters",
    ] {
        assert!(ended.err.contains(word), "{word} is not in {}", ended.err);
    }
}

#[test]
fn a_capture_is_pcapng() {
    // Breaks when Wireshark cannot open what --pcap wrote, or frames are missing from it.
    needs!(guests(), programs(&["curl"]));
    let scratch = Scratch::new();
    let path = scratch.text("out.pcapng");
    let server = http::serve(noise(300_000, 9));
    let script = format!(
        "curl -sS -o /dev/null http://10.0.2.2/ && curl -sS -o /dev/null http://10.0.2.2:{}/",
        server.port()
    );
    output_of(&["--host-loopback", "--pcap", &path], &script);
    let bytes = fs::read(&path).expect("the capture");
    let kinds = block_types(&bytes);
    // A section header, an interface, then packets.
    assert_eq!(kinds[..2], [0x0a0d_0d0a, 1]);
    assert!(kinds[2..].contains(&6), "no packets: {kinds:x?}");
    if programs(&["tshark"]).is_ok() {
        let answers = tshark(&path, "http.response.code == 200");
        assert_eq!(answers, 2, "HTTP answers in the capture");
        assert_eq!(tshark(&path, "_ws.malformed"), 0);
        assert!(
            tshark(&path, "arp") > 0,
            "both directions, from the first frame on"
        );
    }
}

/// The types of a capture's blocks. Each has its length at both ends.
fn block_types(mut bytes: &[u8]) -> Vec<u32> {
    let word = |bytes: &[u8], at: usize| {
        let word = bytes.get(at..at + 4).expect("a whole block");
        u32::from_ne_bytes(word.try_into().expect("four bytes"))
    };
    let mut types = Vec::new();
    while !bytes.is_empty() {
        let len = word(bytes, 4) as usize;
        assert!(len <= bytes.len(), "the capture ends within a block");
        assert_eq!(word(bytes, len - 4) as usize, len);
        types.push(word(bytes, 0));
        bytes = &bytes[len..];
    }
    types
}

/// The number of packets that a filter of Wireshark's finds.
fn tshark(path: &str, filter: &str) -> usize {
    let mut command = program("tshark");
    command.args([
        "-n",
        "-r",
        path,
        "-Y",
        filter,
        "-T",
        "fields",
        "-e",
        "frame.number",
    ]);
    // tshark prints warnings if it runs as root.
    let ended = Running::start(command).finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.out.lines().count()
}

#[test]
fn a_trace_of_connections_is_lines_of_json() {
    // Breaks when a program can't read what --tcp-trace wrote, or the figures of a connection are missing.
    needs!(guests(), programs(&["curl"]));
    let scratch = Scratch::new();
    let path = scratch.text("trace.ndjson");
    let server = http::serve(noise(4_000_000, 9));
    let script = format!("curl -sS -o /dev/null http://10.0.2.2:{}/", server.port());
    // More than a second, in which the trace has ten lines of a connection.
    let link = "rate=20mbit,delay=10ms";
    output_of(
        &["--host-loopback", "--impair", link, "--tcp-trace", &path],
        &script,
    );
    let text = fs::read_to_string(&path).expect("the trace");
    let parse = |line| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    let lines: Vec<_> = text.lines().map(parse).collect();
    assert_eq!(lines[0]["qlog_format"], "NDJSON");
    let figures: Vec<_> = lines
        .iter()
        .filter(|line| line["name"] == "recovery:metrics_updated")
        .map(|line| &line["data"])
        .collect();
    let far = |data: &&serde_json::Value| {
        let rtt = data["smoothed_rtt"].as_f64();
        rtt.is_some_and(|ms| ms >= 20.0) && data["congestion_window"].as_u64() > Some(0)
    };
    assert!(figures.iter().any(far), "{text}");
    assert!(
        figures.iter().any(|data| data["state"] == "Established"),
        "{text}"
    );
}

#[test]
fn a_capture_that_cannot_be_written_is_told() {
    // Breaks when a long run ends before the user learns that it captured nothing.
    needs!(guests());
    let options = ["--pcap", "/nowhere/out.pcapng"];
    let ended = Running::start(mbuma(&options, "echo started")).finish();
    assert_eq!((ended.code, &*ended.out), (Some(125), ""), "{ended:#?}");
    assert!(ended.err.contains("/nowhere/out.pcapng"), "{ended:#?}");
}

#[test]
fn a_capture_does_not_mix_with_the_commands_output() {
    // Breaks if `--pcap -` makes a file called `-`, or writes blocks among COMMAND's lines.
    let ended = Running::start(mbuma(&["--pcap", "-"], "echo started")).finish();
    assert_eq!((ended.code, &*ended.out), (Some(2), ""), "{ended:#?}");
    assert!(ended.err.contains("a FIFO"), "{ended:#?}");
    needs!(guests());
    for options in [["--pcap", "/dev/stdout"], ["--tcp-trace", "/dev/fd/1"]] {
        let ended = Running::start(mbuma(&options, "echo started")).finish();
        assert_eq!((ended.code, &*ended.out), (Some(125), ""), "{ended:#?}");
        assert!(
            ended.err.contains("COMMAND has the standard output"),
            "{ended:#?}"
        );
    }
}

#[test]
fn a_capture_goes_to_a_descriptor_of_the_caller() {
    // Breaks when mbuma closes the pipe that a shell made of `--pcap >(wireshark -k -i -)` before it opens it.
    needs!(guests(), programs(&["cat"]));
    let scratch = Scratch::new();
    let (frames, trace) = (scratch.text("frames"), scratch.text("trace"));
    let script = format!(
        "{{ {{ {MBUMA} run --pcap /dev/fd/7 --tcp-trace /dev/fd/8 -- true; }} 7>&1 | cat >{frames}; }} 8>{trace}"
    );
    let mut shell = program("sh");
    shell.args(["-c", &script]);
    let ended = Running::start(shell).finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let frames = fs::read(frames).expect("it is there");
    assert_eq!(frames.get(..4), Some(&[0x0a, 0x0d, 0x0d, 0x0a][..]));
    let trace = fs::read(trace).expect("it is there");
    assert_eq!(trace.first(), Some(&b'{'), "a line of JSON");
}

#[test]
fn a_fifo_without_a_reader_is_not_waited_for() {
    // Breaks when mbuma waits for a reader of the pipe, so that only SIGKILL ends it.
    needs!(guests(), programs(&["mkfifo"]));
    let scratch = Scratch::new();
    let fifo = scratch.text("fifo");
    let made = program("mkfifo").arg(&fifo).status();
    assert!(made.is_ok_and(|status| status.success()));
    let ended = Running::start(mbuma(&["--pcap", &fifo], "echo started")).finish();
    assert_eq!((ended.code, &*ended.out), (Some(125), ""), "{ended:#?}");
    assert!(ended.err.contains("start its reader first"), "{ended:#?}");
}

#[test]
fn a_capture_that_grows_too_large_ends_alone() {
    // Breaks when a capture that can't go on ends COMMAND or its network, or ends without a message; or COMMAND ignores
    // a signal that it did not ignore before.
    needs!(guests(), programs(&["curl"]));
    let scratch = Scratch::new();
    let (path, own) = (scratch.text("out.pcapng"), scratch.text("own"));
    let fetch = "curl -sS -o /dev/null http://10.0.2.2/";
    let script =
        format!("{fetch} && {fetch} && {fetch} && echo fetched; head -c 100000 /dev/zero >{own}");
    // The parent process of the tests may ignore the signal.
    let mut limited = program("env");
    limited.args(["--default-signal=XFSZ", "sh"]);
    limited.args(["-c", "ulimit -f 8 && exec \"$@\"", "sh", MBUMA, "run"]);
    limited.args(["--pcap", &path, "--", "sh", "-c", &script]);
    let ended = Running::start(limited).finish();
    assert_eq!(
        (ended.code, &*ended.out),
        (Some(128 + 25), "fetched\n"),
        "{ended:#?}"
    );
    assert_eq!(ended.err.matches("ends here").count(), 1, "{ended:#?}");
    let kinds = block_types(&fs::read(&path).expect("the capture"));
    assert!(kinds.len() > 2, "{kinds:x?}");
}

#[test]
fn the_status_page_answers_beside_many_slow_clients() {
    // Breaks when a guest's program that opens connections and sends no request shuts others out from the page.
    needs!(guests(), programs(&["python3", "curl"]));
    let script = "python3 -c '
import socket, subprocess
slow = [socket.create_connection((\"10.0.2.2\", 80)) for _ in range(200)]
for one in slow[100:]:
    try: one.send(b\"GET / HT\")
    except OSError: pass
subprocess.run([\"curl\", \"-sS\", \"-o\", \"/dev/null\", \"-w\", \"%{http_code}\", \"http://10.0.2.2/\"])'";
    assert_eq!(output_of(&[], script), "200");
}

#[test]
fn an_idle_guest_costs_nothing() {
    // Breaks when a thread wakes up again and again without work.
    needs!(guests(), programs(&["python3"]));
    let _alone = alone();
    let server = crate::common::server::TcpServer::start(|mut stream| {
        // Held open until the guest ends it.
        let _ = std::io::Read::read(&mut stream, &mut [0]);
    });
    let source = "
import socket, sys
s = socket.create_connection(('10.0.2.2', int(sys.argv[1])), 20)
print('connected')
sys.stdin.readline()
";
    let port = server.port().to_string();
    let running = Running::start(crate::common::mbuma_python(
        &["--host-loopback"],
        source,
        &[&port],
    ));
    running.wait_for("connected");
    // The work that a connection leaves behind takes far less time.
    thread::sleep(Duration::from_millis(300));
    let before = ticks(running.gateway());
    thread::sleep(Duration::from_secs(2));
    let used = ticks(running.gateway()) - before;
    assert!(
        used <= 2,
        "{used} ticks of processor time in two idle seconds"
    );
    running.finish().good();
}

/// The processor time that a process has used, in hundredths of a second.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, after_name) = stat.rsplit_once(") ").expect("a name");
    // utime and stime are the 14th and 15th (proc(5)); the third is the first here.
    let figures = after_name.split_whitespace().skip(11).take(2);
    figures.map(number).sum()
}

//! The echo server of the crate's documentation, unchanged, against the kernel's stack.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use mbuma::{Error, Runtime, Stack, Tap};

use crate::namespace::{in_namespace, ip};

#[path = "../../examples/echo.rs"]
mod example;

const PATIENCE: Duration = Duration::from_secs(20);

fn connect() -> TcpStream {
    let begun = Instant::now();
    loop {
        match TcpStream::connect("192.0.2.2:7") {
            Ok(stream) => return stream,
            Err(e) => assert!(begun.elapsed() < PATIENCE, "no echo server: {e}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Breaks if the first program of the documentation does not do what it says, or keeps its end of a connection open.
#[test]
fn the_first_program_of_the_documentation_echoes() {
    in_namespace(
        "echo::the_first_program_of_the_documentation_echoes",
        || {
            ip(&["tuntap", "add", "dev", "tap0", "mode", "tap", "multi_queue"]);
            ip(&["addr", "add", "192.0.2.1/24", "dev", "tap0"]);
            ip(&["link", "set", "tap0", "up"]);
            // It serves until the process ends.
            thread::spawn(|| example::main().expect("it serves"));
            let data: Vec<u8> = (0..1_000_000_u32).map(|n| (n >> 3) as u8).collect();
            for _ in 0..3 {
                let mut stream = connect();
                stream.set_read_timeout(Some(PATIENCE)).expect("an option");
                thread::scope(|s| {
                    s.spawn(|| {
                        (&stream).write_all(&data).expect("it takes all");
                        stream.shutdown(Shutdown::Write).expect("it is open");
                    });
                    let mut got = Vec::new();
                    (&stream).read_to_end(&mut got).expect("until the end");
                    assert!(got == data, "{} bytes of {}", got.len(), data.len());
                });
                stream.flush().expect("nothing waits");
            }
        },
    );
}

/// Breaks if a device is not made, if the error about an impossible one names no remedy, or if a failed set-up leaves
/// an interface behind.
#[test]
fn what_can_not_be_set_up_says_what_to_do() {
    in_namespace("echo::what_can_not_be_set_up_says_what_to_do", || {
        let runtime = Runtime::with_workers(1).expect("a thread");
        let stack = runtime.stack().build().expect("address space");
        let tap = Tap::open_queues("tap0", 1).expect("it is made");
        let busy = Tap::open("tap0")
            .expect_err("it has another end")
            .to_string();
        assert!(busy.contains("another program"), "{busy}");
        let name = Tap::open("a-name-that-is-too-long")
            .expect_err("too long")
            .to_string();
        assert!(name.contains("15 bytes"), "{name}");
        let addr = "192.0.2.2/24".parse().expect("an address");
        let stray = stack
            .add_interface(tap)
            .addr(addr)
            .default_route([10, 0, 0, 1].into())
            .up();
        assert!(matches!(stray, Err(Error::Gateway(_))), "{stray:?}");
        assert!(stack.stats().interfaces.is_empty());
        let own_loop = Stack::new(mbuma::Config::from_system()).expect("address space");
        let undriven = own_loop
            .add_interface(Tap::open("tap0").expect("free again"))
            .up();
        assert!(matches!(undriven, Err(Error::NoRuntime)), "{undriven:?}");
        let text = stack
            .tcp_listen("localhost:7", 128)
            .expect_err("a name")
            .to_string();
        assert!(text.contains("names are not looked up"), "{text}");
    });
}

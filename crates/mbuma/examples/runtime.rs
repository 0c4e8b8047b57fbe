//! Two stacks that a runtime drives, an epair between them, and programs' threads with blocking sockets.
//!
//! `cargo run --release -p mbuma --example runtime -- [stream|rr] [MTU] [WORKERS] [SECONDS]`
//!
//! Each end of the epair is a task of a worker of its own. Prints one line of JSON.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::thread;
use std::time::{Duration, Instant};

use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
use mbuma::runtime::Runtime;
use mbuma::{Config, IfConfig, Stack, TcpStream};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let arg = |n: usize, default| args.get(n).map_or(default, String::as_str);
    let mode = arg(0, "stream");
    let mtu: u16 = arg(1, "1500").parse()?;
    let workers: usize = arg(2, "2").parse()?;
    let time = Duration::from_secs_f64(arg(3, "2").parse()?);

    let runtime = Runtime::with_workers(workers)?;
    let (left, right) = (stack(&runtime)?, stack(&runtime)?);
    let queue_max = EpairConfig::default().queue_max;
    let (mut a, mut b) = EpairEnd::pair(EpairConfig { mtu, queue_max });
    a.attach(&left, interface(1), Input::Task(runtime.taskqueue(0)))?;
    b.attach(&right, interface(2), Input::Task(runtime.taskqueue(1)))?;

    let (client, server) = connect(&left, &right)?;
    match mode {
        "stream" => stream(client, server, time, (mtu, workers))?,
        "rr" => round_trips(client, server, time, (mtu, workers))?,
        other => return Err(format!("unknown mode {other}: stream or rr").into()),
    }
    runtime.shutdown();
    Ok(())
}

/// A stack that `runtime` drives.
fn stack(runtime: &Runtime) -> Result<Stack> {
    let config = Config {
        cpus: runtime.cpus(),
        ..Config::from_system()
    };
    let stack = Stack::new(config)?;
    runtime.add(&stack);
    Ok(stack)
}

fn interface(n: u8) -> IfConfig {
    IfConfig::new("epair0").with_addr(Ipv4Addr::new(192, 0, 2, n), 24)
}

fn connect(left: &Stack, right: &Stack) -> Result<(TcpStream, TcpStream)> {
    let there = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 80);
    let listener = right.tcp_listen(there, 8)?;
    let client = left.tcp_connect(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), there)?;
    let server = listener.accept_blocking(None)?;
    client.set_nodelay(true);
    server.set_nodelay(true);
    Ok((client, server))
}

/// One thread writes, another reads: 64 KiB at a time.
fn stream(
    client: TcpStream,
    server: TcpStream,
    time: Duration,
    (mtu, workers): (u16, usize),
) -> Result<()> {
    let begun = Instant::now();
    let writer = thread::spawn(move || -> Result<()> {
        let piece = vec![7; 64 << 10];
        while begun.elapsed() < time {
            let mut rest = &piece[..];
            while !rest.is_empty() {
                rest = &rest[client.send_blocking(rest, None)?..];
            }
        }
        client.shutdown(std::net::Shutdown::Write);
        Ok(())
    });
    let (mut buf, mut bytes) = (vec![0; 256 << 10], 0);
    loop {
        match server.recv_blocking(&mut buf, None)? {
            0 => break,
            n => bytes += n,
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    writer.join().map_err(|_| "the writer panicked")??;
    let gbits = bytes as f64 * 8e-9 / seconds;
    println!(
        "{{\"mode\":\"stream\",\"mtu\":{mtu},\"workers\":{workers},\"seconds\":{seconds:.2},\"gbit_s\":{gbits:.2}}}"
    );
    Ok(())
}

/// 64 bytes there and back, one after the other.
fn round_trips(
    client: TcpStream,
    server: TcpStream,
    time: Duration,
    (mtu, workers): (u16, usize),
) -> Result<()> {
    let echo = thread::spawn(move || -> Result<()> {
        let mut buf = [0; 64];
        while let n @ 1.. = server.recv_blocking(&mut buf, None)? {
            server.send_blocking(&buf[..n], None)?;
        }
        Ok(())
    });
    let begun = Instant::now();
    let (mut count, mut times) = (0_u64, Vec::new());
    while begun.elapsed() < time {
        let sent = Instant::now();
        client.send_blocking(&[7; 64], None)?;
        let mut left = 64;
        while left > 0 {
            left -= client.recv_blocking(&mut [0; 64], None)?;
        }
        times.push(sent.elapsed());
        count += 1;
    }
    let seconds = begun.elapsed().as_secs_f64();
    client.shutdown(std::net::Shutdown::Write);
    echo.join().map_err(|_| "the echo panicked")??;
    times.sort_unstable();
    let micros = |part: f64| times[(times.len() as f64 * part) as usize].as_secs_f64() * 1e6;
    println!(
        "{{\"mode\":\"rr\",\"mtu\":{mtu},\"workers\":{workers},\"per_s\":{:.0},\"p50_us\":{:.1},\"p99_us\":{:.1}}}",
        count as f64 / seconds,
        micros(0.5),
        micros(0.99)
    );
    Ok(())
}

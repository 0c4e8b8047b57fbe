//! Two stacks in one process, joined by a pipe in memory: how fast TCP itself is.
//!
//! `cargo run --release -p mbuma --example inproc -- stream|rr MTU [SECONDS] [whole|plain]`
//!
//! `whole` hands 64 KiB segments over as they are, `plain` cuts and sums every frame in software.
//! One thread drives both stacks. Prints one line of JSON.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mbuma::buf::{Chain, MbufPool};
use mbuma::device::memory::Pipe;
use mbuma::device::{Budget, Capabilities};
use mbuma::{Config, IfConfig, IfIndex, MonotonicClock, Random, Stack, TcpStream};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Two connected stacks.
struct Pair {
    ends: [(Stack, IfIndex); 2],
    client: TcpStream,
    server: TcpStream,
}

fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let arg = |n: usize, default| args.get(n).map_or(default, String::as_str);
    let mtu: u16 = arg(1, "1500").parse()?;
    let time = Duration::from_secs_f64(arg(2, "2").parse()?);
    let caps = if arg(3, "whole") == "plain" {
        Capabilities::plain(mtu)
    } else {
        Capabilities::whole(mtu)
    };
    let pair = connect(caps)?;
    match arg(0, "stream") {
        "stream" => stream(&pair, mtu, time),
        "rr" => round_trips(&pair, mtu, time),
        other => Err(format!("unknown mode {other}: stream or rr").into()),
    }
}

fn connect(caps: Capabilities) -> Result<Pair> {
    let clock = Arc::new(MonotonicClock::new());
    let (a, b) = Pipe::pair(caps);
    let mut ends = Vec::new();
    for (n, device) in [(1, a), (2, b)] {
        let stack = Stack::new(Config::new(clock.clone(), Random::from_os()))?;
        let config = IfConfig::new("pipe0").with_addr(Ipv4Addr::new(192, 0, 2, n), 24);
        let index = stack.attach(Arc::new(device), config)?;
        ends.push((stack, index));
    }
    let Ok(ends) = <[_; 2]>::try_from(ends) else {
        return Err("two ends".into());
    };
    let there = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 80);
    let listener = ends[1].0.tcp_listen(there, 8)?;
    let client = ends[0]
        .0
        .tcp_connect(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), there)?;
    let mut server = None;
    while server.is_none() {
        turn(&ends)?;
        server = listener.accept().ok();
    }
    let server = server.ok_or("accepted")?;
    client.set_nodelay(true);
    server.set_nodelay(true);
    Ok(Pair {
        ends,
        client,
        server,
    })
}

fn turn(ends: &[(Stack, IfIndex); 2]) -> Result<()> {
    for (stack, index) in ends {
        stack.poll_interface(
            *index,
            Budget {
                frames: 64,
                bytes: 1 << 20,
            },
        )?;
        stack.poll();
    }
    Ok(())
}

/// 64 KiB in clusters, as a read from a file or socket would leave them.
fn block(pool: &MbufPool) -> Result<Chain> {
    Ok(Chain::from_slice(pool, &[0x5a; 64 << 10])?)
}

fn stream(pair: &Pair, mtu: u16, time: Duration) -> Result<()> {
    let mut source = block(pair.ends[0].0.pool())?;
    let (start, mut bytes) = (Instant::now(), 0u64);
    while start.elapsed() < time {
        for _ in 0..16 {
            while pair.client.send_space() >= source.len() {
                let shared = source.share(0, source.len())?;
                pair.client.send_chain(shared).map_err(|(e, _)| e)?;
            }
            turn(&pair.ends)?;
            while let Ok(chain) = pair.server.recv_chain(1 << 20) {
                bytes += chain.len() as u64;
            }
        }
    }
    let s = start.elapsed().as_secs_f64();
    let gbit = bytes as f64 * 8.0 / s / 1e9;
    println!(
        "{{\"mode\":\"stream\",\"mtu\":{mtu},\"bytes\":{bytes},\"seconds\":{s:.3},\"gbit_s\":{gbit:.2}}}"
    );
    Ok(())
}

fn round_trips(pair: &Pair, mtu: u16, time: Duration) -> Result<()> {
    let mut buf = [0; 64];
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < time {
        let began = Instant::now();
        pair.client.send(&buf)?;
        while pair.server.recv(&mut buf).is_err() {
            turn(&pair.ends)?;
        }
        pair.server.send(&buf)?;
        while pair.client.recv(&mut buf).is_err() {
            turn(&pair.ends)?;
        }
        times.push(began.elapsed().as_nanos() as u64);
    }
    times.sort_unstable();
    let at = |p: f64| times[((times.len() - 1) as f64 * p) as usize];
    println!(
        "{{\"mode\":\"rr\",\"mtu\":{mtu},\"trips\":{},\"p50_ns\":{},\"p99_ns\":{}}}",
        times.len(),
        at(0.5),
        at(0.99)
    );
    Ok(())
}

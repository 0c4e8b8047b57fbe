//! Three jails in one process: two on one bridge, one on another, a router between.
//!
//! `cargo run -p mbuma --example jails`
//!
//! Each is a stack of its own, with its own addresses, routes, ports and buffers. They ping and send to
//! each other; then the web jail moves house under traffic, and is found again. No thread is needed: the
//! sender carries its packets all the way ([`Input::Direct`]).

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Instant;

use mbuma::buf::{MbufPool, PoolConfig};
use mbuma::device::bridge::{Bridge, BridgeConfig};
use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
use mbuma::{
    Clock, Config, IfAddr, IfConfig, IfIndex, MonotonicClock, Random, RouteKind, Stack, TcpStream,
};

const PICTURE: &str = r"
      web              db                              job
   10.0.1.1         10.0.1.2                        10.0.2.1
       |                |                               |
   ====+================+=====+ lan 1     lan 2 +=======+====
                              |                 |
                         10.0.1.254       10.0.2.254
                              +---- router -----+
";

/// Bytes that go through each connection.
const BYTES: usize = 64 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::new());
    let mut random = Random::from_os();
    let pool = MbufPool::new(PoolConfig::default())?;
    let mut bridge = || Bridge::new(clock.clone(), &mut random, &pool, BridgeConfig::default());
    let (lan1, lan2) = (bridge(), bridge());

    let [web, db, job, router] = [0; 4].map(|_| Stack::new(Config::from_system()));
    let (web, db, job, router) = (web?, db?, job?, router?);
    router.set_forwarding(true);
    let mut cables = vec![
        join(&router, &lan1, addr(1, 254))?,
        join(&router, &lan2, addr(2, 254))?,
        join(&db, &lan1, addr(1, 2))?,
        join(&job, &lan2, addr(2, 1))?,
    ];
    for (stack, net, cable) in [(&db, 1, &cables[2]), (&job, 2, &cables[3])] {
        leave_by(stack, net, cable.index)?;
    }
    let mut webs = join(&web, &lan1, addr(1, 1))?;
    leave_by(&web, 1, webs.index)?;

    println!("{PICTURE}");
    send("db to web, over the bridge", &db, &web, addr(1, 1))?;
    send("job to web, through the router", &job, &web, addr(1, 1))?;
    send(
        "web to itself, at 127.0.0.1",
        &web,
        &web,
        Ipv4Addr::LOCALHOST,
    )?;

    // Its neighbours hear where it is from its own announcement.
    webs.plug.detach();
    webs = join(&web, &lan1, addr(1, 1))?;
    leave_by(&web, 1, webs.index)?;
    send("job to web, which has moved", &job, &web, addr(1, 1))?;
    cables.push(webs);

    let stats = lan1.stats();
    println!();
    println!("router: {} packets forwarded", router.stats().forwarded);
    println!(
        "lan 1:  {} frames switched, {} flooded, {} stations known",
        stats.switched, stats.flooded, stats.addresses
    );
    Ok(())
}

fn addr(net: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, net, host)
}

/// A cable between a jail and a bridge.
struct Cable {
    plug: EpairEnd,
    _port: EpairEnd,
    index: IfIndex,
}

fn join(stack: &Stack, lan: &Bridge, addr: Ipv4Addr) -> Result<Cable, Box<dyn Error>> {
    let (mut plug, mut port) = EpairEnd::pair(EpairConfig::default());
    port.join(lan, Input::Direct)?;
    let config = IfConfig::new("epair0").with_addr(addr, 24);
    let index = plug.attach(stack, config, Input::Direct)?;
    Ok(Cable {
        plug,
        _port: port,
        index,
    })
}

/// Everything else is behind the router.
fn leave_by(stack: &Stack, net: u8, index: IfIndex) -> Result<(), Box<dyn Error>> {
    let all = IfAddr::new(Ipv4Addr::UNSPECIFIED, 0);
    stack.add_route(all, RouteKind::Gateway(index, addr(net, 254).into()))?;
    Ok(())
}

/// Sends through a fresh connection, and says how fast.
fn send(what: &str, from: &Stack, to: &Stack, addr: Ipv4Addr) -> Result<(), Box<dyn Error>> {
    let there = SocketAddrV4::new(addr, 80);
    let listener = to.tcp_listen(there, 8)?;
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let stream = from.tcp_connect(any, there)?;
    let accepted = listener.accept()?;
    let began = Instant::now();
    pass(&stream, &accepted, || {
        from.poll();
        to.poll();
    })?;
    let gbits = BYTES as f64 * 8e-9 / began.elapsed().as_secs_f64();
    println!("{what:32} {gbits:6.1} Gbit/s");
    Ok(())
}

fn pass(stream: &TcpStream, accepted: &TcpStream, poll: impl Fn()) -> Result<(), Box<dyn Error>> {
    let data = vec![7; 1 << 16];
    let (mut sent, mut got) = (0, 0);
    while got < BYTES {
        if sent < BYTES {
            let more = data.len().min(BYTES - sent);
            sent += stream.send(&data[..more]).unwrap_or(0);
        }
        // Data that arrived is taken over, not copied.
        match accepted.recv_chain(1 << 20) {
            Ok(chain) => got += chain.len(),
            Err(mbuma::SocketError::WouldBlock) => poll(),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

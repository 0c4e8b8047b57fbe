//! One TCP stream from stack to stack at full speed: it shows whether a hand-off without stalls costs throughput.
//!
//! Locks: none.

use super::Design;
use super::joined::{ANY, Joined, SERVER, unpark, wait};
use mbuf::Chain;
use mbuma::{State, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Gigabits a second of payload, over this time.
pub(crate) fn run(design: Design, mtu: u16, time: Duration) -> f64 {
    let joined = Joined::new(design, mtu);
    let listener = joined
        .server
        .tcp_listen(SERVER, 1)
        .expect("a new stack has the port free");
    let until = Instant::now() + time + Duration::from_secs(5);
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let Ok(stream) = joined.client.tcp_connect(ANY, SERVER) else {
                return;
            };
            stream.set_waker(Some(unpark()));
            wait(&joined.client, until, || stream.state() != State::SynSent);
            send(&joined, &stream, time);
        });
        let mut accepted = None;
        listener.set_waker(Some(unpark()));
        wait(&joined.server, until, || {
            accepted = listener.accept().ok();
            accepted.is_some()
        });
        listener.set_waker(None);
        let speed = accepted.map_or(0.0, |stream| receive(&joined, &stream, until));
        drop(sender);
        speed
    })
}

fn send(joined: &Joined, stream: &TcpStream, time: Duration) {
    let Ok(mut source) = Chain::from_slice(joined.client.pool(), &[0x5a; 64 << 10]) else {
        return;
    };
    let until = Instant::now() + time;
    while Instant::now() < until {
        wait(&joined.client, until, || {
            stream.send_space() >= source.len()
        });
        let Ok(shared) = source.share_all() else {
            return;
        };
        if stream.send_chain(shared).is_err() && stream.error().is_some() {
            return;
        }
    }
    stream.shutdown(std::net::Shutdown::Write);
}

/// Receives to the end of the stream.
fn receive(joined: &Joined, stream: &TcpStream, until: Instant) -> f64 {
    stream.set_waker(Some(unpark()));
    let (begin, mut bytes, mut ended) = (Instant::now(), 0_u64, false);
    wait(&joined.server, until, || {
        while let Ok(chain) = stream.recv_chain(1 << 20) {
            bytes += chain.len() as u64;
            if chain.is_empty() {
                ended = true;
                break;
            }
        }
        ended || stream.error().is_some()
    });
    bytes as f64 * 8.0 / begin.elapsed().as_nanos() as f64
}

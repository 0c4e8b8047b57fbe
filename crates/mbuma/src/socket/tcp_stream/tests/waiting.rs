//! The time that a call waits, and the amount that it waits for: SO_RCVLOWAT, SO_SNDLOWAT, SO_RCVTIMEO, SO_SNDTIMEO.

use std::io::{ErrorKind, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use super::*;
use crate::TcpSocketOptions;

#[derive(Default)]
struct CountedWakes(AtomicUsize);

impl Wake for CountedWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl CountedWakes {
    fn new() -> (Arc<Self>, Waker) {
        let counted = Arc::new(Self::default());
        (Arc::clone(&counted), Waker::from(counted))
    }

    fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

fn low_water(recv: usize, send: usize) -> TcpSocketOptions {
    TcpSocketOptions {
        recv_low_water: Some(recv),
        send_low_water: Some(send),
        ..TcpSocketOptions::default()
    }
}

/// Breaks if a reader is woken for less than its low-water mark, is not woken for the end, or a call that does not wait
/// gets nothing.
#[test]
fn a_reader_is_told_when_there_is_as_much_as_it_asks_for() {
    let pair = TestPair::new();
    let TestPair { client, served, .. } = &pair;
    served.set_options(&low_water(100, 1));
    let (wakes, waker) = CountedWakes::new();
    let cx = &mut Context::from_waker(&waker);
    assert!(served.poll_readable(cx).is_pending());
    client.send(&[7; 60]).unwrap();
    assert_eq!(wakes.take(), 0);
    assert!(served.poll_readable(cx).is_pending());
    client.send(&[7; 40]).unwrap();
    assert_eq!(wakes.take(), 1);
    assert!(served.poll_readable(cx).is_ready());
    assert_eq!(served.recv(&mut [0; 90]), Ok(90));
    assert!(served.poll_read(cx, &mut [0; 200]).is_pending());
    assert_eq!(
        served.recv(&mut [0; 5]),
        Ok(5),
        "a call that does not wait takes what is there"
    );
    assert!(
        served.poll_read(cx, &mut [0; 5]).is_ready(),
        "a call that asks for fewer gets those"
    );
    assert!(served.poll_readable(cx).is_pending());
    client.shutdown(Shutdown::Write);
    assert_eq!(wakes.take(), 1);
    assert!(served.poll_readable(cx).is_ready());
}

/// Breaks if a reader that asks for more than its buffer holds waits for ever for a peer whose window is closed.
#[test]
fn a_buffer_that_is_half_full_is_enough() {
    let pair = TestPair::new();
    let TestPair { client, served, .. } = &pair;
    served.set_buffers(10_000, 10_000);
    served.set_options(&low_water(1 << 20, 1));
    let (wakes, waker) = CountedWakes::new();
    let cx = &mut Context::from_waker(&waker);
    assert!(served.poll_readable(cx).is_pending());
    assert_eq!(client.send(&[7; 6_000]), Ok(6_000));
    assert_eq!(wakes.take(), 1);
    assert!(served.poll_readable(cx).is_ready());
}

/// Breaks if a writer is woken for less room than its low-water mark, or waits for ever for more than its buffer can
/// have.
#[test]
fn a_writer_is_told_when_there_is_as_much_room_as_it_asks_for() {
    for asks in [9_000, 1 << 20] {
        let pair = TestPair::new();
        let TestPair {
            client,
            served,
            stacks,
            ..
        } = &pair;
        served.set_buffers(10_000, 1_000);
        client.set_buffers(10_000, 10_000);
        client.set_options(&low_water(1, asks));
        let (wakes, waker) = CountedWakes::new();
        let cx = &mut Context::from_waker(&waker);
        assert!(client.poll_writable(cx).is_ready());
        // The peer's window holds the rest back.
        while client.send(&[7; 4_000]).is_ok() {}
        assert!(client.poll_writable(cx).is_pending());
        assert!(client.poll_write(cx, &[7; 9_500]).is_pending());
        let mut buf = [0; 1_000];
        let began = Instant::now();
        while client.send_space() < asks.min(10_000) {
            assert!(began.elapsed() < Duration::from_secs(60));
            if served.recv(&mut buf).is_err() {
                // An acknowledgement is delayed.
                std::thread::sleep(Duration::from_millis(1));
                stacks.iter().for_each(|stack| _ = stack.poll());
            }
            let room = client.send_space();
            let told = wakes.take() > 0;
            let enough = room >= asks.min(10_000);
            assert_eq!(client.poll_writable(cx).is_ready(), enough, "{room} bytes");
            assert!(!told || enough, "it was told of {room} bytes");
        }
    }
}

/// Breaks if a writer with a limit of unsent bytes sleeps for ever, also one whose low-water mark is above the limit.
#[test]
fn a_writer_with_a_limit_of_unsent_bytes_goes_on() {
    for (limit, asks) in [
        (0, None),
        (1, None),
        (1_000, None),
        (3_000, Some(1)),
        (1_000, Some(9_000)),
    ] {
        let pair = TestPair::new();
        let TestPair {
            client,
            served,
            stacks,
            ..
        } = &pair;
        served.set_buffers(4_000, 4_000);
        client.set_buffers(20_000, 20_000);
        client.set_options(&TcpSocketOptions {
            unsent_max: Some(limit),
            send_low_water: asks,
            ..TcpSocketOptions::default()
        });
        let (wakes, waker) = CountedWakes::new();
        let cx = &mut Context::from_waker(&waker);
        let (mut sent, mut buf) = (0, [0; 1_000]);
        let began = Instant::now();
        while sent < 40_000 {
            if let Poll::Ready(taken) = client.poll_write(cx, &[7; 15_000]) {
                sent += taken.unwrap();
                continue;
            }
            while wakes.take() == 0 {
                assert!(began.elapsed() < Duration::from_secs(60), "after {sent}");
                if served.recv(&mut buf).is_err() {
                    // An acknowledgement is delayed.
                    std::thread::sleep(Duration::from_millis(1));
                    stacks.iter().for_each(|stack| _ = stack.poll());
                }
            }
        }
    }
}

/// Breaks if a call without a timeout of its own waits for ever though its program set one, or a listener's does.
#[test]
fn a_call_waits_no_longer_than_the_program_said() {
    let pair = TestPair::new();
    let TestPair { client, served, .. } = &pair;
    let soon = TcpSocketOptions {
        recv_timeout: Some(Duration::from_millis(1)),
        send_timeout: Some(Duration::from_millis(1)),
        ..TcpSocketOptions::default()
    };
    client.set_options(&soon);
    let nothing = client.recv_blocking(&mut [0; 9], None);
    assert_eq!(nothing, Err(SocketError::TimedOut));
    let nothing = (&*client).read(&mut [0; 9]).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::TimedOut);
    served.set_buffers(1_000, 1_000);
    client.set_buffers(10_000, 10_000);
    let much = vec![7; 1 << 20];
    assert!(client.send_blocking(&much, None).unwrap() < much.len());
    let more = client.send_blocking(&much, None);
    assert_eq!(more, Err(SocketError::TimedOut));
    let listener = pair.stacks[1].tcp_listen(([0, 0, 0, 0], 81), 1).unwrap();
    listener.set_options(&soon);
    let nobody = listener.accept_blocking(None);
    assert_eq!(nobody.err(), Some(SocketError::TimedOut));
}

//! Flows in real time: Linux, ours or a peer at the ends, and the same emulated link between them.
//!
//! ```text
//!   sender 1 --\                                    /--> receiver
//!   sender 2 ---+--> [forward emulator, delay queue]
//!      ^  \----------[delay queue, backward emulator]<---- acknowledgements
//! ```
//!
//! | end | description |
//! |---|---|
//! | [`linux`] | a thread in a network namespace of its own, with a TAP without offloads: its TCP is the kernel's |
//! | [`ours`] | a stack of ours, driven by the thread that carries the frames |
//! | `smoltcp` | an interface of smoltcp (feature `peers`), driven likewise |
//! | [`program`] | lwIP or gVisor's netstack: a process that gets frames over a socket |
//!
//! Invariant: every thread has ended, and with it its namespace, when a run is over.

mod link;
mod linux;
mod ours;
mod program;
pub(super) mod programs;
mod resent;
#[cfg(feature = "peers")]
mod smoltcp;

use std::time::Duration;

use super::designs::Algorithm;
use super::figures::Figures;
use super::path::Path;
use super::simulated::WARMUP_MAX;
use crate::harness::choice::Absent;
use link::Link;
use linux::LinuxEnd;
use ours::OurEnd;
use program::ProgramEnd;
use programs::Program;
use sim::Frame;

/// The stack of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Linux,
    Ours,
    Smoltcp,
    Program(Program),
}

/// The time that a flow may take until its first byte arrives.
const PATIENCE: Duration = Duration::from_secs(10);

/// An end, as the thread sees it that carries frames.
trait End {
    /// Runs the stack's pending work, and returns the next frame that leaves.
    fn next_frame(&mut self) -> Option<Frame>;

    /// Takes a frame in.
    fn deliver(&mut self, frame: &Frame);

    /// The time of its next work, even if no frame comes.
    fn next_deadline(&self) -> Option<kern::Time> {
        None
    }

    /// The descriptor that becomes readable when a frame leaves.
    fn readable(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    /// Bytes that each of its flows has received.
    fn received(&self) -> Vec<u64>;

    /// Its retransmission timeouts, if its stack counts them.
    fn timeouts(&self) -> Option<u64>;
}

/// Runs a flow from each of `senders` and measures for `time`.
///
/// # Errors
/// [`Absent`]: no right to make namespaces, or no byte arrives.
pub(crate) fn run(
    path: &Path,
    senders: &[(Who, Algorithm)],
    receiver: Who,
    seed: u64,
    time: Duration,
) -> Result<Figures, Absent> {
    let failed = |error: std::io::Error| Absent(error.to_string());
    let mut ends = vec![receiver_end(receiver, path).map_err(failed)?];
    for (flow, (who, algorithm)) in senders.iter().enumerate() {
        ends.push(sender_end(*who, *algorithm, (path, flow)).map_err(failed)?);
    }
    let mut link = Link::new(path, ends, seed);
    if !link.run_until_received(PATIENCE) {
        return Err(Absent("no byte arrived".to_owned()));
    }
    link.run(WARMUP_MAX.min(time));
    let (before, waits_before) = (link.received(), link.waits());
    link.run(time);
    let bytes = link.received().into_iter().zip(before);
    let bytes: Vec<u64> = bytes.map(|(now, before)| now - before).collect();
    let (wait, frames) = link.waits();
    let waited = (wait - waits_before.0) / (frames - waits_before.1).max(1) as u32;
    Ok(Figures {
        mbps: bytes[0] as f64 * 8.0 / time.as_secs_f64() / 1e6,
        share: 100.0 * bytes[0] as f64 / bytes.iter().sum::<u64>().max(1) as f64,
        resent_percent: 100.0 * link.resent() as f64 / link.sent().max(1) as f64,
        timeouts: link.timeouts().map(|timeouts| timeouts as f64),
        rtt_ms: (2 * path.backward().delay + waited).as_secs_f64() * 1e3,
    })
}

fn receiver_end(who: Who, path: &Path) -> std::io::Result<Box<dyn End>> {
    Ok(match who {
        Who::Linux => Box::new(LinuxEnd::receiver(path)?),
        Who::Ours => Box::new(OurEnd::receiver(path)?),
        Who::Smoltcp => smoltcp_receiver(path)?,
        Who::Program(program) => Box::new(ProgramEnd::receiver(program, path)?),
    })
}

/// The sender of the path's flow of this number.
fn sender_end(
    who: Who,
    algorithm: Algorithm,
    flow: (&Path, usize),
) -> std::io::Result<Box<dyn End>> {
    Ok(match who {
        Who::Linux => Box::new(LinuxEnd::sender(algorithm, flow)?),
        Who::Ours => Box::new(OurEnd::sender(algorithm, flow)?),
        Who::Smoltcp => smoltcp_sender(algorithm, flow)?,
        Who::Program(program) => Box::new(ProgramEnd::sender(program, flow)?),
    })
}

#[cfg(feature = "peers")]
fn smoltcp_receiver(path: &Path) -> std::io::Result<Box<dyn End>> {
    Ok(Box::new(smoltcp::SmoltcpEnd::receiver(path)?))
}

#[cfg(feature = "peers")]
fn smoltcp_sender(algorithm: Algorithm, flow: (&Path, usize)) -> std::io::Result<Box<dyn End>> {
    Ok(Box::new(smoltcp::SmoltcpEnd::sender(algorithm, flow)?))
}

#[cfg(not(feature = "peers"))]
fn smoltcp_receiver(_: &Path) -> std::io::Result<Box<dyn End>> {
    Err(std::io::Error::other("not built in: cargo lab-peers wan"))
}

#[cfg(not(feature = "peers"))]
fn smoltcp_sender(_: Algorithm, _: (&Path, usize)) -> std::io::Result<Box<dyn End>> {
    Err(std::io::Error::other("not built in: cargo lab-peers wan"))
}

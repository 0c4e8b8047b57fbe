//! A program as an end: a process whose standard input is a socket of frames, and whose output counts received bytes.

use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{recv, send, socketpair, sockopt};
use sim::Frame;

use super::super::path::Path;
use super::End;
use super::ours::{PORT, RECEIVER, sender};
use super::programs::Program;

/// Bytes of frames that may wait in the socket, in each direction; without root's rights the kernel gives less.
const SOCKET_BUFFER: usize = 4 << 20;
/// The longest frame, and more.
const FRAME_MAX: usize = 2048;

/// A process with its flows.
pub(super) struct ProgramEnd {
    link: Option<OwnedFd>,
    process: Child,
    received: Arc<[AtomicU64]>,
    /// Reads the process's output.
    reader: Option<JoinHandle<()>>,
}

impl ProgramEnd {
    pub(super) fn receiver(program: Program, path: &Path) -> io::Result<Self> {
        let words = [RECEIVER.to_string(), PORT.to_string()];
        let flows = path.flows.to_string();
        Self::start(program, path, "receive", [&words[0], &words[1], &flows])
    }

    pub(super) fn sender(program: Program, (path, flow): (&Path, usize)) -> io::Result<Self> {
        let port = (PORT + flow as u16).to_string();
        let words = [sender(flow).to_string(), RECEIVER.to_string()];
        Self::start(program, path, "send", [&words[0], &words[1], &port])
    }

    fn start(program: Program, path: &Path, role: &str, words: [&str; 3]) -> io::Result<Self> {
        let window = program.window(path);
        let file = program.file(window);
        let file = file.map_err(|absent| io::Error::other(absent.0))?;
        let (link, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        for end in [&link, &theirs] {
            let _ = sockopt::set_socket_send_buffer_size_force(end, SOCKET_BUFFER);
        }
        let mut process = Command::new(file)
            .arg(role)
            .args(words)
            .arg(window.to_string())
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let received: Arc<[AtomicU64]> = (0..path.flows).map(|_| AtomicU64::new(0)).collect();
        let (counts, output) = (Arc::clone(&received), process.stdout.take());
        let reader = output.map(|output| thread::spawn(move || read_counts(output, &counts)));
        Ok(Self {
            link: Some(link),
            process,
            received,
            reader,
        })
    }
}

/// Notes the numbers of each line, until the process ends.
fn read_counts(output: ChildStdout, received: &[AtomicU64]) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        for (count, number) in received.iter().zip(line.split_whitespace()) {
            // Relaxed: no data depends on the order.
            count.store(number.parse().unwrap_or(0), Ordering::Relaxed);
        }
    }
}

impl End for ProgramEnd {
    fn next_frame(&mut self) -> Option<Frame> {
        let mut room = [0; FRAME_MAX];
        let (n, _) = recv(self.link.as_ref()?, &mut room, RecvFlags::DONTWAIT).ok()?;
        (n > 0).then(|| Frame::new(room[..n].to_vec()))
    }

    fn deliver(&mut self, frame: &Frame) {
        // A frame for which the socket has no room is lost, as on a link.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = self
            .link
            .as_ref()
            .map(|link| send(link, &frame.bytes, flags));
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref().map(AsFd::as_fd)
    }

    fn received(&self) -> Vec<u64> {
        let all = self.received.iter();
        all.map(|n| n.load(Ordering::Relaxed)).collect()
    }

    fn timeouts(&self) -> Option<u64> {
        None
    }
}

impl Drop for ProgramEnd {
    fn drop(&mut self) {
        self.link = None;
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let ended = self.reader.take().map(JoinHandle::join);
        drop(ended);
    }
}

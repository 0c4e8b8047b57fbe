//! The traffic of the wires: a running hash that proves two runs equal, lines of text, a capture.

use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::time::Duration;

use kern::{Random, SeededState, Time};

use crate::frame::Frame;
use crate::peer::Segment;
use mbuma::device::impair::LinkEvent;

/// The record of a run.
pub struct Trace {
    hasher: <SeededState as BuildHasher>::Hasher,
    frames: u64,
    lines: Option<Box<dyn Write>>,
    capture: Option<Box<dyn Write>>,
    failed: Option<io::Error>,
}

impl Trace {
    /// A record that keeps the hash only.
    pub(crate) fn new() -> Self {
        // The key never changes: hashes are compared from run to run.
        let hasher = SeededState::new(&mut Random::from_seed(0)).build_hasher();
        Self {
            hasher,
            frames: 0,
            lines: None,
            capture: None,
            failed: None,
        }
    }

    /// Writes a line for each frame.
    pub fn write_lines(&mut self, to: Box<dyn Write>) {
        self.lines = Some(to);
    }

    /// Writes each frame to a capture file (libpcap's format, nanoseconds).
    ///
    /// # Errors
    /// The file's header could not be written.
    pub fn write_capture(&mut self, mut to: Box<dyn Write>) -> io::Result<()> {
        const NANOSECONDS: u32 = 0xa1b2_3c4d;
        const ETHERNET: u32 = 1;
        let (major, minor) = (2_u32, 4_u32);
        let header = [
            NANOSECONDS,
            major | minor << 16,
            0,
            0,
            u32::from(u16::MAX),
            ETHERNET,
        ];
        header
            .iter()
            .try_for_each(|word| to.write_all(&word.to_le_bytes()))?;
        self.capture = Some(to);
        Ok(())
    }

    /// A hash of every frame so far, with its time, wire and sender.
    pub fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    /// Frames so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Writes out the buffered lines.
    ///
    /// # Errors
    /// The first error of the outputs, now or earlier. It does not affect the run.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.lines.as_mut().map_or(Ok(()), |w| w.flush())?;
        self.capture.as_mut().map_or(Ok(()), |w| w.flush())
    }

    /// A turn of a CPU or program, if turns are drawn: it goes into the hash, as a frame does.
    pub(crate) fn turn(&mut self, now: Time, id: usize, cpu: usize, what: &str) {
        self.hasher.write(&now.as_nanos().to_le_bytes());
        self.hasher.write(&[id as u8, cpu as u8]);
        self.hasher.write(what.as_bytes());
        if let Some(to) = &mut self.lines
            && let Err(error) = match cpu {
                usize::MAX => writeln!(to, "{now:?} {what} {id}"),
                _ => writeln!(to, "{now:?} node {id} CPU {cpu}: {what}"),
            }
        {
            self.failed.get_or_insert(error);
            self.lines = None;
        }
    }

    pub(crate) fn frame(
        &mut self,
        now: Time,
        wire: usize,
        from: usize,
        frame: &Frame,
        events: &[LinkEvent],
    ) {
        self.frames += 1;
        self.hasher.write(&now.as_nanos().to_le_bytes());
        self.hasher.write(&[wire as u8, from as u8]);
        self.hasher.write(&(frame.bytes.len() as u32).to_le_bytes());
        self.hasher.write(&frame.bytes);
        let mut result = Ok(());
        if let Some(to) = &mut self.lines {
            result = writeln!(
                to,
                "{now:?} wire {wire} end {from}: {}",
                line(frame, events)
            );
        }
        if let Some(to) = &mut self.capture {
            result = result.and_then(|()| capture(to, now, &frame.bytes));
        }
        if let Err(error) = result {
            self.failed.get_or_insert(error);
            (self.lines, self.capture) = (None, None);
        }
    }
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace")
            .field("hash", &self.hash())
            .field("frames", &self.frames)
            .finish()
    }
}

fn line(frame: &Frame, events: &[LinkEvent]) -> String {
    let mut text = match Segment::parse(&frame.bytes) {
        Some(segment) => segment.to_string(),
        None => format!(
            "{} bytes, {:02x?}",
            frame.bytes.len(),
            frame.bytes.get(12..14)
        ),
    };
    if events != [LinkEvent::Delivered] {
        let _: Result<(), std::fmt::Error> = write!(text, "  {events:?}");
    }
    text
}

fn capture(to: &mut dyn Write, now: Time, bytes: &[u8]) -> io::Result<()> {
    let since = Duration::from_nanos(now.as_nanos());
    let len = bytes.len() as u32;
    for word in [since.as_secs() as u32, since.subsec_nanos(), len, len] {
        to.write_all(&word.to_le_bytes())?;
    }
    to.write_all(bytes)
}

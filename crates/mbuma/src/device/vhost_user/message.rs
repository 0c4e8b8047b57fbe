//! Messages of the front-end, and replies to it.
//!
//! ```text
//!   | request | flags | size | body of `size` bytes |   each field 32 bits, in the machine's byte order
//! ```
//! Descriptors come beside a message. The device reads the part of a message that has arrived, so one that comes in
//! pieces blocks no thread.
//!
//! Invariants: no byte beyond the message is read, because descriptors would be assigned to the wrong one. Locks: none.
//! Sources: QEMU's docs/interop/vhost-user.rst, "Message Specification".

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, recvmsg, send,
};

use super::memory::REGIONS_MAX;

/// The supported requests.
pub(super) const GET_FEATURES: u32 = 1;
pub(super) const SET_FEATURES: u32 = 2;
pub(super) const SET_OWNER: u32 = 3;
pub(super) const RESET_OWNER: u32 = 4;
pub(super) const SET_MEM_TABLE: u32 = 5;
pub(super) const SET_VRING_NUM: u32 = 8;
pub(super) const SET_VRING_ADDR: u32 = 9;
pub(super) const SET_VRING_BASE: u32 = 10;
pub(super) const GET_VRING_BASE: u32 = 11;
pub(super) const SET_VRING_KICK: u32 = 12;
pub(super) const SET_VRING_CALL: u32 = 13;
pub(super) const SET_VRING_ERR: u32 = 14;
pub(super) const GET_PROTOCOL_FEATURES: u32 = 15;
pub(super) const SET_PROTOCOL_FEATURES: u32 = 16;
pub(super) const SET_VRING_ENABLE: u32 = 18;

/// Bytes before the body.
const HEADER_LEN: usize = 12;
/// The longest body: a table of memory.
const BODY_MAX: usize = 8 + REGIONS_MAX * 32;
/// The version of the protocol, in two bits of the flags.
const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// An invalid message, or one for a feature that was not offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused;

/// Why there are no more messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageEnd {
    /// The connection has ended.
    Closed,
    /// An invalid message.
    Bad,
}

/// A whole message.
#[derive(Debug)]
pub(super) struct FrontEndMessage {
    pub(super) request: u32,
    /// A reply with the result is requested.
    pub(super) needs_reply: bool,
    body: Vec<u8>,
    pub(super) files: Vec<OwnedFd>,
}

impl FrontEndMessage {
    /// The body, as `N` numbers of 64 bits.
    pub(super) fn words<const N: usize>(&self) -> Result<[u64; N], Refused> {
        let (words, rest) = self.body.as_chunks();
        match <[[u8; 8]; N]>::try_from(words) {
            Ok(words) if rest.is_empty() => Ok(words.map(u64::from_ne_bytes)),
            _ => Err(Refused),
        }
    }

    /// The body, as two numbers of 32 bits.
    pub(super) fn pair(&self) -> Result<(u32, u32), Refused> {
        self.words().map(|[word]| halves(word))
    }

    /// The body of a table: the first number of 32 bits counts its rows of `N` numbers of 64 bits.
    pub(super) fn rows<const N: usize>(&self) -> Result<Vec<[u64; N]>, Refused> {
        let (words, rest) = self.body.as_chunks();
        let Some((first, words)) = words.split_first().filter(|_| rest.is_empty()) else {
            return Err(Refused);
        };
        let (count, _) = halves(u64::from_ne_bytes(*first));
        let (rows, rest) = words.as_chunks::<N>();
        if !rest.is_empty() || rows.len() != count as usize {
            return Err(Refused);
        }
        Ok(rows.iter().map(|row| row.map(u64::from_ne_bytes)).collect())
    }

    /// The only descriptor.
    pub(super) fn file(&mut self) -> Result<OwnedFd, Refused> {
        match (self.files.pop(), self.files.is_empty()) {
            (Some(file), true) => Ok(file),
            _ => Err(Refused),
        }
    }
}

/// Two numbers that lie side by side, in the order of their addresses.
pub(super) fn halves(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    let half = u32::from_ne_bytes;
    (half([a, b, c, d]), half([e, f, g, h]))
}

/// Sends a reply. Returns false if the socket does not take it at once: a front-end reads each reply before it sends
/// the next message.
pub(super) fn reply(peer: &UnixStream, request: u32, word: u64) -> bool {
    let header = [request, VERSION | REPLY, 8];
    let mut bytes = [0; HEADER_LEN + 8];
    let (front, body) = bytes.split_at_mut(HEADER_LEN);
    front.copy_from_slice(header.map(u32::to_ne_bytes).as_flattened());
    body.copy_from_slice(&word.to_ne_bytes());
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    send(peer, &bytes, flags) == Ok(bytes.len())
}

/// Puts messages together.
#[derive(Debug)]
pub(super) struct MessageReader {
    bytes: [u8; HEADER_LEN + BODY_MAX],
    /// The number of bytes that were read.
    read: usize,
    files: Vec<OwnedFd>,
}

impl MessageReader {
    pub(super) fn new() -> Self {
        Self {
            bytes: [0; HEADER_LEN + BODY_MAX],
            read: 0,
            files: Vec::new(),
        }
    }

    /// The next message, if all of it is there.
    pub(super) fn next(
        &mut self,
        peer: &UnixStream,
    ) -> Result<Option<FrontEndMessage>, MessageEnd> {
        loop {
            let end = self.end()?;
            if self.read == end {
                return Ok(Some(self.take(end)));
            }
            match self.fill(peer, end) {
                Ok(true) => {}
                Ok(false) => return Err(MessageEnd::Bad),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(_) => return Err(MessageEnd::Closed),
            }
        }
    }

    /// The end of the header or, once the header is complete, of the message.
    fn end(&self) -> Result<usize, MessageEnd> {
        if self.read < HEADER_LEN {
            return Ok(HEADER_LEN);
        }
        let size = self.header(2) as usize;
        let is_good = size <= BODY_MAX && self.header(1) & VERSION_MASK == VERSION;
        is_good.then_some(HEADER_LEN + size).ok_or(MessageEnd::Bad)
    }

    /// A field of the header.
    fn header(&self, field: usize) -> u32 {
        let (words, _) = self.bytes.as_chunks();
        u32::from_ne_bytes(words[field])
    }

    fn take(&mut self, end: usize) -> FrontEndMessage {
        self.read = 0;
        FrontEndMessage {
            request: self.header(0),
            needs_reply: self.header(1) & NEED_REPLY != 0,
            body: self.bytes[HEADER_LEN..end].to_vec(),
            files: std::mem::take(&mut self.files),
        }
    }

    /// Reads up to `end`. False if descriptors were lost, or there are more than a message can have.
    fn fill(&mut self, peer: &UnixStream, end: usize) -> Result<bool, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(REGIONS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut room = [IoSliceMut::new(&mut self.bytes[self.read..end])];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received = recvmsg(peer, &mut room, &mut control, flags)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        if received.bytes == 0 {
            return Err(Errno::PIPE);
        }
        self.read += received.bytes;
        Ok(!received.flags.contains(ReturnFlags::CTRUNC) && self.files.len() <= REGIONS_MAX)
    }
}

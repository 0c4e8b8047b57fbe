//! A front-end: the connection of a virtual machine's program, and the set-up that it sent.
//!
//! The messages are those that one pair of queues needs. Not offered: migration (which needs a log of our writes), more
//! queues, and configuration space, which front-ends keep themselves for a network card.
//!
//! Locks: none.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::features::{Features, REPLY_ACK};
use super::memory::{RegionPlace, SharedMemory};
use super::message::{self as request, FrontEndMessage, MessageEnd, MessageReader, Refused};
use super::ring_setup::{RingSetup, UserPlace};

/// The ring for frames to the machine.
pub(super) const TO_MACHINE: usize = 0;
/// The ring for frames from the machine.
pub(super) const FROM_MACHINE: usize = 1;
/// In a message about a descriptor: there is none.
const NO_FILE: u64 = 1 << 8;

/// A front-end that is connected.
#[derive(Debug)]
pub(super) struct FrontEnd {
    peer: UnixStream,
    reader: MessageReader,
    /// The device's.
    set: Arc<OwnedFd>,
    /// The features that the driver accepted.
    pub(super) features: Features,
    /// It may request the result of a message.
    acknowledges: bool,
    pub(super) memory: Option<SharedMemory>,
    pub(super) rings: [RingSetup; 2],
}

/// The answer to a message.
enum FrontEndAnswer {
    /// Success, if the front-end requested a reply.
    Done,
    /// The same, and frames that wait are for a driver that has left.
    Restarted,
    /// A number.
    Word(u64),
}

/// The result of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Handled {
    /// It succeeded, or the front-end got an error.
    Message,
    /// Frames that wait are for a driver that has left.
    Restart,
    /// There is none now.
    Nothing,
}

impl FrontEnd {
    pub(super) fn new(peer: UnixStream, set: &Arc<OwnedFd>) -> Self {
        Self {
            peer,
            reader: MessageReader::new(),
            set: Arc::clone(set),
            features: Features(0),
            acknowledges: false,
            memory: None,
            rings: Default::default(),
        }
    }

    pub(super) fn peer(&self) -> &UnixStream {
        &self.peer
    }

    /// Executes the next message.
    ///
    /// # Errors
    /// The connection is over.
    pub(super) fn handle_next(&mut self) -> Result<Handled, MessageEnd> {
        let Some(mut message) = self.reader.next(&self.peer)? else {
            return Ok(Handled::Nothing);
        };
        let answer = self.carry_out(&mut message);
        let asks = self.acknowledges && message.needs_reply;
        let handled = match answer {
            Ok(FrontEndAnswer::Restarted) => Handled::Restart,
            _ => Handled::Message,
        };
        let word = match answer {
            Ok(FrontEndAnswer::Word(word)) => word,
            Ok(_) if asks => 0,
            Ok(_) => return Ok(handled),
            // A front-end that did not request a reply would not notice the error, so the connection ends.
            Err(Refused) if asks => 1,
            Err(Refused) => return Err(MessageEnd::Bad),
        };
        match request::reply(&self.peer, message.request, word) {
            true => Ok(handled),
            false => Err(MessageEnd::Bad),
        }
    }

    fn carry_out(&mut self, message: &mut FrontEndMessage) -> Result<FrontEndAnswer, Refused> {
        match message.request {
            request::GET_FEATURES => return Ok(FrontEndAnswer::Word(Features::OFFERED.0)),
            request::GET_PROTOCOL_FEATURES => return Ok(FrontEndAnswer::Word(REPLY_ACK)),
            request::SET_PROTOCOL_FEATURES => {
                let [features] = message.words()?;
                self.acknowledges = features & REPLY_ACK != 0;
            }
            request::SET_FEATURES => {
                let [features] = message.words()?;
                self.features = Features(features & Features::OFFERED.0);
                return Ok(FrontEndAnswer::Restarted);
            }
            request::SET_OWNER => {}
            request::RESET_OWNER => self.rings = Default::default(),
            request::SET_MEM_TABLE => self.set_memory(message)?,
            request::GET_VRING_BASE => {
                let (index, _) = message.pair()?;
                let base = self.ring(index)?.stop();
                return Ok(FrontEndAnswer::Word(word(index, base.into())));
            }
            _ => return self.set_ring(message).map(|()| FrontEndAnswer::Done),
        }
        Ok(FrontEndAnswer::Done)
    }

    /// Messages about one ring.
    fn set_ring(&mut self, message: &mut FrontEndMessage) -> Result<(), Refused> {
        match message.request {
            request::SET_VRING_NUM => {
                let (index, size) = message.pair()?;
                self.ring(index)?.size = size;
            }
            request::SET_VRING_BASE => {
                let (index, base) = message.pair()?;
                self.ring(index)?.set_base(base)?;
            }
            request::SET_VRING_ENABLE => {
                let (index, enabled) = message.pair()?;
                self.ring(index)?.enabled = enabled != 0;
            }
            request::SET_VRING_ADDR => {
                let [first, descriptors, used, available, _log] = message.words()?;
                let user = UserPlace {
                    descriptors,
                    used,
                    available,
                };
                let (index, _flags) = request::halves(first);
                let ring = ring(&mut self.rings, index)?;
                ring.set_place(user, &self.memory)?;
            }
            request::SET_VRING_KICK => {
                let (index, file) = file(message)?;
                // Without a kick the device would have to poll.
                let file = file.ok_or(Refused)?;
                let ring = ring(&mut self.rings, index)?;
                ring.start(file, &self.set, &self.memory, self.features)?;
            }
            request::SET_VRING_CALL => {
                let (index, file) = file(message)?;
                self.ring(index)?.set_call(file);
            }
            request::SET_VRING_ERR => {
                let (index, file) = file(message)?;
                self.ring(index)?.set_error(file);
            }
            _ => return Err(Refused),
        }
        Ok(())
    }

    /// Replaces the machine's memory. Rings that are started keep their addresses in the front-end's process.
    fn set_memory(&mut self, message: &mut FrontEndMessage) -> Result<(), Refused> {
        let places = message.rows()?.into_iter();
        let places = places.map(|[guest, len, user, offset]| RegionPlace {
            guest,
            len,
            user,
            offset,
        });
        let places: Vec<_> = places.collect();
        let files = std::mem::take(&mut message.files);
        let memory = SharedMemory::map(&places, files)?;
        let memory = self.memory.insert(memory);
        // All rings are moved, even if one can't be: the other must not keep an old address.
        let followed = self.rings.each_mut().map(|ring| ring.follow(memory));
        followed.into_iter().collect()
    }

    fn ring(&mut self, index: u32) -> Result<&mut RingSetup, Refused> {
        ring(&mut self.rings, index)
    }
}

fn ring(rings: &mut [RingSetup; 2], index: u32) -> Result<&mut RingSetup, Refused> {
    rings.get_mut(index as usize).ok_or(Refused)
}

/// The ring and the descriptor of a message, which may have none.
fn file(message: &mut FrontEndMessage) -> Result<(u32, Option<OwnedFd>), Refused> {
    let [word] = message.words()?;
    let index = (word & 0xff) as u32;
    match word & NO_FILE {
        0 => Ok((index, Some(message.file()?))),
        _ => Ok((index, None)),
    }
}

/// Two numbers of 32 bits, side by side in this order.
fn word(first: u32, second: u32) -> u64 {
    let [a, b, c, d] = first.to_ne_bytes();
    let [e, f, g, h] = second.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

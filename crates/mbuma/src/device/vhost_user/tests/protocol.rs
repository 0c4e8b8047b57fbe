//! A front-end's messages, to a whole device.

use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::path::PathBuf;

use kern::MonotonicClock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};

use super::super::message as request;
use super::driver::{DATA, Driver, MEMORY_LEN, SIZE, USER, WRITE, memory, place, region};
use super::*;

const NEED_REPLY: u32 = 1 << 3;
const VERSION_1: u64 = 1 << 32;
const PROTOCOL_FEATURES: u64 = 1 << 30;
const MERGEABLE_AND_EVENTS: u64 = 1 << 15 | 1 << 29;
const FROM: u64 = FROM_MACHINE as u64;
const TO: u64 = TO_MACHINE as u64;

/// A device, and where front-ends find it.
struct Card {
    device: VhostUser,
    path: PathBuf,
    pool: MbufPool,
}

/// A front-end, its driver, and the eventfds between driver and device.
struct Machine {
    peer: UnixStream,
    driver: Driver,
    kicks: [OwnedFd; 2],
    calls: [OwnedFd; 2],
    error: OwnedFd,
}

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

impl Card {
    fn new(name: &str) -> Card {
        let name = format!("mbuma-vhost-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let pool = pool();
        let listener = UnixListener::bind(&path).unwrap();
        let clock = Arc::new(MonotonicClock::new());
        let device = VhostUser::listen(listener, MTU, clock, &pool).unwrap();
        Card { device, path, pool }
    }

    fn received(&self) -> Vec<Vec<u8>> {
        let mut rx = Mbufq::new();
        while self.device.receive(&mut rx, ALL).unwrap() {}
        rx.map(|packet| packet.to_vec()).collect()
    }

    /// Sends frames; gives the number of those that were left.
    fn transmit(&self, frames: &[Vec<u8>]) -> usize {
        let mut tx = Mbufq::new();
        frames
            .iter()
            .for_each(|frame| tx.enqueue(packet(&self.pool, frame)));
        self.device.transmit(&mut tx).unwrap();
        tx.len()
    }

    fn is_ready(&self) -> bool {
        let mut fds = [PollFd::new(&self.device, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
    }

    fn connect(&self) -> UnixStream {
        let peer = UnixStream::connect(&self.path).unwrap();
        peer.set_nonblocking(true).unwrap();
        assert!(self.received().is_empty());
        peer
    }

    /// A machine whose rings are started.
    fn machine(&self) -> Machine {
        let machine = Machine {
            peer: self.connect(),
            driver: Driver::new(),
            kicks: [event(), event()],
            calls: [event(), event()],
            error: event(),
        };
        machine.start();
        assert!(self.received().is_empty());
        assert!(self.device.take_drops().is_empty());
        machine
    }

    fn end(self) {
        std::fs::remove_file(&self.path).unwrap();
        drop(self.device);
        assert_balance(&self.pool);
    }
}

/// Sends a message, with descriptors beside it.
fn say(peer: &UnixStream, request: u32, flags: u32, body: &[u64], files: &[BorrowedFd<'_>]) {
    let body: Vec<u8> = body.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let header = [request, 1 | flags, body.len() as u32].map(u32::to_ne_bytes);
    send(peer, &[header.as_flattened(), &body].concat(), files);
}

/// Sends bytes, with descriptors beside them.
fn send(peer: &UnixStream, bytes: &[u8], files: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(files)));
    }
    let sent = sendmsg(
        peer,
        &[IoSlice::new(bytes)],
        &mut control,
        rustix::net::SendFlags::NOSIGNAL,
    );
    assert_eq!(sent.unwrap(), bytes.len());
}

/// The number in the reply.
fn reply(mut peer: &UnixStream) -> Option<u64> {
    let mut bytes = [0; 20];
    peer.read_exact(&mut bytes).ok()?;
    Some(u64::from_ne_bytes(bytes[12..].try_into().unwrap()))
}

/// Whether the connection was ended.
fn is_over(mut peer: &UnixStream) -> bool {
    matches!(peer.read(&mut [0; 64]), Ok(0)) || has_ended(peer)
}

fn table(place: memory::RegionPlace) -> [u64; 5] {
    [1, place.guest, place.len, place.user, place.offset]
}

impl Machine {
    fn say(&self, request: u32, body: &[u64], files: &[BorrowedFd<'_>]) {
        say(&self.peer, request, 0, body, files);
    }

    fn start(&self) {
        let features = VERSION_1 | PROTOCOL_FEATURES | MERGEABLE_AND_EVENTS;
        self.say(request::SET_OWNER, &[], &[]);
        self.say(request::SET_PROTOCOL_FEATURES, &[features::REPLY_ACK], &[]);
        self.say(request::SET_FEATURES, &[features], &[]);
        self.say(
            request::SET_MEM_TABLE,
            &table(region()),
            &[self.driver.file()],
        );
        for index in 0..2 {
            self.start_ring(index);
        }
    }

    fn start_ring(&self, index: u64) {
        let place = place(index as usize);
        let user = |at: vm_memory::GuestAddress| USER + at.0;
        let address = [
            index,
            user(place.descriptors),
            user(place.used),
            user(place.available),
            0,
        ];
        let ring = index as usize;
        self.say(
            request::SET_VRING_NUM,
            &[index | u64::from(SIZE) << 32],
            &[],
        );
        self.say(request::SET_VRING_BASE, &[index], &[]);
        self.say(request::SET_VRING_ADDR, &address, &[]);
        self.say(
            request::SET_VRING_KICK,
            &[index],
            &[self.kicks[ring].as_fd()],
        );
        self.say(
            request::SET_VRING_CALL,
            &[index],
            &[self.calls[ring].as_fd()],
        );
        self.say(request::SET_VRING_ERR, &[index], &[self.error.as_fd()]);
        self.say(request::SET_VRING_ENABLE, &[index | 1 << 32], &[]);
    }

    fn kick(&self, ring: usize) {
        rustix::io::write(&self.kicks[ring], &1_u64.to_ne_bytes()).unwrap();
    }

    /// Whether the driver was called since the last look.
    fn was_called(&self, ring: usize) -> bool {
        rustix::io::read(&self.calls[ring], &mut [0; 8]).is_ok()
    }
}

/// Breaks if a front-end's usual messages do not lead to frames in both directions, kicks and calls do not come, or the
/// descriptor stays readable without work.
#[test]
fn a_machine_sends_and_receives() {
    let card = Card::new("both");
    let mut machine = card.machine();
    assert!(machine.was_called(0) && machine.was_called(1));
    assert!(!card.is_ready());
    for round in 0..3 {
        machine
            .driver
            .write(DATA, &[&[0; 12][..], &pattern(100 + round)].concat());
        machine
            .driver
            .offer(FROM_MACHINE, 0, &[(DATA, 112 + round as u32)], 0);
        machine.kick(FROM_MACHINE);
        assert!(card.is_ready());
        assert_eq!(card.received(), [pattern(100 + round)]);
        assert!(!card.is_ready());
        assert_eq!(machine.driver.take_used(FROM_MACHINE), [(0, 0)]);

        // Without a buffer it waits for one.
        assert_eq!(card.transmit(&[pattern(200 + round)]), 0);
        machine.driver.offer(TO_MACHINE, 4, &[(DATA, 1500)], WRITE);
        machine.kick(TO_MACHINE);
        assert!(card.received().is_empty());
        assert_eq!(
            machine.driver.take_used(TO_MACHINE),
            [(4, 212 + round as u32)]
        );
        assert_eq!(
            machine.driver.read(DATA + 12, 200 + round),
            pattern(200 + round)
        );
    }
    // The driver had asked for a call at the first buffer.
    assert!(machine.was_called(0) && machine.was_called(1));
    drop(machine);
    assert!(card.received().is_empty());
    card.end();
}

/// Breaks if the effect of a message depends on the pieces in which it arrives.
#[test]
fn messages_come_in_pieces() {
    let card = Card::new("pieces");
    let peer = card.connect();
    let header = [request::GET_FEATURES, 1, 0].map(u32::to_ne_bytes);
    for byte in header.as_flattened() {
        assert_eq!(rustix::io::write(&peer, &[*byte]).unwrap(), 1);
        assert!(card.received().is_empty());
        // The missing rest does not keep the thread busy.
        assert!(!card.is_ready());
    }
    assert_eq!(reply(&peer), Some(features::Features::OFFERED.0));
    drop(peer);
    assert!(card.received().is_empty());
    card.end();
}

/// Breaks if the device carries out an impossible message, or ignores it: a front-end that wants replies gets an error,
/// another one is disconnected, and the next one finds the card.
#[test]
fn senseless_messages_are_refused() {
    let card = Card::new("senseless");
    let file = memory(MEMORY_LEN);
    let fd = file.as_fd();
    let good = region();
    let behind = memory::RegionPlace {
        len: MEMORY_LEN + 1,
        ..good
    };
    let offset = memory::RegionPlace {
        offset: u64::MAX - 4095,
        ..good
    };
    let empty = memory::RegionPlace { len: 0, ..good };
    let far = memory::RegionPlace {
        guest: u64::MAX - 4095,
        ..good
    };
    let twice: Vec<u64> = [2]
        .into_iter()
        .chain([&table(good)[1..]; 2].concat())
        .collect();
    let [_, kick] = [event(), event()];
    let cases: [(&str, u32, &[u64], &[BorrowedFd<'_>]); 19] = [
        ("no request", 0, &[], &[]),
        ("a request of later", 200, &[7; 8], &[]),
        ("no number", request::SET_FEATURES, &[], &[]),
        ("two numbers", request::SET_FEATURES, &[1, 2], &[]),
        (
            "memory without a file",
            request::SET_MEM_TABLE,
            &table(good),
            &[],
        ),
        ("two files", request::SET_MEM_TABLE, &table(good), &[fd, fd]),
        (
            "a part of a table",
            request::SET_MEM_TABLE,
            &table(good)[..3],
            &[fd],
        ),
        (
            "a longer table than it says",
            request::SET_MEM_TABLE,
            &twice[..5],
            &[fd, fd],
        ),
        (
            "memory behind its file",
            request::SET_MEM_TABLE,
            &table(behind),
            &[fd],
        ),
        (
            "memory behind all files",
            request::SET_MEM_TABLE,
            &table(offset),
            &[fd],
        ),
        (
            "memory of no bytes",
            request::SET_MEM_TABLE,
            &table(empty),
            &[fd],
        ),
        (
            "memory at the end of all",
            request::SET_MEM_TABLE,
            &table(far),
            &[fd],
        ),
        (
            "memory twice at a place",
            request::SET_MEM_TABLE,
            &twice,
            &[fd, fd],
        ),
        ("no such ring", request::SET_VRING_NUM, &[2 | 16 << 32], &[]),
        (
            "a base beyond the indexes",
            request::SET_VRING_BASE,
            &[0x1_0000 << 32],
            &[],
        ),
        (
            "a kick without memory",
            request::SET_VRING_KICK,
            &[0],
            &[kick.as_fd()],
        ),
        ("no kick", request::SET_VRING_KICK, &[1 << 8], &[]),
        (
            "a call without a descriptor",
            request::SET_VRING_CALL,
            &[0],
            &[],
        ),
        (
            "a call with two",
            request::SET_VRING_CALL,
            &[0],
            &[kick.as_fd(), kick.as_fd()],
        ),
    ];
    for (what, request, body, files) in cases {
        let peer = card.connect();
        say(
            &peer,
            request::SET_PROTOCOL_FEATURES,
            0,
            &[features::REPLY_ACK],
            &[],
        );
        say(&peer, request, NEED_REPLY, body, files);
        card.received();
        assert_eq!(reply(&peer), Some(1), "{what}");
        say(&peer, request, 0, body, files);
        card.received();
        assert!(is_over(&peer), "{what}");
        let drops = card.device.take_drops();
        assert_eq!(drops, [(DropReason::BadFrontEndMessage, 1)], "{what}");
    }
    let headers = [
        ("too long a body", [request::SET_MEM_TABLE, 1, 265]),
        ("far too long a body", [request::SET_MEM_TABLE, 1, u32::MAX]),
        ("another version", [request::GET_FEATURES, 2, 0]),
    ];
    for (what, header) in headers {
        let peer = card.connect();
        rustix::io::write(&peer, header.map(u32::to_ne_bytes).as_flattened()).unwrap();
        card.received();
        assert!(is_over(&peer), "{what}");
        assert_eq!(card.device.take_drops().len(), 1, "{what}");
    }
    // More descriptors than there is room for, and many in pieces.
    let peer = card.connect();
    say(&peer, request::SET_MEM_TABLE, 0, &table(good), &[fd; 9]);
    card.received();
    assert!(is_over(&peer));
    let peer = card.connect();
    for byte in (request::SET_MEM_TABLE as u16).to_ne_bytes() {
        send(&peer, &[byte], &[fd; 5]);
        card.received();
    }
    assert!(is_over(&peer));
    // A front-end that reads no replies.
    let peer = card.connect();
    let mut rounds = 0;
    while !has_ended(&peer) {
        rounds += 1;
        assert!(rounds < 100_000, "replies wait without bound");
        let header = [request::GET_FEATURES, 1, 0].map(u32::to_ne_bytes);
        let _ = rustix::io::write(&peer, header.as_flattened());
        card.received();
    }
    drop(peer);
    card.device.take_drops();
    let machine = card.machine();
    drop(machine);
    card.received();
    card.end();
}

/// Breaks if a second front-end takes the first one's place, a machine that starts again finds no card, or what is left
/// of the last one goes to the next.
#[test]
fn one_front_end_after_the_other() {
    let card = Card::new("peers");
    assert_eq!(card.transmit(&[pattern(60)]), 1, "there is none");
    for _ in 0..3 {
        let mut machine = card.machine();
        let second = card.connect();
        assert!(is_over(&second));
        assert_eq!(card.transmit(&[pattern(60)]), 0);
        // Another driver is in the place of the first: the frame no longer waits.
        let stopped = [request::GET_VRING_BASE, request::SET_FEATURES];
        machine.say(stopped[0], &[TO], &[]);
        machine.say(stopped[0], &[FROM], &[]);
        machine.say(stopped[1], &[VERSION_1 | PROTOCOL_FEATURES], &[]);
        assert!(card.received().is_empty());
        assert_eq!(card.device.take_drops(), [(DropReason::DeviceError, 1)]);
        assert_eq!(card.transmit(&[pattern(60)]), 1, "it is stopped");
        for index in [TO, FROM] {
            machine.start_ring(index);
        }
        machine.driver.offer(TO_MACHINE, 4, &[(DATA, 1500)], WRITE);
        assert!(card.received().is_empty());
        assert!(machine.driver.take_used(TO_MACHINE).is_empty());
        assert_eq!(card.transmit(&[pattern(70)]), 0);
        assert_eq!(machine.driver.take_used(TO_MACHINE), [(4, 82)]);
    }
    card.received();
    card.end();
}

/// Breaks if programs that connect again and again keep the thread busy, or some of them get no answer.
#[test]
fn a_turn_accepts_few_front_ends() {
    let card = Card::new("crowd");
    let connect = |_| {
        let peer = UnixStream::connect(&card.path).unwrap();
        peer.set_nonblocking(true).unwrap();
        peer
    };
    let peers: Vec<_> = (0..100).map(connect).collect();
    let over = || peers.iter().filter(|peer| is_over(peer)).count();
    assert!(card.received().is_empty());
    assert!(over() < 50, "all of them in one turn");
    while card.is_ready() {
        assert!(card.received().is_empty());
    }
    assert_eq!(over(), 99);
    drop(peers);
    card.received();
    card.end();
}

/// Breaks if a broken ring is used on, its front-end is not told, or it can't be set up anew.
#[test]
fn a_broken_ring_rests_until_it_is_set_up_anew() {
    let card = Card::new("broken");
    let mut machine = card.machine();
    machine.driver.set_available(FROM_MACHINE, SIZE + 1);
    machine.kick(FROM_MACHINE);
    assert!(card.received().is_empty());
    assert_eq!(card.device.take_drops(), [(DropReason::BadDescriptors, 1)]);
    assert!(rustix::io::read(&machine.error, &mut [0; 8]).is_ok());
    machine.driver.set_available(FROM_MACHINE, 0);
    machine.driver.write(DATA, &[0; 112]);
    machine.driver.offer(FROM_MACHINE, 0, &[(DATA, 112)], 0);
    machine.kick(FROM_MACHINE);
    assert!(!card.is_ready());
    assert!(card.received().is_empty());
    machine.start_ring(FROM);
    assert_eq!(card.received().len(), 1);
    // Memory that goes away under a ring.
    let elsewhere = memory::RegionPlace {
        user: USER + (1 << 40),
        ..region()
    };
    machine.say(
        request::SET_MEM_TABLE,
        &table(elsewhere),
        &[machine.driver.file()],
    );
    assert!(card.received().is_empty());
    assert!(is_over(&machine.peer));
    card.end();
}

/// Breaks if frames that wait for a ring are lost uncounted when it is broken.
#[test]
fn each_frame_for_a_broken_ring_is_counted() {
    let card = Card::new("lost");
    let mut machine = card.machine();
    assert!(card.received().is_empty());
    let mut tx = Mbufq::new();
    (0..3).for_each(|_| tx.enqueue(packet(&card.pool, &[0; 100])));
    assert_eq!(card.device.transmit(&mut tx).unwrap(), 0);
    assert!(tx.is_empty() && card.device.take_drops().is_empty());
    machine.driver.set_available(TO_MACHINE, SIZE + 1);
    machine.kick(TO_MACHINE);
    assert!(card.received().is_empty());
    assert_eq!(card.device.take_drops(), [(DropReason::BadDescriptors, 3)]);
    card.end();
}

/// Breaks if frames that wait for a driver are lost uncounted when it starts anew, or when its front-end leaves.
#[test]
fn each_frame_for_a_driver_that_has_gone_is_counted() {
    let card = Card::new("gone");
    let machine = card.machine();
    let waiting = [pattern(100), pattern(200), pattern(300)];
    assert_eq!(card.transmit(&waiting), 0);
    assert!(card.device.take_drops().is_empty());
    machine.say(request::SET_FEATURES, &[VERSION_1 | PROTOCOL_FEATURES], &[]);
    assert!(card.received().is_empty());
    assert_eq!(card.device.take_drops(), [(DropReason::DeviceError, 3)]);
    assert_eq!(card.transmit(&waiting[1..]), 0);
    drop(machine);
    assert!(card.received().is_empty());
    assert_eq!(card.device.take_drops(), [(DropReason::DeviceError, 2)]);
    card.end();
}

/// Breaks if descriptors of a wrong kind block the thread, or the device reads them.
#[test]
fn strange_descriptors_do_no_harm() {
    let card = Card::new("strange");
    let mut machine = card.machine();
    let (reader, writer) = std::io::pipe().unwrap();
    // A kick that is always readable: by edge, it wakes once.
    rustix::io::write(&writer, &[1; 100]).unwrap();
    machine.say(request::SET_VRING_KICK, &[FROM], &[reader.as_fd()]);
    // A call that would block, because its pipe is full.
    let (_full, full) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&full, true).unwrap();
    while rustix::io::write(&full, &[1; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&full, false).unwrap();
    machine.say(request::SET_VRING_CALL, &[FROM], &[full.as_fd()]);
    assert!(card.received().is_empty());
    machine.driver.write(DATA, &[0; 112]);
    machine.driver.offer(FROM_MACHINE, 0, &[(DATA, 112)], 0);
    rustix::io::write(&writer, &[1; 8]).unwrap();
    assert_eq!(card.received().len(), 1);
    assert!(!card.is_ready());
    assert_eq!(rustix::io::ioctl_fionread(&reader).unwrap(), 108);
    // A file can't be watched.
    let file = memory(4096);
    machine.say(request::SET_VRING_KICK, &[FROM], &[file.as_fd()]);
    assert!(card.received().is_empty());
    assert!(is_over(&machine.peer));
    card.end();
}

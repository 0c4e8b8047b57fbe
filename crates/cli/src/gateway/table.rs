//! Tokens, which name the object of an event, and tables of those objects.
//!
//! An event may be handled after its object was removed and its slot given to another object. So a token has the
//! generation of its slot:
//!
//! ```text
//!   63      56 55                32 31                 0
//!   | kind    | generation         | index              |
//! ```
//!
//! Invariants: a token finds the object that it was made for, or nothing.
//! Locks: none.

use kern::slot_map::{SlotKey, SlotMap};

/// Declares [`SourceKind`], with a list of all kinds.
macro_rules! source_kinds {
    ($(#[$about:meta] $kind:ident,)*) => {
        /// The kind of object that a token names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum SourceKind { $(#[$about] $kind,)* }

        /// Every kind, at the index of its number.
        const KINDS: &[SourceKind] = &[$(SourceKind::$kind,)*];
    };
}

source_kinds! {
    /// The descriptor that tells when to stop.
    Lifecycle,
    /// Connections that the guest begins.
    Interceptor,
    /// The listener of the status page and of served files.
    HttpListener,
    /// A connection to it.
    HttpConnection,
    /// A TLS handshake of a client of served files.
    TlsHandshake,
    /// The files that no request uses.
    FileSweep,
    /// A connection between guest and host.
    Connection,
    /// A published TCP port.
    Listener,
    /// Datagrams from the guest.
    Datagrams,
    /// A UDP flow.
    Flow,
    /// The host's socket for flows of an end of the guest.
    SharedSocket,
    /// A published UDP port.
    Inlet,
    /// Pings from the guest.
    Echoes,
    /// A ping under way.
    Ping,
    /// The host's socket for pings.
    PingSocket,
    /// The control socket.
    Control,
    /// A netstat that asks.
    Asker,
    /// Connections that other workers gave to this one.
    Inbox,
    /// Questions to the DHCP server.
    Dhcp4,
    /// Questions to the DHCPv6 server.
    Dhcp6,
    /// Questions for routers.
    RouterAdverts,
    /// The trace of TCP connections.
    TcpTrace,
    /// The listener for questions over TCP.
    NameListener,
    /// A connection to it.
    NameConnection,
    /// A guest of a network that is leaving.
    Guest,
}

/// Names one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Token(u64);

/// The token as a number, for the kernel and the runtime to keep.
impl From<Token> for u64 {
    fn from(token: Token) -> u64 {
        token.0
    }
}

const KIND_SHIFT: u32 = 56;
/// The generation lies between the kind and an index of 32 bits.
const GENERATION_BITS: u32 = KIND_SHIFT - 32;

impl Token {
    /// Names the only one of its kind.
    pub(super) const fn only(kind: SourceKind) -> Token {
        Token::nth(kind, 0)
    }

    /// Names the `index`th of a kind that never changes.
    pub(super) const fn nth(kind: SourceKind, index: u32) -> Token {
        Token::new(kind, SlotKey::from_number(index as u64))
    }

    const fn new(kind: SourceKind, key: SlotKey) -> Token {
        Token((kind as u64) << KIND_SHIFT | key.number())
    }

    /// The token that has this number.
    pub(super) const fn from_number(number: u64) -> Token {
        Token(number)
    }

    /// The kind of object that it names; none if the number was never a token's.
    pub(super) fn kind(self) -> Option<SourceKind> {
        KINDS.get((self.0 >> KIND_SHIFT) as usize).copied()
    }

    /// The index within its kind.
    pub(super) const fn index(self) -> usize {
        self.key().index() as usize
    }

    const fn key(self) -> SlotKey {
        SlotKey::from_number(self.0 & ((1 << KIND_SHIFT) - 1))
    }
}

/// Objects of one kind, found by token in O(1).
#[derive(Debug)]
pub(super) struct Table<T> {
    kind: SourceKind,
    objects: SlotMap<T, GENERATION_BITS>,
}

impl<T> Table<T> {
    /// An empty table.
    pub(super) fn new(kind: SourceKind) -> Table<T> {
        let objects = SlotMap::default();
        Table { kind, objects }
    }

    /// The token of the next [`Table::insert`], for an object that must have it before.
    pub(super) fn next_token(&self) -> Token {
        Token::new(self.kind, self.objects.next_key())
    }

    /// Adds `value`.
    pub(super) fn insert(&mut self, value: T) -> Token {
        Token::new(self.kind, self.objects.insert(value))
    }

    /// The object that `token` names, if it is one of this table and still there.
    pub(super) fn find(&mut self, token: Token) -> Option<&mut T> {
        let is_its = token.kind() == Some(self.kind);
        is_its.then_some(self.objects.get_mut(token.key())?)
    }

    /// Removes the object that `token` names; the token names nothing from now on.
    pub(super) fn remove(&mut self, token: Token) -> Option<T> {
        self.objects.remove(token.key())
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// All of them with their tokens.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        let objects = self.objects.iter();
        objects.map(|(key, value)| (Token::new(self.kind, key), value))
    }

    /// Takes all of them out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.objects.drain()
    }
}

#[cfg(test)]
mod tests;

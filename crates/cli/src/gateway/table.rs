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

const INDEX_BITS: u32 = 32;
const KIND_SHIFT: u32 = 56;
const GENERATION_MAX: u32 = (1 << (KIND_SHIFT - INDEX_BITS)) - 1;

impl Token {
    /// Names the only one of its kind.
    pub(super) const fn only(kind: SourceKind) -> Token {
        Token::new(kind, 0, 0)
    }

    /// Names the `index`th of a kind that never changes.
    pub(super) const fn nth(kind: SourceKind, index: u32) -> Token {
        Token::new(kind, 0, index)
    }

    const fn new(kind: SourceKind, generation: u32, index: u32) -> Token {
        Token((kind as u64) << KIND_SHIFT | (generation as u64) << INDEX_BITS | index as u64)
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
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }

    const fn generation(self) -> u32 {
        (self.0 >> INDEX_BITS) as u32 & GENERATION_MAX
    }
}

/// Objects of one kind, found by token in O(1).
#[derive(Debug)]
pub(super) struct Table<T> {
    kind: SourceKind,
    slots: Vec<TableSlot<T>>,
    free: Vec<u32>,
    /// The generation of places that are new: places that had tokens before may have been given back.
    fresh: u32,
}

/// An empty table keeps the memory of no more places than this.
const KEPT_PLACES: usize = 64;

#[derive(Debug)]
struct TableSlot<T> {
    /// The tokens of all objects in the table.
    generation: u32,
    value: Option<T>,
}

impl<T> Table<T> {
    /// An empty table.
    pub(super) const fn new(kind: SourceKind) -> Table<T> {
        Table {
            kind,
            slots: Vec::new(),
            free: Vec::new(),
            fresh: 0,
        }
    }

    /// The token of the next [`Table::insert`], for an object that must have it before.
    pub(super) fn next_token(&self) -> Token {
        let fresh = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let index = self.free.last().copied().unwrap_or(fresh);
        let slot = self.slots.get(index as usize);
        Token::new(self.kind, slot.map_or(self.fresh, |p| p.generation), index)
    }

    /// Adds `value`.
    pub(super) fn insert(&mut self, value: T) -> Token {
        let token = self.next_token();
        let value = Some(value);
        match self.slots.get_mut(token.index()) {
            Some(slot) => {
                self.free.pop();
                slot.value = value;
            }
            None => self.slots.push(TableSlot {
                generation: self.fresh,
                value,
            }),
        }
        token
    }

    /// The object that `token` names, if it is one of this table and still there.
    pub(super) fn find(&mut self, token: Token) -> Option<&mut T> {
        let slot = self.slots.get_mut(token.index())?;
        let is_its = token.kind() == Some(self.kind) && slot.generation == token.generation();
        is_its.then_some(slot.value.as_mut())?
    }

    /// Removes the object that `token` names; the token names nothing from now on.
    pub(super) fn remove(&mut self, token: Token) -> Option<T> {
        let slot = self.slots.get_mut(token.index())?;
        if slot.generation != token.generation() {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = (slot.generation + 1) & GENERATION_MAX;
        self.free.push(token.index() as u32);
        if self.len() == 0 && self.slots.len() > KEPT_PLACES {
            self.give_back();
        }
        Some(value)
    }

    /// Gives back the memory of all places, which are free: otherwise the memory of a spike would stay for ever.
    #[cold]
    fn give_back(&mut self) {
        let used = self.slots.iter().map(|slot| slot.generation);
        self.fresh = used.fold(self.fresh, u32::max);
        (self.slots, self.free) = (Vec::new(), Vec::new());
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// All of them with their tokens.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        self.slots.iter().zip(0..).filter_map(|(slot, index)| {
            let token = Token::new(self.kind, slot.generation, index);
            Some((token, slot.value.as_ref()?))
        })
    }

    /// Takes all of them out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        let slots = std::mem::take(&mut self.slots);
        self.free.clear();
        // Tokens of removed objects name nothing from now on.
        let used = slots.iter().map(|slot| slot.generation + 1);
        self.fresh = used.fold(self.fresh, u32::max) & GENERATION_MAX;
        slots.into_iter().filter_map(|slot| slot.value)
    }
}

#[cfg(test)]
mod tests;

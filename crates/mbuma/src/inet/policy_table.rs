//! The policy table: the precedence and the label of an address, by which sources and destinations are selected.
//!
//! Invariants: no two rows have the same prefix; the longest come first, so that the first row that matches is the most
//! specific one. While a stack has the default table, a look-up takes no lock.
//! Locks: a stack's table (IFADDR, read-mostly). Sources: RFC 6724 section 2.1.

use std::borrow::Cow;
use std::mem;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kern::{LockClass, RmLock, order};
use wire::is_same_prefix;

static POLICY: LockClass = LockClass::new("address policy", order::IFADDR);

/// Rows of a table at most.
const ROWS_MAX: usize = 1024;

/// The policy for addresses of one network (RFC 6724 section 2.1). Those of IPv4 are in ::ffff:0:0/96.
#[doc(alias = "in6_addrpolicy")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyRow {
    /// The network: an address whose bits after the prefix are zero.
    pub net: Ipv6Addr,
    /// Bits of the prefix: 0 to 128.
    pub prefix_len: u8,
    /// Of two destinations the one with the greater precedence is better.
    pub precedence: u8,
    /// A source with the label of the destination is better.
    pub label: u8,
}

impl PolicyRow {
    /// A row for the network of `net` with a prefix of `prefix_len` bits.
    pub const fn new(net: Ipv6Addr, prefix_len: u8, precedence: u8, label: u8) -> Self {
        Self {
            net,
            prefix_len,
            precedence,
            label,
        }
    }
}

/// The default rows (RFC 6724 section 2.1).
const DEFAULT_ROWS: [PolicyRow; 9] = [
    PolicyRow::new(Ipv6Addr::LOCALHOST, 128, 50, 0),
    PolicyRow::new(Ipv6Addr::UNSPECIFIED, 96, 1, 3),
    PolicyRow::new(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 35, 4),
    PolicyRow::new(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, 5, 5),
    PolicyRow::new(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 30, 2),
    PolicyRow::new(Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16, 1, 12),
    PolicyRow::new(Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, 1, 11),
    PolicyRow::new(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, 3, 13),
    PolicyRow::new(Ipv6Addr::UNSPECIFIED, 0, 40, 1),
];

/// A policy table. The default one is that of RFC 6724 section 2.1.
///
/// ```
/// use mbuma::{PolicyRow, PolicyTable};
///
/// // Unique local addresses of one network before all others.
/// let net = "fd12:3456:789a::".parse()?;
/// let ours = PolicyRow::new(net, 48, 45, 14);
/// let rows = PolicyTable::default().rows().to_vec();
/// let table = PolicyTable::new(rows.into_iter().chain([ours]))?;
/// assert_eq!(table.row_of("fd12:3456:789a::1".parse()?), Some(&ours));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyTable {
    rows: Cow<'static, [PolicyRow]>,
}

impl Default for PolicyTable {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl PolicyTable {
    const DEFAULT: Self = Self {
        rows: Cow::Borrowed(&DEFAULT_ROWS),
    };

    /// A table of these rows, in any order. An address that no row matches has no precedence and no label.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn new(rows: impl IntoIterator<Item = PolicyRow>) -> Result<Self, PolicyError> {
        let mut rows: Vec<_> = rows.into_iter().take(ROWS_MAX + 1).collect();
        if rows.len() > ROWS_MAX {
            return Err(PolicyError::Full);
        }
        let is_network = |row: &PolicyRow| {
            let host = u128::MAX.checked_shr(row.prefix_len.into()).unwrap_or(0);
            row.prefix_len <= 128 && row.net.to_bits() & host == 0
        };
        if let Some(row) = rows.iter().find(|row| !is_network(row)) {
            return Err(PolicyError::BadNetwork(row.net, row.prefix_len));
        }
        let key = |row: &PolicyRow| (u8::MAX - row.prefix_len, row.net);
        rows.sort_by_key(key);
        match rows.windows(2).find(|pair| key(&pair[0]) == key(&pair[1])) {
            Some(pair) => Err(PolicyError::Twice(pair[0].net, pair[0].prefix_len)),
            None => Ok(Self { rows: rows.into() }),
        }
    }

    /// The rows, those with the longest prefixes first.
    pub fn rows(&self) -> &[PolicyRow] {
        &self.rows
    }

    /// The most specific row that matches an address.
    pub fn row_of(&self, addr: Ipv6Addr) -> Option<&PolicyRow> {
        let matches = |row: &&PolicyRow| is_same_prefix(addr, row.net, row.prefix_len);
        self.rows.iter().find(matches)
    }

    pub(super) fn label(&self, addr: Ipv6Addr) -> Option<u8> {
        self.row_of(addr).map(|row| row.label)
    }

    pub(super) fn precedence(&self, addr: Ipv6Addr) -> Option<u8> {
        self.row_of(addr).map(|row| row.precedence)
    }
}

/// The reason for which rows are no [`PolicyTable`] (RFC 6724 section 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The prefix is longer than 128 bits, or a bit after it is set.
    #[error("{0}/{1} is no network")]
    BadNetwork(Ipv6Addr, u8),
    /// Two rows are for this network.
    #[error("two rows are for {0}/{1}")]
    Twice(Ipv6Addr, u8),
    /// There are more than 1024 rows.
    #[error("a policy table has at most {} rows", ROWS_MAX)]
    Full,
}

/// The table of a stack, which its interfaces share.
#[derive(Debug)]
pub(crate) struct AddressPolicy {
    /// Relaxed: a packet that misses a change counts as one that was sent before it. Written under the table's lock.
    is_default: AtomicBool,
    table: RmLock<Arc<PolicyTable>>,
}

impl AddressPolicy {
    pub(crate) fn new() -> Self {
        Self {
            is_default: AtomicBool::new(true),
            table: RmLock::new(&POLICY, Arc::new(PolicyTable::DEFAULT)),
        }
    }

    pub(crate) fn set(&self, table: PolicyTable) {
        let is_default = table == PolicyTable::DEFAULT;
        let table = Arc::new(table);
        let mut present = self.table.write();
        // Of two threads the one whose table stays is also the last to write this.
        self.is_default.store(is_default, Ordering::Relaxed);
        let before = mem::replace(&mut *present, table);
        drop(present);
        drop(before);
    }

    /// Applies `f` to the table, without a lock.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&PolicyTable) -> R) -> R {
        if self.is_default.load(Ordering::Relaxed) {
            return f(&PolicyTable::DEFAULT);
        }
        let table = Arc::clone(&self.table.read());
        f(&table)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;

//! Names of sockets: bytes that mean something within one stack only, like Linux's abstract names.
//!
//! A name is in use as long as its socket is open. There is no file that would stay.
//!
//! Locks: the table (UNIX_NAMES).
//! Source: unix(7), section "Address format".

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kern::{Giant, LockClass, order};

use super::error::UnixError;
use super::lock::Lock;
use super::pcb::Unpcb;

static NAMES: LockClass = LockClass::new("unix names", order::UNIX_NAMES);

/// Bytes in a name at most, as in an abstract `sun_path`.
pub const NAME_MAX: usize = 107;

/// A socket's name (unix(7)): 1 to [`NAME_MAX`] bytes, of any value.
#[doc(alias = "sockaddr_un")]
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<[u8]>);

impl Name {
    pub(super) fn new(bytes: &[u8]) -> Result<Self, UnixError> {
        match bytes.len() {
            1..=NAME_MAX => Ok(Self(bytes.into())),
            _ => Err(UnixError::BadName),
        }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// The sockets by name. An ordered map, so that chosen names can't make it slow.
pub(crate) struct Names(Lock<BTreeMap<Name, Arc<Unpcb>>>);

impl Names {
    pub(super) fn new(giant: &Arc<Giant>) -> Self {
        Self(Lock::new(giant, &NAMES, BTreeMap::new()))
    }

    /// Gives `name` to `pcb`; false if another has it.
    #[doc(alias = "unp_bind")]
    pub(super) fn bind(&self, name: &Name, pcb: &Arc<Unpcb>) -> bool {
        let mut names = self.0.lock();
        let free = !names.contains_key(name);
        if free {
            names.insert(name.clone(), Arc::clone(pcb));
        }
        free
    }

    /// The socket that has `name`.
    pub(super) fn find(&self, name: &[u8]) -> Result<Arc<Unpcb>, UnixError> {
        let name = Name::new(name)?;
        let found = self.0.lock().get(&name).map(Arc::clone);
        found.ok_or(UnixError::NotFound)
    }

    /// Removes `name` if `pcb` has it: a socket that failed to bind has none.
    pub(super) fn unbind(&self, name: &Name, pcb: &Unpcb) {
        let mut names = self.0.lock();
        let held = names.get(name).is_some_and(|p| std::ptr::eq(&**p, pcb));
        let gone = held.then(|| names.remove(name));
        drop(names);
        drop(gone);
    }
}

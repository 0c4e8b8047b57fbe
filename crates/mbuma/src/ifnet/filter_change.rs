//! The changes that a program makes to a socket's filter for a group.
//!
//! | change | not in the group | all senders but some | some senders |
//! |---|---|---|---|
//! | join, leave | all senders; error | error; leaves | error; leaves |
//! | block, unblock a source | error | adds, removes it | error |
//! | join, leave a source | that source; error | error | adds, removes it; leaves with the last |
//!
//! Invariants, locks: none. Sources: RFC 3678 section 4.1.

use std::io;
use std::net::IpAddr;

use rustix::io::Errno;

use super::groups::GroupRefusal;
use super::source_filter::{FilterMode, SourceFilter};

/// The error of joining or leaving a group with a socket, or of changing the senders that it takes (RFC 3678 section
/// 4.1). Nothing has changed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// There is no such interface.
    #[error("there is no such interface")]
    NoInterface,
    /// The socket is not bound to its port on all addresses of the group's version of IP, so it gets no datagrams to
    /// groups.
    #[error("the socket is not bound to a port on all addresses of the group's version of IP")]
    BadSocket,
    /// The group is no group, or one of interface-local scope; or no host that sends to it can have the source's
    /// address.
    #[error(
        "the address is not one of a group, or the source's is not one of a host that sends to it"
    )]
    BadAddress,
    /// The socket is in the group already, or has listed the source already.
    #[error("the socket is in the group already, or has listed the source already")]
    AlreadyMember,
    /// The socket is not in the group, or has not listed the source.
    #[error("the socket is not in the group, or has not listed the source")]
    NotMember,
    /// The socket has joined the group for all senders but some, and the call is for a list of some senders; or the
    /// reverse.
    #[error("the socket has joined the group for the other kind of list of senders")]
    OtherMode,
    /// The socket is in too many groups of the interface, or the interface is.
    #[error("the socket or the interface is in too many groups")]
    Full,
    /// The members of the group on this interface have too many sources in their filters: 64 together at most.
    #[error(
        "the filters of this group have too many sources: 64 at most, those of all members together"
    )]
    ManySources,
    /// The group is one of source-specific multicast (232/8, ff3x::/32): a socket joins it for named senders only (RFC
    /// 4604).
    #[error("the group is one of source-specific multicast: it is joined for named senders only")]
    SendersNeeded,
}

impl From<GroupRefusal> for GroupError {
    fn from(full: GroupRefusal) -> Self {
        match full {
            GroupRefusal::Groups => Self::Full,
            GroupRefusal::Sources => Self::ManySources,
            GroupRefusal::Unnamed => Self::SendersNeeded,
        }
    }
}

impl From<GroupError> for io::Error {
    fn from(e: GroupError) -> Self {
        let errno = match e {
            GroupError::NoInterface => Errno::NODEV,
            GroupError::BadSocket
            | GroupError::BadAddress
            | GroupError::OtherMode
            | GroupError::SendersNeeded => Errno::INVAL,
            GroupError::AlreadyMember => Errno::ADDRINUSE,
            GroupError::NotMember => Errno::ADDRNOTAVAIL,
            GroupError::Full | GroupError::ManySources => Errno::NOBUFS,
        };
        errno.into()
    }
}

/// A change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterChange {
    Join,
    Leave,
    Block(IpAddr),
    Unblock(IpAddr),
    JoinSource(IpAddr),
    LeaveSource(IpAddr),
}

impl FilterChange {
    /// The source that it is about.
    pub(crate) fn source(self) -> Option<IpAddr> {
        match self {
            Self::Join | Self::Leave => None,
            Self::Block(source)
            | Self::Unblock(source)
            | Self::JoinSource(source)
            | Self::LeaveSource(source) => Some(source),
        }
    }

    /// The filter after it; `None`: not in the group.
    pub(crate) fn apply(
        self,
        old: Option<&SourceFilter>,
    ) -> Result<Option<SourceFilter>, GroupError> {
        let Some(old) = old else {
            return match self {
                Self::Join => Ok(Some(SourceFilter::all())),
                Self::JoinSource(source) => Ok(Some(SourceFilter::include([source]))),
                _ => Err(GroupError::NotMember),
            };
        };
        let filter = match (self, old.mode()) {
            (Self::Join, _) => return Err(GroupError::AlreadyMember),
            (Self::Leave, _) => return Ok(None),
            (Self::Block(source), FilterMode::Exclude)
            | (Self::JoinSource(source), FilterMode::Include) => {
                old.with(source).ok_or(GroupError::AlreadyMember)?
            }
            (Self::Unblock(source), FilterMode::Exclude)
            | (Self::LeaveSource(source), FilterMode::Include) => {
                old.without(source).ok_or(GroupError::NotMember)?
            }
            _ => return Err(GroupError::OtherMode),
        };
        Ok(Some(filter).filter(|filter| !filter.is_none()))
    }
}

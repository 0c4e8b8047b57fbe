//! Messages between a network's process and the processes that join or inspect it: one answer to each question.
//!
//! ```text
//!   run      Join ->            <- Joined, Refused
//!            Attach + TAP ->        <- Done, Refused
//!            Publish + socket ->    <- Done, Refused  for each published port
//!                                   (and stays connected for as long as COMMAND runs)
//!   network  Inspect ->             <- View
//!            Remove ->              <- Done, Refused
//! ```
//!
//! Locks: none.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::addressing::Addressing;
use crate::args::Publish;
use crate::sys::tap::Offloads;

/// The version of this process.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why guests of another version may not join; `None` if it is the same.
pub(super) fn other_version(of_network: &str, of_guest: &str) -> Option<String> {
    let name = |version: &str| match version {
        "" => "an earlier version".to_owned(),
        version => format!("version {version}"),
    };
    (of_network != of_guest).then(|| {
        format!(
            "its process is of {}, and this mbuma of {}: end its guests first, or choose another name",
            name(of_network),
            name(of_guest)
        )
    })
}

/// A question to a network's process, or its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NetworkMessage {
    /// A guest wants an address.
    Join {
        /// The process that runs it.
        pid: u32,
        /// The name by which other guests find it.
        name: Option<String>,
        /// The options that all guests share, if any was given.
        options: Option<String>,
        /// Of the guest's mbuma; empty before versions were told.
        #[serde(default)]
        version: String,
    },
    /// It has one: the guest's of this network. That of IPv6, if there is one, has this prefix, and the guest's number.
    Joined {
        network: Addressing,
        prefix6: Option<Ipv6Addr>,
        number: u32,
        mtu: u16,
        /// Of the network's process.
        #[serde(default)]
        version: String,
    },
    /// A port of the guest's; the host's socket comes along.
    Publish(Publish),
    /// The guest is configured, with IPv6 or without; its TAP comes along.
    Attach { offloads: Offloads, ip6: bool },
    /// What is there?
    Inspect,
    /// This.
    View(NetworkView),
    /// End the network, even if guests are in it.
    Remove { force: bool },
    /// It is done.
    Done,
    /// It is not, for this reason.
    Refused(String),
}

/// A network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NetworkView {
    pub(crate) name: String,
    /// The process that `mbuma netstat` knows it by.
    pub(crate) pid: u32,
    pub(crate) gateway: Ipv4Addr,
    pub(crate) prefix_len: u8,
    pub(crate) mtu: u16,
    pub(crate) guests: Vec<GuestView>,
}

/// A guest of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GuestView {
    pub(crate) addr: Ipv4Addr,
    pub(crate) addr6: Option<Ipv6Addr>,
    pub(crate) name: Option<String>,
    /// The `mbuma run` that it belongs to.
    pub(crate) pid: u32,
}

impl GuestView {
    /// Whether a question for `name` means this guest: DNS compares names without their case (RFC 4343).
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let own = self.name.as_ref();
        own.is_some_and(|own| own.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_named() {
        // Breaks when a guest joins a process whose messages differ from its own, or is told of a missing field.
        let old = r#"{"Join":{"pid":1,"name":null,"options":null}}"#;
        let NetworkMessage::Join { version, .. } = serde_json::from_str(old).expect("a message")
        else {
            panic!("{old}");
        };
        let why = other_version(VERSION, &version).expect("it is another one");
        assert!(why.contains(VERSION) && why.contains("earlier"), "{why}");
        assert!(other_version("9.9.9", VERSION).is_some_and(|why| why.contains("9.9.9")));
        assert_eq!(other_version(VERSION, VERSION), None);
    }
}

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

/// The version of mbuma, and of its messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MessageVersion {
    /// Of the release: for people.
    #[serde(default, rename = "version")]
    release: String,
    /// The number to raise whenever a message, or its meaning, changes: builds between two releases have one name.
    #[serde(default)]
    protocol: u32,
}

impl MessageVersion {
    /// Of this process.
    pub(super) fn own() -> MessageVersion {
        MessageVersion {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: 1,
        }
    }
}

/// Why guests of another version may not join; `None` if both understand each other.
pub(super) fn other_version(
    of_network: &MessageVersion,
    of_guest: &MessageVersion,
) -> Option<String> {
    let name = |MessageVersion { release, protocol }: &MessageVersion| match &**release {
        "" => "an earlier version".to_owned(),
        release => format!("version {release} (messages {protocol})"),
    };
    (of_network.protocol != of_guest.protocol).then(|| {
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
        /// Of the guest's mbuma.
        #[serde(flatten)]
        version: MessageVersion,
    },
    /// It has one: the guest's of this network. That of IPv6, if there is one, has this prefix, and the guest's number.
    Joined {
        network: Addressing,
        prefix6: Option<Ipv6Addr>,
        number: u32,
        mtu: u16,
        /// Of the network's process.
        #[serde(flatten)]
        version: MessageVersion,
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
        let own = MessageVersion::own();
        let why = other_version(&own, &version).expect("it is another one");
        assert!(
            why.contains(&own.release) && why.contains("earlier"),
            "{why}"
        );
        let later = MessageVersion {
            protocol: 2,
            ..own.clone()
        };
        let why = other_version(&later, &own).expect("of one release, and of another build");
        assert!(
            why.contains("messages 2") && why.contains("messages 1"),
            "{why}"
        );
        let renamed = MessageVersion {
            release: "9.9.9".to_owned(),
            ..own.clone()
        };
        assert_eq!(other_version(&renamed, &own), None);
    }

    #[test]
    fn messages_have_a_number() {
        // Breaks when a message changes and its number does not: then a guest joins a process that reads the message
        // differently. Raise the number in `MessageVersion::own`, and change the texts here.
        let own = || MessageVersion {
            release: String::new(),
            ..MessageVersion::own()
        };
        let texts = [
            serde_json::to_string(&NetworkMessage::Join {
                pid: 1,
                name: None,
                options: None,
                version: own(),
            }),
            serde_json::to_string(&NetworkMessage::Joined {
                network: Addressing::DEFAULT,
                prefix6: None,
                number: 2,
                mtu: 1500,
                version: own(),
            }),
            serde_json::to_string(&NetworkMessage::Attach {
                offloads: Offloads::ALL,
                ip6: true,
            }),
        ];
        let texts = texts.map(|text| text.expect("it has no map with other keys"));
        let expected = [
            r#"{"Join":{"pid":1,"name":null,"options":null,"version":"","protocol":1}}"#,
            concat!(
                r#"{"Joined":{"network":{"addr":"10.0.2.100","prefix_len":24,"gateway":"10.0.2.2","dns":"10.0.2.3"},"#,
                r#""prefix6":null,"number":2,"mtu":1500,"version":"","protocol":1}}"#
            ),
            concat!(
                r#"{"Attach":{"offloads":{"vnet_hdr":true,"csum":true,"tso4":true,"tso6":true,"tso_ecn":true,"#,
                r#""uso":true,"big_tcp":false,"jumbo_option":false},"ip6":true}}"#
            ),
        ];
        assert_eq!(texts, expected);
    }
}

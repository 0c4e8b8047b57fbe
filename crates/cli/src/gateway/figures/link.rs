//! The figures of a bad link (`--impair`).

use std::sync::Arc;

use mbuma::device::Device;
use mbuma::device::impair::{Impaired, LinkConfig, LinkCounts, LinkEvent};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// The guest's device behind a bad link.
pub(in super::super) type ImpairedLink = Impaired<Arc<dyn Device>>;

/// One direction of it.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct LinkFigures {
    /// `up` is from the guest.
    pub(in super::super) direction: &'static str,
    pub(in super::super) config: LinkConfig,
    pub(in super::super) counts: LinkCounts,
}

impl LinkFigures {
    /// Both directions, up first.
    pub(super) fn of(link: &ImpairedLink) -> Vec<LinkFigures> {
        let both = ["up", "down"].into_iter().zip(link.links());
        let both = both.zip(link.counts());
        let figures = both.map(|((direction, config), counts)| LinkFigures {
            direction,
            config,
            counts,
        });
        figures.collect()
    }

    /// How often each thing happened, of those that say more than that frames arrived.
    pub(in super::super) fn faults(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let faults = LinkEvent::ALL.into_iter().skip(1);
        let counts = self.counts;
        faults.map(move |event| (event.name(), counts.of(event)))
    }
}

/// `{"direction": "up", "config": "rate=20mbit,...", "sent": 31, "bytes": 4711, "delivered": 30, "lost": 1, ...}`
impl Serialize for LinkFigures {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("direction", self.direction)?;
        map.serialize_entry("config", &self.config.to_string())?;
        map.serialize_entry("sent", &self.counts.sent)?;
        map.serialize_entry("bytes", &self.counts.bytes)?;
        for event in LinkEvent::ALL {
            map.serialize_entry(event.name(), &self.counts.of(event))?;
        }
        map.end()
    }
}

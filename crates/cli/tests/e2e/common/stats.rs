//! The figures of `--stats=json` at the end, and checks of their sums.

use mbuma::DropReason;
use serde_json::Value;

/// The figures, which must be the whole standard error of mbuma.
pub(crate) struct Stats(Value);

impl Stats {
    /// Reads them, and checks the rules of every run: no buffer stays behind, and every packet that came in was
    /// delivered or dropped for a reason.
    pub(crate) fn checked(said: &str) -> Stats {
        let value = serde_json::from_str(said).unwrap_or_else(|e| panic!("{e}: {said}"));
        let stats = Stats(value);
        let leaked = stats.0["leaked"].as_object().expect("what leaked");
        assert!(
            !leaked.is_empty() && leaked.values().all(|n| n.as_u64() == Some(0)),
            "leaked: {leaked:?}"
        );
        let received = stats.number("packets_received");
        assert!(received > 0, "{said}");
        let accounted = stats.number("packets_delivered") + stats.dropped_inward();
        assert_eq!(received, accounted, "packets without an account: {said}");
        stats
    }

    /// The connections that each worker has served.
    pub(crate) fn loads(&self) -> Vec<u64> {
        let each = self.0["workers"].as_array().expect("workers");
        let loads = each.iter().map(|worker| &worker["connections"]);
        loads.map(|n| n.as_u64().expect("a count")).collect()
    }

    /// A figure by its name.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.0[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no figure {name} in {}", self.0))
    }

    /// Packets that came in and were dropped.
    fn dropped_inward(&self) -> u64 {
        let drops = self.0["drops"].as_array().expect("a list of drops");
        let is_inward = |drop: &&Value| {
            let mut all = DropReason::ALL.iter();
            let reason = all.find(|reason| drop["reason"] == reason.name());
            !reason.expect("a reason of the stack").is_outward()
        };
        let inward = drops.iter().filter(is_inward);
        inward
            .map(|drop| drop["packets"].as_u64().expect("a count"))
            .sum()
    }
}

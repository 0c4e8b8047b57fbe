//! The policy by which a stack selects addresses: of its own, to send from, and of a peer's, to try first.

use std::net::IpAddr;

use crate::inet::destination::Candidate;
use crate::inet::policy_table::PolicyTable;
use crate::network;
use crate::stack::Stack;

impl Stack {
    /// Selects addresses by this table from now on. Connections keep their addresses.
    #[doc(alias = "ip6addrctl")]
    pub fn set_policy_table(&self, table: PolicyTable) {
        let _giant = self.0.enter_giant();
        self.0.address_policy.set(table);
        // A socket that is bound to no address may have another one now.
        self.0.routes6.void_kept();
    }

    /// The table by which it selects addresses.
    pub fn policy_table(&self) -> PolicyTable {
        let _giant = self.0.enter_giant();
        self.0.address_policy.with(PolicyTable::clone)
    }

    /// Sorts the addresses of a host, the best one first (RFC 6724 section 6). A program should try to connect in this
    /// order. Those to which no route leads come last; equally good ones stay in their order.
    #[doc(alias = "getaddrinfo")]
    pub fn sort_destinations(&self, addrs: &mut [IpAddr]) {
        let _giant = self.0.enter_giant();
        let candidate = |addr: &IpAddr| {
            let egress = network::egress(&self.0, (*addr, 0).into());
            let src = egress.as_ref().map(|egress| egress.src);
            let is_deprecated = egress.is_some_and(|egress| egress.ifp.deprecates(egress.src));
            Candidate {
                dst: *addr,
                src: src.filter(|src| !src.is_unspecified()),
                deprecated: is_deprecated,
            }
        };
        self.0.address_policy.with(|table| {
            addrs.sort_by_cached_key(|addr| candidate(addr).rank(table));
        });
    }
}

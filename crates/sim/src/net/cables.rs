//! Epairs between stacks of a net: made, plugged in, pulled out under traffic.
//!
//! A task on one of its stack's CPUs takes in the packets that arrive at an end, or a CPU polls it; the seed draws
//! which.

use std::sync::Arc;

use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
use mbuma::{IfConfig, IfIndex};

use super::Net;
use crate::event::{CableId, NodeId};

/// An end, and its present interface.
#[derive(Debug)]
pub(super) struct CableEnd {
    end: EpairEnd,
    pub(super) place: Option<(usize, IfIndex)>,
}

impl Net {
    /// An epair whose ends are not plugged in.
    pub fn epair(&mut self, config: EpairConfig) -> CableId {
        let (a, b) = EpairEnd::pair(config);
        self.cables
            .push([a, b].map(|end| CableEnd { end, place: None }));
        CableId(self.cables.len() - 1)
    }

    /// Plugs an end (0 or 1) into a stack, and out of the stack where it was.
    pub fn plug_epair(
        &mut self,
        cable: CableId,
        side: usize,
        node: NodeId,
        config: IfConfig,
    ) -> IfIndex {
        self.on_some_cpu(node, |net| {
            let stack = net.nodes[node.0].stack.clone();
            let (cpu, by_task) = net.draw_server(node.0);
            let cpu_set = &mut net.nodes[node.0].cpu_set;
            let mut member = cpu_set.as_mut().map(|cpu_set| &mut cpu_set.members[cpu]);
            let input = match &mut member {
                None => Input::Direct,
                Some(member) if by_task => Input::Task(Arc::clone(&member.tasks)),
                Some(member) => Input::Polled(member.interface_waker()),
            };
            let place = &mut net.cables[cable.0][side];
            let index = place
                .end
                .attach(&stack, config, input)
                .expect("the MTU is large enough");
            place.place = Some((node.0, index));
            if let (Some(member), false) = (member, by_task) {
                member.name_interface_waker(index);
            }
            index
        })
    }

    /// Pulls an end out: packets that wait for it are dropped and counted.
    pub fn unplug_epair(&mut self, cable: CableId, side: usize) {
        let Some((node, _)) = self.cables[cable.0][side].place.take() else {
            return;
        };
        self.on_some_cpu(NodeId(node), |net| {
            net.cables[cable.0][side].end.detach();
        });
    }
}

use std::net::{Ipv4Addr, SocketAddr};

use super::super::flow::{FlowEnds, Outlet};
use super::super::test_gateway;
use super::GuestFlows;

#[test]
fn a_flow_takes_its_timer_along() {
    // Breaks when the timer of an evicted flow stays for its minute: a flood from outside then leaves a timer for each
    // of its datagrams.
    let (mut shared, index) = test_gateway::start();
    let socket = shared.stack.udp_bind_any(index).expect("the only one");
    let mut flows = GuestFlows::new(&shared, socket);
    flows.table.add_port();
    for n in 0..5000 {
        let remote = SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0000 + n), 7));
        let guest = SocketAddr::from((crate::addressing::Addressing::DEFAULT.guest, 1000));
        let client = remote;
        let outlet = Outlet::Inlet { index: 0, client };
        let ends = FlowEnds { guest, remote };
        flows
            .add(&mut shared, ends, outlet)
            .expect("no descriptor is needed");
    }
    assert!(flows.len() < 5000);
    assert_eq!(shared.context.timers(), flows.len());
}

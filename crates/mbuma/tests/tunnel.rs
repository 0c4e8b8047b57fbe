//! The example of a tunnel, as it is.

#[path = "../examples/tunnel.rs"]
mod example;

/// Breaks if the example loses bytes, or a packet that is given wakes no worker.
#[test]
fn two_stacks_joined_by_a_channel() {
    example::main().expect("all bytes come back");
}

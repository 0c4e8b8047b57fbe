use super::*;

/// Breaks if a sent error has another meaning than the same message has when it is received.
#[test]
fn told_is_heard() {
    let all = [
        IcmpError::Net,
        IcmpError::Host,
        IcmpError::Port,
        IcmpError::Protocol,
        IcmpError::AdminProhibited,
        IcmpError::FragNeeded { mtu: 1400 },
        IcmpError::TimeExceeded,
        IcmpError::Parameter,
    ];
    for kind in all {
        assert_eq!(IcmpError::from_message(kind.to_message()), Some(kind));
        assert!(kind.to_message().is_error());
    }
    assert_eq!(
        IcmpError::from_message(IcmpMessage::EchoReply { id: 1, seq: 1 }),
        None
    );
}

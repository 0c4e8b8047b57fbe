use super::*;

/// Breaks if what we tell is not what the same words, heard, mean.
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

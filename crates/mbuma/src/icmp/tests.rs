use super::*;

/// Breaks if what we tell is not what the same words, heard, mean.
#[test]
fn told_is_heard() {
    let all = [
        Unreach::Net,
        Unreach::Host,
        Unreach::Port,
        Unreach::Protocol,
        Unreach::AdminProhibited,
        Unreach::FragNeeded { mtu: 1400 },
        Unreach::TimeExceeded,
    ];
    for kind in all {
        assert_eq!(Unreach::from_message(kind.to_message()), Some(kind));
        assert!(kind.to_message().is_error());
    }
    assert_eq!(
        Unreach::from_message(IcmpMessage::EchoReply { id: 1, seq: 1 }),
        None
    );
}

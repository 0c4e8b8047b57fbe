//! Tests of the agreement and of RFC 3168's feedback.

use super::*;

const ACK: TcpFlags = TcpFlags::ACK;
const SYN: TcpFlags = TcpFlags::SYN;
const ECE: TcpFlags = TcpFlags::ECE;

#[test]
fn ecn_is_on_if_both_ends_say_so() {
    // RFC 3168 6.1.1: breaks if a host that does not know ECN, or reflects what it does not know, is taken for one
    // that does; or if ECN is used that was switched off.
    for (mode, theirs, on) in [
        (EcnMode::Off, OFFER, false),
        (EcnMode::Accept, OFFER, true),
        (EcnMode::Offer, OFFER, true),
        (EcnMode::Accept, TcpFlags::empty(), false),
    ] {
        let mut passive = Ecn::new(mode, false);
        passive.begin(SYN | theirs, 0, AccEcnChoices::default());
        assert_eq!(passive.is_on(), on, "{mode:?} {theirs:?}");
        let answer = if on { ECE } else { TcpFlags::empty() };
        assert_eq!(passive.bits_of(SYN | ACK, true, 1), answer);
    }
    for (mode, answer, on) in [
        (EcnMode::Offer, ECE, true),
        (EcnMode::Offer, OFFER, false),
        (EcnMode::Offer, TcpFlags::empty(), false),
        (EcnMode::Accept, ECE, false),
    ] {
        let mut active = Ecn::new(mode, true);
        let offered = active.bits_of(SYN, true, 0);
        assert_eq!(offered == OFFER, mode == EcnMode::Offer);
        active.begin(SYN | ACK | answer, 0, AccEcnChoices::default());
        assert_eq!(active.is_on(), on, "{mode:?} {answer:?}");
    }
}

#[test]
fn marks_are_echoed_until_the_sender_knows() {
    // RFC 3168 6.1.3: breaks if a lost acknowledgement loses the mark, or the echo has no end; or if a mark on the
    // segment that ends the echo is lost.
    let mut ecn = Ecn::new(EcnMode::Accept, false);
    ecn.begin(SYN | OFFER, 0, AccEcnChoices::default());
    assert_eq!(ecn.bits_of(ACK, true, 0), TcpFlags::empty());
    assert!(ecn.on_data(true, false));
    for _ in 0..3 {
        assert!(!ecn.on_data(false, false));
        assert_eq!(ecn.bits_of(ACK, true, 0), ECE);
    }
    assert!(!ecn.on_data(true, true));
    assert_eq!(ecn.bits_of(ACK, true, 0), ECE);
    assert!(!ecn.on_data(false, true));
    assert_eq!(ecn.bits_of(ACK, true, 0), TcpFlags::empty());
    let mut off = Ecn::new(EcnMode::Off, false);
    assert!(!off.on_data(true, false));
}

#[test]
fn an_echo_is_answered_once_a_window() {
    // RFC 3168 6.1.2: breaks if the window shrinks for each acknowledgement of a window, or a second time for the
    // one that is just before the answer; or if a mark of the next window is not heard.
    let mut ecn = Ecn::new(EcnMode::Accept, false);
    ecn.begin(SYN | OFFER, 0, AccEcnChoices::default());
    let una = SeqNum(1000);
    let due = |ecn: &mut Ecn, flags, ack| {
        let report = EcnReport {
            flags,
            ack,
            packets: 0,
            mss: 100,
            is_pure: true,
            is_newer: true,
            option: None,
        };
        ecn.on_ack(&report).due
    };
    assert!(!due(&mut ecn, ACK, una));
    assert!(due(&mut ecn, ACK | ECE, una));
    ecn.reduced();
    assert!(!due(&mut ecn, ACK | ECE, una));
    assert_eq!(ecn.on_new_data(una + 500), (TcpFlags::CWR, CAPABLE));
    assert_eq!(ecn.on_new_data(una + 600), (TcpFlags::empty(), CAPABLE));
    assert!(!due(&mut ecn, ACK | ECE, una + 500), "of before the answer");
    assert!(due(&mut ecn, ACK | ECE, una + 600));
    let mut off = Ecn::new(EcnMode::Off, false);
    off.reduced();
    assert!(!due(&mut off, ACK | ECE, una));
    assert_eq!(off.on_new_data(una), (TcpFlags::empty(), 0));
}

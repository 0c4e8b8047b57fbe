use super::super::ace::{ECT_1, ace_of};
use super::*;
use crate::config::EcnMode;
use crate::tcp::ecn::Ecn;

const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;
const NONE: TcpFlags = TcpFlags::empty();
const ECE: TcpFlags = TcpFlags::ECE;

/// The bits of ACE by their number.
fn bits(n: u32) -> TcpFlags {
    ace_of(n)
}

fn server(syn: TcpFlags, mark: u8) -> Ecn {
    let mut ecn = Ecn::new(EcnMode::Accept, false);
    ecn.begin(SYN | syn, mark, AccEcnChoices::default());
    ecn
}

fn client(answer: TcpFlags, mark: u8) -> Ecn {
    let mut ecn = Ecn::new(EcnMode::OfferAccurate, true);
    assert_eq!(ecn.bits_of(SYN, true, 0), ACE);
    ecn.begin(SYN | ACK | answer, mark, AccEcnChoices::default());
    ecn
}

/// An acknowledgement of so many packets, with this ACE and this count of CE bytes.
fn report(ace: u32, packets: u32, ce_bytes: Option<u32>) -> EcnReport {
    EcnReport {
        flags: ACK | bits(ace),
        ack: SeqNum(packets * 100),
        packets,
        mss: 100,
        is_pure: true,
        is_newer: true,
        option: ce_bytes.map(|ce| AccEcnOption::new([1, ce, 1], 3, false)),
    }
}

/// A server that has seen the acknowledgement of its SYN-ACK.
fn counting() -> AccurateEcn {
    let mut ecn = AccurateEcn::new(SYN | ACE, 0, AccEcnChoices::default());
    assert_eq!(ecn.on_ack(&report(2, 0, None)), MarkCount::default());
    assert!(ecn.is_capable());
    ecn
}

#[test]
fn both_ends_agree_on_what_both_understand() {
    // RFC 9768 3.1.1, table 2, and 3.1.3: breaks if an answer of a host without AccECN is taken for one with it, or a
    // combination of a later variant is refused.
    for (answer, on, accurate) in [
        (bits(0), false, false),
        (bits(1), true, false),
        (bits(2), true, true),
        (bits(3), true, true),
        (bits(4), true, true),
        (bits(5), true, true),
        (bits(6), true, true),
        (bits(7), false, false),
    ] {
        let ecn = client(answer, 0);
        assert_eq!(
            (ecn.is_on(), ecn.accurate().is_some()),
            (on, accurate),
            "{answer:?}"
        );
    }
    for (syn, on, accurate) in [
        (bits(0), false, false),
        (bits(3), true, false),
        (bits(7), true, true),
        (bits(1), true, true),
        (bits(4), true, true),
    ] {
        let ecn = server(syn, 0);
        assert_eq!(
            (ecn.is_on(), ecn.accurate().is_some()),
            (on, accurate),
            "{syn:?}"
        );
    }
}

#[test]
fn the_handshake_says_how_it_arrived() {
    // RFC 9768 3.1.1 and 3.2.2.1: breaks if a mark of a SYN or SYN-ACK has another code, or the first acknowledgement
    // with data has it.
    for (mark, number) in [(0, 2), (ECT_1, 3), (CAPABLE, 4), (CE, 6)] {
        assert_eq!(server(ACE, mark).bits_of(SYN | ACK, true, 0), bits(number));
        let first = 5 + u32::from(mark == CE);
        let mut ecn = client(bits(2), mark);
        assert_eq!(ecn.bits_of(ACK, true, 0), bits(number));
        assert_eq!(ecn.bits_of(ACK, true, 0), bits(first));
        assert_eq!(client(bits(2), mark).bits_of(ACK, false, 0), bits(first));
    }
}

#[test]
fn an_offer_is_made_twice_and_the_first_syn_ack_decides() {
    // RFC 9768 3.1.4.1, table 2: breaks if a path that drops the bits keeps a connection out, one lost SYN ends AccECN,
    // or a client that repeated its SYN without the bits does not take the mode of the answer.
    for (answer, on, accurate, capable) in [
        (bits(2), true, true, CAPABLE),
        (ECE, true, false, 0),
        (NONE, false, false, 0),
    ] {
        let mut ecn = Ecn::new(EcnMode::OfferAccurate, true);
        let offers = [0, 1, 2, 3].map(|tries| ecn.bits_of(SYN, true, tries));
        assert_eq!(offers, [ACE, ACE, NONE, NONE]);
        ecn.begin(SYN | ACK | answer, 0, AccEcnChoices::default());
        assert_eq!(
            (ecn.is_on(), ecn.accurate().is_some()),
            (on, accurate),
            "{answer:?}"
        );
        assert_eq!(ecn.on_new_data(SeqNum(1)), (NONE, capable));
        ecn.on_data(true, false);
        ecn.on_packets(CE, 1, 100);
        let reports = ecn.bits_of(ACK, false, 0);
        let due = if accurate { bits(6) } else { answer };
        assert_eq!(reports, due, "marks that arrive are reported");
    }
}

#[test]
fn a_server_stays_in_its_mode() {
    // RFC 9768 3.1.5: breaks if a SYN or SYN-ACK without the bits ends the feedback, data is ECN-capable after one, or
    // a SYN-ACK reports another SYN than the latest.
    let mut ecn = server(ACE, CAPABLE);
    assert_eq!(ecn.bits_of(SYN | ACK, true, 0), bits(4));
    assert!(ecn.on_syn_again(SYN | ACE, CE));
    assert_eq!(ecn.bits_of(SYN | ACK, true, 0), bits(6));
    assert_eq!(ecn.on_new_data(SeqNum(1)), (NONE, CAPABLE));
    let mut bare = server(ACE, CAPABLE);
    assert!(bare.on_syn_again(SYN, 0));
    assert_eq!(bare.bits_of(SYN | ACK, true, 0), bits(2));
    let answers = [1, 2, 3].map(|tries| ecn.bits_of(SYN | ACK, true, tries));
    assert_eq!(answers, [bits(6), NONE, NONE]);
    for mut ecn in [ecn, bare] {
        ecn.on_ack(&report(2, 0, None));
        assert_eq!(ecn.on_new_data(SeqNum(1)), (NONE, 0));
        assert!(ecn.on_packets(CE, 1, 100));
        assert_eq!(ecn.bits_of(ACK, true, 0), bits(6));
    }
    let mut without = server(NONE, 0);
    assert!(without.on_syn_again(SYN | ACE, 0));
    assert_eq!(without.bits_of(SYN | ACK, true, 0), NONE);
}

#[test]
fn offers_of_both_forms_are_refused() {
    // RFC 9768 3.1.5: breaks if a handshake goes on in which the peer offered AccECN and RFC 3168's form; or one is
    // refused that only repeats an offer, or falls back to none.
    let classic = bits(3);
    for (first, again, agrees) in [
        (ACE, ACE, true),
        (ACE, bits(1), true),
        (ACE, NONE, true),
        (ACE, classic, false),
        (classic, classic, true),
        (classic, NONE, true),
        (classic, ACE, false),
        (NONE, classic, true),
    ] {
        let mut ecn = server(first, 0);
        assert_eq!(
            ecn.on_syn_again(SYN | again, 0),
            agrees,
            "{first:?} {again:?}"
        );
    }
}

#[test]
fn each_syn_ack_is_answered_by_its_code() {
    // RFC 9768 3.2.2.1 and 3.2.2.2: breaks if the acknowledgement of a repeated SYN-ACK has a counter or the mark of an
    // earlier one, one with SACK blocks has a code, or more than one marked SYN-ACK counts.
    let mut ecn = client(bits(2), 0);
    assert_eq!(ecn.bits_of(ACK, true, 0), bits(2));
    ecn.on_syn_ack_again(CAPABLE);
    assert_eq!(ecn.bits_of(ACK, true, 0), bits(4));
    assert_eq!(ecn.bits_of(ACK, true, 0), bits(5));
    ecn.on_syn_ack_again(CAPABLE);
    assert_eq!(ecn.bits_of(ACK, false, 0), bits(5));
    for _ in 0..2 {
        ecn.on_syn_ack_again(CE);
        assert_eq!(ecn.bits_of(ACK, true, 0), bits(6));
    }
    assert_eq!(ecn.accurate().unwrap().received.packets_ce(), 1);
    ecn.on_syn_ack_again(CAPABLE);
    assert_eq!(ecn.bits_of(ACK, true, 0), bits(4));
}

#[test]
fn a_lost_syn_ack_leaves_the_option_out_of_the_next_one_alone() {
    // RFC 9768 3.2.3.2.2: breaks if the path drops each SYN-ACK for its option, if one lost SYN-ACK ends the option, or
    // if it goes on though a segment with it is lost again.
    for lost in [false, true] {
        let mut ecn = server(ACE, 0);
        ecn.bits_of(SYN | ACK, true, 0);
        assert!(ecn.syn_ack_option(40).is_some());
        match lost {
            true => _ = ecn.bits_of(SYN | ACK, true, 1),
            false => assert!(ecn.on_syn_again(SYN | ACE, 0)),
        }
        assert!(ecn.syn_ack_option(40).is_none(), "the path may drop it");
        assert!(ecn.option(40).is_some());
        ecn.on_packets(CAPABLE, 1, 100);
        assert!(ecn.option(40).is_some());
        ecn.on_repeated_data();
        ecn.on_packets(CAPABLE, 1, 100);
        assert!(ecn.option(40).is_none());
    }
    let mut ecn = server(ACE, 0);
    ecn.on_repeated_data();
    assert!(ecn.option(40).is_some(), "no SYN-ACK was lost");
}

#[test]
fn a_counter_that_turned_is_told_by_the_option_or_by_caution() {
    // RFC 9768 3.2.2.5.2: breaks if eight marks look like none though the option counts them, or marks of a long run of
    // lost acknowledgements are forgotten.
    let mut ecn = counting();
    assert_eq!(ecn.on_ack(&report(5, 20, Some(800))).bytes, 800);
    assert_eq!(ecn.delivered_ce(), 8);
    assert!(ecn.is_capable(), "a whole turn is no contradiction");
    let mut ecn = counting();
    assert!(!ecn.on_ack(&report(5, 20, None)).due, "no sign of any mark");
    assert!(ecn.on_ack(&report(6, 20, None)).due);
    assert_eq!(
        ecn.delivered_ce(),
        17,
        "the most of 20 that leaves one modulo 8"
    );
    assert!(
        ecn.on_ack(&report(6, 8, None)).due,
        "marks were there just before"
    );
    assert_eq!(ecn.delivered_ce(), 25);
    assert!(!ecn.on_ack(&report(6, 2, None)).due);
}

#[test]
fn an_acknowledgement_that_was_overtaken_counts_for_nothing() {
    // RFC 9768 3.2.2.2: breaks if an older counter looks like seven new marks.
    let mut ecn = counting();
    assert!(ecn.on_ack(&report(6, 1, None)).due);
    let late = EcnReport {
        is_newer: false,
        ..report(5, 0, None)
    };
    assert_eq!(ecn.on_ack(&late), MarkCount::default());
    assert_eq!(ecn.delivered_ce(), 1);
}

#[test]
fn a_path_that_mangles_the_bits_gets_data_without_them() {
    // RFC 9768 3.2.2.1, 3.2.2.3, 3.2.2.4 and 3.2.3.2.5: breaks if data stays ECN-capable though marks change on the
    // way, where a mark would never arrive as one; feedback ends; or a client that sent no code is believed to count.
    for (answer, capable) in [(2, true), (3, false), (4, false), (6, false), (5, true)] {
        let ecn = client(bits(answer), 0);
        assert_eq!(
            ecn.accurate().unwrap().is_capable(),
            capable,
            "SYN-ACK {answer}"
        );
        let mut ecn = AccurateEcn::new(SYN | ACE, 0, AccEcnChoices::default());
        let due = ecn.on_ack(&report(answer, 0, None)).due;
        assert_eq!(
            (ecn.is_capable(), due),
            (capable, answer == 6),
            "ACK {answer}"
        );
    }
    let mut zeroed = client(bits(2), 0);
    zeroed.on_ack(&report(0, 1, None));
    let (flags, capable) = zeroed.on_new_data(SeqNum(1));
    assert_eq!((flags, capable), (NONE, 0));
    assert_eq!(zeroed.accurate().unwrap().delivered_ce(), 0);
    let mut without = AccurateEcn::new(SYN | ACE, 0, AccEcnChoices::default());
    without.on_ack(&report(0, 0, None));
    let due = without.on_ack(&report(3, 1, None)).due;
    assert_eq!((without.is_capable(), due), (false, false), "no code");
    let mut contradicts = counting();
    contradicts.on_ack(&report(5, 2, Some(200)));
    assert!(!contradicts.is_capable());
    for zeros in [[0, 0, 0], [1, 0, 0], [0, 0, 1]] {
        let mut option = AccurateEcn::new(SYN | ACE, 0, AccEcnChoices::default());
        option.on_ack(&EcnReport {
            option: Some(AccEcnOption::new(zeros, 3, false)),
            ..report(2, 0, None)
        });
        option.on_ack(&report(5, 2, Some(200)));
        assert!(
            option.is_capable(),
            "such counts are not believed: {zeros:?}"
        );
    }
}

#[test]
fn marks_on_each_packet_are_no_congestion() {
    // RFC 9768 3.2.2.3: breaks if a path that marks everything leaves the window at its least for ever.
    let mut ecn = counting();
    for round in 1..=ROUNDS_MARKED_MAX {
        let marks = ecn.on_ack(&report(5 + u32::from(round), 1, None));
        assert!(marks.due);
        assert_eq!(ecn.on_round_marked(), round < ROUNDS_MARKED_MAX);
    }
    assert!(!ecn.is_capable());
    assert!(!ecn.on_ack(&report(2, 1, None)).due);
    let mut some = counting();
    some.on_ack(&report(5, 4, None));
    for round in 1..=9 {
        some.on_ack(&report(5 + round, 1, None));
        assert!(some.on_round_marked());
    }
}

#[test]
fn a_mark_is_told_at_once_and_each_second_one_again() {
    // RFC 9768 3.2.2.5.1: breaks if the sender learns late that a queue grows, or marked acknowledgements answer each
    // other for ever.
    let mut ecn = counting().received;
    assert!(!ecn.on_packets(CAPABLE, 1, 100));
    assert!(ecn.on_packets(CE, 1, 100));
    assert_eq!(ecn.on_send(true), bits(6));
    assert!(!ecn.on_packets(CE, 1, 100));
    assert!(ecn.on_packets(CE, 1, 100));
    assert_eq!(ecn.on_send(true), bits(8));
    assert!(!ecn.on_packets(CAPABLE, 1, 100));
    assert!(ecn.on_packets(CE, 1, 100), "after a packet without");
    assert_eq!(ecn.on_send(true), bits(9));
    assert!(!ecn.on_packets(CE, 1, 0) && !ecn.on_packets(CE, 1, 0));
    assert!(ecn.on_packets(CE, 1, 0));
    assert_eq!(ecn.packets_ce(), 7);
    let merged = ecn.on_packets(CE, 20, 2000);
    assert!(merged && ecn.packets_ce() == 27);
}

#[test]
fn the_option_has_the_counts_that_changed_and_room_decides() {
    // RFC 9768 3.2.3.3: breaks if an option is sent though nothing changed, takes the room of data or SACK, or leaves
    // out a count that changed.
    let mut ecn = counting().received;
    let option = |ecn: &mut ReceivedMarks| ecn.option(40);
    assert_eq!(option(&mut ecn).unwrap().emitted_len(), 12);
    assert_eq!(option(&mut ecn).unwrap().emitted_len(), 12);
    assert_eq!(option(&mut ecn), None);
    ecn.on_packets(CAPABLE, 1, 100);
    assert_eq!(ecn.option(4), None);
    let ect_0 = option(&mut ecn).unwrap();
    assert_eq!(
        (ect_0.ect0(), ect_0.ce(), ect_0.ect1()),
        (Some(101), Some(0), None)
    );
    let mut ecn = counting().received;
    ecn.on_packets(ECT_1, 1, 100);
    let ect_1 = option(&mut ecn).unwrap();
    assert_eq!((ect_1.is_order_1(), ect_1.ect1()), (true, Some(101)));
    ecn.on_packets(CAPABLE, 1, 100);
    assert_eq!(option(&mut ecn).unwrap().emitted_len(), 12);
    ecn.leave_option_out();
    ecn.on_packets(CE, 1, 100);
    assert_eq!(option(&mut ecn), None);
}

#[test]
fn the_window_shrinks_once_a_round_trip_and_says_no_cwr() {
    // RFC 9768 3.2.2.2: breaks if each mark of a window shrinks it, or the flag CWR changes the counter.
    let mut ecn = server(ACE, 0);
    ecn.on_ack(&report(2, 0, None));
    let mark = |ecn: &mut Ecn, ace, at| {
        let ack = SeqNum(at);
        ecn.on_ack(&EcnReport {
            ack,
            ..report(ace, 10, None)
        })
        .due
    };
    assert!(mark(&mut ecn, 6, 100));
    ecn.reduced();
    assert!(!mark(&mut ecn, 7, 200));
    assert_eq!(ecn.on_new_data(SeqNum(500)), (NONE, CAPABLE));
    assert!(!mark(&mut ecn, 8, 500));
    assert!(mark(&mut ecn, 9, 600));
    assert_eq!(
        ecn.bits_of(ACK, true, 0) & (TcpFlags::CWR | ECE),
        ECE,
        "the counter"
    );
}

#[test]
fn the_count_of_marked_packets_wraps() {
    // Breaks if a program that asks for the count ends with a panic because a peer has sent 2^32 marked packets.
    let mut ecn = counting().received;
    ecn.on_packets(CE, u32::MAX - 2, 0);
    assert_eq!(ecn.packets_ce(), u32::MAX - 2);
    ecn.on_packets(CE, 4, 0);
    assert_eq!(ecn.packets_ce(), 1);
}

use simple_dns::{QCLASS, Question};

use super::*;
use crate::sys::tap::Offloads;

const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 2, 3)), 53);

fn names() -> LocalNames {
    let mut names = LocalNames::new(&GuestEnd::usual());
    for (id, name) in [(1, Some("web")), (2, None), (3, Some("db"))] {
        names.add(&GuestSpec {
            id,
            addr: Ipv4Addr::new(10, 0, 2, 99 + id as u8),
            addr6: (id != 3).then(|| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0xff + id as u16)),
            name: name.map(str::to_owned),
            offloads: Offloads::default(),
        });
    }
    names
}

fn question(name: &str, kind: TYPE) -> Vec<u8> {
    let mut packet = Packet::new_query(7);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).expect("a name");
    let question = Question::new(name, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false);
    packet.questions.push(question);
    packet.build_bytes_vec().expect("a message")
}

/// The data of the answers, or the error; None if the question must go to a resolver.
fn asked(names: &LocalNames, name: &str, kind: TYPE) -> Option<Result<Vec<String>, RCODE>> {
    let answer = names.answer_to(&question(name, kind))?;
    let packet = Packet::parse(&answer).expect("a message");
    assert_eq!((packet.id(), packet.questions.len()), (7, 1));
    assert!(packet.has_flags(PacketFlag::RESPONSE | PacketFlag::RECURSION_DESIRED));
    let data = packet.answers.iter().map(|record| match &record.rdata {
        RData::A(a) => Ipv4Addr::from(a.address).to_string(),
        RData::AAAA(a) => Ipv6Addr::from(a.address).to_string(),
        RData::PTR(name) => name.0.to_string(),
        other => panic!("{other:?}"),
    });
    Some(match packet.rcode() {
        RCODE::NoError => Ok(data.collect()),
        error => Err(error),
    })
}

#[test]
fn guests_find_each_other_by_name() {
    // Breaks if a guest's name has a wrong answer, its question goes to a resolver, or the gateway answers for another
    // name.
    let mut names = names();
    let found = |text: &str| Some(Ok(vec![text.to_owned()]));
    assert_eq!(asked(&names, "web", TYPE::A), found("10.0.2.100"));
    assert_eq!(asked(&names, "DB", TYPE::A), found("10.0.2.102"));
    assert_eq!(asked(&names, "web", TYPE::AAAA), found("fd00::100"));
    assert_eq!(asked(&names, "db", TYPE::AAAA), Some(Ok(vec![])));
    assert_eq!(asked(&names, "web", TYPE::MX), Some(Ok(vec![])));
    assert_eq!(asked(&names, "example.org", TYPE::A), None);
    assert_eq!(asked(&names, "web.example.org", TYPE::A), None);
    assert_eq!(
        asked(&names, "100.2.0.10.in-addr.arpa", TYPE::PTR),
        found("web")
    );
    assert_eq!(
        asked(&names, "101.2.0.10.in-addr.arpa", TYPE::PTR),
        Some(Err(RCODE::NameError))
    );
    assert_eq!(asked(&names, "100.2.0.11.in-addr.arpa", TYPE::PTR), None);
    let reversed6 = |low: &str, high: &str| format!("{low}{}{high}.ip6.arpa", "0.".repeat(25));
    let ptr = |name: &str| asked(&names, name, TYPE::PTR);
    assert_eq!(ptr(&reversed6("0.0.1.", "0.0.d.f")), found("web"));
    assert_eq!(
        ptr(&reversed6("2.0.1.", "0.0.d.f")),
        Some(Err(RCODE::NameError))
    );
    assert_eq!(ptr(&reversed6("0.0.1.", "0.1.d.f")), None);
    assert_eq!(ptr("0.0.d.f.ip6.arpa"), None);
    assert_eq!(ptr(&reversed6("00.1.", "0.0.d.f")), None);
    names.remove(1);
    assert_eq!(asked(&names, "web", TYPE::A), None);
}

#[test]
fn questions_to_others_and_garbage_go_on() {
    // Breaks if the gateway itself answers a question to another server, or bytes that are no question.
    let names = names();
    let pool = mbuf::MbufPool::new(mbuf::PoolConfig::default()).expect("address space");
    let other = SocketAddr::from(([192, 0, 2, 1], 53));
    let sent = question("web", TYPE::A);
    let datagram = Chain::from_slice(&pool, &sent).expect("buffers");
    assert!(names.answer(SERVER, &datagram).is_some());
    assert_eq!(names.answer(other, &datagram), None);
    let server6 = SocketAddr::from((Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 3), 53));
    assert!(names.answer(server6, &datagram).is_some());
    for len in 0..sent.len() {
        assert_eq!(names.answer_to(&sent[..len]), None, "{len}");
    }
    // An answer, and a dynamic update (RFC 2136).
    for bits in [0x80, 5 << 3] {
        let mut other = sent.clone();
        other[2] |= bits;
        assert_eq!(names.answer_to(&other), None, "{bits:x}");
    }
    // Counts of questions and of each section that the message does not have.
    for at in [4, 6, 8, 10] {
        let mut wrong = sent.clone();
        wrong[at] = 0xff;
        assert_eq!(names.answer_to(&wrong), None);
    }
}

#[test]
fn an_answer_has_no_extras_of_the_question_but_says_that_edns_is_known() {
    // Breaks if a question with EDNS gets an answer without (RFC 6891 section 6.1.1), or another extra
    // of the question comes back as if it were one of the answer.
    let answered = |extras: &[Vec<u8>]| {
        let mut message = question("web", TYPE::A);
        message[11] = extras.len() as u8;
        message.extend(extras.concat());
        let answer = names().answer_to(&message).expect("an answer");
        let packet = Packet::parse(&answer).expect("a message");
        let edns = packet
            .opt()
            .map(|opt| (opt.udp_packet_size, opt.opt_codes.len()));
        // It may be another guest's address a moment later.
        let times: Vec<u32> = packet.answers.iter().map(|answer| answer.ttl).collect();
        assert_eq!(times, [0]);
        (edns, answer[11])
    };
    let edns = extra(41, 1232, &[0, 10, 0, 2, 1, 2]);
    let other = extra(65_400, 1, &[0; 16]);
    assert_eq!(answered(&[]), (None, 0));
    assert_eq!(answered(&[edns.clone(), other]), (Some((512, 0)), 1));
    assert_eq!(answered(&[edns.clone(), edns]), (Some((512, 0)), 1));
}

/// A record of the extras: of the root, of a type and class.
fn extra(kind: u16, class: u16, data: &[u8]) -> Vec<u8> {
    let mut record = vec![0];
    record.extend(kind.to_be_bytes());
    record.extend(class.to_be_bytes());
    record.extend([0; 4]);
    record.extend((data.len() as u16).to_be_bytes());
    record.extend(data);
    record
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        name in proptest::collection::vec(proptest::num::u8::ANY, 0..80),
        extras in proptest::collection::vec(
            (0u16..=260, proptest::collection::vec(0u8..=66, 0..60), 0u8..4),
            0..=2,
        ),
        asks_web: bool,
    ) {
        // Breaks if any bytes make the code panic, in the question or in an additional record of any type.
        let mut message = question("web", TYPE::A);
        if !asks_web {
            message.truncate(12);
            message.extend(name);
        }
        message[11] = extras.len() as u8;
        for (kind, data, lie) in &extras {
            let mut record = extra(*kind, 1, data);
            record[10] = record[10].wrapping_add(lie / 2);
            message.extend(record);
        }
        let _ = names().answer_to(&message);
    }
}

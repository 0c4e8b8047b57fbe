use wire::MacAddr;

use super::*;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 77);

fn terms() -> LeaseTerms {
    LeaseTerms {
        addr: GUEST,
        prefix_len: 24,
        server: SERVER,
        dns: Some(Ipv4Addr::new(10, 0, 2, 3)),
        mtu: 65_520,
        hostname: Some("guest".to_owned()),
        search: vec!["example.org".to_owned(), "example.net".to_owned()],
    }
}

fn question(header: Dhcp4Header, options: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = vec![0; 1000];
    let mut writer = Dhcp4Writer::new(&mut out, &header);
    for (number, value) in options {
        assert!(writer.put(*number, value));
    }
    let len = writer.finish();
    out.truncate(len);
    out
}

fn new_client() -> Dhcp4Header {
    Dhcp4Header::request(7, MAC)
}

/// The kind of the reply, the address in it, and its destination.
fn outcome(question: &[u8]) -> Option<(Option<Dhcp4Type>, Ipv4Addr, Ipv4Addr)> {
    let reply = terms().reply_to(question)?;
    let (header, options) = Dhcp4Header::parse_reply(&reply.message).expect("a reply");
    assert_eq!((header.xid(), header.client_mac()), (7, MAC));
    assert!(reply.message.len() >= Dhcp4Header::MESSAGE_MIN);
    Some((options.message_type(), header.your_addr(), reply.to))
}

fn kind(kind: Dhcp4Type) -> [u8; 1] {
    [kind as u8]
}

#[test]
fn each_question_has_its_reply() {
    // Breaks if a client in one of RFC 2131's states gets no reply, a wrong one, or one at an address that it does not
    // have.
    let none = Ipv4Addr::UNSPECIFIED;
    let everyone = Ipv4Addr::BROADCAST;
    let has = |addr| new_client().with_client_addr(addr);
    let (discover, request, inform) = (
        kind(Dhcp4Type::Discover),
        kind(Dhcp4Type::Request),
        kind(Dhcp4Type::Inform),
    );
    let ack = Some(Dhcp4Type::Ack);
    let nak = Some(Dhcp4Type::Nak);
    type Row<'a> = (
        Dhcp4Header,
        &'a [(u8, &'a [u8])],
        Option<(Option<Dhcp4Type>, Ipv4Addr, Ipv4Addr)>,
    );
    let rows: &[Row<'_>] = &[
        (
            new_client(),
            &[(53, &discover)],
            Some((Some(Dhcp4Type::Offer), GUEST, everyone)),
        ),
        (
            new_client(),
            &[(53, &discover), (80, &[])],
            Some((ack, GUEST, everyone)),
        ),
        // SELECTING.
        (
            new_client(),
            &[
                (53, &request),
                (50, &GUEST.octets()),
                (54, &SERVER.octets()),
            ],
            Some((ack, GUEST, everyone)),
        ),
        (
            new_client(),
            &[
                (53, &request),
                (50, &OTHER.octets()),
                (54, &SERVER.octets()),
            ],
            Some((nak, none, everyone)),
        ),
        (
            new_client(),
            &[(53, &request), (50, &GUEST.octets()), (54, &OTHER.octets())],
            None,
        ),
        // INIT-REBOOT.
        (
            new_client(),
            &[(53, &request), (50, &GUEST.octets())],
            Some((ack, GUEST, everyone)),
        ),
        (
            new_client(),
            &[(53, &request), (50, &OTHER.octets())],
            Some((nak, none, everyone)),
        ),
        // RENEWING, REBINDING.
        (has(GUEST), &[(53, &request)], Some((ack, GUEST, GUEST))),
        (has(OTHER), &[(53, &request)], Some((nak, none, everyone))),
        // The client requests no address.
        (new_client(), &[(53, &request)], None),
        (has(OTHER), &[(53, &inform)], Some((ack, none, OTHER))),
        (has(Ipv4Addr::new(192, 0, 2, 1)), &[(53, &inform)], None),
        (new_client(), &[(53, &inform)], None),
        (has(GUEST), &[(53, &kind(Dhcp4Type::Release))], None),
        (
            new_client(),
            &[(53, &kind(Dhcp4Type::Decline)), (50, &GUEST.octets())],
            None,
        ),
        // A message of a server.
        (new_client(), &[(53, &kind(Dhcp4Type::Offer))], None),
        (new_client(), &[(53, &[99])], None),
        (new_client(), &[(53, &[])], None),
        // BOOTP.
        (new_client(), &[], Some((None, GUEST, everyone))),
    ];
    for (n, (header, options, expected)) in rows.iter().enumerate() {
        assert_eq!(outcome(&question(*header, options)), *expected, "row {n}");
    }
}

#[test]
fn options_are_those_asked_for_within_the_clients_limit() {
    // Breaks if a requested option is missing, the router comes before the mask, the client's identifier is not
    // repeated, an OFFER claims rapid commit, or the reply is longer than the client takes.
    let discover = kind(Dhcp4Type::Discover);
    let asked = [3, 1, 6, 12, 15, 26, 28, 119, 42];
    let id = [1, 2, 0, 0, 0, 0, 1];
    let sent = question(new_client(), &[(53, &discover), (55, &asked), (61, &id)]);
    let reply = terms().reply_to(&sent).expect("an offer");
    let (_, options) = Dhcp4Header::parse_reply(&reply.message).expect("a reply");
    let numbers: Vec<u8> = options.map(|(number, _)| number).collect();
    assert_eq!(
        numbers,
        [53, 54, 61, 51, 58, 59, 1, 3, 6, 12, 15, 26, 28, 119]
    );
    assert_eq!(options.get(61), Some(&id[..]));
    assert_eq!(options.addr(1), Some(Ipv4Addr::new(255, 255, 255, 0)));
    assert_eq!(options.addr(28), Some(Ipv4Addr::new(10, 0, 2, 255)));
    assert_eq!(options.u16(26), Some(65_520));
    assert_eq!(options.get(12), Some(&b"guest"[..]));
    let search = b"\x07example\x03org\x00\x07example\x03net\x00";
    assert_eq!(options.get(119), Some(&search[..]));

    let long = LeaseTerms {
        search: vec!["a-long-domain-of-forty-bytes.example.org".to_owned(); 6],
        ..terms()
    };
    for (limit, expected) in [(0, 548), (576, 548), (u16::MAX, 1472)] {
        let limit = limit.to_be_bytes();
        let again = [119; 9];
        let sent = question(new_client(), &[(53, &discover), (55, &again), (57, &limit)]);
        let reply = long.reply_to(&sent).expect("an offer");
        assert!(reply.message.len() <= expected);
    }
}

#[test]
fn a_reply_has_the_options_of_its_kind() {
    // Breaks if a NAK lacks the client's identifier (RFC 6842 3), so that the client keeps a wrong address; if the
    // answer to an INFORM, which leases nothing, has the times of a lease (RFC 2131 4.3.5); or if an ACK for a DISCOVER
    // does not say rapid commit (RFC 4039 3.1), without which the client drops it.
    let [discover, request, inform] =
        [Dhcp4Type::Discover, Dhcp4Type::Request, Dhcp4Type::Inform].map(kind);
    let other = new_client().with_client_addr(OTHER);
    let numbers = |header, options: &[(u8, &[u8])]| {
        let sent = question(header, &[options, &[(55, &[]), (61, &[1, 2])]].concat());
        let reply = terms().reply_to(&sent).expect("a reply");
        let (_, options) = Dhcp4Header::parse_reply(&reply.message).expect("a reply");
        options.map(|(number, _)| number).collect::<Vec<u8>>()
    };
    let refused = numbers(new_client(), &[(53, &request), (50, &OTHER.octets())]);
    assert_eq!(refused, [53, 54, 61]);
    assert_eq!(numbers(other, &[(53, &inform)]), [53, 54, 61, 1]);
    let at_once = numbers(new_client(), &[(53, &discover), (80, &[])]);
    assert_eq!(at_once, [53, 54, 61, 51, 58, 59, 80, 1]);
}

#[test]
fn no_question_panics_or_crosses_a_relay() {
    // Breaks if the server answers a truncated message or one that names a relay agent, or panics.
    let discover = kind(Dhcp4Type::Discover);
    let whole = question(new_client(), &[(53, &discover), (55, &[1, 3, 6])]);
    for len in 0..Dhcp4Header::LEN {
        assert_eq!(terms().reply_to(&whole[..len]), None, "{len}");
    }
    for len in Dhcp4Header::LEN..whole.len() {
        let _ = terms().reply_to(&whole[..len]);
    }
    let mut relayed = whole;
    relayed[24] = 10;
    assert_eq!(terms().reply_to(&relayed), None);
}

proptest::proptest! {
    #[test]
    fn any_options_get_a_reply_of_bounded_length(options: [u8; 32]) {
        // Breaks if options of any bytes make the server panic or reply beyond a packet.
        let mut bytes = question(new_client(), &[(53, &kind(Dhcp4Type::Discover))]);
        bytes.truncate(Dhcp4Header::LEN + 3);
        bytes.extend(options);
        let reply = terms().reply_to(&bytes).expect("an offer");
        proptest::prop_assert!(reply.message.len() <= 1472);
    }
}

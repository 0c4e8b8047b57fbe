use super::*;

const GUEST: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x100);
const GATEWAY: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const OTHER: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 7);
const FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
const SERVER_ID: [u8; 10] = [0, 3, 0, 1, 2, b'm', b'b', b'u', b'm', b'a'];
const CLIENT_ID: [u8; 6] = [0, 2, 0, 0, 1, 9];

fn terms() -> Dhcp6Terms {
    Dhcp6Terms {
        addr: Some(GUEST),
        network: (GATEWAY, 64),
        server: "fe80::2".parse().expect("an address"),
        server_id: SERVER_ID,
        dns: Some(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 3)),
        search: vec!["example.org".to_owned()],
    }
}

/// An association of kind `code` with these addresses.
fn association(addrs: &[Ipv6Addr]) -> Vec<u8> {
    let addrs = addrs.iter().flat_map(|addr| {
        let value = addr_value(*addr, 1, 1);
        [&[0, 5, 0, 24][..], &value].concat()
    });
    [0, 0, 0, 9]
        .into_iter()
        .chain([0; 8])
        .chain(addrs)
        .collect()
}

fn question(kind: Dhcp6Type, options: &[(u16, &[u8])]) -> Vec<u8> {
    let header = Dhcp6Header {
        kind,
        transaction: [1, 2, 3],
    };
    let mut out = vec![0; 3000];
    let mut writer = Dhcp6Writer::new(&mut out, &header);
    for (code, value) in options {
        assert!(writer.put(*code, value));
    }
    let len = writer.finish();
    out.truncate(len);
    out
}

/// The kind of the reply, the addresses in its associations with their lifetimes, and all status codes.
type Outcome = Option<(Dhcp6Type, Vec<(Ipv6Addr, bool)>, Vec<u16>)>;

fn outcome(terms: &Dhcp6Terms, question: &[u8]) -> Outcome {
    let reply = terms.reply_to(question)?;
    assert!(reply.len() <= REPLY_MAX);
    let (header, options) = Dhcp6Header::parse(&reply).expect("a reply");
    assert_eq!(header.transaction, [1, 2, 3]);
    assert_eq!(options.get(option::SERVER_ID), Some(&SERVER_ID[..]));
    let (_, asked) = Dhcp6Header::parse(question).expect("a question");
    assert_eq!(options.get(option::CLIENT_ID), asked.get(option::CLIENT_ID));
    // Without it, a client drops the reply to a SOLICIT (section 18.2.1).
    let is_rapid = options.get(option::RAPID_COMMIT).is_some();
    let is_early = header.kind == Dhcp6Type::Reply && question[0] == Dhcp6Type::Solicit as u8;
    assert_eq!(is_rapid, is_early);
    let mut addrs = Vec::new();
    let mut codes = Vec::new();
    let code = |value: &[u8]| u16::from_be_bytes([value[0], value[1]]);
    for (kind, value) in options {
        match kind {
            option::STATUS_CODE => codes.push(code(value)),
            option::IA_NA | option::IA_PD => {
                let found = Dhcp6Association::parse(value).expect("whole");
                assert_eq!(found.id, [0, 0, 0, 9]);
                for (kind, value) in found.options {
                    match kind {
                        option::IA_ADDR => {
                            let addr: [u8; 16] = value[..16].try_into().expect("16");
                            addrs.push((addr.into(), value[16..] != [0; 8]));
                        }
                        _ => codes.push(code(value)),
                    }
                }
            }
            _ => {}
        }
    }
    Some((header.kind, addrs, codes))
}

#[test]
fn each_question_has_its_reply() {
    // Breaks if a client in one of RFC 9915's states gets no reply, a wrong one, or another server's.
    use Dhcp6Type::*;
    let client = (option::CLIENT_ID, &CLIENT_ID[..]);
    let ours = (option::SERVER_ID, &SERVER_ID[..]);
    let another = (option::SERVER_ID, &CLIENT_ID[..]);
    let [none, has, wrong, far] = [&[][..], &[GUEST], &[OTHER], &[FAR]].map(association);
    let ia = |value| (option::IA_NA, value);
    let (none, has, wrong, far) = (ia(&none[..]), ia(&has[..]), ia(&wrong[..]), ia(&far[..]));
    let prefix = (option::IA_PD, none.1);
    let rapid = (option::RAPID_COMMIT, &[][..]);
    let leased = || vec![(GUEST, true)];
    let reply = |addrs, codes: &[u16]| Some((Reply, addrs, codes.to_vec()));
    type Row<'a> = (Dhcp6Type, &'a [(u16, &'a [u8])], Outcome);
    let rows: &[Row<'_>] = &[
        (
            Solicit,
            &[client, none],
            Some((Advertise, leased(), vec![])),
        ),
        (Solicit, &[client, none, rapid], reply(leased(), &[])),
        (Solicit, &[none], None),
        (Solicit, &[client, ours, none], None),
        (
            Solicit,
            &[client, wrong],
            Some((Advertise, leased(), vec![])),
        ),
        (
            Solicit,
            &[client, none, none],
            Some((Advertise, leased(), vec![status::NO_ADDRS_AVAIL])),
        ),
        (
            Solicit,
            &[client, prefix],
            Some((Advertise, vec![], vec![status::NO_PREFIX_AVAIL])),
        ),
        (Request, &[client, ours, none], reply(leased(), &[])),
        (Request, &[client, another, none], None),
        (Request, &[client, none], None),
        (Renew, &[client, ours, has], reply(leased(), &[])),
        (
            Renew,
            &[client, ours, wrong],
            reply(vec![(GUEST, true), (OTHER, false)], &[]),
        ),
        (
            Renew,
            &[client, ours, has, has],
            reply(leased(), &[status::NO_BINDING]),
        ),
        (
            Renew,
            &[client, ours, prefix],
            reply(vec![], &[status::NO_BINDING]),
        ),
        (Rebind, &[client, has], reply(leased(), &[])),
        (Rebind, &[client, ours, has], None),
        (Confirm, &[client, has], reply(vec![], &[status::SUCCESS])),
        (Confirm, &[client, wrong], reply(vec![], &[status::SUCCESS])),
        (
            Confirm,
            &[client, has, far],
            reply(vec![], &[status::NOT_ON_LINK]),
        ),
        (Confirm, &[client, none], None),
        (
            Release,
            &[client, ours, has],
            reply(vec![], &[status::SUCCESS]),
        ),
        (
            Decline,
            &[client, ours, has],
            reply(vec![], &[status::SUCCESS]),
        ),
        (Release, &[client, another, has], None),
        (InformationRequest, &[], reply(vec![], &[])),
        (InformationRequest, &[client, ours], reply(vec![], &[])),
        (InformationRequest, &[client, another], None),
        (InformationRequest, &[client, none], None),
        (InformationRequest, &[client, prefix], None),
        (Advertise, &[client, ours], None),
        (Reply, &[client, ours], None),
        (Reconfigure, &[client, ours], None),
    ];
    for (i, (kind, options, expected)) in rows.iter().enumerate() {
        let found = outcome(&terms(), &question(*kind, options));
        assert_eq!(&found, expected, "row {i}: {kind:?}");
    }
    assert_eq!(terms().reply_to(&[1, 0, 0]), None);
}

#[test]
fn a_network_leases_no_address() {
    // Breaks if a guest gets another address than the one that the network gave it.
    let terms = Dhcp6Terms {
        addr: None,
        ..terms()
    };
    let ask = [
        (option::CLIENT_ID, &CLIENT_ID[..]),
        (option::IA_NA, &association(&[])[..]),
    ];
    let asked = question(Dhcp6Type::Solicit, &ask);
    let refused = Some((Dhcp6Type::Advertise, vec![], vec![status::NO_ADDRS_AVAIL]));
    assert_eq!(outcome(&terms, &asked), refused);
}

#[test]
fn a_client_gets_the_values_that_it_asks_for() {
    // Breaks if a value has the wrong form or was not requested, or a client with a lease gets the refresh time that is
    // for clients without one.
    let values = |kind, asked: &[u8]| {
        let ask = [
            (option::CLIENT_ID, &CLIENT_ID[..]),
            (option::OPTION_REQUEST, asked),
        ];
        let reply = terms().reply_to(&question(kind, &ask)).expect("a reply");
        let (_, options) = Dhcp6Header::parse(&reply).expect("a reply");
        [
            option::DNS_SERVERS,
            option::DOMAIN_LIST,
            option::REFRESH_TIME,
        ]
        .map(|code| options.get(code).map(<[u8]>::to_vec))
    };
    let dns = terms().dns.map(|dns| dns.octets().to_vec());
    let names = Some(b"\x07example\x03org\0".to_vec());
    let refresh = Some(REFRESH.to_be_bytes().to_vec());
    let all = [0, 23, 0, 24, 0, 32];
    assert_eq!(
        values(Dhcp6Type::InformationRequest, &all),
        [dns.clone(), names.clone(), refresh]
    );
    assert_eq!(values(Dhcp6Type::Solicit, &all), [dns.clone(), names, None]);
    assert_eq!(values(Dhcp6Type::Solicit, &[0, 23, 0]), [dns, None, None]);
    assert_eq!(
        values(Dhcp6Type::InformationRequest, &[]),
        [None, None, None]
    );
}

#[test]
fn a_question_with_many_associations_has_a_bounded_reply() {
    // Breaks if a reply grows with its question beyond one packet, or a length in it is wrong.
    let ia = association(&[OTHER]);
    let mut ask = vec![
        (option::CLIENT_ID, &CLIENT_ID[..]),
        (option::SERVER_ID, &SERVER_ID[..]),
    ];
    ask.extend([(option::IA_NA, &ia[..]); 60]);
    let (_, addrs, codes) = outcome(&terms(), &question(Dhcp6Type::Renew, &ask)).expect("a reply");
    assert_eq!(addrs, [(GUEST, true), (OTHER, false)]);
    assert!(codes.len() > 30 && codes.iter().all(|code| *code == status::NO_BINDING));
}

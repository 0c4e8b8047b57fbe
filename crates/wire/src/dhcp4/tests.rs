use std::vec;

use super::*;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

#[test]
fn a_message_that_was_written_reads_the_same() {
    // Breaks if an option is put at another place than the reader looks for it, or the padding of BOOTP is missing.
    let your = Ipv4Addr::new(10, 0, 2, 100);
    let request = Dhcp4Header::request(7, MAC);
    let mut out = [0xff; 600];
    let mut writer = Dhcp4Writer::new(&mut out, &request.reply(your));
    assert!(writer.put(dhcp4_option::MESSAGE_TYPE, &[Dhcp4Type::Offer as u8]));
    assert!(writer.put(dhcp4_option::ROUTER, &[10, 0, 2, 2]));
    assert!(writer.put(dhcp4_option::INTERFACE_MTU, &1500_u16.to_be_bytes()));
    assert!(!writer.put(dhcp4_option::HOST_NAME, &[b'x'; 256]));
    let len = writer.finish();
    assert_eq!(len, Dhcp4Header::MESSAGE_MIN);
    let (header, options) = Dhcp4Header::parse_reply(&out[..len]).unwrap();
    assert_eq!(
        (header.xid(), header.your_addr(), header.client_mac()),
        (7, your, MAC)
    );
    assert_eq!(options.message_type(), Some(Dhcp4Type::Offer));
    assert_eq!(
        options.addr(dhcp4_option::ROUTER),
        Some(Ipv4Addr::new(10, 0, 2, 2))
    );
    assert_eq!(options.u16(dhcp4_option::INTERFACE_MTU), Some(1500));
    assert_eq!(options.get(dhcp4_option::HOST_NAME), None);
    assert_eq!(options.count(), 3);
    let parsed = Dhcp4Header::parse_request(&out[..len]);
    assert_eq!(parsed.map(|_| ()), Err(ParseError::Unsupported));
}

#[test]
fn options_end_within_the_buffer() {
    // Breaks if the last option leaves no room for the end, or a buffer of any length makes the writer panic.
    let request = Dhcp4Header::request(7, MAC);
    for len in Dhcp4Header::LEN..400 {
        let mut out = vec![0; len];
        let mut writer = Dhcp4Writer::new(&mut out, &request);
        let mut count = 0;
        while writer.put(dhcp4_option::ROUTER, &[1; 4]) {
            count += 1;
        }
        let written = writer.finish();
        assert!(written <= len);
        let (_, options) = Dhcp4Header::parse_request(&out[..written]).unwrap();
        assert_eq!(options.count(), count);
        assert_eq!(count, (len - Dhcp4Header::LEN).saturating_sub(1) / 6);
    }
}

#[test]
fn only_a_clients_message_over_ethernet_is_a_request() {
    // Breaks if a server answers its own replies, or believes bytes that are no message of DHCP's.
    let mut out = [0; 300];
    Dhcp4Writer::new(&mut out, &Dhcp4Header::request(7, MAC)).finish();
    assert!(Dhcp4Header::parse_request(&out).is_ok());
    // The operation, the link, the length of its addresses, the cookie.
    for at in [0, 1, 2, 236, 239] {
        let mut wrong = out;
        wrong[at] ^= 7;
        assert_eq!(
            Dhcp4Header::parse_request(&wrong).map(|_| ()),
            Err(ParseError::Unsupported)
        );
    }
    assert_eq!(
        Dhcp4Header::parse_request(&out[..239]).map(|_| ()),
        Err(ParseError::Truncated)
    );
}

//! Breaks if a received message panics or a damaged one passes, or a sent one is not read as it was meant.

use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const ADDR: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x100);

proptest! {
    /// Breaks if any bytes make the parser, an option or an association panic, or the walk does not end.
    #[test]
    fn any_message_is_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok((_, options)) = Dhcp6Header::parse(&bytes) {
            prop_assert!(options.count() <= bytes.len() / 4);
            for (_, value) in options {
                if let Ok(association) = Dhcp6Association::parse(value) {
                    prop_assert!(association.addrs().count() <= value.len() / 20);
                }
            }
        }
    }

    /// Breaks if an option is not read as it was written, or one that has no room leaves anything behind.
    #[test]
    fn a_message_is_read_as_it_was_written(
        values in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..40)), 0..8),
        room in 4_usize..200,
        transaction: [u8; 3],
    ) {
        let header = Dhcp6Header { kind: Dhcp6Type::Reply, transaction };
        let mut out = std::vec![0; room];
        let mut writer = Dhcp6Writer::new(&mut out, &header);
        let written: Vec<_> = values.iter().filter(|(code, value)| writer.put(*code, value)).collect();
        let len = writer.finish();
        let (read, options) = Dhcp6Header::parse(&out[..len]).expect("it is whole");
        prop_assert_eq!(read, header);
        let read: Vec<_> = options.map(|(code, value)| (code, value.to_vec())).collect();
        prop_assert!(read.iter().eq(written));
    }
}

#[test]
fn an_option_inside_of_another_is_read_and_counted() {
    // Breaks if the length of the outer option does not cover the inner ones, or half of it is left where there is no
    // room.
    let header = Dhcp6Header {
        kind: Dhcp6Type::Advertise,
        transaction: [1, 2, 3],
    };
    let fixed = [9; Dhcp6Association::LEN];
    let write = |out: &mut [u8]| {
        let mut writer = Dhcp6Writer::new(out, &header);
        let fits = writer.put_with(dhcp6_option::IA_NA, &fixed, |inner| {
            let mut value = [0; 24];
            value[..16].copy_from_slice(&ADDR.octets());
            inner.put(dhcp6_option::IA_ADDR, &value)
                && inner.put(dhcp6_option::STATUS_CODE, &[0, 0])
        });
        (fits, writer.finish())
    };
    let mut out = [0; 54];
    assert_eq!(write(&mut out), (true, 54));
    let (_, options) = Dhcp6Header::parse(&out).expect("whole");
    let value = options.get(dhcp6_option::IA_NA).expect("it was put");
    let association = Dhcp6Association::parse(value).expect("whole");
    assert_eq!(association.id, [9; 4]);
    assert!(association.addrs().eq([ADDR]));
    assert_eq!(association.options.count(), 2);
    assert_eq!(write(&mut [0; 53]), (false, 4));
    // The inner option reaches past the outer one.
    let mut broken = out;
    broken[23] += 7;
    let (_, options) = Dhcp6Header::parse(&broken).expect("the outer one is whole");
    let value = options.get(dhcp6_option::IA_NA).expect("it is there");
    assert!(Dhcp6Association::parse(value).is_err());
    assert!(Dhcp6Header::parse(&out[..53]).is_err());
}

//! Tests of the table.

use super::*;

fn addr(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

fn row(net: &str, prefix_len: u8) -> PolicyRow {
    PolicyRow::new(addr(net), prefix_len, 1, 1)
}

#[test]
fn s6_the_default_table_is_that_of_rfc_6724() {
    // Breaks if a row of section 2.1 has another value, or a row hides a more specific one.
    let table = PolicyTable::default();
    for (text, precedence, label) in [
        ("::1", 50, 0),
        ("2001:db8::1", 40, 1),
        ("::ffff:192.0.2.1", 35, 4),
        ("2002:c633:6401::1", 30, 2),
        ("2001::1", 5, 5),
        ("fd00::2", 3, 13),
        ("::192.0.2.1", 1, 3),
        ("fec0::1", 1, 11),
        ("3ffe::1", 1, 12),
    ] {
        let of = |addr| (table.precedence(addr), table.label(addr));
        let expected = (Some(precedence), Some(label));
        assert_eq!(of(addr(text)), expected, "{text}");
    }
    let again = PolicyTable::new(table.rows().iter().rev().copied());
    assert_eq!(again, Ok(table), "in whatever order the rows come");
}

#[test]
fn contradictory_tables_are_refused() {
    // Breaks if a table is taken in which one row can never match, or a peer of the program can make it grow without
    // end.
    let twice = row("fd00::", 64);
    let new = |rows: &[PolicyRow]| PolicyTable::new(rows.iter().copied());
    let bad = PolicyError::BadNetwork(addr("fd00::1"), 64);
    assert_eq!(new(&[row("fd00::1", 64)]), Err(bad));
    let bad = PolicyError::BadNetwork(addr("fd00::"), 129);
    assert_eq!(new(&[row("fd00::", 129)]), Err(bad));
    let two = PolicyError::Twice(addr("fd00::"), 64);
    assert_eq!(new(&[twice, row("::1", 128), twice]), Err(two));
    let many = PolicyTable::new(std::iter::repeat(twice));
    assert_eq!(many, Err(PolicyError::Full));
    let none = new(&[]).expect("it is valid");
    assert_eq!(none.row_of(addr("::1")), None);
}

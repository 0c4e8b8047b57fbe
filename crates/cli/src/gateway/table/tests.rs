use super::{KINDS, SlotKey, SourceKind, Table, Token};

#[test]
fn a_stale_token_finds_nothing() {
    // Breaks when a late event for a closed connection reaches the connection that took its place.
    let mut table = Table::new(SourceKind::Connection);
    let expected = table.next_token();
    let old = table.insert("old");
    assert_eq!(old, expected);
    assert_eq!(table.remove(old), Some("old"));
    let new = table.insert("new");
    assert_eq!(old.index(), new.index(), "the place is used again");
    assert_eq!(table.find(old), None);
    assert_eq!(table.remove(old), None);
    assert_eq!(table.find(new), Some(&mut "new"));
    assert_eq!(table.len(), 1);
    assert_eq!(table.iter().collect::<Vec<_>>(), [(new, &"new")]);
}

#[test]
fn tokens_survive_the_kernel() {
    // Breaks when the parts of a token overlap, so that an event goes to an entry of the wrong kind.
    for &kind in KINDS {
        let last = SlotKey::from_number((1 << super::KIND_SHIFT) - 1);
        let token = Token::new(kind, last);
        let back = Token::from_number(token.into());
        assert_eq!((back, back.kind()), (token, Some(kind)));
        assert_eq!((back.index(), back.key()), (u32::MAX as usize, last));
    }
    assert_eq!(Token::from_number(u64::MAX).kind(), None);
}

#[test]
fn draining_takes_everything_once() {
    // Breaks when a connection is left behind at the end, with its buffers.
    let mut table = Table::new(SourceKind::Flow);
    let tokens: Vec<_> = (0..5).map(|n| table.insert(n)).collect();
    table.remove(tokens[2]);
    assert_eq!(table.drain().collect::<Vec<_>>(), [0, 1, 3, 4]);
    assert_eq!(table.len(), 0);
    table.insert(7);
    assert_eq!(table.find(tokens[0]), None);
}

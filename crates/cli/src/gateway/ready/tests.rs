use std::collections::VecDeque;

use super::super::table::{Kind, Token};
use super::Ready;

fn tokens(ready: &Ready) -> Vec<Token> {
    let mut taken = VecDeque::new();
    ready.take_all(&mut taken);
    taken.iter().map(|wake| wake.begin()).collect()
}

#[test]
fn each_is_queued_once_and_in_order() {
    // Breaks when a busy connection fills the list, or one that waits longer is overtaken.
    let ready = Ready::new();
    let [a, b] = [1, 2].map(|n| Token::nth(Kind::Connection, n));
    let (first, second) = (ready.wake_for(a), ready.wake_for(b));
    let waker = first.waker();
    waker.wake_by_ref();
    second.wake();
    waker.wake();
    assert_eq!(tokens(&ready), [a, b]);
    assert!(ready.is_empty());
}

#[test]
fn a_wake_during_the_turn_brings_another() {
    // Breaks when data that arrives while a connection has its turn waits for ever.
    let ready = Ready::new();
    let token = Token::only(Kind::Interceptor);
    let wake = ready.wake_for(token);
    wake.wake();
    let mut taken = VecDeque::new();
    ready.take_all(&mut taken);
    // Taken but not begun: the turn to come will see it.
    wake.wake();
    assert!(ready.is_empty());
    taken.drain(..).for_each(|w| {
        w.begin();
        w.wake();
    });
    assert_eq!(tokens(&ready), [token]);
}

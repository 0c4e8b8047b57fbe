use std::time::Duration;

use super::super::table::{Kind, Token};
use super::{Patience, Poller};
use crate::sys::eventfd::EventFd;

#[test]
fn a_look_finds_what_is_there_and_ends_without_it() {
    // Breaks when a worker that looks misses what a sleeper would have seen, or never lies down.
    let mut poller = Poller::new().unwrap();
    poller.patience = Patience::for_the_system(2);
    let (event, token) = (EventFd::new().unwrap(), Token::only(Kind::Bell));
    poller.add_alarm(&event, token).unwrap();

    event.signal();
    assert!(poller.look(None));
    assert_eq!(poller.len(), 1);
    assert_eq!(poller.event(0).map(|(token, _)| token), Some(token));

    assert!(!poller.look(None), "the edge has been reported");
    assert_eq!(poller.len(), 0);
    event.signal();
    assert!(!poller.look(None), "nothing came of the last look");
    assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), 1);
}

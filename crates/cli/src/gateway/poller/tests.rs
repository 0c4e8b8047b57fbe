use std::time::Duration;

use super::super::table::{Kind, Token};
use super::Poller;
use kern::AdaptiveSpin;
use kern::sys::EventFd;

#[test]
fn polling_finds_an_event_and_ends_without_one() {
    // Breaks if a polling worker misses an event that a sleeping worker would see, or never stops polling.
    let mut poller = Poller::new().unwrap();
    poller.spin = AdaptiveSpin::for_syscall(2);
    let (event, token) = (EventFd::new().unwrap(), Token::only(Kind::Wakeup));
    poller.add_alarm(&event, token).unwrap();

    event.signal();
    assert!(poller.spin(None));
    assert_eq!(poller.len(), 1);
    assert_eq!(poller.event(0).map(|(token, _)| token), Some(token));

    assert!(!poller.spin(None), "the edge has been reported");
    assert_eq!(poller.len(), 0);
    event.signal();
    assert!(
        !poller.spin(None),
        "the last poll failed, so the poller backs off"
    );
    assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap(), 1);
}

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kern::Workers;

use super::super::table::{Kind, Token};
use super::{EventfdWaker, Ready};
use crate::sys::fd;
use kern::sys::EventFd;

fn tokens(ready: &Ready) -> Vec<Token> {
    let mut taken = VecDeque::new();
    ready.take_all(&mut taken);
    taken.iter().map(|wake| wake.begin()).collect()
}

#[test]
fn each_is_queued_once_and_in_order() {
    // Breaks when a busy connection fills the list, or one that waits longer is overtaken.
    let ready = Ready::new(None);
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
    let ready = Ready::new(None);
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

#[test]
fn only_a_sleeping_worker_is_woken_and_only_by_others() {
    // Breaks when a worker pays a system call for each wakeup of its own, or sleeps over another's.
    let cpus = Arc::new(Workers::new(2));
    let event = Arc::new(EventFd::new().expect("a descriptor"));
    let signalled =
        || fd::poll(&[std::os::fd::AsFd::as_fd(&*event)], Some(Duration::ZERO)).expect("poll")[0];
    let ready = Ready::new(Some(EventfdWaker::new(&cpus, 1, &event)));
    let wake = ready.wake_for(Token::only(Kind::Interceptor));
    let other = ready.wake_for(Token::only(Kind::Wakeup));
    let mut taken = VecDeque::new();
    wake.wake();
    assert!(!ready.prepare_sleep(&mut taken), "there is something to do");
    assert_eq!(tokens(&ready).len(), 1);
    {
        let _me = cpus.bind(1);
        assert!(ready.prepare_sleep(&mut taken));
        wake.wake();
        assert!(!signalled(), "the worker woke itself");
        ready.awake();
    }
    assert_eq!(tokens(&ready).len(), 1);
    wake.wake();
    assert!(!signalled(), "it was awake");
    assert_eq!(tokens(&ready).len(), 1);
    let _another = cpus.bind(0);
    assert!(ready.prepare_sleep(&mut taken));
    other.wake();
    assert!(signalled(), "it slept");
}

#[test]
fn a_long_list_gives_its_memory_back_before_a_sleep() {
    // Breaks when both halves of the list keep the room that a spike of connections took.
    let ready = Ready::new(None);
    let wakes = [0; 512].map(|_| ready.wake_for(Token::only(Kind::Connection)));
    let mut taken = VecDeque::new();
    for _ in 0..2 {
        wakes.iter().for_each(|wake| wake.wake());
        ready.take_all(&mut taken);
        taken
            .drain(..)
            .for_each(|wake| assert_eq!(wake.begin().index(), 0));
    }
    assert!(taken.capacity() >= 512);
    assert!(ready.prepare_sleep(&mut taken));
    assert!(taken.capacity().max(ready.0.queue.lock().capacity()) <= 64);
}

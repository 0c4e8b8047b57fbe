use std::collections::HashSet;

use super::*;

use WorkState::{Away, Closed, Idle, More, Running, Scheduled};

/// The state, and the facts that it stands for: whether work waits, whether the receiver was woken and has not begun
/// since, and how many threads handle work.
type Whole = (WorkState, bool, bool, u8);

/// A transition function, right or with a mistake.
type Transition = fn(WorkState, WorkEvent) -> (WorkState, WorkAction);

/// The effect of an event on state and facts, if it can happen: only an owner asks again or ends.
fn after(
    (state, waits, told, owners): Whole,
    event: WorkEvent,
    transition: Transition,
) -> Option<Whole> {
    use WorkEvent::{Acquire, Begin, End, Next, Put, PutByHandler};
    let (next, action) = transition(state, event);
    let owns = action == WorkAction::Own;
    let woken = told || action == WorkAction::Wake;
    match event {
        Put | PutByHandler if action == WorkAction::Refused => Some((next, waits, told, owners)),
        Put => Some((next, true, woken, owners)),
        PutByHandler => Some((next, true, woken, owners + u8::from(owns))),
        Acquire if owns => Some((next, waits, told, owners + 1)),
        Acquire => Some((next, waits, told, owners)),
        // A receiver may also come though it was not woken.
        Begin if owns => Some((next, false, false, owners + 1)),
        Begin => Some((next, waits, false, owners)),
        Next | End if owners == 0 => None,
        Next if owns => Some((next, false, told, owners)),
        Next | End => Some((next, waits, woken, owners - 1)),
        // The models cover changing receivers: here there is one from begin to end.
        WorkEvent::NewWaker | WorkEvent::Open | WorkEvent::Leave | WorkEvent::Close => None,
    }
}

/// Follows each order of events from an idle queue. Says which claim does not hold, if one does not.
fn check(transition: Transition) -> Result<usize, &'static str> {
    const EVENTS: [WorkEvent; 6] = [
        WorkEvent::Put,
        WorkEvent::PutByHandler,
        WorkEvent::Acquire,
        WorkEvent::Begin,
        WorkEvent::Next,
        WorkEvent::End,
    ];
    let first: Whole = (Idle, false, false, 0);
    let (mut seen, mut new) = (HashSet::from([first].map(key)), vec![first]);
    while let Some(whole) = new.pop() {
        let (state, waits, told, owners) = whole;
        if owners > 1 {
            return Err("two owners");
        }
        if waits && !told && owners == 0 {
            return Err("work waits, and no thread knows");
        }
        if state == Idle && (waits || owners > 0) {
            return Err("idle, and not all is handled");
        }
        if waits != matches!(state, Scheduled | More) {
            return Err("the state does not tell whether work waits");
        }
        let afters = EVENTS
            .iter()
            .filter_map(|&event| after(whole, event, transition));
        new.extend(afters.filter(|&whole| seen.insert(key(whole))));
    }
    Ok(seen.len())
}

fn key((state, waits, told, owners): Whole) -> (u8, bool, bool, u8) {
    (state as u8, waits, told, owners)
}

#[test]
fn no_order_of_events_breaks_a_claim() {
    // Breaks if after some row of the table, work waits without a handler, or two threads handle it.
    let states = check(WorkState::on).expect("the table is right");
    assert!(states >= 4, "{states} states were reached");
}

#[test]
fn each_row_of_the_table_is_needed() {
    // Breaks if the check would not find a change of some row.
    let mistakes: [(&str, Transition); 7] = [
        ("a put does not wake", |s, e| match (e, s) {
            (WorkEvent::Put, Idle) => (Scheduled, WorkAction::Nothing),
            _ => s.on(e),
        }),
        ("a put leaves no mark for the owner", |s, e| match (e, s) {
            (WorkEvent::Put, Running) => (Running, WorkAction::Nothing),
            _ => s.on(e),
        }),
        ("a put by a handler leaves none", |s, e| match (e, s) {
            (WorkEvent::PutByHandler, Idle) => (Running, WorkAction::Own),
            _ => s.on(e),
        }),
        ("a busy queue is acquired", |s, e| match (e, s) {
            (WorkEvent::Acquire, Running) => (Running, WorkAction::Own),
            _ => s.on(e),
        }),
        ("an owned queue is begun", |s, e| match (e, s) {
            (WorkEvent::Begin, More) => (Running, WorkAction::Own),
            _ => s.on(e),
        }),
        ("an owner goes over work", |s, e| match (e, s) {
            (WorkEvent::Next, More) => (Idle, WorkAction::Nothing),
            _ => s.on(e),
        }),
        ("an owner ends silently", |s, e| match (e, s) {
            (WorkEvent::End, More) => (Scheduled, WorkAction::Nothing),
            _ => s.on(e),
        }),
    ];
    for (mistake, transition) in mistakes {
        assert!(check(transition).is_err(), "{mistake}: not found");
    }
}

#[test]
fn receivers_come_and_go_and_closed_is_for_ever() {
    // Breaks if work is taken in without a receiver, or a closed queue opens again.
    for state in [Idle, Scheduled, Running, More, Away] {
        assert_eq!(state.on(WorkEvent::Open), (Idle, WorkAction::Nothing));
        assert_eq!(state.on(WorkEvent::Leave), (Away, WorkAction::Nothing));
        assert_eq!(state.on(WorkEvent::Close), (Closed, WorkAction::Wake));
    }
    for event in [WorkEvent::Open, WorkEvent::Leave, WorkEvent::Close] {
        assert_eq!(Closed.on(event).0, Closed);
    }
    for state in [Away, Closed] {
        assert_eq!(state.on(WorkEvent::Put), (state, WorkAction::Refused));
    }
    assert_eq!(More.on(WorkEvent::NewWaker), (Scheduled, WorkAction::Wake));
    assert_eq!(Idle.on(WorkEvent::NewWaker), (Idle, WorkAction::Nothing));
}

#[test]
fn a_number_is_its_state() {
    // Breaks if a number is decoded as another state than it was encoded from.
    for state in [Idle, Scheduled, Running, More, Away, Closed] {
        assert_eq!(WorkState::from_u8(state as u8), state);
    }
}

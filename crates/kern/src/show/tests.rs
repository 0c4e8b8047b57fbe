use std::sync::mpsc;
use std::thread;

use super::*;
use crate::lock::Mutex;
use crate::order;

static CLASS: LockClass = LockClass::unranked("shown");

/// A thread called `name` waits for a lock that this thread holds; `act` runs when it sleeps.
fn while_waiting(name: &str, act: impl FnOnce(&dyn Fn() -> Option<ThreadLocks>)) {
    let lock = Mutex::new(&CLASS, ());
    let find = || {
        let threads = show_locks().threads;
        let thread = threads.into_iter().find(|thread| thread.name == name)?;
        thread.waits.is_some().then_some(thread)
    };
    thread::scope(|scope| {
        let held = lock.lock();
        let waiter = thread::Builder::new().name(name.into());
        waiter
            .spawn_scoped(scope, || drop(lock.lock()))
            .expect("a thread");
        while find().is_none() {
            thread::yield_now();
        }
        act(&find);
        drop(held);
    });
    assert!(find().is_none(), "no thread waits any more");
}

#[test]
fn a_waiter_is_shown_with_the_owner_it_waits_for() {
    // Breaks if the report of a hang does not name the lock's owner.
    let (sender, receiver) = mpsc::channel();
    let owner = move || {
        while_waiting("waiter", |find| {
            let shown = find().expect("it waits");
            let owner = show_locks()
                .threads
                .into_iter()
                .find(|thread| thread.name == "owner");
            sender.send((shown, owner)).expect("a thread listens");
        });
    };
    let owner = thread::Builder::new().name("owner".into()).spawn(owner);
    owner.expect("a thread").join().expect("no panic");
    let (waiter, owner) = receiver.recv().expect("sent");
    let waits = waiter.waits.expect("it waits");
    assert_eq!(waits.class.name, "shown");
    assert_eq!(waits.how, How::Lock);
    assert!(waits.site.file().ends_with("show/tests.rs"));
    assert_eq!(waits.owner.as_deref(), Some("owner"));
    let owner = owner.expect("an owner that is waited for is shown");
    assert!(owner.holds.iter().any(|held| held.class.name == "shown"));
    assert_eq!(owner.holds[0].site.is_some(), witness::ENABLED);
}

#[test]
fn the_watchdog_reports_a_wait_once() {
    // Breaks if the watchdog reports a wait too early, more than once, or never.
    let bound = Duration::from_secs(3600);
    while_waiting("watched", |find| {
        let since = find().and_then(|thread| thread.waits).expect("waits").since;
        // Other tests wait too.
        let told = |dog: &mut Watchdog, now| {
            let stuck = dog.check(now);
            stuck.iter().filter(|t| t.name == "watched").count()
        };
        let (mut dog, mut other) = (Watchdog::new(bound), Watchdog::new(bound));
        assert_eq!(told(&mut dog, since + bound), 0);
        assert_eq!(told(&mut dog, since + bound + Duration::from_nanos(1)), 1);
        assert_eq!(told(&mut dog, since + 2 * bound), 0);
        assert_eq!(told(&mut other, since + 2 * bound), 1);
    });
}

#[test]
fn show_locks_prints_holders_and_waiters() {
    // Breaks if the text changes that people look for in a hang.
    static CONN: LockClass = LockClass::new("conn", order::CONN);
    static ROUTES: LockClass = LockClass::new("routes", order::ROUTE);
    let site = Location::caller();
    let millis = Duration::from_millis;
    let shown = ShowLocks {
        threads: vec![ThreadLocks {
            token: 2,
            name: "rx 0".into(),
            holds: vec![
                HeldLock {
                    class: &CONN,
                    how: How::Lock,
                    lock: 1,
                    site: Some(site),
                    held: Some(millis(1300)),
                },
                HeldLock {
                    class: &CLASS,
                    how: How::Write,
                    lock: 2,
                    site: None,
                    held: None,
                },
            ],
            waits: Some(WaitsFor {
                class: &ROUTES,
                how: How::Read,
                lock: 3,
                site,
                since: Instant::now(),
                waited: millis(1200),
                owner: Some("config".into()),
            }),
        }],
    };
    let expected = format!(
        "thread \"rx 0\"\n  holds conn (rank 400) at {site}, for 1.3s\n  holds shown to write\n  \
         waits 1.2s for routes (rank 700) to read at {site}; held by \"config\"\n"
    );
    assert_eq!(shown.to_string(), expected);
    let json = format!(
        "[{{\"thread\":\"rx 0\",\"holds\":[\
         {{\"class\":\"conn\",\"how\":\"lock\",\"site\":\"{site}\",\"held_ns\":1300000000}},\
         {{\"class\":\"shown\",\"how\":\"write\",\"site\":null,\"held_ns\":null}}],\
         \"waits\":{{\"class\":\"routes\",\"how\":\"read\",\"site\":\"{site}\",\"waited_ns\":1200000000,\
         \"owner\":\"config\"}}}}]"
    );
    let written = serde_json::to_string(&shown).expect("plain data");
    assert_eq!(written, json);
    let none = ShowLocks {
        threads: Vec::new(),
    };
    assert_eq!(none.to_string(), "no thread waits for a lock\n");
}

use std::cell::RefCell;
use std::sync::mpsc;

use super::*;
use crate::lock::Mutex;
use crate::show_locks;

static CLASS: LockClass = LockClass::unranked("thread tests");

fn my_token() -> u32 {
    drop(Mutex::new(&CLASS, ()).lock());
    token()
}

#[test]
fn threads_that_live_have_different_tokens() {
    // Breaks if a record is given to another thread while its thread still uses it.
    let (mine, barrier) = (my_token(), std::sync::Barrier::new(4));
    let mut tokens = std::thread::scope(|scope| {
        let others = [(); 4].map(|()| {
            scope.spawn(|| {
                let token = my_token();
                barrier.wait();
                token
            })
        });
        others.map(|other| other.join().expect("no panic")).to_vec()
    });
    tokens.push(mine);
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 5);
    assert!(tokens.iter().all(|&token| token >= FIRST));
}

#[test]
fn records_are_used_again() {
    // Breaks if every thread leaves a record: the list of a server would grow for ever.
    let before = records().len();
    for _ in 0..50 {
        std::thread::spawn(my_token).join().expect("no panic");
    }
    // Other tests run meanwhile.
    assert!(records().len() < before + 40);
}

#[test]
fn last_destructors_may_lock() {
    // Breaks if a lock needs data that the thread has given back: then its end would panic, or hang.
    struct Last(mpsc::Sender<(u32, usize)>, Mutex<()>);
    impl Drop for Last {
        fn drop(&mut self) {
            let _held = self.1.lock();
            let held = crate::witness::held();
            let _ = self.0.send((token(), held));
        }
    }
    thread_local!(static LAST: RefCell<Option<Last>> = const { RefCell::new(None) });

    let (sender, receiver) = mpsc::channel();
    let ends = move || {
        // Made first, so destroyed after the record is given back.
        LAST.set(Some(Last(sender, Mutex::new(&CLASS, ()))));
        assert!(my_token() >= FIRST);
    };
    std::thread::Builder::new()
        .name("ends".into())
        .spawn(ends)
        .expect("a thread")
        .join()
        .expect("no panic");
    let (token, held) = receiver.recv().expect("the destructor ran");
    // Which destructor is first is the library's choice.
    assert!(token == LATE && held == 0 || token >= FIRST);
    let shown = show_locks();
    assert!(shown.threads.iter().all(|thread| thread.name != "ends"));
}

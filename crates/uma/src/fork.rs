//! A fork while other threads allocate: the child's zones work.
//!
//! The child has only the thread that forked. A lock that another thread held would stay locked there, and an
//! operation that it had begun would not end. So the forking thread takes all locks of all zones before the fork,
//! which makes their contents consistent, and releases them after it in both processes. The child forgets the threads
//! that it lacks:
//!
//! | state of another thread | in the child |
//! |---|---|
//! | a restartable section | never happened: it has not committed |
//! | an operation on a locked slot | has ended: the forking thread took the locks of the slots too |
//! | a visit of a slow path, with free items in its hands | these items stay out, as if live |
//! | an import, a closing, a sleep | is not waited for |
//! | a purge | its items stay held; another may begin |
//!
//! The child loses the items that those threads carried: some buckets for each thread. Taking all locks costs a fork
//! some 20 ns for each CPU, zone and keg, which is little beside the page tables that it copies; allocations are not
//! slower. A gate that slow paths would pass through would cost each of them two locked instructions, and a hook that
//! sleeps in it would hold up the fork.
//!
//! A hook, an import or a callback must not fork and go on in the child: its own visit would be forgotten.
//!
//! Locks: the list of kegs, then every lock of this crate in the order of ranks, from before a fork until after it.
//! Locks of one class are taken in no order: no other thread ever holds two.

use crate::keg::{Keg, KegsHeld};
use core::mem::ManuallyDrop;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};

/// The kegs of the process. Those that have ended go when one is added.
static KEGS: Mutex<Vec<Weak<Keg>>> = Mutex::new(Vec::new());

thread_local! {
    /// The locks that this thread holds during a fork. Without a destructor, so that it is there to the end.
    static HELD: RefCell<Option<ManuallyDrop<AllKegsHeld>>> = const { RefCell::new(None) };
}

/// All locks of the crate. Fields in the order in which they are released.
struct AllKegsHeld {
    kegs: KegsHeld,
    _list: MutexGuard<'static, Vec<Weak<Keg>>>,
}

/// Adds a keg to the list, so that a fork takes its locks.
pub(crate) fn enlist(keg: &Arc<Keg>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| kern::fork::on_fork(prepare, parent, child));
    let mut kegs = list();
    kegs.retain(|keg| keg.strong_count() > 0);
    kegs.push(Arc::downgrade(keg));
}

fn list() -> MutexGuard<'static, Vec<Weak<Keg>>> {
    KEGS.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn prepare() {
    let list = list();
    let kegs: Vec<_> = list.iter().filter_map(Weak::upgrade).collect();
    let held = AllKegsHeld {
        kegs: KegsHeld::take(kegs),
        _list: list,
    };
    HELD.with(|slot| *slot.borrow_mut() = Some(ManuallyDrop::new(held)));
}

extern "C" fn parent() {
    drop(HELD.with(RefCell::take).map(ManuallyDrop::into_inner));
}

extern "C" fn child() {
    if let Some(mut held) = HELD.with(RefCell::take).map(ManuallyDrop::into_inner) {
        held.kegs.forget_others();
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::list;
    use crate::RawZone;
    use core::alloc::Layout;

    #[test]
    fn zones_that_have_ended_leave_the_list() {
        // Breaks when a program that makes a zone for each job leaks, and its forks walk all the zones that there were.
        for _ in 0..2000 {
            let zone = RawZone::builder("short", Layout::new::<u64>());
            drop(zone.build().expect("address space"));
        }
        // Those of the tests beside this one are few.
        assert!(list().len() < 500);
    }
}

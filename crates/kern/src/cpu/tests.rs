use super::*;

#[test]
fn current_is_a_valid_index() {
    // Breaks if a machine with gaps in its CPU ids indexes past a per-CPU table.
    assert!(count() >= 1);
    assert!(current() < count());
    assert_eq!(fold(0, 1), 0);
    assert_eq!(fold(5, 6), 5);
    assert_eq!(fold(6, 6), 0);
    assert_eq!(fold(usize::MAX, 1), 0);
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn the_last_cpu_that_a_thread_may_use_counts() {
    // Breaks if a process that may run on the last CPUs alone, and may not read how many there are, takes their numbers
    // for wrong ones: then no per-CPU cache serves it.
    // SAFETY: the set is plain bits, and all zeroes is a set.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    assert_eq!(Affinity::of(&set), Affinity { cpus: 0, end: 0 });
    for (cpus, last) in [(1, 0), (2, 63), (3, 64), (4, 1023)] {
        // SAFETY: the number is that of a bit of the set.
        unsafe { libc::CPU_SET(last, &mut set) };
        assert_eq!(
            Affinity::of(&set),
            Affinity {
                cpus,
                end: last + 1
            }
        );
    }
    assert_eq!(usable(), affinity().unwrap().cpus);
}

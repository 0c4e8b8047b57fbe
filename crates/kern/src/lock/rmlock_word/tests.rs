use core::sync::atomic::AtomicU32;

use super::super::readers::LockReaders;
use super::{EVENT, ReadWay, Readers, RmLockWord, SAMPLES, Write};

fn word() -> RmLockWord<AtomicU32> {
    let zero = || AtomicU32::new(0);
    RmLockWord::new(zero(), zero(), zero(), zero())
}

#[test]
fn forgotten_readers_never_let_a_writer_in() {
    // Breaks when the number of a CPU's readers wraps to 0: each forgotten guard adds one.
    for counted in [u32::MAX, u32::MAX - 1, 1 << 31] {
        let (word, readers) = (word(), LockReaders::new());
        LockReaders::add(readers.here(), u64::from(counted));
        for _ in 0..4 {
            assert!(word.read(&readers).is_some());
            assert_ne!(readers.sum(), 0);
        }
        assert!(matches!(word.write(1, &readers), Err(Write::Alone)));
    }
}

#[test]
fn enough_readers_since_the_last_write_open_the_gate() {
    // Breaks if the gate opens before an interruption of all CPUs has paid, or a write leaves it open, or leaves a part
    // of the count.
    let (word, readers) = (word(), LockReaders::new());
    let read = |samples| {
        for _ in 0..samples {
            let way = word.read(&readers).expect("no writer");
            word.note_sample(&readers, way);
            word.unlock_read(&readers, way);
        }
    };
    for _ in 0..3 {
        read(SAMPLES - 1);
        assert!(word.write(1, &readers).is_ok(), "it was closed");
        word.unlock_write();
    }
    read(SAMPLES + 1);
    let is_open = word.gate.load(core::sync::atomic::Ordering::Relaxed) == SAMPLES * EVENT + 1;
    assert_eq!(is_open, readers.have_sections());
    if is_open {
        // An interrupted section leaves its reader counted.
        let ways = (0..100).map(|_| word.read(&readers).expect("no writer"));
        let ways: Vec<_> = ways.collect();
        assert!(ways.iter().any(|way| matches!(way, ReadWay::Section)));
        assert_eq!(readers.sum(), 100);
        for way in ways {
            word.unlock_read(&readers, way);
        }
        // A reader whose section is interrupted when it leaves is subtracted elsewhere.
        if let Some(ReadWay::Section) = word.read(&readers) {
            word.leave::<LockReaders>(readers.here());
        }
        assert!(
            word.write(1, &readers).is_err(),
            "sections may be in progress"
        );
        word.write_slow(1, Write::Alone, &readers, &mut Awake);
        word.unlock_write();
        assert!(matches!(word.read(&readers), Some(ReadWay::Counted(_))));
    }
}

struct Awake;

impl super::Waiter for Awake {
    fn sleeps(&mut self) {
        panic!("no reader is in");
    }

    fn handed(&mut self) {}
}

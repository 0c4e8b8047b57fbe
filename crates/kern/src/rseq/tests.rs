use super::*;

#[test]
fn a_requested_method_is_used_only_if_it_works() {
    // Breaks if sections are used without an area or a fence (corruption), or a wish is ignored.
    let area = Some(-160);
    let rseq = PercpuMethod::Rseq { offset: -160 };
    for (wish, area, fence, expected) in [
        (None, area, true, rseq),
        (None, area, false, PercpuMethod::Locked),
        (None, None, true, PercpuMethod::Locked),
        (Some("rseq"), area, true, rseq),
        (Some("rseq"), area, false, PercpuMethod::Locked),
        (Some("rseq"), None, true, PercpuMethod::Locked),
        (Some("locked"), area, true, PercpuMethod::Locked),
        (Some("nonsense"), area, true, rseq),
    ] {
        let (choice, why) = decide(wish, area, fence);
        assert_eq!(choice, expected, "{wish:?} {area:?} {fence}");
        let named = if choice == PercpuMethod::Locked {
            "locked:"
        } else {
            "rseq:"
        };
        assert!(why.starts_with(named), "{why}");
        assert_eq!(
            wish == Some("rseq") && choice == PercpuMethod::Locked,
            why.contains("but")
        );
    }
}

#[test]
fn the_method_does_not_change_in_a_process() {
    // Breaks if two zones of one process use different methods for per-CPU data.
    assert_eq!(choose(), choose());
    assert_eq!(area_offset(), area_offset());
    if let PercpuMethod::Rseq { offset } = choose() {
        assert_eq!(area_offset(), Some(offset));
        assert!(fence_available());
    }
}

#[test]
fn the_fence_works_with_other_threads_running() {
    // Breaks if the command's number or its registration is wrong: every fence would then fail.
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        assert_eq!(fence(), fence_available());
        stop.store(true, Ordering::Relaxed);
    });
}

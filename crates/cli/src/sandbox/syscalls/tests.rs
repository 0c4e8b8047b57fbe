use super::*;

/// The numbers of aarch64 (asm-generic/unistd.h), of the calls that are allowed there.
const AARCH64: [(&str, c_long); 65] = [
    ("SYS_eventfd2", 19),
    ("SYS_epoll_create1", 20),
    ("SYS_epoll_ctl", 21),
    ("SYS_epoll_pwait", 22),
    ("SYS_fcntl", 25),
    ("SYS_ioctl", 29),
    ("SYS_ftruncate", 46),
    ("SYS_close", 57),
    ("SYS_getdents64", 61),
    ("SYS_lseek", 62),
    ("SYS_read", 63),
    ("SYS_write", 64),
    ("SYS_readv", 65),
    ("SYS_writev", 66),
    ("SYS_pread64", 67),
    ("SYS_ppoll", 73),
    ("SYS_fstat", 80),
    ("SYS_exit", 93),
    ("SYS_exit_group", 94),
    ("SYS_futex", 98),
    ("SYS_set_robust_list", 99),
    ("SYS_nanosleep", 101),
    ("SYS_clock_gettime", 113),
    ("SYS_clock_nanosleep", 115),
    ("SYS_sched_getaffinity", 123),
    ("SYS_sched_yield", 124),
    ("SYS_restart_syscall", 128),
    ("SYS_tgkill", 131),
    ("SYS_sigaltstack", 132),
    ("SYS_rt_sigaction", 134),
    ("SYS_rt_sigprocmask", 135),
    ("SYS_rt_sigreturn", 139),
    ("SYS_prctl", 167),
    ("SYS_getcpu", 168),
    ("SYS_getpid", 172),
    ("SYS_gettid", 178),
    ("SYS_socket", 198),
    ("SYS_bind", 200),
    ("SYS_connect", 203),
    ("SYS_getsockname", 204),
    ("SYS_sendto", 206),
    ("SYS_recvfrom", 207),
    ("SYS_setsockopt", 208),
    ("SYS_getsockopt", 209),
    ("SYS_shutdown", 210),
    ("SYS_sendmsg", 211),
    ("SYS_recvmsg", 212),
    ("SYS_brk", 214),
    ("SYS_munmap", 215),
    ("SYS_mremap", 216),
    ("SYS_clone", 220),
    ("SYS_mmap", 222),
    ("SYS_fadvise64", 223),
    ("SYS_mprotect", 226),
    ("SYS_madvise", 233),
    ("SYS_accept4", 242),
    ("SYS_getrandom", 278),
    ("SYS_memfd_create", 279),
    ("SYS_membarrier", 283),
    ("SYS_preadv2", 286),
    ("SYS_rseq", 293),
    ("SYS_pidfd_open", 434),
    ("SYS_clone3", 435),
    ("SYS_openat2", 437),
    ("SYS_process_madvise", 440),
];

fn everything() -> Uses<'static> {
    let stdin = std::io::stdin();
    // Leaked: the program keeps the descriptor until its end.
    let served = std::os::fd::AsFd::as_fd(Box::leak(Box::new(stdin)));
    Uses {
        served: Some(served),
        binds: true,
        names_interface: true,
        runtime: true,
        shared_memory: true,
    }
}

#[test]
fn the_list_names_calls_that_aarch64_has() {
    // Breaks if the list has a call of older architectures (open, poll, epoll_wait) and not the call that replaced it:
    // on aarch64 the list would not compile, or serving would fail.
    let listed = FREE.iter().chain(SERVING).chain(RUNTIME);
    let listed = listed.chain(SHARED_MEMORY);
    for call in listed {
        let number = AARCH64.iter().find(|(name, _)| *name == call.name);
        assert!(number.is_some(), "{}", call.name);
        if cfg!(target_arch = "aarch64") {
            assert_eq!(
                number.map(|(_, number)| *number),
                Some(call.number),
                "{}",
                call.name
            );
        }
    }
    let allowed = allowed_calls(&everything()).expect("valid rules");
    assert_eq!(
        allowed.len(),
        AARCH64.len(),
        "a call that is checked is missing in the table"
    );
}

#[test]
fn the_filter_compiles_for_both_architectures() {
    // Breaks if the rules have an argument or a length that the filter's language lacks, or the program is too long.
    for arch in [TargetArch::x86_64, TargetArch::aarch64] {
        for uses in [Uses::default(), everything()] {
            let calls = allowed_calls(&uses).expect("valid rules");
            let denied = SeccompAction::Errno(1);
            let program = program(calls, denied, SeccompAction::Allow, arch).expect("a program");
            // BPF_MAXINSNS.
            assert!(program.len() <= 4096, "{}", program.len());
        }
    }
}

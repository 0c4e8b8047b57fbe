//! The system calls of a storm: signals and CPUs.

/// Has `handler` called on SIGUSR1.
pub fn on_usr1(handler: extern "C" fn(i32)) {
    set_handler(libc::SIGUSR1, handler, libc::SA_RESTART);
}

/// Has `handler` called on a fatal memory fault, on a stack that is still whole.
pub fn on_crash(handler: extern "C" fn(i32)) {
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGABRT] {
        set_handler(signal, handler, libc::SA_ONSTACK);
    }
}

fn set_handler(signal: i32, handler: extern "C" fn(i32), flags: i32) {
    // SAFETY: all zeroes is an action without flags and with an empty mask.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = flags;
    // SAFETY: the action is valid, and its handler does only what a handler may.
    let failed = unsafe { libc::sigaction(signal, &raw const action, core::ptr::null_mut()) };
    assert_eq!(failed, 0, "a handler cannot be set");
}

/// Interrupts a thread of this process; nothing happens if it is gone.
pub fn send_usr1(tid: i32) {
    if tid != 0 {
        // SAFETY: takes plain numbers; the thread is of this process or does not exist.
        unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), tid, libc::SIGUSR1) };
    }
}

/// From now on this thread is not interrupted.
pub fn block_usr1() {
    // SAFETY: all zeroes is the empty set.
    let mut set: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is ours, and the number is a signal's.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGUSR1) };
    // SAFETY: the set is valid; nothing is asked back.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, core::ptr::null_mut()) };
}

pub fn gettid() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// The CPUs that this thread may run on.
pub fn allowed_cpus() -> Vec<usize> {
    // SAFETY: all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is ours and of the size given.
    let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    let is_in = |&cpu: &usize| {
        // SAFETY: the number is checked against the size of the set.
        unsafe { libc::CPU_ISSET(cpu, &set) }
    };
    let cpus: Vec<_> = (0..libc::CPU_SETSIZE as usize).filter(is_in).collect();
    assert!(failed == 0 && !cpus.is_empty());
    cpus
}

/// Moves this thread. Where that is not allowed it stays, and the storm is milder.
pub fn run_on(cpus: &[usize]) {
    // SAFETY: all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    for &cpu in cpus {
        // SAFETY: the number is checked against the size of the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: the set is valid and of the size given; 0 is the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
}

/// Ends the process now, from a handler too.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: takes a number and does not come back.
    unsafe { libc::_exit(code) }
}

//! The system calls that serving needs. All others fail with EPERM.
//!
//! A refused call fails and does not kill the process: a later C library may try a call that is newer than this list
//! and continue without it; and code that a packet took over gains nothing in either case.
//!
//! The list comes from tracing the end-to-end tests (`strace -f`) on x86-64, and each entry says what needs it. It
//! names no call that aarch64 lacks. If a call can do more than serving needs, its arguments are checked. Memory behind
//! a pointer cannot be checked: so clone3(2) does not exist here, and the C library uses clone(2).
//!
//! Locks: none.
//! Sources: seccomp(2).

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter_all_threads,
};

use super::Uses;

/// A system call that is allowed with any arguments. The lists say behind each what needs it.
#[derive(Clone, Copy)]
struct AllowedCall {
    number: c_long,
    /// For the tests: the number is that of this machine.
    #[cfg_attr(not(test), allow(dead_code))]
    name: &'static str,
}

/// A call by its name, and the part of this program or of the C library that needs it.
macro_rules! call {
    ($name:ident, $needed_by:literal) => {
        AllowedCall {
            number: libc::$name,
            name: stringify!($name),
        }
    };
}

/// Allowed with any arguments: they act on descriptors that are open, on this process's memory, or on the calling
/// thread.
const FREE: &[AllowedCall] = &[
    // Packets, host sockets, captures, standard error, the channel to the monitor, clients of the control socket.
    call!(SYS_read, "TAP, eventfd, signalfd, clients"),
    call!(SYS_readv, "frames from the TAP into clusters"),
    call!(SYS_write, "standard error, captures, eventfd, clients"),
    call!(SYS_writev, "frames to the TAP, standard error"),
    call!(SYS_recvmsg, "host sockets, the channel"),
    call!(SYS_recvfrom, "clients of the control socket"),
    call!(SYS_sendmsg, "host sockets, the channel"),
    call!(SYS_sendto, "clients of the control socket"),
    call!(SYS_connect, "host sockets"),
    call!(SYS_accept4, "published ports, the control socket"),
    call!(SYS_shutdown, "the guest's FIN"),
    call!(SYS_getsockname, "netstat's column of host ports"),
    call!(SYS_close, "everything"),
    call!(
        SYS_ftruncate,
        "a capture on a full disk ends with a whole block"
    ),
    // The loop.
    call!(SYS_epoll_ctl, "new sockets"),
    call!(SYS_epoll_pwait, "the loop"),
    call!(
        SYS_ppoll,
        "the watch, captures to a FIFO, whether a virtual machine has gone"
    ),
    call!(SYS_futex, "locks, the join of threads"),
    call!(SYS_sched_yield, "spinning locks"),
    // The standard library panics if a sleep is refused. The C library decides which of the two it takes.
    call!(SYS_clock_nanosleep, "an allocation that waits for buffers"),
    call!(SYS_nanosleep, "the same"),
    call!(SYS_restart_syscall, "after SIGSTOP and SIGCONT"),
    call!(SYS_clock_gettime, "where the vDSO has none"),
    call!(SYS_getrandom, "hash keys of the standard library"),
    // Memory, without making any of it executable (below).
    call!(SYS_munmap, "allocators, ends of threads"),
    call!(SYS_mremap, "the C library's heap"),
    call!(SYS_brk, "the C library's heap"),
    call!(SYS_madvise, "giving memory back"),
    call!(SYS_process_madvise, "giving many pieces back at once"),
    call!(SYS_membarrier, "taking buffers from other CPUs' caches"),
    call!(SYS_getcpu, "per-CPU caches without rseq"),
    // Threads, and the end.
    call!(SYS_set_robust_list, "start of a thread"),
    call!(SYS_rseq, "start of a thread"),
    call!(SYS_sigaltstack, "start of a thread"),
    call!(SYS_sched_getaffinity, "start of a thread, number of CPUs"),
    call!(SYS_rt_sigprocmask, "start of a thread, abort(3)"),
    call!(SYS_rt_sigaction, "start of the first thread, abort(3)"),
    call!(
        SYS_rt_sigreturn,
        "the standard library's handler of stack overflows"
    ),
    call!(SYS_gettid, "locks' owners, abort(3)"),
    call!(SYS_getpid, "abort(3), giving memory back"),
    call!(SYS_exit, "end of a thread"),
    call!(SYS_exit_group, "the end"),
];

/// Where a directory is served. Landlock lets them reach what is below it and nothing else, and read only; without
/// Landlock a process that was taken over could read what its user may.
const SERVING: &[AllowedCall] = &[
    call!(SYS_openat2, "a file below the directory"),
    call!(SYS_fstat, "its length and time"),
    call!(SYS_preadv2, "its bytes that are in memory, into clusters"),
    call!(SYS_pread64, "its other bytes, in a thread that waits"),
    call!(SYS_lseek, "the length of the copy"),
    call!(SYS_fadvise64, "its next bytes are read ahead"),
    call!(SYS_getdents64, "the names of a listing"),
];

/// Where threads of [`mbuma::runtime`] start later.
const RUNTIME: &[AllowedCall] = &[
    call!(SYS_epoll_create1, "a worker's epoll set"),
    call!(SYS_eventfd2, "a worker's wakeups"),
];

/// Where a virtual machine shares its memory. The rest is allowed in any case: its descriptors come with a message
/// (recvmsg), are mapped (mmap, without execution), watched (epoll_ctl), set not to block (ioctl with FIONBIO), and
/// written (write).
const SHARED_MEMORY: &[AllowedCall] = &[call!(
    SYS_fstat,
    "that the memory is not longer than its file"
)];

/// Socket options that the gateway sets: level and name.
const OPTIONS: [(libc::c_int, libc::c_int); 13] = [
    (libc::SOL_SOCKET, libc::SO_LINGER),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
    (libc::IPPROTO_IP, libc::IP_TTL),
    (libc::IPPROTO_IP, libc::IP_RECVERR),
    (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
    (libc::SOL_UDP, libc::UDP_SEGMENT),
    (libc::SOL_UDP, libc::UDP_GRO),
];

/// The same with an interface by which sockets leave.
const INTERFACE: (libc::c_int, libc::c_int) = (libc::SOL_SOCKET, libc::SO_BINDTODEVICE);

/// The bits of a socket's type that are no flags.
const SOCK_TYPE_MASK: u64 = 0xf;

/// Restricts this process, all its threads and those to come.
pub(super) fn restrict(uses: &Uses<'_>) -> io::Result<()> {
    for program in [absent(), allowed(uses)] {
        let program = program.map_err(io::Error::other)?;
        apply_filter_all_threads(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

/// clone3 is answered as by a kernel that lacks it. The stricter answer of two filters counts.
fn absent() -> Result<BpfProgram, BackendError> {
    let calls = [(libc::SYS_clone3, Vec::new())];
    let absent = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let arch = std::env::consts::ARCH.try_into()?;
    program(calls.into(), SeccompAction::Allow, absent, arch)
}

/// The list, for this machine.
fn allowed(uses: &Uses<'_>) -> Result<BpfProgram, BackendError> {
    let arch = std::env::consts::ARCH.try_into()?;
    let denied = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    program(allowed_calls(uses)?, denied, SeccompAction::Allow, arch)
}

fn allowed_calls(uses: &Uses<'_>) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, BackendError> {
    let serving = uses.served.map_or(&[][..], |_| SERVING);
    let runtime = if uses.runtime { RUNTIME } else { &[] };
    let shared = match uses.shared_memory {
        true => SHARED_MEMORY,
        false => &[],
    };
    let free = FREE.iter().chain(serving);
    let free = free.chain(runtime).chain(shared);
    let mut calls: BTreeMap<_, _> = free.map(|call| (call.number, Vec::new())).collect();
    calls.insert(libc::SYS_clone3, Vec::new());
    calls.extend(checked(uses)?);
    calls.extend(uses.served.map(|_| copies()).transpose()?);
    calls.extend(uses.binds.then_some((libc::SYS_bind, Vec::new())));
    Ok(calls)
}

fn program(
    calls: BTreeMap<c_long, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    listed: SeccompAction,
    arch: TargetArch,
) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(calls, otherwise, listed, arch)?.try_into()
}

/// Calls whose arguments are checked.
fn checked(uses: &Uses<'_>) -> Result<Vec<(c_long, Vec<SeccompRule>)>, BackendError> {
    let own = u64::from(std::process::id());
    let threads = (libc::CLONE_VM | libc::CLONE_THREAD) as u64;
    let not_executable = |arg| rule(vec![masked(arg, libc::PROT_EXEC as u64, 0)?]);
    let interface = uses.names_interface.then_some(&INTERFACE);
    let options = OPTIONS
        .iter()
        .chain(interface)
        .map(|(level, name)| rule(vec![is(1, *level as u64)?, is(2, *name as u64)?]));
    Ok(vec![
        (libc::SYS_socket, internet()?),
        // The error of a connection.
        (
            libc::SYS_getsockopt,
            vec![rule(vec![
                is(1, libc::SOL_SOCKET as u64)?,
                is(2, libc::SO_ERROR as u64)?,
            ])?],
        ),
        (libc::SYS_setsockopt, options.collect::<Result<_, _>>()?),
        // Accepted sockets do not block.
        (libc::SYS_ioctl, vec![rule(vec![is(1, libc::FIONBIO)?])?]),
        // In debug builds the standard library checks that a descriptor is open before it closes it.
        (libc::SYS_fcntl, descriptors(uses)?),
        (libc::SYS_mmap, vec![not_executable(2)?]),
        (libc::SYS_mprotect, vec![not_executable(2)?]),
        (
            libc::SYS_clone,
            vec![rule(vec![masked(0, threads, threads)?])?],
        ),
        // Names of threads.
        (
            libc::SYS_prctl,
            vec![rule(vec![is(0, libc::PR_SET_NAME as u64)?])?],
        ),
        // For process_madvise, which gives back memory of this process.
        (libc::SYS_pidfd_open, vec![rule(vec![is(0, own)?])?]),
        // abort(3), and raise(3) in `bus_error`.
        (libc::SYS_tgkill, vec![rule(vec![is(0, own)?])?]),
    ])
}

/// Looks at descriptors; for the runtime, a second one for a TAP that a worker watches; and the seals of files' copies.
fn descriptors(uses: &Uses<'_>) -> Result<Vec<SeccompRule>, BackendError> {
    let copies = uses.runtime.then_some(libc::F_DUPFD_CLOEXEC);
    let seals = uses.served.map(|_| [libc::F_ADD_SEALS, libc::F_GET_SEALS]);
    let commands = [libc::F_GETFD].into_iter().chain(copies);
    let commands = commands.chain(seals.into_iter().flatten());
    let rules = commands.map(|command| rule(vec![is(1, command as u64)?]));
    rules.collect()
}

/// Memory for the copies of served files, with the flags that [`FileCache`] gives it.
///
/// [`FileCache`]: crate::files::FileCache
fn copies() -> Result<(c_long, Vec<SeccompRule>), BackendError> {
    let flags = u64::from(libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
    Ok((libc::SYS_memfd_create, vec![rule(vec![is(1, flags)?])?]))
}

/// Sockets for TCP and UDP, over either family; that for pings is open. Another protocol, such as SCTP, is code of the
/// kernel's that serving does not need, and that the kernel may load on demand.
fn internet() -> Result<Vec<SeccompRule>, BackendError> {
    let kinds = [
        (libc::SOCK_STREAM, libc::IPPROTO_TCP),
        (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
    ];
    let mut rules = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        for (style, protocol) in kinds {
            let style = masked(1, SOCK_TYPE_MASK, style as u64)?;
            rules.push(rule(vec![
                is(0, family as u64)?,
                style,
                is(2, protocol as u64)?,
            ])?);
        }
    }
    Ok(rules)
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions)
}

/// Argument `arg`, of which the kernel looks at 32 bits, is `value`.
fn is(arg: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(arg, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

/// The bits `mask` of argument `arg` are `value`.
fn masked(arg: u8, mask: u64, value: u64) -> Result<SeccompCondition, BackendError> {
    let bits = SeccompCmpOp::MaskedEq(mask);
    SeccompCondition::new(arg, SeccompCmpArgLen::Dword, bits, value)
}

#[cfg(test)]
mod tests;

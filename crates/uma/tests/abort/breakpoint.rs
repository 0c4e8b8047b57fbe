//! Breakpoints in this program's own code, and the actions at one.
//!
//! Only one thread may run sections meanwhile.

use crate::section::{Kind, Section};
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed,
};

const INT3: u8 = 0xcc;
/// More copies of one section than any program has.
const SLOTS: usize = 64;

/// How long a breakpoint lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    /// Until it is met; the handler then allocates and frees.
    Once,
    /// The same, and the thread is on another CPU afterwards.
    OnceAndMove,
    /// Until it is taken away.
    Stay,
}

/// A breakpoint that is set, for the handler. Address 0: none.
struct Slot {
    at: AtomicUsize,
    /// The original byte.
    byte: AtomicU8,
    /// Its section.
    end: AtomicUsize,
    abort: AtomicUsize,
    kind: AtomicU8,
    /// Whether the handler only puts the instruction back.
    quiet: AtomicBool,
}

static SET: [Slot; SLOTS] = [const {
    Slot {
        at: AtomicUsize::new(0),
        byte: AtomicU8::new(0),
        end: AtomicUsize::new(0),
        abort: AtomicUsize::new(0),
        kind: AtomicU8::new(0),
        quiet: AtomicBool::new(false),
    }
}; SLOTS];
static MODE: AtomicU8 = AtomicU8::new(0);
static INSIDE: AtomicU64 = AtomicU64::new(0);
static BEHIND: AtomicU64 = AtomicU64::new(0);
/// Addresses of the breakpoints that were met since they were last set.
static MET_AT: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];
/// A function of type [`Meanwhile`].
static MEANWHILE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// The action at a breakpoint: in which kind of section, and whether inside or behind it.
type Meanwhile = fn(Kind, bool);

/// Breakpoints to be set together.
#[derive(Clone)]
pub(crate) struct Breakpoints {
    mode: Mode,
    at: Vec<(Section, usize)>,
    /// How many of them, at the end, are quiet.
    quiet: usize,
}

impl Breakpoints {
    pub(crate) fn new(mode: Mode) -> Self {
        MET_AT.iter().for_each(|at| at.store(0, Relaxed));
        Self {
            mode,
            at: Vec::new(),
            quiet: 0,
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn add(&mut self, section: &Section, at: usize) {
        self.at.push((section.clone(), at));
    }

    /// One at which an abort is all that happens: it leads on to copies of the section that are
    /// for restarts alone, with everything as it was.
    pub(crate) fn add_quiet(&mut self, section: &Section, at: usize) {
        self.add(section, at);
        self.quiet += 1;
    }

    pub(crate) fn arm(&self) {
        MODE.store(self.mode as u8, Relaxed);
        MET_AT.iter().for_each(|at| at.store(0, Relaxed));
        let loud = self.at.len() - self.quiet;
        for (n, (slot, (section, at))) in SET.iter().zip(&self.at).enumerate() {
            slot.quiet.store(n >= loud, Relaxed);
            slot.byte.store(read(*at), Relaxed);
            slot.end.store(section.end(), Relaxed);
            slot.abort.store(section.abort(), Relaxed);
            slot.kind.store(section.kind as u8, Relaxed);
            slot.at.store(*at, Relaxed);
        }
        assert!(self.at.len() <= SLOTS);
        self.at.iter().for_each(|(_, at)| write(*at, INT3));
    }

    pub(crate) fn disarm(&self) {
        SET.iter().for_each(Slot::restore);
    }
}

impl Slot {
    fn restore(&self) {
        let at = self.at.swap(0, Relaxed);
        if at != 0 {
            write(at, self.byte.load(Relaxed));
        }
    }
}

/// How often breakpoints were met, inside sections and behind them.
#[derive(Clone, Copy)]
pub(crate) struct Count {
    pub(crate) inside: u64,
    pub(crate) behind: u64,
}

pub(crate) fn met() -> Count {
    Count {
        inside: INSIDE.load(Relaxed),
        behind: BEHIND.load(Relaxed),
    }
}

/// Whether the breakpoint at this address was met since it was set.
pub(crate) fn was_met(at: usize) -> bool {
    MET_AT.iter().any(|met| met.load(Relaxed) == at)
}

fn read(at: usize) -> u8 {
    let at = ptr::with_exposed_provenance::<u8>(at);
    // SAFETY: the address is in this program's code.
    unsafe { at.read_volatile() }
}

fn write(at: usize, byte: u8) {
    let at = ptr::with_exposed_provenance_mut::<u8>(at);
    // SAFETY: the address is in this program's code, which was made writable, and no other thread
    // runs the code there.
    unsafe { at.write_volatile(byte) };
}

/// Lets the pages of all sections be written; says whether the system agreed.
pub(crate) fn make_code_writable() -> bool {
    const PAGE: usize = 4096;
    crate::section::all().iter().all(|section| {
        let from = section.start() & !(PAGE - 1);
        let len = section.end() + 1 - from;
        let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let from = ptr::with_exposed_provenance_mut(from);
        // SAFETY: the pages are this program's code, and stay readable and executable.
        unsafe { libc::mprotect(from, len, all) == 0 }
    })
}

/// Has `meanwhile` called at breakpoints that are met once.
pub(crate) fn on_breakpoint(meanwhile: Meanwhile) {
    MEANWHILE.store(meanwhile as *mut (), Relaxed);
    // SAFETY: all zeroes is an action without flags and with an empty mask.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    // The handler's own allocations may meet a breakpoint.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    // SAFETY: the action is valid.
    let failed = unsafe { libc::sigaction(libc::SIGTRAP, &raw const action, ptr::null_mut()) };
    assert_eq!(failed, 0);
}

extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    const RIP: usize = libc::REG_RIP as usize;
    // SAFETY: the kernel passes a context, which is this handler's until it returns.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let rip = context.uc_mcontext.gregs[RIP] as usize;
    for (slot, met_at) in SET.iter().zip(&MET_AT) {
        let at = slot.at.load(Relaxed);
        let is_behind = at != 0 && at == slot.end.load(Relaxed) && rip == at + 1;
        let is_inside = at != 0 && at != slot.end.load(Relaxed) && rip == slot.abort.load(Relaxed);
        if !is_behind && !is_inside {
            continue;
        }
        met_at.store(at, Relaxed);
        let kind = Kind::ALL[usize::from(slot.kind.load(Relaxed))];
        if is_behind {
            BEHIND.fetch_add(1, Relaxed);
            // No other code puts the thread back before the instruction.
            context.uc_mcontext.gregs[RIP] = at as i64;
        } else {
            INSIDE.fetch_add(1, Relaxed);
        }
        if is_behind || MODE.load(Relaxed) != Mode::Stay as u8 {
            slot.restore();
            if !slot.quiet.load(Relaxed) {
                live(kind, is_inside);
            }
        }
        return;
    }
    // Where the kernel did not abort the section the rest cannot be trusted, and this is no
    // place to panic.
    // SAFETY: takes nothing and does not come back.
    unsafe { libc::abort() };
}

fn live(kind: Kind, inside: bool) {
    let meanwhile = MEANWHILE.load(Relaxed);
    // SAFETY: it was made of such a function.
    let meanwhile = unsafe { core::mem::transmute::<*mut (), Meanwhile>(meanwhile) };
    meanwhile(kind, inside);
    if MODE.load(Relaxed) == Mode::OnceAndMove as u8 {
        move_on();
    }
}

/// To the next of the first two CPUs that this process may use.
fn move_on() {
    // SAFETY: takes nothing and fails on no Linux.
    let here = unsafe { libc::sched_getcpu() } as usize;
    let cpus = CPUS.each_ref().map(|cpu| cpu.load(Relaxed));
    run_on(if here == cpus[0] { cpus[1] } else { cpus[0] });
}

static CPUS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// The CPUs that this process may use; notes the first two for [`Mode::OnceAndMove`].
pub(crate) fn allowed_cpus() -> Vec<usize> {
    // SAFETY: all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is ours and of the size given.
    unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    // SAFETY: the number is checked against the size of the set.
    let is_in = |&cpu: &usize| unsafe { libc::CPU_ISSET(cpu, &set) };
    let cpus: Vec<_> = (0..libc::CPU_SETSIZE as usize).filter(is_in).collect();
    for (noted, &cpu) in CPUS.iter().zip(&cpus) {
        noted.store(cpu, Relaxed);
    }
    cpus
}

fn run_on(cpu: usize) {
    // SAFETY: all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the number is checked against the size of the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is valid and of the size given; 0 is the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
}

/// The rseq area of the calling thread.
pub(crate) struct Area(*mut u8);

/// The area that libc registered for this thread.
pub(crate) fn area() -> Area {
    let offset = kern::rseq::area_offset().expect("sections work here");
    let thread: usize;
    // SAFETY: the first word at the thread pointer is the thread pointer.
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) thread, options(nostack, readonly));
    }
    Area(ptr::with_exposed_provenance_mut(
        thread.wrapping_add_signed(offset),
    ))
}

impl Area {
    const SIGNATURE: u32 = 0x5305_3053;
    /// The size that libc registers: that of the first version.
    const LEN: u32 = 32;
    const UNREGISTER: i32 = 1;

    /// Lets the kernel forget it; says whether it did.
    pub(crate) fn unregister(&self) -> bool {
        self.call(Self::UNREGISTER) == 0
    }

    /// As libc did.
    pub(crate) fn register(&self) {
        assert_eq!(self.call(0), 0, "the area is lost");
    }

    fn call(&self, flags: i32) -> i64 {
        // SAFETY: the area is this thread's, which is running, and as long as the thread.
        unsafe { libc::syscall(libc::SYS_rseq, self.0, Self::LEN, flags, Self::SIGNATURE) }
    }
}

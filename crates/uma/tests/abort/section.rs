//! The critical sections of this program: their addresses and kinds.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

/// The operation of a section, found from its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Pop,
    Push,
    PopBulk,
    PushBulk,
    PopBulkPrevious,
    PushBulkPrevious,
    ExchangePrevious,
    ReplaceEmpty,
    ReplaceFull,
    SwapForPop,
    SwapForPush,
}

impl Kind {
    pub(crate) const ALL: [Self; 11] = [
        Self::Pop,
        Self::Push,
        Self::PopBulk,
        Self::PushBulk,
        Self::PopBulkPrevious,
        Self::PushBulkPrevious,
        Self::ExchangePrevious,
        Self::ReplaceEmpty,
        Self::ReplaceFull,
        Self::SwapForPop,
        Self::SwapForPush,
    ];
}

/// `struct rseq_cs`.
#[repr(C, align(32))]
struct Descriptor {
    version: u32,
    flags: u32,
    start: usize,
    len: usize,
    abort: usize,
}

unsafe extern "C" {
    /// The linker makes these for every section (of the file) whose name is an identifier.
    #[link_name = "__start___rseq_cs"]
    static FIRST: [Descriptor; 0];
    #[link_name = "__stop___rseq_cs"]
    static END: [Descriptor; 0];
}

/// One critical section.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) kind: Kind,
    /// Where its instructions begin; the last one is the commit.
    instructions: Vec<usize>,
    end: usize,
    abort: usize,
}

impl Section {
    /// Before each of its instructions, and behind the commit.
    pub(crate) fn boundaries(&self) -> impl Iterator<Item = usize> {
        self.instructions.iter().copied().chain([self.end])
    }

    pub(crate) fn start(&self) -> usize {
        self.instructions[0]
    }

    pub(crate) fn commit(&self) -> usize {
        *self.instructions.last().expect("a section is not empty")
    }

    pub(crate) fn end(&self) -> usize {
        self.end
    }

    pub(crate) fn abort(&self) -> usize {
        self.abort
    }
}

/// All that were linked in.
pub(crate) fn all() -> Vec<Section> {
    let first = (&raw const FIRST).cast::<Descriptor>();
    let bytes = (&raw const END).addr() - first.addr();
    assert!(bytes.is_multiple_of(size_of::<Descriptor>()));
    // SAFETY: the linker put the descriptors side by side between the two symbols.
    let descriptors =
        unsafe { core::slice::from_raw_parts(first, bytes / size_of::<Descriptor>()) };
    descriptors.iter().filter_map(decode).collect()
}

/// A section of the caches. Those of `kern`'s counters, which commit by an addition, are none.
fn decode(descriptor: &Descriptor) -> Option<Section> {
    assert_eq!((descriptor.version, descriptor.flags), (0, 0));
    let start = core::ptr::with_exposed_provenance::<u8>(descriptor.start);
    // SAFETY: the descriptor says that this much code is there, and code is readable.
    let code = unsafe { core::slice::from_raw_parts(start, descriptor.len) };
    let decoder = Decoder::with_ip(64, code, descriptor.start as u64, DecoderOptions::NONE);
    let instructions: Vec<_> = decoder.into_iter().collect();
    assert!(instructions.iter().all(|one| one.code() != Code::INVALID));
    let end = descriptor.start + descriptor.len;
    let last = instructions.last().expect("a section is not empty");
    if last.mnemonic() == Mnemonic::Add {
        return None;
    }
    assert_eq!(
        last.next_ip() as usize,
        end,
        "the commit is the last instruction"
    );
    Some(Section {
        kind: classify(&instructions),
        instructions: instructions.iter().map(|one| one.ip() as usize).collect(),
        end,
        abort: descriptor.abort,
    })
}

fn classify(instructions: &[Instruction]) -> Kind {
    let has = |mnemonic| instructions.iter().any(|one| one.mnemonic() == mnemonic);
    let commit = instructions.last().expect("a section is not empty");
    assert_eq!(commit.op0_kind(), OpKind::Memory);
    // Both pointers of a slot at once.
    if commit.mnemonic() == Mnemonic::Movaps {
        return match has(Mnemonic::Movzx) {
            true => Kind::SwapForPush,
            false => Kind::SwapForPop,
        };
    }
    assert_eq!(commit.mnemonic(), Mnemonic::Mov);
    // The word of a bucket is reached by one register, a pointer of a slot by two.
    let to_slot = commit.memory_index() != Register::None;
    let of_previous = instructions.iter().any(loads_previous);
    match (to_slot, commit.memory_displacement64()) {
        (true, 8) => Kind::ExchangePrevious,
        (true, _) if has(Mnemonic::Movzx) => Kind::ReplaceFull,
        (true, _) => Kind::ReplaceEmpty,
        (false, _) if has(Mnemonic::Imul) && of_previous => Kind::PopBulkPrevious,
        (false, _) if has(Mnemonic::Imul) => Kind::PopBulk,
        (false, _) if has(Mnemonic::Movups) && of_previous => Kind::PushBulkPrevious,
        (false, _) if has(Mnemonic::Movups) => Kind::PushBulk,
        // A push compares the item with the one on top, and the length with the capacity.
        (false, _)
            if instructions
                .iter()
                .filter(|one| is_compare_with_memory(one))
                .count()
                > 1 =>
        {
            Kind::Push
        }
        (false, _) => Kind::Pop,
    }
}

/// A pointer of a slot is loaded by two registers without a scale; entries of a bucket have one.
fn loads_previous(one: &Instruction) -> bool {
    one.mnemonic() == Mnemonic::Mov
        && one.op1_kind() == OpKind::Memory
        && one.memory_index() != Register::None
        && one.memory_index_scale() == 1
        && one.memory_displacement64() == 8
}

fn is_compare_with_memory(one: &Instruction) -> bool {
    one.mnemonic() == Mnemonic::Cmp
        && (one.op0_kind() == OpKind::Memory || one.op1_kind() == OpKind::Memory)
}

//! The option of AccECN: how many bytes arrived with each mark of ECN, modulo 2^24.
//!
//! Invariant: at most three fields. A field that is not in the option is not in the value.
//! Locks: none.
//! Source: RFC 9768 section 3.2.3.
//!
//! ```text
//!  order 0  [172 11 | ECT(0) 3 bytes | CE 3 bytes | ECT(1) 3 bytes ] [NOP]     shorter ones leave fields out
//!  order 1  [174 11 | ECT(1) 3 bytes | CE 3 bytes | ECT(0) 3 bytes ] [NOP]     at the end
//! ```

/// The counts in their order on the wire (RFC 9768 section 3.2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccEcnOption {
    counts: [u32; 3],
    fields: u8,
    order_1: bool,
}

impl AccEcnOption {
    /// A count's modulus.
    pub const MODULUS: u32 = 1 << 24;

    /// An option of the first `fields` counts (at most three), each modulo 2^24: of ECT(0), CE and ECT(1), or, with
    /// `order_1`, of ECT(1), CE and ECT(0).
    #[must_use]
    pub fn new(counts: [u32; 3], fields: u8, order_1: bool) -> Self {
        let fields = fields.min(3);
        let mut option = Self {
            counts: [0; 3],
            fields,
            order_1,
        };
        let each = counts.into_iter().take(usize::from(fields));
        for (kept, count) in option.counts.iter_mut().zip(each) {
            *kept = count & MASK;
        }
        option
    }

    /// Reads the body of an option. Bytes behind the whole fields are padding (RFC 9768 section 3.2.3).
    pub(super) fn parse(body: &[u8], order_1: bool) -> Self {
        let mut option = Self {
            order_1,
            ..Self::default()
        };
        let (fields, _) = body.as_chunks::<3>();
        for (count, [a, b, c]) in option.counts.iter_mut().zip(fields) {
            *count = u32::from_be_bytes([0, *a, *b, *c]);
            option.fields = option.fields.saturating_add(1);
        }
        option
    }

    /// Whether ECT(1) is the first field.
    #[must_use]
    pub fn is_order_1(&self) -> bool {
        self.order_1
    }

    /// The count of bytes marked ECT(0), if it is there.
    #[must_use]
    pub fn ect0(&self) -> Option<u32> {
        self.field(if self.order_1 { 2 } else { 0 })
    }

    /// The count of bytes marked CE, if it is there.
    #[must_use]
    pub fn ce(&self) -> Option<u32> {
        self.field(1)
    }

    /// The count of bytes marked ECT(1), if it is there.
    #[must_use]
    pub fn ect1(&self) -> Option<u32> {
        self.field(if self.order_1 { 0 } else { 2 })
    }

    fn field(&self, at: usize) -> Option<u32> {
        let all = self.counts.get(..usize::from(self.fields))?;
        all.get(at).copied()
    }

    /// Bytes of the option in whole words: 4, 8 or 12.
    #[must_use]
    pub const fn emitted_len(&self) -> usize {
        match self.fields {
            0 => 4,
            1 | 2 => 8,
            _ => 12,
        }
    }

    /// The option, padded, and its length.
    pub(super) fn emit(&self, kind: u8) -> ([u8; 12], usize) {
        let [first, ce, last] = self.counts.map(u32::to_be_bytes);
        let len = match self.fields {
            0 => 2,
            1 => 5,
            2 => 8,
            _ => 11,
        };
        let mut bytes = [
            kind, len, first[1], first[2], first[3], ce[1], ce[2], ce[3], last[1], last[2],
            last[3], NOP,
        ];
        for padding in bytes.iter_mut().skip(usize::from(len)) {
            *padding = NOP;
        }
        (bytes, self.emitted_len())
    }
}

const MASK: u32 = AccEcnOption::MODULUS - 1;
const NOP: u8 = 1;

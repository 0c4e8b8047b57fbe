//! Seeded randomness: a stream whose seed replays a run, and keyed hashes for tables that
//! strangers can put entries into.
//!
//! Called by the stack for identifiers, sequence numbers, ports and hash keys, and by the simulator
//! for all faults. Calls rand_chacha, siphasher and, for the one seed that must not be guessed, the
//! system.
//!
//! Invariants: the same seed gives the same values on every machine and in every release; a fork's
//! stream is independent of its parent's. Locks: none; the owner locks, or forks one stream per
//! user.
//!
//! Sources: RFC 6528 section 3 (keyed hash for sequence numbers), RFC 6056 (ports).

use core::hash::{BuildHasher, Hasher};
use std::io;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use siphasher::sip::{SipHasher13, SipHasher24};

/// A stream of random numbers, ChaCha with 8 rounds.
///
/// ```
/// use kern::Random;
///
/// let mut a = Random::from_seed(7);
/// let mut b = Random::from_seed(7);
/// assert_eq!(a.next_u64(), b.next_u64());
/// assert!(a.below(6) < 6);
/// ```
#[doc(alias = "arc4random")]
pub struct Random {
    stream: ChaCha8Rng,
}

impl Random {
    /// The stream of `seed`. Every seed has its own stream, and a party that knows the seed can compute it.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        // The seed is put into the cipher's key as it is: no expansion that a library might change.
        let mut key = [0; KEY_LEN];
        key[..size_of::<u64>()].copy_from_slice(&seed.to_le_bytes());
        Self::from_key(key)
    }

    /// An unpredictable stream, keyed by the operating system.
    ///
    /// # Panics
    ///
    /// If the system has no random numbers to give (Linux before 3.17): a stack that went on with
    /// a seed that can be guessed would be open to forged segments.
    #[must_use]
    pub fn from_os() -> Self {
        Self::try_from_os().expect("the system gives random numbers")
    }

    /// The same, without a panic.
    ///
    /// # Errors
    /// As getrandom(2): the system is too old, or a list of allowed calls refuses that one.
    pub fn try_from_os() -> io::Result<Self> {
        let mut key = [0; KEY_LEN];
        fill_from_os(&mut key)?;
        Ok(Self::from_key(key))
    }

    /// An independent stream, itself determined by this one's state, which moves on.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        let mut key = [0; KEY_LEN];
        self.fill(&mut key);
        Self::from_key(key)
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        self.stream.next_u32()
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.stream.next_u64()
    }

    /// A number below `n`, each equally likely; 0 if `n` is 0.
    #[doc(alias = "arc4random_uniform")]
    pub fn below(&mut self, n: u64) -> u64 {
        // Lemire's method: the high half of a product is uniform once the few low halves that
        // would favour some results are thrown away.
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            let (high, low) = ((product >> 64) as u64, product as u64);
            if low >= n || low >= favoured(n) {
                return high;
            }
        }
    }

    /// True with probability `p`: never at 0 or below, always at 1 or above. Draws once in each
    /// case, so that a changed probability does not shift later draws.
    pub fn chance(&mut self, p: f64) -> bool {
        // An f64 holds 53 bits exactly; the quotient is at least 0 and below 1.
        let unit = (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < p
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.stream.fill_bytes(bytes);
    }

    fn from_key(key: [u8; KEY_LEN]) -> Self {
        Self {
            stream: ChaCha8Rng::from_seed(key),
        }
    }
}

// Hides the state: sequence numbers depend on it.
crate::impl_debug!(Random);

/// A hash that only its owner can compute: SipHash-2-4 with a random key.
///
/// Good enough to be sent to strangers, as RFC 6528 does with sequence numbers.
#[derive(Clone)]
pub struct KeyedHash {
    keyed: SipHasher24,
}

impl KeyedHash {
    /// A hash with a key drawn from `random`.
    #[must_use]
    pub fn new(random: &mut Random) -> Self {
        let mut key = [0; 16];
        random.fill(&mut key);
        Self::from_key(key)
    }

    /// The hash of `key`.
    #[must_use]
    pub fn from_key(key: [u8; 16]) -> Self {
        Self {
            keyed: SipHasher24::new_with_key(&key),
        }
    }

    /// The hash of `bytes`.
    #[must_use]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        self.keyed.hash(bytes)
    }
}

// Hides the key.
crate::impl_debug!(KeyedHash);

/// Seeds a standard `HashMap`, so that its order replays with the seed and strangers cannot choose
/// keys that collide: SipHash-1-3, which never leaves the process.
///
/// ```
/// use std::collections::HashMap;
/// use kern::{Random, SeededState};
///
/// let mut random = Random::from_seed(1);
/// let mut ports = HashMap::with_hasher(SeededState::new(&mut random));
/// ports.insert(80, "http");
/// assert_eq!(ports[&80], "http");
/// ```
#[derive(Clone)]
pub struct SeededState {
    keyed: SipHasher13,
}

impl SeededState {
    /// A state with a key drawn from `random`.
    #[must_use]
    pub fn new(random: &mut Random) -> Self {
        let (key0, key1) = (random.next_u64(), random.next_u64());
        Self {
            keyed: SipHasher13::new_with_keys(key0, key1),
        }
    }

    /// The hash of these bytes, and no others: the same as a hasher's that wrote them once, in less time.
    #[must_use]
    #[inline]
    pub fn hash_bytes(&self, bytes: &[u8]) -> u64 {
        self.keyed.hash(bytes)
    }
}

// Hides the key.
crate::impl_debug!(SeededState);

impl BuildHasher for SeededState {
    type Hasher = SeededHasher;

    fn build_hasher(&self) -> SeededHasher {
        SeededHasher { keyed: self.keyed }
    }
}

/// One hash in the making; see [`SeededState`].
#[derive(Clone)]
pub struct SeededHasher {
    keyed: SipHasher13,
}

impl Hasher for SeededHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.keyed.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.keyed.finish()
    }
}

// Hides the key.
crate::impl_debug!(SeededHasher);

/// How many of the 2^64 low halves favour some results below `n`: the remainder of 2^64 by `n`.
fn favoured(n: u64) -> u64 {
    n.wrapping_neg().checked_rem(n).unwrap_or(0)
}

/// Fills `bytes` with the system's random numbers, waiting at early boot until there are some.
fn fill_from_os(bytes: &mut [u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        // SAFETY: the pointer and the length are those of `rest`, which is writable and outlives
        // the call; getrandom writes at most that many bytes.
        let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(got) {
            Ok(got) => rest = &mut rest[got..],
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Bytes of a ChaCha key.
const KEY_LEN: usize = 32;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

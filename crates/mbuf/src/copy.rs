//! Copies into storage that another CPU has in its caches, and out of storage that another CPU has filled.
//!
//! A cluster that one CPU fills and another reads comes back with its lines in the reader's cache. An ordinary store
//! fetches each line back first, or at least invalidates it there, and then the reader fetches it from the writer's
//! cache: each line crosses twice, and the writer waits for one of the two. Non-temporal stores, a whole line at a
//! time, wait for no other CPU, and the reader's prefetcher then reads memory. Between CPUs that share no cache this is
//! several times as fast; on one CPU, whose cache has the lines, it is slower. So the choice depends on which CPU had
//! the storage last: a thread that copies out of it records its CPU
//! ([`Refs::note_reader`](crate::refs::Refs::note_reader)).
//!
//! The reader then waits for memory. The processor prefetches, but not beyond a page, and must find the
//! stride anew in each page. So four pages are read in turns, as four streams that it prefetches at once: 64 KiB at a
//! time through a UNIX-domain stream between near CPUs, 96 Gbit/s by memcpy, 117 by four streams; by two 95, by
//! eight, which share pages, 80. Software prefetches, of the next page's first lines or some lines ahead, were
//! slower.
//!
//! Locks: none.

/// Fewer bytes than this are copied by ordinary stores: their lines are few and soon needed again.
pub(crate) const AROUND_MIN: usize = 1024;

/// Copies `from` to `to`, which has the same length, past the caches if that pays.
#[inline]
pub(crate) fn copy_elsewhere(to: &mut [u8], from: &[u8]) {
    if from.len() < AROUND_MIN {
        return to.copy_from_slice(from);
    }
    around(to, from);
}

/// The number of parts that are read in turns.
const STREAMS: usize = 4;
/// Fewer bytes than this are read from front to back: each part must have a page of its own.
const STREAMS_MIN: usize = STREAMS * 4096;

/// Copies `from`, which another CPU wrote, to `to`, which is as long.
#[inline]
pub(crate) fn copy_from_elsewhere(to: &mut [u8], from: &[u8]) {
    if from.len() < STREAMS_MIN {
        return to.copy_from_slice(from);
    }
    in_streams(to, from);
}

fn in_streams(to: &mut [u8], from: &[u8]) {
    const LINE: usize = 64;
    let part = to.len() / STREAMS / LINE;
    let (to_lines, to_rest) = to.as_chunks_mut::<LINE>();
    let (from_lines, from_rest) = from.as_chunks::<LINE>();
    for line in 0..part {
        for stream in 0..STREAMS {
            let at = stream * part + line;
            to_lines[at] = from_lines[at];
        }
    }
    let done = STREAMS * part;
    to_lines[done..].copy_from_slice(&from_lines[done..]);
    to_rest.copy_from_slice(from_rest);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn around(to: &mut [u8], from: &[u8]) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    use core::mem::MaybeUninit;

    /// A line that goes to memory at once.
    #[repr(align(64))]
    struct Line([MaybeUninit<u8>; 64]);

    // SAFETY: bytes may be part of a line; only bytes are written to it.
    let (front, lines, _) = unsafe { to.align_to_mut::<Line>() };
    let (front_len, lines_len) = (front.len(), size_of_val(lines));
    front.copy_from_slice(&from[..front_len]);
    let (chunks, _) = from[front_len..front_len + lines_len].as_chunks::<64>();
    for (line, chunk) in lines.iter_mut().zip(chunks) {
        let to = line.0.as_mut_ptr().cast::<__m128i>();
        let from = chunk.as_ptr().cast::<__m128i>();
        for quarter in 0..4 {
            // SAFETY: 16 of the chunk's 64 bytes.
            let bytes = unsafe { _mm_loadu_si128(from.wrapping_add(quarter)) };
            // SAFETY: 16 of the line's 64 bytes, aligned as the line is.
            unsafe { _mm_stream_si128(to.wrapping_add(quarter), bytes) };
        }
    }
    // Non-temporal stores are not ordered with others: they must be visible before any thread gets the address of the
    // bytes. SAFETY: every x86-64 has it.
    unsafe { _mm_sfence() };
    let done = front_len + lines_len;
    to[done..].copy_from_slice(&from[done..]);
}

/// Stable Rust has no such stores for other CPUs.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn around(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Breaks if a byte goes missing, or beyond the end, wherever the storage begins and ends in its lines.
    #[test]
    fn every_byte_arrives_and_no_other() {
        let from: Vec<u8> = (0..3000_u32).map(|n| (n % 251) as u8).collect();
        for (begin, len) in
            (0..65).flat_map(|b| [0, 1, 1023, 1024, 1025, 2048, 2900].map(|l| (b, l)))
        {
            let mut to = vec![255; 3100];
            copy_elsewhere(&mut to[begin..begin + len], &from[1..=len]);
            assert!(to[begin..begin + len] == from[1..=len], "{begin}, {len}");
            let around = to[..begin].iter().chain(&to[begin + len..]);
            assert!(around.copied().all(|byte| byte == 255), "{begin}, {len}");
        }
    }

    /// Breaks if a stream begins or ends in the wrong place: each length leaves another rest.
    #[test]
    fn every_byte_arrives_in_streams_as_well() {
        let from: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
        let near = |len: usize| len - 1..=len + 1;
        let lens = near(STREAMS_MIN)
            .chain(near(STREAMS_MIN + 64))
            .chain(near(STREAMS_MIN + 256))
            .chain([STREAMS_MIN + 255 + 64, 19_999]);
        for len in lens {
            let mut to = vec![255; len];
            copy_from_elsewhere(&mut to, &from[1..=len]);
            assert!(to == from[1..=len], "{len}");
        }
    }
}

//! Warming up: no reading counts before readings agree.
//!
//! A first reading also measures effects that happen once: pages touched for the first time, threads that start,
//! windows that grow. Two kinds of contestant need two ways out:
//!
//! | state that a contestant keeps between readings | warm-up |
//! |---|---|
//! | its memory and threads | [`settle`]: it is read again until two readings in a row agree |
//! | none: each reading makes it anew, or starts its process | [`lengthen`]: readings get longer until two lengths agree |
//!
//! Both are bounded, because the readings of some contestants never agree: those are measured after the bound.
//!
//! Locks: none.

use std::time::Duration;

/// How far two readings that agree may be apart.
const AGREE: f64 = 0.03;
/// Readings of each length. Their median counts: two single ones may agree by chance.
const OF_EACH_LENGTH: usize = 3;
/// Readings of [`settle`], at most.
const READINGS_MAX: usize = 12;
/// A reading of this length is not lengthened.
const LENGTH_ENOUGH: Duration = Duration::from_millis(500);
/// A shorter reading only has to show that a case runs, not how fast: it keeps its length.
const LENGTH_LEAST: Duration = Duration::from_millis(25);
/// The largest factor by which a reading grows beyond the requested length: a quick run stays quick.
const LONGER_MAX: u32 = 16;

/// Reads until two readings in a row agree.
pub(crate) fn settle(mut read: impl FnMut() -> f64) {
    let mut last = read();
    for _ in 1..READINGS_MAX {
        let next = read();
        if agree(last, next) {
            return;
        }
        last = next;
    }
}

/// How long a reading must be, from `least` on, so that one of half that length finds the same.
///
/// # Errors
/// The first error of `read`.
pub(crate) fn lengthen<E>(
    least: Duration,
    mut read: impl FnMut(Duration) -> Result<f64, E>,
) -> Result<Duration, E> {
    if least < LENGTH_LEAST {
        return Ok(least);
    }
    let mut length = least;
    let mut last = middle(length / 2, &mut read)?;
    loop {
        let next = middle(length, &mut read)?;
        let is_longest = length >= LENGTH_ENOUGH || length >= least * LONGER_MAX;
        if agree(last, next) || is_longest {
            return Ok(length);
        }
        last = next;
        length *= 2;
    }
}

/// The median of some readings of a length.
fn middle<E>(
    length: Duration,
    read: &mut impl FnMut(Duration) -> Result<f64, E>,
) -> Result<f64, E> {
    let mut found = [0.0; OF_EACH_LENGTH];
    for one in &mut found {
        *one = read(length)?;
    }
    found.sort_by(f64::total_cmp);
    Ok(found[OF_EACH_LENGTH / 2])
}

/// The same, where reading does not fail.
pub(crate) fn length_for(least: Duration, mut read: impl FnMut(Duration) -> f64) -> Duration {
    let read = |length| Ok::<_, std::convert::Infallible>(read(length));
    match lengthen(least, read) {
        Ok(length) => length,
        Err(never) => match never {},
    }
}

/// Two readings without data do not agree: the contestant has not begun.
fn agree(one: f64, other: f64) -> bool {
    (one - other).abs() <= AGREE * one.min(other) && one.min(other) > 0.0
}

#[cfg(test)]
mod tests;

//! The median and the quartiles of some readings.

/// The summary of readings: their median and spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    /// Half of the readings are below.
    pub(crate) median: f64,
    /// A quarter of the readings is below.
    pub(crate) p25: f64,
    /// A quarter of the readings is above.
    pub(crate) p75: f64,
    /// How many readings there were.
    pub(crate) n: usize,
}

impl Summary {
    /// Of at least one reading; `None` of none.
    pub(crate) fn of(readings: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = readings.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            median: quantile(&sorted, 0.5)?,
            p25: quantile(&sorted, 0.25)?,
            p75: quantile(&sorted, 0.75)?,
            n: sorted.len(),
        })
    }
}

/// Linear between the two readings beside it.
fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = part * last as f64;
    let below = sorted[at.floor() as usize];
    let above = sorted[at.ceil() as usize];
    Some(below + (above - below) * at.fract())
}

#[cfg(test)]
mod tests;

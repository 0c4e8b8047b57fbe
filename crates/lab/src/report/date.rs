//! A moment as text.
//!
//! Source: the Gregorian calendar, in eras of 400 years that begin in March.

/// "2026-11-22 13:05 UTC", of seconds since 1970.
pub(crate) fn utc(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / 86_400);
    let minutes = seconds / 60;
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02} UTC",
        minutes / 60 % 24,
        minutes % 60
    )
}

/// Year, month and day of a number of days since 1970.
fn civil(days: u64) -> (u64, u64, u64) {
    // Days since the first of March of the year 0.
    let days = days + 719_468;
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1460 + day / 36_524 - day / (ERA - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, every five months have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// Days of 400 years.
const ERA: u64 = 146_097;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_where_the_calendar_has_them() {
        // Breaks when a leap day is missed or one too many is had.
        for (seconds, want) in [
            (0, "1970-01-01 00:00 UTC"),
            (68_169_599, "1972-02-28 23:59 UTC"),
            (68_169_600, "1972-02-29 00:00 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_793_192_700, "2026-10-28 13:05 UTC"),
            (4_107_542_399, "2100-02-28 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), want);
        }
    }
}

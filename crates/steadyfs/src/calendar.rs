//! Times of a volume for people: always in UTC, since an image travels.

/// A time as `2026-11-20 11:45:14.123456789`, down to the nanosecond.
pub(crate) fn full(seconds: i64, nanos: u32) -> String {
    format!("{}.{nanos:09}", second(seconds))
}

/// A span of time as `3d 04:05:06`.
pub(crate) fn duration(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    format!("{days}d {:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

/// A time as `2026-11-20 11:45:14`.
pub(crate) fn second(seconds: i64) -> String {
    let (day, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(day);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// Year, month and day of the day `days` after 1970-01-01 in the Gregorian calendar. A year is counted from March, so
/// that the leap day comes last and the lengths of months repeat every five (31 30 31 30 31).
fn date(days: i64) -> (i64, i64, i64) {
    // 0000-03-01 lies 719,468 days before 1970; 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_709_251_199, "2024-02-29 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
            (-2_208_988_800, "1900-01-01 00:00:00"),
            (253_402_300_799, "9999-12-31 23:59:59"),
        ] {
            assert_eq!(second(seconds), text);
        }
        assert_eq!(duration(3 * 86_400 + 4 * 3600 + 5 * 60 + 6), "3d 04:05:06");
        assert_eq!(full(1, 5), "1970-01-01 00:00:01.000000005");
    }

    #[test]
    fn any_number_is_a_time() {
        for seconds in [i64::MIN, i64::MAX] {
            assert!(second(seconds).ends_with(if seconds > 0 { "15:30:07" } else { "08:29:52" }));
        }
    }
}

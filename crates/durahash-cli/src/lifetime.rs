//! When entries expire, as people write it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// When an entry expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// So long after it is stored.
    After(Duration),
    /// At this time of day.
    At(SystemTime),
}

/// The units, with their milliseconds.
const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// The time that so many seconds since 1970 say.
pub(crate) fn parse_time(text: &str) -> Result<Expiry, String> {
    let at = text.parse().ok().and_then(|s| UNIX_EPOCH.checked_add(Duration::from_secs(s)));
    at.map(Expiry::At).ok_or_else(|| "a time is a whole number of seconds since 1970".into())
}

/// The lifetime that `10m`, `90 s` or `7d` says.
pub(crate) fn parse_lifetime(text: &str) -> Result<Expiry, String> {
    parse_duration(text).map(Expiry::After)
}

/// The same, of a time.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim());
    let unit = UNITS.iter().find(|(known, _)| *known == unit);
    let (Some((_, millis)), false) = (unit, number.is_empty()) else {
        return Err("a time is a whole number with ms, s, m, h or d".into());
    };
    let millis = number.parse::<u64>().ok().and_then(|n| n.checked_mul(*millis));
    millis.map(Duration::from_millis).ok_or_else(|| "a time is less than 2^64 ms".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_read() {
        let after = |seconds| Expiry::After(Duration::from_secs_f64(seconds));
        for (text, wanted) in [
            ("0s", 0.0),
            ("1500ms", 1.5),
            ("90 s", 90.0),
            ("10m", 600.0),
            ("2h", 7200.0),
            ("7d", 604_800.0),
        ] {
            assert_eq!(parse_lifetime(text), Ok(after(wanted)), "{text}");
        }
        for bad in
            ["", "10", "m", "1.5h", "-1s", "1w", "1 m s", "300000000000d", "99999999999999999999s"]
        {
            assert!(parse_lifetime(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_time("90"), Ok(Expiry::At(UNIX_EPOCH + Duration::from_secs(90))));
        for bad in ["", "-1", "1.5", "soon", "18446744073709551615"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }
}

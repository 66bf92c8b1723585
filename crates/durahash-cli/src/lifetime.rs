//! Lifetimes of entries as people write them.

use std::time::Duration;

/// The units, with their milliseconds.
const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// The duration that `10m`, `90 s` or `7d` says.
pub(crate) fn parse_lifetime(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim());
    let unit = UNITS.iter().find(|(known, _)| *known == unit);
    let (Some((_, millis)), false) = (unit, number.is_empty()) else {
        return Err("a lifetime is a whole number with ms, s, m, h or d".into());
    };
    let millis = number.parse::<u64>().ok().and_then(|n| n.checked_mul(*millis));
    millis.map(Duration::from_millis).ok_or_else(|| "a lifetime is less than 2^64 ms".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_read() {
        let seconds = |text| parse_lifetime(text).map(|lifetime| lifetime.as_secs_f64());
        for (text, wanted) in [
            ("0s", 0.0),
            ("1500ms", 1.5),
            ("90 s", 90.0),
            ("10m", 600.0),
            ("2h", 7200.0),
            ("7d", 604_800.0),
        ] {
            assert_eq!(seconds(text), Ok(wanted), "{text}");
        }
        for bad in
            ["", "10", "m", "1.5h", "-1s", "1w", "1 m s", "300000000000d", "99999999999999999999s"]
        {
            assert!(parse_lifetime(bad).is_err(), "{bad}");
        }
    }
}

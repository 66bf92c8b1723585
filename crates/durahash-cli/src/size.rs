//! Sizes in bytes as people write and read them.

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Bytes of `10GiB`, `512 MiB` or `4096`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim());
    let shift = match unit {
        "" => Some(0),
        unit => UNITS.iter().position(|known| known.eq_ignore_ascii_case(unit)),
    };
    let (Some(shift), false) = (shift, number.is_empty()) else {
        return Err("a size is a whole number of bytes, or one with KiB, MiB, GiB or TiB".into());
    };
    let bytes = number.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << (10 * shift)));
    bytes.ok_or_else(|| "a size is less than 16EiB".into())
}

/// `bytes` with the unit that leaves a number below 1024.
pub(crate) fn human(bytes: u64) -> String {
    let shift = (bytes.max(1).ilog2() / 10) as usize;
    if shift == 0 {
        return format!("{bytes} B");
    }
    format!("{:.1} {}", bytes as f64 / (1u64 << (10 * shift)) as f64, UNITS[shift])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("10GiB"), Ok(10 << 30));
        assert_eq!(parse_size("3 mib"), Ok(3 << 20));
        assert_eq!(parse_size("1TiB"), Ok(1 << 40));
        assert_eq!(parse_size("1EiB"), Ok(1 << 60));
        for bad in ["", "GiB", "1.5GiB", "-1", "1GB", "1 G iB", "16EiB", "99999999999999999999"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_written() {
        assert_eq!(human(0), "0 B");
        assert_eq!(human(1023), "1023 B");
        assert_eq!(human(1536), "1.5 KiB");
        assert_eq!(human(10 << 30), "10.0 GiB");
        assert_eq!(human(u64::MAX), "16.0 EiB");
    }
}

//! Numbers that identify a pool, and a boot of the machine.

use std::sync::OnceLock;

use crate::error::{Error, Result};

/// The machine's boot id; zeros where the system does not tell.
pub(crate) fn boot_id() -> [u64; 2] {
    static ID: OnceLock<[u64; 2]> = OnceLock::new();
    *ID.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let hex: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        let half = |part: Option<&str>| {
            part.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
        };
        [half(hex.get(0..16)), half(hex.get(16..32))]
    })
}

/// Random words.
pub(crate) fn new_uuid() -> Result<[u64; 2]> {
    let word = || {
        getrandom::u64()
            .map_err(|e| Error::io("asking for random bytes", None, std::io::Error::other(e)))
    };
    Ok([word()?, word()?])
}

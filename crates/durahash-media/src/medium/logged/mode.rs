//! The modes by name.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::medium::Durability;

/// When an operation on a file in the page cache is durable.
///
/// ```
/// # use durahash_media as durahash;
/// use durahash::SyncMode;
/// assert_eq!("strict".parse(), Ok(SyncMode::Strict));
/// assert_eq!("interval:250".parse::<SyncMode>()?.to_string(), "interval:250");
/// assert_eq!("interval".parse(), Ok(SyncMode::INTERVAL));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncMode {
    /// At once against the death of the process; not against the loss of power.
    Process,
    /// At once against the death of the process. Against the loss of power after so long, with a live image twice as
    /// long, and what the write that follows takes, which is more where the disk cannot keep up: what is left is
    /// everything up to some operation, and nothing after it. Whole milliseconds count. Changes that a killed process
    /// had not written yet are in the page cache, and the next open writes them, or with a live image its first
    /// snapshot: until then the loss of power takes them, however late.
    Interval(Duration),
    /// When it returns.
    Strict,
}

impl SyncMode {
    /// The interval that is meant where none is said: a tenth of a second.
    pub const INTERVAL: SyncMode = SyncMode::Interval(Duration::from_millis(100));

    /// The failure that an operation survives once it has returned.
    ///
    /// ```
    /// # use durahash_media as durahash;
    /// use durahash::{Durability, SyncMode};
    /// assert_eq!(SyncMode::Strict.durability(), Durability::Strict);
    /// ```
    #[must_use]
    pub fn durability(self) -> Durability {
        match self {
            SyncMode::Process => Durability::Process,
            SyncMode::Interval(_) => Durability::Interval,
            SyncMode::Strict => Durability::Strict,
        }
    }

    /// How long after a change it is written by a thread in the background, if one does so.
    pub(in crate::medium) fn every(self) -> Option<Duration> {
        match self {
            // A shorter interval would make a thread that never rests.
            SyncMode::Interval(every) => Some(every.max(Duration::from_millis(1))),
            SyncMode::Process | SyncMode::Strict => None,
        }
    }

    /// Refuses a mode that is without a log.
    pub(in crate::medium) fn is_strict(self) -> Result<bool, Error> {
        match self {
            SyncMode::Strict => Ok(true),
            SyncMode::Interval(_) => Ok(false),
            SyncMode::Process => {
                let what = "a log is for the interval or the strict mode";
                Err(ErrorKind::Options { what }.into())
            }
        }
    }
}

impl fmt::Display for SyncMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SyncMode::Process => f.write_str("process"),
            SyncMode::Interval(every) => write!(f, "interval:{}", every.as_millis()),
            SyncMode::Strict => f.write_str("strict"),
        }
    }
}

impl FromStr for SyncMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        const KNOWN: &str = "the modes are process, interval, interval:MILLISECONDS and strict";
        match name {
            "process" => Ok(SyncMode::Process),
            "interval" => Ok(SyncMode::INTERVAL),
            "strict" => Ok(SyncMode::Strict),
            _ => {
                let ms = name.strip_prefix("interval:").and_then(|ms| ms.parse().ok());
                let ms: u32 = ms.filter(|ms| *ms > 0).ok_or(KNOWN)?;
                Ok(SyncMode::Interval(Duration::from_millis(ms.into())))
            }
        }
    }
}

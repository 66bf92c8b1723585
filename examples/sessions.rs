//! Sessions that end half an hour after they were last used, and are swept.
//!
//!     cargo run -p durahash-examples --bin sessions

use durahash::{Change, Map, Options, Result};

/// Seconds that an unused session lasts.
const LASTS: u64 = 1800;

/// The sessions: when each ends, in seconds.
struct Sessions(Map<u128, u64>);

impl Sessions {
    /// Begins a session; its number is random, so that none can be guessed.
    fn begin(&self, now: u64) -> Result<u128> {
        let random = || getrandom::u64().expect("random bytes");
        let id = u128::from(random()) << 64 | u128::from(random());
        self.0.put(&id, &(now + LASTS))?;
        Ok(id)
    }

    /// Prolongs a session, if it has not ended; a sweep in between cannot take it.
    fn is_valid(&self, id: u128, now: u64) -> Result<bool> {
        let ends = self.0.update(&id, |ends| match ends {
            Some(ends) if ends > now => Change::Set(now + LASTS),
            Some(_) => Change::Remove,
            None => Change::Keep,
        })?;
        Ok(ends.is_some())
    }

    /// Removes the sessions that ended; one that is prolonged meanwhile stays.
    fn sweep(&self, now: u64) -> Result<u64> {
        self.0.retain(|_, ends| *ends > now)
    }
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("sessions.pool");
    let noon = 1_700_000_000;

    let sessions = Sessions(Options::new().create(&path)?);
    let used = sessions.begin(noon)?;
    let unused = sessions.begin(noon)?;
    assert!(sessions.is_valid(used, noon + 1000)?);
    sessions.0.close()?;

    let sessions = Sessions(Options::new().open(&path)?);
    assert!(sessions.is_valid(used, noon + LASTS + 500)?);
    assert_eq!(sessions.sweep(noon + LASTS + 500)?, 1);
    assert!(!sessions.is_valid(unused, noon + LASTS + 500)?);
    // Logged out, unless it is in use right now.
    assert_eq!(sessions.0.remove_if(&used, |ends| *ends < noon)?, None);
    println!("{} session is left", sessions.0.len()?);
    assert_eq!(sessions.0.len()?, 1);
    Ok(())
}

//! Sessions that end half an hour after they were last used, and are swept.
//!
//!     cargo run -p durahash-examples --bin sessions

#![forbid(unsafe_code)]

use durahash::{Change, Map, Options, Result};

/// Seconds that an unused session lasts.
const LASTS: u64 = 1800;

/// The sessions: whose each is, and when it ends, in seconds.
struct Sessions(Map<u128, (u32, u64)>);

impl Sessions {
    /// Begins a session; its number is random, so that none can be guessed.
    fn begin(&self, user: u32, now: u64) -> Result<u128> {
        let random = || getrandom::u64().expect("random bytes");
        let id = u128::from(random()) << 64 | u128::from(random());
        self.0.put(&id, &(user, now + LASTS))?;
        Ok(id)
    }

    /// The user of a session that has not ended, which is prolonged; a sweep in between cannot take it.
    fn user(&self, id: u128, now: u64) -> Result<Option<u32>> {
        let session = self.0.update(&id, |session| match session {
            Some((user, ends)) if ends > now => Change::Set((user, now + LASTS)),
            Some(_) => Change::Remove,
            None => Change::Keep,
        })?;
        Ok(session.map(|(user, _)| user))
    }

    /// Removes the sessions that ended; one that is prolonged meanwhile stays.
    fn sweep(&self, now: u64) -> Result<u64> {
        let has_ended = |(_, ends): &(u32, u64)| *ends <= now;
        let mut swept = 0;
        for session in &self.0 {
            let (id, session) = session?;
            if has_ended(&session) && self.0.remove_if(&id, has_ended)?.is_some() {
                swept += 1;
            }
        }
        Ok(swept)
    }
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("sessions.pool");
    let noon = 1_700_000_000;

    let sessions = Sessions(Options::new().create(&path)?);
    let used = sessions.begin(7, noon)?;
    let unused = sessions.begin(8, noon)?;
    assert_eq!(sessions.user(used, noon + 1000)?, Some(7));
    sessions.0.close()?;

    let sessions = Sessions(Options::new().open(&path)?);
    assert_eq!(sessions.user(used, noon + LASTS + 500)?, Some(7));
    assert_eq!(sessions.sweep(noon + LASTS + 500)?, 1);
    assert_eq!(sessions.user(unused, noon + LASTS + 500)?, None);
    println!("{} session is left", sessions.0.len()?);
    // Logged out, by its own user alone.
    assert_eq!(sessions.0.remove_if(&used, |(user, _)| *user == 8)?, None);
    assert!(sessions.0.remove_if(&used, |(user, _)| *user == 7)?.is_some());
    assert!(sessions.0.is_empty()?);
    Ok(())
}

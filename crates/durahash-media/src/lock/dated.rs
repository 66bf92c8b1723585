//! A version lock that lies on the medium, beside what it guards, and costs no line of its own.
//!
//! ```text
//! bit 0 W   1 X   2 parity   3-31 version   32-63 open epoch
//! ```
//!
//! W and X are those of a [`VersionLock`](super::VersionLock). What reaches the medium of them is
//! of no use and does no harm: they count only under the epoch of the present open, so a leftover
//! means "unlocked". The epoch also says whether what the lock guards may be relied on as it is: a
//! date before the last unclean open means that a crash may have left it half done.
//!
//! The parity tells a damaged word from a lock that is held: nobody waits for the former.

use super::Version;
use crate::error::{Error, Result};
use crate::medium::{Event, Medium};
use crate::primitive::Backoff;
use crate::word::PmU64;

const W: u64 = 1;
const X: u64 = 2;
const PARITY: u64 = 4;
const VERSION: u64 = 8;
const EPOCH_SHIFT: u32 = 32;
const LOW: u64 = (1 << EPOCH_SHIFT) - 1;

/// The epochs that dates are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dates {
    /// The epoch of the present open.
    pub now: u32,
    /// That of the last open that found the pool unclean; not after `now`.
    pub trusted_from: u32,
}

impl Dates {
    /// Whether a word is of a time since which nothing was left half done.
    #[inline(always)]
    const fn cover(self, word: u64) -> bool {
        let epoch = (word >> EPOCH_SHIFT) as u32;
        epoch.wrapping_sub(self.trusted_from) <= self.now.wrapping_sub(self.trusted_from)
    }

    /// Whether the flags of a word count.
    #[inline(always)]
    const fn is_present(self, word: u64) -> bool {
        (word >> EPOCH_SHIFT) as u32 == self.now
    }
}

/// How an attempt to take a lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The caller holds W.
    Yes,
    /// Somebody else does.
    Busy,
    /// What the lock guards is not to be relied on yet.
    Stale,
}

/// A lock in a word of the medium. See the module docs in the source.
#[derive(Clone, Copy)]
pub struct DatedLock<'a> {
    word: &'a PmU64,
    dates: Dates,
}

/// The word with the parity that makes it sound.
const fn sealed(word: u64) -> u64 {
    let word = word & !PARITY;
    if word.count_ones().is_multiple_of(2) { word } else { word | PARITY }
}

const fn is_sound(word: u64) -> bool {
    word.count_ones().is_multiple_of(2)
}

impl<'a> DatedLock<'a> {
    /// The lock in `word`.
    #[inline(always)]
    #[must_use]
    pub fn new(word: &'a PmU64, dates: Dates) -> Self {
        DatedLock { word, dates }
    }

    fn id(self) -> usize {
        self.word.addr().addr()
    }

    #[cold]
    fn damaged<T>(self) -> Result<T> {
        Err(Error::corrupt("the lock of a bucket", 0))
    }

    /// The version, unless readers are kept out or what the lock guards is stale.
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn try_read<M: Medium>(self, medium: &M) -> Option<Version> {
        let word = medium.load(self.word);
        medium.event(Event::Look);
        (word & X == 0 && self.dates.cover(word)).then_some(Version(word & !(W | PARITY)))
    }

    /// The version, after waiting for X to be released; `None` where what the lock guards is stale.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where nobody will release it.
    #[track_caller]
    pub fn read<M: Medium>(self, medium: &M) -> Result<Option<Version>> {
        let mut backoff = Backoff::new();
        loop {
            let word = medium.load(self.word);
            medium.event(Event::Look);
            if !self.dates.cover(word) {
                return Ok(None);
            }
            if word & X == 0 || !self.dates.is_present(word) {
                return Ok(Some(Version(word & !(W | PARITY))));
            }
            if !is_sound(word) {
                return self.damaged();
            }
            medium.event(Event::Wait);
            backoff.wait();
        }
    }

    /// Whether nothing was changed since `version` was read, as [`VersionLock::validate`].
    ///
    /// [`VersionLock::validate`]: super::VersionLock::validate
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn validate<M: Medium>(self, medium: &M, version: Version) -> bool {
        medium.load(self.word) & !(W | PARITY) == version.0
    }

    /// Whether what the lock guards may be relied on.
    #[track_caller]
    pub fn is_covered<M: Medium>(self, medium: &M) -> bool {
        self.dates.cover(medium.load(self.word))
    }

    /// Takes W if it is free.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where nobody will release it.
    #[inline]
    #[track_caller]
    pub fn try_lock<M: Medium>(self, medium: &M) -> Result<Taken> {
        let word = medium.load(self.word);
        if self.dates.cover(word) { self.take(medium, word, W) } else { Ok(Taken::Stale) }
    }

    /// Takes W and X although what the lock guards may be stale, if nobody holds W: whoever makes it
    /// good again does so.
    ///
    /// # Errors
    /// As [`try_lock`](Self::try_lock).
    #[track_caller]
    pub fn try_claim<M: Medium>(self, medium: &M) -> Result<Taken> {
        let word = medium.load(self.word);
        self.take(medium, word, W | X)
    }

    #[inline]
    #[track_caller]
    fn take<M: Medium>(self, medium: &M, word: u64, flags: u64) -> Result<Taken> {
        if word & W != 0 && self.dates.is_present(word) {
            return if is_sound(word) { Ok(Taken::Busy) } else { self.damaged() };
        }
        // The version goes on, whatever the date was.
        let version = word & LOW & !(W | X);
        let new = sealed(u64::from(self.dates.now) << EPOCH_SHIFT | version | flags);
        if medium.cas(self.word, word, new).is_err() {
            return Ok(Taken::Busy);
        }
        medium.event(Event::Locked(self.id()));
        Ok(Taken::Yes)
    }

    /// Takes W, however long that takes; false where what the lock guards is stale.
    ///
    /// # Errors
    /// As [`try_lock`](Self::try_lock).
    #[inline]
    #[track_caller]
    pub fn lock<M: Medium>(self, medium: &M) -> Result<bool> {
        let mut backoff = Backoff::new();
        loop {
            match self.try_lock(medium)? {
                Taken::Yes => return Ok(true),
                Taken::Stale => return Ok(false),
                Taken::Busy => {
                    medium.event(Event::Wait);
                    backoff.wait();
                }
            }
        }
    }

    /// Sets X: readers wait. The caller holds W.
    #[inline]
    #[track_caller]
    pub fn exclude_readers<M: Medium>(self, medium: &M) {
        let word = medium.load(self.word);
        medium.store(self.word, sealed(word | X));
    }

    /// Releases W, and X if set, and raises the version: what was changed is durable.
    #[inline]
    #[track_caller]
    pub fn unlock_changed<M: Medium>(self, medium: &M) {
        let word = medium.load(self.word);
        medium.event(Event::Unlocked(self.id()));
        let version = (word & LOW & !(W | X | PARITY)).wrapping_add(VERSION) & LOW;
        medium.store(self.word, sealed(word & !LOW | version));
    }

    /// Releases W; nothing was changed, so readers under way stay valid.
    #[inline]
    #[track_caller]
    pub fn unlock_unchanged<M: Medium>(self, medium: &M) {
        let word = medium.load(self.word);
        medium.event(Event::Unlocked(self.id()));
        medium.store(self.word, sealed(word & !W));
    }

    /// Dates what the lock guards as of now, unlocked. Nobody holds it: it was stale, or is new.
    #[track_caller]
    pub fn date<M: Medium>(self, medium: &M) {
        medium.store(self.word, sealed(u64::from(self.dates.now) << EPOCH_SHIFT));
    }

    /// Whether somebody holds W.
    #[track_caller]
    pub fn is_locked<M: Medium>(self, medium: &M) -> bool {
        let word = medium.load(self.word);
        word & W != 0 && self.dates.is_present(word)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::medium::Dram;

    const DATES: Dates = Dates { now: 9, trusted_from: 7 };

    fn word_of(epoch: u64, version: u64, flags: u64) -> u64 {
        sealed(epoch << EPOCH_SHIFT | (version * VERSION) | flags)
    }

    #[test]
    fn leftovers_of_other_opens_are_no_locks() {
        let medium = Dram::new(4096).unwrap();
        for (epoch, covered) in [(6, false), (7, true), (8, true), (9, true), (10, false)] {
            for flags in [0, W, X, W | X] {
                let word = PmU64::new(word_of(epoch, 5, flags));
                let lock = DatedLock::new(&word, DATES);
                assert_eq!(lock.is_covered(&medium), covered);
                let expected = match (covered, epoch == 9 && flags & W != 0) {
                    (false, _) => Taken::Stale,
                    (true, true) => Taken::Busy,
                    (true, false) => Taken::Yes,
                };
                assert_eq!(lock.try_lock(&medium).unwrap(), expected, "{epoch} {flags}");
            }
        }
    }

    #[test]
    fn readers_see_what_was_changed_and_nothing_else() {
        let medium = Dram::new(4096).unwrap();
        for version in [0, 1, (1 << 29) - 1] {
            let word = PmU64::new(word_of(8, version, X));
            let lock = DatedLock::new(&word, DATES);
            assert_eq!(lock.try_read(&medium), None, "to be looked at closely");
            let before = lock.read(&medium).unwrap().unwrap();
            assert!(lock.validate(&medium, before));
            assert!(lock.lock(&medium).unwrap() && lock.is_locked(&medium));
            let under_lock = lock.read(&medium).unwrap().unwrap();
            lock.unlock_unchanged(&medium);
            assert!(lock.validate(&medium, under_lock), "nothing was changed");
            assert!(lock.lock(&medium).unwrap());
            lock.exclude_readers(&medium);
            assert!(!lock.validate(&medium, under_lock));
            assert_eq!(lock.try_read(&medium), None);
            lock.unlock_changed(&medium);
            assert!(!lock.validate(&medium, under_lock) && !lock.is_locked(&medium));
            assert_eq!(word.load() >> EPOCH_SHIFT, 9);
            assert!(is_sound(word.load()));
        }
    }

    #[test]
    fn nobody_waits_for_a_damaged_word() {
        let medium = Dram::new(4096).unwrap();
        let word = PmU64::new(word_of(9, 3, 0));
        let lock = DatedLock::new(&word, DATES);
        for bit in 0..64 {
            let sound = word.load();
            word.store(sound ^ 1 << bit);
            // An error, an answer, or a date that is not now; never an endless wait.
            let _ = (lock.read(&medium), lock.try_lock(&medium), lock.try_claim(&medium));
            word.store(sound);
        }
        word.store(word_of(9, 0, W));
        assert_eq!(lock.try_lock(&medium).unwrap(), Taken::Busy);
    }
}

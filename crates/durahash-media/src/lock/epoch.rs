//! A version lock that lies on the medium, beside the words that it guards, and costs no line of its own.
//!
//! ```text
//! bit 0 W   1 X   2 parity   3-31 version   32-63 open epoch
//! ```
//!
//! W and X are those of a [`VersionLock`](super::VersionLock). They may reach the medium, which does
//! no harm: they count only under the epoch of the present open, so a leftover means "unlocked". The
//! epoch also dates the guarded bytes: an epoch before the last unclean open means that a crash may
//! have left them half done.
//!
//! The parity tells a damaged word from a lock that is held. A bit in DRAM ([`Present`]) tells a lock
//! that was taken since the pool was opened from a word that only says so: no thread waits for a lock
//! that no thread holds.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::Version;
use crate::error::{Error, Result};
use crate::medium::{Event, Memory};
use crate::primitive::Backoff;
use crate::reserved::Reserved;
use crate::word::PmU64;

const W: u64 = 1;
const X: u64 = 2;
const PARITY: u64 = 4;
const VERSION: u64 = 8;
const EPOCH_SHIFT: u32 = 32;
const LOW: u64 = (1 << EPOCH_SHIFT) - 1;

/// The epochs that a lock's epoch is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// The epoch of the present open.
    pub now: u32,
    /// That of the last open that found the pool unclean; not after `now`.
    pub trusted_from: u32,
}

impl Epochs {
    /// True if no crash since the word's epoch can have left the guarded bytes half done.
    #[inline(always)]
    const fn cover(self, word: u64) -> bool {
        let epoch = (word >> EPOCH_SHIFT) as u32;
        epoch.wrapping_sub(self.trusted_from) <= self.now.wrapping_sub(self.trusted_from)
    }

    /// True if the flags of a word count.
    #[inline(always)]
    const fn is_present(self, word: u64) -> bool {
        (word >> EPOCH_SHIFT) as u32 == self.now
    }
}

/// Two locks are at least this far apart.
const GUARDED_BYTES: u64 = 256;

/// The locks that this process gave the epoch of the present open: a bit for each 256 bytes of the
/// medium. It is set before the word gets that epoch for the first time, so a word whose bit is not set
/// has its epoch from elsewhere, and no thread holds the lock.
pub struct Present(Reserved<1>);

impl Present {
    /// For a medium of at most `bytes_max` bytes, with no lock in it yet. Bits are added as locks are taken.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) when the system has no address space for it.
    pub fn new(bytes_max: u64) -> Result<Self> {
        Ok(Present(Reserved::growing(0, bytes_max.div_ceil(GUARDED_BYTES * 64).max(1))?))
    }

    fn add(&self, off: u64) -> Result<()> {
        let bit = off / GUARDED_BYTES;
        self.0.cover(bit / 64 + 1)?;
        let [word] = self.0.row(bit / 64);
        word.fetch_or(1 << (bit % 64), Ordering::Relaxed);
        Ok(())
    }

    /// The bytes are about to go to another use, and no thread has a lock in them or is on the way to one.
    /// Those that are about to read there can tell that already.
    pub fn remove(&self, bytes: Range<u64>) {
        for bit in bytes.start / GUARDED_BYTES..bytes.end.div_ceil(GUARDED_BYTES) {
            if bit / 64 < self.0.count() {
                self.0.row(bit / 64)[0].fetch_and(!(1 << (bit % 64)), Ordering::Release);
            }
        }
    }

    fn contains(&self, off: u64) -> bool {
        let bit = off / GUARDED_BYTES;
        if bit / 64 >= self.0.count() {
            return false;
        }
        let [word] = self.0.row(bit / 64);
        word.load(Ordering::Acquire) & 1 << (bit % 64) != 0
    }
}

/// How an attempt to take a lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The caller holds W.
    Yes,
    /// Another thread holds it.
    Busy,
    /// The guarded bytes are stale.
    Stale,
}

/// A lock in a word of the medium. See the module docs in the source.
#[derive(Clone, Copy)]
pub struct EpochLock<'a> {
    word: &'a PmU64,
    epochs: Epochs,
    present: &'a Present,
}

/// The word with the parity that makes it sound.
const fn sealed(word: u64) -> u64 {
    let word = word & !PARITY;
    if word.count_ones().is_multiple_of(2) { word } else { word | PARITY }
}

const fn is_sound(word: u64) -> bool {
    word.count_ones().is_multiple_of(2)
}

impl<'a> EpochLock<'a> {
    /// The lock in `word`, where no other is in the same 256 bytes. All of a medium share `present`.
    #[inline(always)]
    #[must_use]
    pub fn new(word: &'a PmU64, epochs: Epochs, present: &'a Present) -> Self {
        EpochLock { word, epochs, present }
    }

    fn id(self) -> usize {
        self.word.addr().addr()
    }

    /// Checks a word that has the present epoch and says that the lock is held: an error if no thread
    /// can hold it.
    #[cold]
    fn is_held<M: Memory>(self, medium: &M, word: u64) -> Result<()> {
        let off = medium.region().offset_of(self.word);
        if is_sound(word) && self.present.contains(off) {
            return Ok(());
        }
        Err(Error::corrupt("the lock of a bucket", off))
    }

    /// The version, unless readers are kept out or the guarded words are stale.
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn try_read<M: Memory>(self, medium: &M) -> Option<Version> {
        let word = medium.load(self.word);
        medium.event(Event::Look);
        // X of another epoch is a leftover: the release of a lock is not flushed.
        let is_open = word & X == 0 || !self.epochs.is_present(word);
        (is_open && self.epochs.cover(word)).then_some(Version(word & !(W | PARITY)))
    }

    /// The version, after waiting for X to be released; `None` where the guarded words are stale, or
    /// where there is no lock any more, which `is_there` knows.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where the lock word says locked, but no thread holds it.
    #[track_caller]
    pub fn read<M: Memory>(
        self,
        medium: &M,
        is_there: impl Fn() -> bool,
    ) -> Result<Option<Version>> {
        let mut backoff = Backoff::new();
        loop {
            let word = medium.load(self.word);
            medium.event(Event::Look);
            if !self.epochs.cover(word) {
                return Ok(None);
            }
            if word & X == 0 || !self.epochs.is_present(word) {
                return Ok(Some(Version(word & !(W | PARITY))));
            }
            let is_held = self.is_held(medium, word);
            // Afterwards: of a lock that is removed nobody knows that it was held.
            if !is_there() {
                return Ok(None);
            }
            is_held?;
            medium.event(Event::Wait);
            backoff.wait();
        }
    }

    /// True if nothing was changed since `version` was read, as [`VersionLock::validate`].
    ///
    /// [`VersionLock::validate`]: super::VersionLock::validate
    #[inline(always)]
    #[must_use]
    #[track_caller]
    pub fn validate<M: Memory>(self, medium: &M, version: Version) -> bool {
        medium.load(self.word) & !(W | PARITY) == version.0
    }

    /// True if besides no thread holds W, as [`VersionLock::is_free_at`]: false where that cannot be said.
    ///
    /// [`VersionLock::is_free_at`]: super::VersionLock::is_free_at
    #[inline]
    #[must_use]
    #[track_caller]
    pub fn is_free_at<M: Memory>(self, medium: &M, version: Version) -> bool {
        medium.load(self.word) & !PARITY == version.0
    }

    /// True if the guarded words may be relied on.
    #[track_caller]
    pub fn is_covered<M: Memory>(self, medium: &M) -> bool {
        self.epochs.cover(medium.load(self.word))
    }

    /// Takes W if it is free.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where the lock word says locked, but no thread holds it.
    #[inline]
    #[track_caller]
    pub fn try_lock<M: Memory>(self, medium: &M) -> Result<Taken> {
        let word = medium.load(self.word);
        if self.epochs.cover(word) { self.take(medium, word, W) } else { Ok(Taken::Stale) }
    }

    /// Waits for W and X, also where the guarded bytes are stale, and gives the lock the present
    /// epoch: the caller repairs them. True if they were not stale.
    ///
    /// # Errors
    /// As [`try_lock`](Self::try_lock).
    #[track_caller]
    pub fn claim<M: Memory>(self, medium: &M) -> Result<bool> {
        let mut backoff = Backoff::new();
        loop {
            let word = medium.load(self.word);
            if self.take(medium, word, W | X)? == Taken::Yes {
                return Ok(self.epochs.cover(word));
            }
            medium.event(Event::Wait);
            backoff.wait();
        }
    }

    #[inline]
    #[track_caller]
    fn take<M: Memory>(self, medium: &M, word: u64, flags: u64) -> Result<Taken> {
        if !self.epochs.is_present(word) {
            self.present.add(medium.region().offset_of(self.word))?;
        } else if word & W != 0 {
            self.is_held(medium, word)?;
            return Ok(Taken::Busy);
        }
        // The version goes on, whatever the epoch was.
        let version = word & LOW & !(W | X);
        let new = sealed(u64::from(self.epochs.now) << EPOCH_SHIFT | version | flags);
        if medium.cas(self.word, word, new).is_err() {
            return Ok(Taken::Busy);
        }
        medium.event(Event::Locked(self.id()));
        Ok(Taken::Yes)
    }

    /// Takes W, however long that takes, unless the guarded words are stale; never
    /// [`Busy`](Taken::Busy).
    ///
    /// # Errors
    /// As [`try_lock`](Self::try_lock).
    #[inline]
    #[track_caller]
    pub fn lock<M: Memory>(self, medium: &M) -> Result<Taken> {
        let mut backoff = Backoff::new();
        loop {
            let taken = self.try_lock(medium)?;
            if taken != Taken::Busy {
                return Ok(taken);
            }
            medium.event(Event::Wait);
            backoff.wait();
        }
    }

    /// Sets X: readers wait. The caller holds W.
    #[inline]
    #[track_caller]
    pub fn exclude_readers<M: Memory>(self, medium: &M) {
        let word = medium.load(self.word);
        medium.store(self.word, sealed(word | X));
    }

    /// Releases W, and X if set, and raises the version: the changes are durable.
    #[inline]
    #[track_caller]
    pub fn unlock_changed<M: Memory>(self, medium: &M) {
        let word = medium.load(self.word);
        medium.event(Event::Unlocked(self.id()));
        let version = (word & LOW & !(W | X | PARITY)).wrapping_add(VERSION) & LOW;
        medium.store(self.word, sealed(word & !LOW | version));
    }

    /// Releases W; nothing was changed, so readers under way stay valid.
    #[inline]
    #[track_caller]
    pub fn unlock_unchanged<M: Memory>(self, medium: &M) {
        let word = medium.load(self.word);
        medium.event(Event::Unlocked(self.id()));
        medium.store(self.word, sealed(word & !W));
    }

    /// Gives the lock of bytes that are new the present epoch. A lock that this process gave it before goes
    /// on where it is: a thread that is late may hold it for a moment, and readers know its versions.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full) where there are no addresses for the bit that says so.
    #[track_caller]
    pub fn stamp<M: Memory>(self, medium: &M) -> Result<()> {
        let off = medium.region().offset_of(self.word);
        if !self.present.contains(off) {
            self.present.add(off)?;
            medium.store(self.word, sealed(u64::from(self.epochs.now) << EPOCH_SHIFT));
        }
        Ok(())
    }

    /// Notes that this process has had the lock, with W held: [`stamp`](EpochLock::stamp) leaves it as it is. It is
    /// noted when the lock gets its epoch, but damage may have given it that epoch before.
    ///
    /// # Errors
    /// As [`stamp`](EpochLock::stamp).
    pub fn note_present<M: Memory>(self, medium: &M) -> Result<()> {
        self.present.add(medium.region().offset_of(self.word))
    }

    /// True if a thread holds W.
    #[track_caller]
    pub fn is_locked<M: Memory>(self, medium: &M) -> bool {
        let word = medium.load(self.word);
        word & W != 0 && self.epochs.is_present(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::{Dram, Storage};

    const EPOCHS: Epochs = Epochs { now: 9, trusted_from: 7 };

    /// A medium of which one word is a lock's.
    struct Place {
        medium: Dram,
        present: Present,
    }

    impl Place {
        fn new() -> Self {
            let medium = Dram::new(4096).unwrap();
            medium.grow(4096).unwrap();
            let present = Present::new(medium.region().max_bytes()).unwrap();
            Place { medium, present }
        }

        fn word(&self) -> &PmU64 {
            self.medium.region().at(256).unwrap()
        }

        fn lock(&self) -> EpochLock<'_> {
            EpochLock::new(self.word(), EPOCHS, &self.present)
        }
    }

    fn word_of(epoch: u64, version: u64, flags: u64) -> u64 {
        sealed(epoch << EPOCH_SHIFT | (version * VERSION) | flags)
    }

    /// Else a thread that found its segment just before would see the same version as before it was given up.
    #[test]
    fn a_lock_that_was_had_stays_as_it_is_where_damage_gave_it_its_epoch() {
        let place = Place::new();
        place.medium.store(place.word(), word_of(9, 0, 0));
        assert_eq!(place.lock().lock(&place.medium).unwrap(), Taken::Yes);
        place.lock().note_present(&place.medium).unwrap();
        place.lock().unlock_changed(&place.medium);
        let word = place.word().load();
        assert_ne!(word, word_of(9, 0, 0));
        place.lock().stamp(&place.medium).unwrap();
        assert_eq!(place.word().load(), word);
    }

    #[test]
    fn leftovers_of_other_opens_are_no_locks() {
        for (epoch, covered) in [(6, false), (7, true), (8, true), (9, true), (10, false)] {
            for flags in [0, W, X, W | X] {
                let place = Place::new();
                let (lock, medium) = (place.lock(), &place.medium);
                if epoch == 9 {
                    lock.stamp(medium).unwrap();
                }
                place.word().store(word_of(epoch, 5, flags));
                assert_eq!(lock.is_covered(medium), covered);
                let expected = match (covered, epoch == 9 && flags & W != 0) {
                    (false, _) => Taken::Stale,
                    (true, true) => Taken::Busy,
                    (true, false) => Taken::Yes,
                };
                assert_eq!(lock.try_lock(medium).unwrap(), expected, "{epoch} {flags}");
            }
        }
    }

    #[test]
    fn readers_see_what_was_changed_and_nothing_else() {
        for version in [0, 1, (1 << 29) - 1] {
            let place = Place::new();
            let (lock, medium) = (place.lock(), &place.medium);
            place.word().store(word_of(8, version, X));
            let before = lock.try_read(medium).expect("a leftover keeps nobody out");
            assert_eq!(lock.read(medium, || true).unwrap(), Some(before));
            assert!(lock.validate(medium, before) && lock.is_free_at(medium, before));
            assert_eq!(lock.lock(medium).unwrap(), Taken::Yes);
            assert!(lock.is_locked(medium));
            let under_lock = lock.read(medium, || true).unwrap().unwrap();
            assert!(lock.validate(medium, under_lock) && !lock.is_free_at(medium, under_lock));
            lock.unlock_unchanged(medium);
            assert!(lock.validate(medium, under_lock), "nothing was changed");
            assert!(lock.is_free_at(medium, under_lock));
            assert_eq!(lock.lock(medium).unwrap(), Taken::Yes);
            lock.exclude_readers(medium);
            assert!(!lock.validate(medium, under_lock));
            assert_eq!(lock.try_read(medium), None);
            lock.unlock_changed(medium);
            assert!(!lock.validate(medium, under_lock) && !lock.is_locked(medium));
            assert_eq!(place.word().load() >> EPOCH_SHIFT, 9);
            assert!(is_sound(place.word().load()));
        }
    }

    #[test]
    fn nobody_waits_for_a_damaged_word() {
        let place = Place::new();
        let (lock, medium, word) = (place.lock(), &place.medium, place.word());
        lock.stamp(medium).unwrap();
        let sound = word.load();
        let attempts: [&dyn Fn() -> bool; 3] =
            [&|| lock.read(medium, || true).is_ok(), &|| lock.try_lock(medium).is_ok(), &|| {
                lock.claim(medium).is_ok()
            }];
        for (bit, attempt) in (0..64).flat_map(|bit| attempts.map(|attempt| (bit, attempt))) {
            word.store(sound ^ 1 << bit);
            // An error, an answer, or an epoch that is not the present one; never an endless wait.
            let _ = attempt();
        }
        word.store(word_of(9, 0, W));
        assert_eq!(lock.try_lock(medium).unwrap(), Taken::Busy);
    }

    #[test]
    fn nobody_waits_for_what_was_not_taken_since_the_pool_was_opened() {
        for flags in [W, X, W | X] {
            let place = Place::new();
            let (lock, medium) = (place.lock(), &place.medium);
            place.word().store(word_of(9, 3, flags));
            if flags & W != 0 {
                lock.lock(medium).unwrap_err();
                lock.claim(medium).unwrap_err();
            }
            if flags & X != 0 {
                lock.read(medium, || true).unwrap_err();
            }
            lock.stamp(medium).unwrap();
            assert_eq!(lock.lock(medium).unwrap(), Taken::Yes, "nobody holds what is new");
        }
    }

    #[test]
    fn nobody_waits_for_a_lock_that_is_there_no_more() {
        let place = Place::new();
        let (lock, medium) = (place.lock(), &place.medium);
        lock.stamp(medium).unwrap();
        assert_eq!(lock.lock(medium).unwrap(), Taken::Yes);
        lock.exclude_readers(medium);
        assert_eq!(lock.read(medium, || false).unwrap(), None);
        // A stamp for new bytes while a thread is late leaves the lock alone.
        lock.stamp(medium).unwrap();
        assert!(lock.is_locked(medium));
        lock.unlock_changed(medium);
        assert_eq!(place.word().load(), word_of(9, 1, 0));
        // Then it is nobody's.
        place.present.remove(0..256);
        lock.stamp(medium).unwrap();
        assert_eq!(place.word().load(), word_of(9, 1, 0), "of its neighbour");
        place.present.remove(256..512);
        place.word().store(word_of(9, 7, W | X));
        lock.read(medium, || true).unwrap_err();
        assert_eq!(lock.read(medium, || false).unwrap(), None);
        lock.stamp(medium).unwrap();
        assert_eq!(place.word().load(), word_of(9, 0, 0));
    }

    #[test]
    fn a_claim_gives_stale_bytes_the_present_epoch_and_keeps_the_version() {
        for (epoch, covered) in [(6, false), (7, true), (9, true), (10, false)] {
            let place = Place::new();
            let (lock, medium) = (place.lock(), &place.medium);
            place.word().store(word_of(epoch, 5, 0));
            assert_eq!(lock.claim(medium).unwrap(), covered);
            assert_eq!(lock.try_read(medium), None);
            assert!(lock.is_locked(medium) && lock.is_covered(medium));
            lock.unlock_changed(medium);
            assert_eq!(place.word().load(), word_of(9, 6, 0));
        }
    }
}

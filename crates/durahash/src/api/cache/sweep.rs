//! The sweep, which removes what has expired.
//!
//! It walks over the map, round after round, and reads a word of each entry. A thread does so at a bounded share of one
//! core: after each step it rests 99 times as long as it has worked, fifteen times where at least a hundredth of what
//! it met had expired, and three times where a quarter had. The entries of a step are as good as drawn at random, so
//! it is faster within a few steps of when many expire, wherever it is in its round. So what has expired is met
//! within about 16 times as long as a walk works, until a hundredth of the entries is left, and that within 100 times
//! as long, or in a second. A cache without values that expire is not walked.
//!
//! Why a walk: it reads each entry once a round, so it has found nine tenths of what had expired after 0.9 reads for each
//! entry that there is, and all of it after one, whatever the part is that expires. Draws at random, as Redis does them,
//! find nine tenths after ln 10 = 2.3 reads for each entry, and all of it never for sure; with as many reads a second they leave twice
//! as many entries that have expired. Redis draws more only while at least a tenth of what it drew had expired, and leaves that
//! part.
//!
//! In a simulation of a million entries, of which half expire at once, with reads of 100 ns, the walk has found nine tenths after 0.36 s
//! and all after 0.40 s. Redis' rule (ten times a second twenty draws, and again while more than a tenth of them had expired, for at most 25 ms) needs
//! 1.6 reads for each entry for nine tenths, and 24 minutes, as nearly all of its turns end with the first twenty. Of as many
//! that are replaced when they expire, each after an hour, the walk leaves 0.15 % with 0.94 % of a core, Redis' rule 28 % with 0.01 %; after ten
//! minutes each, 0.41 % with 1.6 %, and 43 % with 0.06 %; after one minute each, 1.8 % with 5.0 %, and 64 % with 0.4 %.
//!
//! A wheel of buckets of a second, simulated in the same way, 10 ns for a note in a bucket, with an entry that was touched noted again
//! when its bucket is over, leaves 0.014, 0.083 and 0.83 % with 0.003, 0.018 and 0.18 % of a core, and has removed a half that
//! expires at once after 0.2 s. So it is the cheapest by far, and is not used: it takes a word of DRAM or more for each entry, a
//! tenth of what an entry takes in all, and knows nothing after an open until a walk has read every entry. The walk needs
//! neither, and what it leaves is small where entries live for minutes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use durahash_media::{Result, process};

use super::inner::{Counts, Inner, TIME_EVERY, is_checking, unless_full};
use crate::engine::expiry::{NEVER, is_over};
use crate::engine::records::is_damage;
use crate::engine::walk::Place;

/// Entries of a step, about.
const STEP: u64 = 256;
/// The longest time between two steps, unless one takes longer than a third of it; and the one behind a round in which little or
/// nothing had expired.
const REST: Duration = Duration::from_secs(1);
/// The thread rests at least so many times as long as it has worked.
const REST_MIN: u32 = 3;
/// The longest time for which the thread sleeps: the time of the cache is stored meanwhile.
const NAP: Duration = Duration::from_millis(TIME_EVERY);

/// What a step did.
pub(super) struct Step {
    counts: Counts,
    /// All of the round, if it ended with this step.
    pub(super) round: Option<Counts>,
}

impl Inner {
    /// Goes on with the round by some entries; not inside of a check, for which it rests.
    pub(super) fn sweep(&self) -> Result<Step> {
        let engine = &*self.handle.engine;
        engine.store.writable()?;
        let mut counts = Counts::default();
        if is_checking() {
            return Ok(Step { counts, round: Some(counts) });
        }
        // A pool that is full gets room by what follows.
        unless_full(self.store_time(false))?;
        let mut round = self.round();
        if round.at.is_none() && !self.expires.swap(false, Ordering::Relaxed) {
            round.ended += 1;
            return Ok(Step { counts, round: Some(counts) });
        }
        if round.at.is_none() {
            let noted = self.noted.swap(u64::MAX, Ordering::Relaxed);
            self.soonest.fetch_min(noted, Ordering::Relaxed);
        }
        let mut at = Some(round.at.unwrap_or_else(|| Place::first(&*engine.index)));
        while let Some(from) = at.filter(|_| counts.looked < STEP) {
            // What breaks off a round that has just begun does not end it.
            at = self.sweep_unit(from, &mut counts).inspect_err(|_| self.notes(u64::MAX))?;
        }
        round.at = at;
        round.counts.add(counts);
        let is_end = at.is_none();
        if is_end {
            self.soonest.store(round.counts.soonest.unwrap_or(u64::MAX), Ordering::Relaxed);
            round.ended += 1;
        }
        Ok(Step { counts, round: is_end.then(|| std::mem::take(&mut round.counts)) })
    }

    /// The same of the unit at `from`; where the next one begins. What is damaged stays.
    fn sweep_unit(&self, from: Place, counts: &mut Counts) -> Result<Option<Place>> {
        let index = &*self.handle.engine.index;
        let mut unit = Vec::new();
        let next = match from.step(index, &mut unit) {
            Err(e) if is_damage(&e) => {
                unit.clear();
                from.behind(index).flatten()
            }
            next => next?,
        };
        for (h, _) in unit {
            match self.sweep_hash(h, counts) {
                Err(e) if is_damage(&e) => {}
                done => done?,
            }
        }
        Ok(next)
    }

    fn sweep_hash(&self, h: u64, counts: &mut Counts) -> Result<()> {
        let engine = &*self.handle.engine;
        let mut expiries = Vec::new();
        engine.expiries(h, &mut expiries)?;
        counts.looked += expiries.len() as u64;
        if expiries.iter().any(|expiry| *expiry != NEVER) {
            self.notes(u64::MAX);
        }
        // Read after the expiries: a value that is stored meanwhile has another one.
        let now = self.time.now();
        if expiries.iter().any(|expiry| is_over(*expiry, now)) {
            counts.expired += self.remove_expired(h)?;
        }
        let left = expiries.into_iter().filter(|expiry| *expiry != NEVER && *expiry > now);
        counts.soonest = counts.soonest.into_iter().chain(left).min();
        Ok(())
    }

    /// Sweeps until `done`, or until nothing is left that may have expired: at most the rest of the round, and one more. Threads
    /// that call it at once go by steps through the same rounds, whichever of them ends one. Where an
    /// insert that finds no room calls it over and over, it walks once for each time at which something expires.
    pub(super) fn sweep_until(&self, done: &mut dyn FnMut() -> bool) -> Result<()> {
        let mut last = None;
        while !is_checking() && !done() {
            if !self.is_due(&mut last) {
                // Another thread may have ended the round since.
                done();
                break;
            }
            self.sweep()?;
        }
        Ok(())
    }

    /// False if nothing that is stored has expired, or if as many rounds have ended as `last` says, which the first call sets: no
    /// entry has expired since before that and was met by none of them.
    fn is_due(&self, last: &mut Option<u64>) -> bool {
        // A round begins and ends while it is locked.
        let round = self.round();
        let last = *last.get_or_insert(round.ended + 1 + u64::from(round.at.is_some()));
        let soonest = self.soonest.load(Ordering::Relaxed).min(self.noted.load(Ordering::Relaxed));
        round.ended < last && soonest <= self.time.now()
    }
}

impl Step {
    /// How long the thread rests behind it, when it took so long.
    fn rest(&self, busy: Duration) -> Duration {
        if self.round.is_some_and(|Counts { looked, expired, .. }| expired * 100 < looked.max(1)) {
            return REST.max(busy * REST_MIN);
        }
        let Counts { looked, expired, .. } = self.counts;
        let times = match expired * 100 / looked.max(1) {
            0 => 99,
            1..25 => 15,
            _ => REST_MIN,
        };
        (busy * times).min(REST.max(busy * REST_MIN))
    }
}

/// How many naps a rest has, and what is left.
fn naps(rest: Duration) -> (u128, Duration) {
    let naps = rest.as_nanos() / NAP.as_nanos();
    (naps, rest.saturating_sub(NAP * naps as u32))
}

/// The thread of the sweep.
pub(super) struct Sweeper {
    stop: Arc<Stop>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Stop {
    stops: Mutex<bool>,
    told: Condvar,
}

impl Sweeper {
    /// Starts it; `None` where the system gives no thread.
    pub(super) fn start(inner: Arc<Inner>) -> Option<Self> {
        let stop = Arc::new(Stop::default());
        let stopped = Arc::clone(&stop);
        let thread = process::spawn("durahash-sweep", move || run(&inner, &stopped)).ok()?;
        Some(Sweeper { stop, thread })
    }

    /// Ends it, and waits for that.
    pub(super) fn end(self) {
        *self.stop.stops.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.told.notify_all();
        // A panic was told, and what has expired is not seen whether it is removed or not.
        let _ = self.thread.join();
    }
}

impl Stop {
    /// Waits, and calls `meanwhile` after each nap but the last; true if the thread ends.
    fn rest(&self, rest: Duration, meanwhile: &mut dyn FnMut()) -> bool {
        let (naps, last) = naps(rest);
        for _ in 0..naps {
            if self.nap(NAP) {
                return true;
            }
            meanwhile();
        }
        self.nap(last)
    }

    fn nap(&self, rest: Duration) -> bool {
        let stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.told.wait_timeout_while(stops, rest, |stops| !*stops);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

fn run(inner: &Inner, stop: &Stop) {
    let mut rest = REST;
    // What keeps the time from being stored keeps the next step from it, too.
    while !stop.rest(rest, &mut || drop(inner.store_time(false))) {
        let begin = Instant::now();
        let step = inner.sweep();
        rest = match step {
            Ok(step) => step.rest(begin.elapsed()),
            // A full disk may get room again; a pool that takes no more writes stays so.
            Err(_) if inner.handle.engine.store.writable().is_ok() => REST,
            Err(_) => return,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_a_core_is_bounded() {
        let counts = |looked, expired| Counts { looked, expired, soonest: None };
        let rest = |(looked, expired), round, busy| {
            Step { counts: counts(looked, expired), round }.rest(Duration::from_millis(busy))
        };
        assert_eq!(rest((256, 2), None, 1), Duration::from_millis(99));
        assert_eq!(rest((256, 3), None, 1), Duration::from_millis(15));
        assert_eq!(rest((256, 63), None, 1), Duration::from_millis(15));
        assert_eq!(rest((256, 64), None, 1), Duration::from_millis(3));
        assert_eq!(rest((256, 256), None, 500), Duration::from_millis(1500));
        assert_eq!(rest((256, 0), None, 500), Duration::from_millis(1500));
        assert_eq!(rest((256, 0), None, 50), REST);
        assert_eq!(rest((256, 3), Some(counts(1000, 9)), 1), REST);
        assert_eq!(rest((256, 3), Some(counts(1000, 9)), 400), Duration::from_millis(1200));
        assert_eq!(rest((256, 0), Some(counts(1000, 10)), 1), Duration::from_millis(99));
        assert_eq!(rest((0, 0), Some(counts(0, 0)), 0), REST);
    }

    #[test]
    fn no_rest_keeps_the_time_from_being_stored_for_a_second() {
        assert_eq!(naps(REST), (2, Duration::ZERO));
        assert_eq!(naps(Duration::from_millis(1200)), (2, Duration::from_millis(200)));
        assert!(NAP + Duration::from_millis(TIME_EVERY) <= Duration::from_secs(1));
    }
}

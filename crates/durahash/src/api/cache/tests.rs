//! What is seen inside of a cache alone.

use std::time::Duration;

use durahash_media::sim::Sim;

use super::saved;
use crate::cache::{Clock, Policy};
use crate::{Cache, Options, Pool};

const MILLI: Duration = Duration::from_millis(1);

/// A close saves the order for who can open the cache again.
#[test]
fn nothing_is_saved_for_nobody() {
    fn saved(cache: Cache<u64, u64>, drops: bool) -> usize {
        (0..4).for_each(|key| cache.put(&key, &key).unwrap());
        let Cache { map, inner, guard } = cache;
        let map = Some(map).filter(|_| !drops);
        guard.end(map.iter().len()).unwrap();
        saved::take(inner.beside.as_ref().unwrap()).unwrap().len()
    }
    let bounded = Options::new().sweep(false).max_entries(4).eviction(Policy::Lru);
    for (options, drops) in [(false, false), (false, true), (true, false), (true, true)]
        .map(|(keeps, drops)| (bounded.clone().keep_evicted(keeps), drops))
    {
        assert_eq!(saved(options.in_memory().unwrap(), drops), 0);
        let cache: Cache<u64, u64> = options.in_memory().unwrap();
        let pool = Pool::of(&cache);
        assert_eq!(saved(cache, drops), 4);
        drop(pool);
        assert_eq!(saved(options.create_on(Sim::new(1 << 20)).unwrap(), drops), 4);
    }
}

/// A round that another thread has ended is not walked again.
#[test]
fn threads_that_find_no_room_walk_together() {
    let clock = Clock::manual(1000);
    let options = Options::new().clock(clock.clone()).sweep(false);
    let cache: Cache<u64, u64> = options.in_memory().unwrap();
    (1..2000).for_each(|key| cache.put_for(&key, &key, key as u32 * MILLI).unwrap());
    while cache.step().unwrap() {}
    let (inner, mut asked) = (&cache.inner, 0);
    let mut done = || {
        asked += 1;
        clock.advance(MILLI);
        // The other one comes when this one has begun.
        while asked == 2 && inner.sweep().unwrap().round.is_none() {}
        clock.advance(MILLI);
        false
    };
    inner.sweep_until(&mut done).unwrap();
    assert_eq!(asked, 3, "before, behind the first step, and when the round has ended");
}

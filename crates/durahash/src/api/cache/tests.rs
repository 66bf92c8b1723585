//! What is seen inside of a cache alone.

use std::time::Duration;

use crate::cache::Clock;
use crate::{Cache, Options};

const MILLI: Duration = Duration::from_millis(1);

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

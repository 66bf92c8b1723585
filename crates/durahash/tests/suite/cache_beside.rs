//! The map beside that of a cache: made and removed with it.

use durahash::cache::Clock;
use durahash::{Cache, Design, ErrorKind, Map, Options, Pool};
use durahash_media::sim::Sim;

use super::cache::{START, TINY, options};
use super::cache_gone::Kills;

/// A removal that is killed leaves a cache with its bounds and with what went, or none; what it leaves of one is in nobody's way.
#[test]
fn a_cache_is_removed_with_the_map_beside_it() {
    const BYTES: u64 = 1 << 20;
    let clock = Clock::manual(START);
    let options = options(Design::Reh, &clock);
    let keeps = options.clone().max_entries(1).keep_evicted(true);
    let (sim, kills) = (Sim::new(BYTES), Kills::default());
    kills.watch(&sim);
    let pool: Pool = options.create_on(sim).unwrap();
    let cache: Cache<u64, u64> = pool.create("one", &keeps).unwrap();
    (0..3).for_each(|key| cache.put(&key, &key).unwrap());
    drop(cache);
    let mut orphans = 0;
    for image in kills.during(|| pool.remove("one").unwrap()) {
        let open = || options.open_on::<Pool, _>(Sim::from_image(&image, BYTES)).unwrap();
        let pool = open();
        let names = pool.names();
        if names.iter().any(|name| name == "one") {
            let cache: Cache<u64, u64> = pool.open("one").unwrap();
            assert_eq!(cache.stats().unwrap().cache.unwrap().max_entries, Some(1));
            assert_eq!(cache.evicted().count(), 2);
            continue;
        }
        orphans += names.len();
        assert!(matches!(
            pool.open::<Cache<u64, u64>>("one").unwrap_err().kind(),
            ErrorKind::NoMap { .. }
        ));
        let cache: Cache<u64, u64> = pool.open_or_create("one", &options).unwrap();
        assert_eq!(cache.stats().unwrap().cache.unwrap().max_entries, None);
        assert_eq!(cache.evicted().count(), 0);
        let pool = open();
        assert_eq!(pool.remove("one").is_ok(), !names.is_empty());
        assert!(pool.names().is_empty());
    }
    assert!(orphans > 0);
}

/// A map of a caller that has the name is in the way, and is left alone; a cache whose second map is not made is not either.
#[test]
fn a_cache_is_made_with_the_map_beside_it_or_not() {
    let options = Options::new().geometry(TINY).seed(7).sweep(false);
    let pool: Pool = options.in_memory().unwrap();
    let own: Map<u64, [u8]> = pool.create("one.cache", &options).unwrap();
    own.put(&(1 << 40), b"mine").unwrap();
    drop(own);
    let refused = pool.create::<Cache<u64, u64>>("one", &options).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::MapExists { .. }));
    assert!(pool.remove("one").is_err());
    assert_eq!(pool.names(), ["one.cache"]);
    for i in 1..62 {
        pool.create::<Map<u64, u64>>(&format!("map {i}"), &options).unwrap();
    }
    let refused = pool.create::<Cache<u64, u64>>("two", &options).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Full { .. }), "{refused}");
    assert_eq!(pool.names().len(), 62);
    pool.remove("map 1").unwrap();
    pool.create::<Cache<u64, u64>>("two", &options).unwrap().put(&1, &10).unwrap();
}

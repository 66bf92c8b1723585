//! Several maps in one pool.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use durahash::{
    AnyMap, AnyMultiMap, Design, Error, ErrorKind, Map, MultiMap, Openable, Options, Pool,
    SyncMode, Type,
};
use durahash_media::sim::{Call, Hook, Sim, Site};
use durahash_media::{Event, Geometry, MapEntry, Superblock};
use durahash_testkit::budget;

/// Extents of so many bytes make units, directories and runs in a few hundred entries.
const TINY: Geometry = Geometry { extent_shift: 12, slots: 0, hash_bits: 0, buckets: 2 };
const ENTRIES: u64 = 300;

fn options(design: Design) -> Options {
    Options::new().design(design).geometry(TINY)
}

fn on_sim<T: Openable>(sim: Sim) -> durahash::Result<T> {
    Options::new().open_on(sim)
}

fn word(design: Design) -> String {
    format!("{design} of words")
}

fn text(design: Design) -> String {
    format!("{design} of text")
}

/// A value of key `i` in the map that has this salt.
fn value(i: u64, salt: u64) -> String {
    format!("{salt}-{i}").repeat(i as usize % 7 + 1)
}

/// Makes two maps of each design, and two multimaps, and fills them by turns.
fn fill(pool: &Pool) {
    let mut words = Vec::new();
    let mut texts = Vec::new();
    for &design in Design::ALL {
        words.push(pool.create::<Map<u64, u64>>(&word(design), &options(design)).unwrap());
        texts.push(pool.create::<Map<str, str>>(&text(design), &options(design)).unwrap());
    }
    let many: MultiMap<u64, u64> = pool.create("many", &options(Design::Pea)).unwrap();
    let lists: MultiMap<str, [u8]> = pool.create("lists", &options(Design::Pea)).unwrap();
    for i in 0..ENTRIES {
        for (salt, map) in (0..).zip(&words) {
            map.put(&i, &(i * 10 + salt)).unwrap();
        }
        for (salt, map) in (0..).zip(&texts) {
            map.put(&i.to_string(), &value(i, salt)).unwrap();
        }
        many.add(&(i % 10), &i).unwrap();
        lists.add(&(i % 10).to_string(), value(i, 9).as_bytes()).unwrap();
    }
}

fn assert_whole(pool: &Pool) {
    for (salt, &design) in (0..).zip(Design::ALL) {
        let map: Map<u64, u64> = pool.open(&word(design)).unwrap();
        let texts: Map<str, str> = pool.open(&text(design)).unwrap();
        assert_eq!((map.len().unwrap(), texts.len().unwrap()), (ENTRIES, ENTRIES), "{design}");
        for i in 0..ENTRIES {
            assert_eq!(map.get(&i).unwrap(), Some(i * 10 + salt), "{design}");
            assert_eq!(texts.get(&i.to_string()).unwrap(), Some(value(i, salt)), "{design}");
        }
    }
    let many: MultiMap<u64, u64> = pool.open("many").unwrap();
    let lists: MultiMap<str, [u8]> = pool.open("lists").unwrap();
    for key in 0..10 {
        let mut found = many.get_all(&key).unwrap();
        found.sort_unstable();
        assert!(found.into_iter().eq((key..ENTRIES).step_by(10)));
        let mut found = lists.get_all(&key.to_string()).unwrap();
        found.sort();
        let mut wanted: Vec<_> =
            (key..ENTRIES).step_by(10).map(|i| value(i, 9).into_bytes()).collect();
        wanted.sort();
        assert_eq!(found, wanted);
    }
    while pool.step().unwrap() {}
    pool.check(&mut |map, finding| panic!("{map}: {finding:?}")).unwrap();
}

fn names(pool: &Pool) -> Vec<String> {
    pool.list().unwrap().into_iter().map(|map| map.name).collect()
}

fn kind_of<T>(done: Result<T, Error>) -> String {
    match done {
        Ok(_) => "done".into(),
        Err(e) => {
            format!("{:?}", e.kind()).chars().take_while(char::is_ascii_alphanumeric).collect()
        }
    }
}

#[test]
fn maps_of_all_designs_share_a_pool_and_come_back_after_a_close_and_a_crash() {
    let sim = Sim::new(16 << 20);
    let pool: Pool = options(Design::Reh).create_on(sim.clone()).unwrap();
    fill(&pool);
    assert_whole(&pool);
    let crashed: Pool = on_sim(Sim::from_image(&sim.image(), 16 << 20)).unwrap();
    assert_whole(&crashed);
    pool.close().unwrap();
    let image = sim.image();
    let closed: Pool = on_sim(Sim::from_image(&image, 16 << 20)).unwrap();
    assert_whole(&closed);
    let list = closed.list().unwrap();
    assert_eq!(list.len(), 2 * Design::ALL.len() + 2);
    assert!(list.iter().all(|map| map.entries == ENTRIES));
    let many = list.iter().find(|map| map.name == "many").unwrap();
    assert!(many.is_multimap && (many.key_type, many.design) == (Type::U64, Design::Pea));
}

#[test]
fn every_mode_keeps_all_maps() {
    for mode in [SyncMode::Process, SyncMode::INTERVAL, SyncMode::Strict] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("several.pool");
        let options = Options::new().sync_mode(mode).log_bytes(1 << 20);
        let pool: Pool = options.create(&path).unwrap();
        let ages: Map<str, u32> = pool.create("ages", &Options::new()).unwrap();
        let edges: MultiMap<u32, u32> = pool.create("edges", &Options::new()).unwrap();
        ages.put("Ada", &36).unwrap();
        edges.add(&1, &2).unwrap();
        pool.rename("ages", "years").unwrap();
        assert_eq!(kind_of(Options::new().open::<Pool>(&path)), "Locked");
        // The pool stays open for its maps.
        pool.close().unwrap();
        ages.put("Bob", &40).unwrap();
        drop((ages, edges));

        let pool: Pool = Options::new().open(&path).unwrap();
        assert_eq!(names(&pool), ["years", "edges"]);
        let years: Map<str, u32> = pool.open("years").unwrap();
        assert_eq!((years.get("Ada").unwrap(), years.get("Bob").unwrap()), (Some(36), Some(40)));
        drop(pool);
        years.close().unwrap();
        let pool: Pool = Options::new().read_only(true).open(&path).unwrap();
        assert_eq!(pool.open::<AnyMultiMap>("edges").unwrap().get_all(b"1").unwrap(), [b"2"]);
        assert_eq!(kind_of(pool.rename("edges", "a")), "ReadOnly");
        assert_eq!(kind_of(pool.remove("edges")), "ReadOnly");
        assert_eq!(kind_of(pool.create::<Map<u8, u8>>("a", &Options::new())), "ReadOnly");
    }
}

#[test]
fn a_file_of_one_map_takes_others_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("one.pool");
    let map: Map<str, str> = Options::new().create(&path).unwrap();
    map.put("a", "1").unwrap();
    map.close().unwrap();

    let pool: Pool = Options::new().open(&path).unwrap();
    let other: Map<str, str> = pool.create("other", &Options::new()).unwrap();
    other.put("a", "2").unwrap();
    assert_eq!(names(&pool), ["main", "other"]);
    assert_eq!(pool.open::<Map<str, str>>("main").unwrap().get("a").unwrap().unwrap(), "1");
    assert_eq!(kind_of(pool.remove("main")), "Options");
    drop((pool, other));

    // The one map is as it was, also for a user that knows of no others, and leaves them whole.
    let map: Map<str, str> = Options::new().open(&path).unwrap();
    (0..100).for_each(|i| map.put(&i.to_string(), "x").unwrap());
    (0..100).for_each(|i| assert!(map.remove(&i.to_string()).unwrap().is_some()));
    map.check(&mut |finding| panic!("{finding:?}")).unwrap();
    map.close().unwrap();
    Options::new().compact::<AnyMap>(&path).unwrap();
    let pool: Pool = Options::new().open(&path).unwrap();
    assert_eq!(names(&pool), ["main", "other"]);
    assert_eq!(pool.open::<Map<str, str>>("other").unwrap().get("a").unwrap().unwrap(), "2");
    assert_eq!(pool.open::<Map<str, str>>("main").unwrap().get("a").unwrap().unwrap(), "1");
}

#[test]
fn impossible_requests_are_refused_and_change_nothing() {
    let pool: Pool = Options::new().in_memory().unwrap();
    let map: Map<u64, u64> = pool.create("a", &Options::new()).unwrap();
    let _ = pool.create::<Map<u64, u64>>("b", &Options::new()).unwrap();
    let before = names(&pool);
    let make = |name: &str| kind_of(pool.create::<Map<u64, u64>>(name, &Options::new()));
    assert_eq!(make("a"), "MapExists");
    let long = "x".repeat(65);
    for name in ["", "main", "a\nb", &long] {
        assert_eq!(make(name), "Options", "{name:?}");
        assert_eq!(kind_of(pool.rename("b", name)), "Options", "{name:?}");
    }
    assert_eq!(kind_of(pool.create::<AnyMap>("c", &Options::new())), "Options");
    let reh = Options::new().design(Design::Reh);
    assert_eq!(kind_of(pool.create::<MultiMap<u64, u64>>("c", &reh)), "Options");
    assert_eq!(kind_of(pool.open::<Map<u64, u64>>("c")), "NoMap");
    assert_eq!(kind_of(pool.open::<Map<u64, u64>>("main")), "NoMap");
    assert_eq!(kind_of(pool.open::<Map<u64, str>>("a")), "Types");
    assert_eq!(kind_of(pool.open::<MultiMap<u64, u64>>("a")), "Design");
    assert_eq!(kind_of(pool.rename("a", "b")), "MapExists");
    assert_eq!(kind_of(pool.rename("c", "d")), "NoMap");
    assert_eq!(kind_of(pool.remove("c")), "NoMap");
    let mut iter = map.iter();
    drop(map);
    assert_eq!(kind_of(pool.remove("a")), "Options");
    assert!(iter.next().is_none());
    drop(iter);
    assert_eq!(names(&pool), before);
    pool.remove("a").unwrap();
    assert_eq!(names(&pool), ["b"]);

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    Options::new().create::<Pool>(&path).unwrap().close().unwrap();
    assert_eq!(kind_of(Options::new().open::<AnyMap>(&path)), "Design");
}

/// Space of maps that were removed is the pool's again, their records too.
#[test]
fn maps_that_are_made_and_removed_again_and_again_take_no_space() {
    let bytes = 4 << 20;
    let pool: Pool = options(Design::Reh).max_bytes(bytes).in_memory().unwrap();
    let keep: Map<str, str> = pool.create("keep", &options(Design::Esh)).unwrap();
    let mut first = None;
    for round in 0..12 {
        let design = Design::ALL[round % Design::ALL.len()];
        let map: Map<str, str> = pool.create("short", &options(design)).unwrap();
        let lists: MultiMap<str, str> = pool.create("lists", &options(Design::Pea)).unwrap();
        for i in 0..ENTRIES {
            map.put(&i.to_string(), &value(i, 1)).unwrap();
            lists.add(&(i % 3).to_string(), &value(i, 2)).unwrap();
            keep.put(&i.to_string(), &value(i, round as u64)).unwrap();
        }
        drop((map, lists));
        pool.remove("short").unwrap();
        pool.remove("lists").unwrap();
        let stats = pool.stats();
        let used = *first.get_or_insert(stats.bytes - stats.free_bytes);
        assert!(stats.bytes - stats.free_bytes <= used + (64 << 10), "{stats:?} at first {used}");
        assert_eq!(stats.record_bytes % 8, 0);
    }
    pool.check(&mut |map, finding| panic!("{map}: {finding:?}")).unwrap();
    assert_eq!(keep.len().unwrap(), ENTRIES);
}

#[test]
fn a_full_pool_has_no_half_of_a_map() {
    let pool: Pool = options(Design::Reh).max_bytes(1 << 20).in_memory().unwrap();
    let map: Map<str, [u8]> = pool.create("map", &Options::new()).unwrap();
    let mut keys = 0;
    while map.put(&format!("{keys}"), &[7; 3000]).is_ok() {
        keys += 1;
    }
    let mut made = 0;
    for &design in Design::ALL {
        made += u32::from(pool.create::<Map<u64, u64>>(&word(design), &options(design)).is_ok());
    }
    let mut listed = 0;
    for info in pool.list().unwrap().iter().filter(|info| info.name != "map") {
        listed += 1;
        pool.remove(&info.name).unwrap();
    }
    assert_eq!(made, listed);
    assert!((0..keys / 2).all(|i| map.remove(&format!("{i}")).unwrap().is_some()));
    fill_after(&pool);
    pool.check(&mut |map, finding| panic!("{map}: {finding:?}")).unwrap();
}

fn fill_after(pool: &Pool) {
    let after: Map<u64, u64> = pool.create("after", &Options::new()).unwrap();
    (0..100).for_each(|i| after.put(&i, &i).unwrap());
}

/// By their default, and where the caller says how many extents a segment has.
#[test]
fn further_maps_of_pea_hash_begin_with_small_segments() {
    let (maps, entry) = (std::mem::offset_of!(Superblock, maps) / 8, size_of::<MapEntry>() / 8);
    let bytes = 4 << 20;
    let geometry = Geometry { extent_shift: 10, ..Geometry::default() };
    let sim = Sim::new(bytes);
    let pool: Pool = Options::new().geometry(geometry).create_on(sim.clone()).unwrap();
    let pea = Options::new().design(Design::Pea);
    let own = pea.clone().geometry(Geometry { buckets: 4, ..geometry });
    for (i, options) in [pea, own].iter().enumerate() {
        let map: Map<u64, u64> = pool.create(&i.to_string(), options).unwrap();
        let image = sim.image();
        let at =
            image[maps] as usize / 8 + i * entry + std::mem::offset_of!(MapEntry, geometry) / 8;
        assert_eq!(image[at] >> 24 & 0xff, [8, 4][i]);
        // Small ones have the last strategy.
        assert_eq!(map.stats().unwrap().index.pea.unwrap().strategies, [0, 0, 2]);
        (0..100).for_each(|k| map.put(&k, &k).unwrap());
    }
    pool.check(&mut |name, finding| panic!("{name}: {finding:?}")).unwrap();
    drop(pool);
    let pool: Pool = on_sim(Sim::from_image(&sim.image(), bytes)).unwrap();
    assert!(pool.list().unwrap().iter().all(|map| map.entries == 100));
}

/// Random words in the table of maps, and in the superblock's word for it, lead to errors, or leave all maps
/// there.
#[test]
fn a_forged_table_of_maps_loses_none_silently() {
    let sim = Sim::new(16 << 20);
    let pool: Pool = options(Design::Reh).create_on(sim.clone()).unwrap();
    for (name, design) in [("a", Design::Reh), ("b", Design::Pea), ("c", Design::Esh)] {
        let map: Map<str, str> = pool.create(name, &options(design)).unwrap();
        (0..50).for_each(|i| map.put(&i.to_string(), name).unwrap());
    }
    pool.rename("a", "d").unwrap();
    pool.close().unwrap();
    let image = sim.image();
    let table = image[std::mem::offset_of!(Superblock, maps) / 8] as usize / 8;
    let mut random = 7_u64;
    let (mut opened, mut refused) = (0, 0);
    for round in 0..400 {
        let mut forged = image.clone();
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(round);
        let word = table + (random >> 40) as usize % (4 * size_of::<MapEntry>() / 8);
        forged[word] = match round % 4 {
            0 => random,
            1 => forged[word] ^ 1 << (random >> 20 & 63),
            2 => 0,
            _ => image[table + (random >> 8) as usize % 160],
        };
        match on_sim::<Pool>(Sim::from_image(&forged, 16 << 20)) {
            Err(e) => {
                refused += 1;
                assert!(
                    matches!(e.kind(), ErrorKind::Corrupt { .. } | ErrorKind::Options { .. }),
                    "{e}"
                );
            }
            Ok(pool) => {
                opened += 1;
                assert_eq!(pool.list().unwrap().len(), 3, "word {}", word - table);
                let _ = pool.check(&mut |_, _| ());
            }
        }
    }
    assert!(opened > 20 && refused > 20, "{opened} opened, {refused} refused");
}

/// A pool that is refused for a map stays as it is, also if the maps before it are sound.
#[test]
fn a_pool_with_a_damaged_map_is_not_written_to() {
    for design in Design::ALL {
        let sim = Sim::new(1 << 20);
        let pool: Pool = options(Design::Reh).create_on(sim.clone()).unwrap();
        for (name, design, keys) in [("first", Design::Reh, 1), ("second", *design, 1000)] {
            let map: Map<u64, u64> = pool.create(name, &options(design)).unwrap();
            (0..keys).for_each(|i| map.put(&i, &i).unwrap());
        }
        pool.close().unwrap();
        let image = sim.image();
        let mut refused = 0;
        // A bit of each word that begins an extent: directories, tables and links are among them.
        for word in (512..image.len()).filter(|word| word % 512 < 64 && image[*word] != 0) {
            let mut forged = image.clone();
            forged[word] ^= 1 << (word * 7 % 64);
            let sim = Sim::from_image(&forged, 1 << 20);
            if on_sim::<Pool>(sim.clone()).is_err() {
                refused += 1;
                assert!(sim.image() == forged, "{design}, word {word}");
            }
        }
        println!("{design}: {refused} refused");
        assert!(refused > 0, "{design}");
    }
}

#[test]
fn threads_make_fill_and_remove_maps_beside_one_another() {
    let pool: Pool = options(Design::Reh).max_bytes(64 << 20).in_memory().unwrap();
    let shared: Map<u64, u64> = pool.create("shared", &options(Design::Pea)).unwrap();
    std::thread::scope(|threads| {
        for thread in 0..4_u64 {
            let (pool, shared) = (&pool, &shared);
            threads.spawn(move || {
                for round in 0..10 {
                    let name = format!("of {thread}");
                    let design = Design::ALL[(thread + round) as usize % Design::ALL.len()];
                    let own: Map<str, str> = pool.create(&name, &options(design)).unwrap();
                    let both: Map<u64, u64> =
                        pool.open_or_create("both", &options(Design::Esh)).unwrap();
                    for i in 0..50 {
                        own.put(&i.to_string(), &name).unwrap();
                        both.put(&(thread * 1000 + i), &i).unwrap();
                        shared.put(&(thread * 1000 + i), &round).unwrap();
                    }
                    assert_eq!(own.len().unwrap(), 50);
                    drop(own);
                    let renamed = format!("once of {thread}");
                    pool.rename(&name, &renamed).unwrap();
                    pool.remove(&renamed).unwrap();
                }
            });
        }
    });
    assert_eq!(names(&pool), ["shared", "both"]);
    assert_eq!(pool.open::<Map<u64, u64>>("both").unwrap().len().unwrap(), 200);
    assert_eq!(shared.len().unwrap(), 200);
    pool.check(&mut |map, finding| panic!("{map}: {finding:?}")).unwrap();
}

/// Records that were removed make room for words, and for another map, before a sweep has found them.
#[test]
fn a_pool_is_full_only_after_a_sweep() {
    const BYTES: u64 = 1 << 20;
    let sim = Sim::new(BYTES);
    let pool: Pool = options(Design::Reh).create_on(sim.clone()).unwrap();
    let words: Map<u64, u64> = pool.create("words", &options(Design::Reh)).unwrap();
    let text: Map<str, [u8]> = pool.create("text", &options(Design::Reh)).unwrap();
    let keys = (0..).take_while(|i| text.put(&format!("{i}"), &[7; 1500]).is_ok()).count();
    let count = (0..).take_while(|i| words.put(i, i).is_ok()).count() as u64;
    drop((words, text));
    pool.close().unwrap();
    for words_first in [true, false] {
        let pool: Pool = on_sim(Sim::from_image(&sim.image(), BYTES)).unwrap();
        let words: Map<u64, u64> = pool.open("words").unwrap();
        let text: Map<str, [u8]> = pool.open("text").unwrap();
        (0..keys).for_each(|i| drop(text.remove(&i.to_string()).unwrap()));
        assert!(pool.stats().sweep_pending);
        if words_first {
            (count..count + 2000).for_each(|i| words.put(&i, &i).unwrap());
        } else {
            pool.create::<Map<u64, u64>>("other", &options(Design::Reh)).unwrap();
        }
        pool.check(&mut |map, finding| panic!("{map}: {finding:?}")).unwrap();
    }
}

/// The work of other threads before the first call for which `is_it` is true.
struct Meanwhile<F> {
    is_it: F,
    others: Mutex<Option<Others>>,
}

type Others = Box<dyn FnOnce() + Send>;

impl<F: Fn(Call, Site) -> bool + Send + Sync> Hook for Meanwhile<F> {
    fn before(&self, call: Call, site: Site) {
        if (self.is_it)(call, site) {
            let others = self.others.lock().unwrap().take();
            others.into_iter().for_each(|others| others());
        }
    }
}

fn meanwhile(
    sim: &Sim,
    is_it: impl Fn(Call, Site) -> bool + Send + Sync + 'static,
    others: impl FnOnce() + Send + 'static,
) {
    let others: Others = Box::new(others);
    sim.set_hook(Box::new(Meanwhile { is_it, others: Mutex::new(Some(others)) }));
}

/// Another thread ends the sweep when an operation was refused for it already: it is tried once more.
#[test]
fn space_that_another_thread_sweeps_is_room() {
    const BYTES: u64 = 1 << 20;
    let sim = Sim::new(BYTES);
    let pool: Pool = options(Design::Reh).create_on(sim.clone()).unwrap();
    pool.create::<Map<u64, u64>>("words", &options(Design::Reh)).unwrap();
    pool.create::<MultiMap<u64, u64>>("lists", &options(Design::Pea)).unwrap();
    let text: Map<str, [u8]> = pool.create("text", &options(Design::Reh)).unwrap();
    let keys = (0..).take_while(|i| text.put(&format!("{i}"), &[7; 1500]).is_ok()).count();
    drop(text);
    pool.close().unwrap();
    let open = || {
        let sim = Sim::from_image(&sim.image(), BYTES);
        let pool: Pool = on_sim(sim.clone()).unwrap();
        let text: Map<str, [u8]> = pool.open("text").unwrap();
        (0..keys).for_each(|i| drop(text.remove(&i.to_string()).unwrap()));
        assert!(pool.stats().sweep_pending);
        (sim, pool)
    };
    type Insert = fn(&Pool, u64);
    let inserts: [Insert; 3] = [
        |pool, i| pool.open::<Map<u64, u64>>("words").unwrap().put(&i, &1).unwrap(),
        |pool, i| {
            let words: Map<u64, u64> = pool.open("words").unwrap();
            assert_eq!(words.fetch_add(&i, 1).unwrap(), 0);
        },
        |pool, i| pool.open::<MultiMap<u64, u64>>("lists").unwrap().add(&i, &1).unwrap(),
    ];
    for insert in inserts {
        let (_, pool) = open();
        let needs_sweep = |i: &u64| {
            insert(&pool, *i);
            !pool.stats().sweep_pending
        };
        let late = (0..).find(needs_sweep).unwrap();
        let (sim, pool) = open();
        (0..late).for_each(|i| insert(&pool, i));
        assert!(pool.stats().sweep_pending);
        let others = pool.clone();
        let sweep = move || while others.step().unwrap() {};
        // The design's operation has ended; the engine above has not learned how yet.
        meanwhile(&sim, |call, _| call == Call::Event(Event::Ack), sweep);
        insert(&pool, late);
        assert!(!pool.stats().sweep_pending);
        pool.check(&mut |map, finding| panic!("{map}: {finding:?}")).unwrap();
    }
}

/// Extents that waited for a thread, which was on its way to a bucket, are room for other maps as soon as it has
/// arrived.
#[test]
fn extents_that_waited_for_a_thread_are_room_when_it_has_arrived() {
    const BYTES: u64 = 256 << 10;
    let sim = Sim::new(BYTES);
    let pool: Pool = options(Design::Reh).create_on(sim.clone()).unwrap();
    let words: Map<u64, u64> = pool.create("words", &options(Design::Esh)).unwrap();
    pool.create::<Map<u64, [u8]>>("texts", &options(Design::Reh)).unwrap();
    let count = (0..).take_while(|i| words.put(i, i).is_ok()).count() as u64;
    drop(words);
    pool.close().unwrap();
    let mut waited = 0;
    for at in 1.. {
        let sim = Sim::from_image(&sim.image(), BYTES);
        let pool: Pool = on_sim(sim.clone()).unwrap();
        let words: Map<u64, u64> = pool.open("words").unwrap();
        let texts: Map<u64, [u8]> = pool.open("texts").unwrap();
        // The thread held up below has marked the block of the bucket before, so no lock of all others is held.
        words.put(&0, &0).unwrap();
        let (left, held_up) = (AtomicUsize::new(at), Arc::new(AtomicBool::new(false)));
        let is_it = move |call, _| {
            if matches!(call, Call::Event(Event::Locked(_))) {
                left.store(0, Ordering::Relaxed);
            }
            let less = |left: usize| left.checked_sub(1);
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) == Ok(1)
        };
        let (others, is_held_up) = (words.clone(), Arc::clone(&held_up));
        meanwhile(&sim, is_it, move || {
            is_held_up.store(true, Ordering::Relaxed);
            (1..count).for_each(|i| assert_eq!(others.remove(&i).unwrap(), Some(i)));
        });
        words.put(&0, &1).unwrap();
        if !held_up.load(Ordering::Relaxed) {
            break;
        }
        waited += u64::from(pool.stats().unit_bytes > BYTES / 2);
        let values = (0..).take_while(|i| texts.put(i, &[7; 3000]).is_ok()).count() as u64;
        assert!(values * 4096 > BYTES * 3 / 4, "{values} values, {:?}", pool.stats());
        pool.check(&mut |map, finding| panic!("{map}: {finding:?}")).unwrap();
    }
    assert!(waited > 0);
}

/// The extents at the end of a chunk of which no block is in use yet are room for other maps.
#[test]
fn the_end_of_a_chunk_is_room_when_the_pool_is_full() {
    const BYTES: u64 = 1 << 20;
    let pool: Pool = options(Design::Reh).max_bytes(BYTES).in_memory().unwrap();
    let words: Map<u64, u64> = pool.create("words", &options(Design::Reh)).unwrap();
    let texts: Map<u64, [u8]> = pool.create("texts", &options(Design::Reh)).unwrap();
    let room = || BYTES - pool.stats().bytes + pool.stats().free_bytes;
    // Until one is the first of a long chunk.
    let (mut texts_count, mut chunk) = (0, 0);
    while chunk < 5 << 12 {
        let before = room();
        texts.put(&texts_count, &[7; 1500]).unwrap();
        (texts_count, chunk) = (texts_count + 1, before - room());
    }
    let (before, room) = (pool.stats().unit_bytes, room());
    let count = (0..).take_while(|i| words.put(i, i).is_ok()).count();
    println!("{count} words beside {texts_count} texts, {chunk} bytes, {room} bytes");
    let units = pool.stats().unit_bytes - before;
    // Its first block stays, and an extent is that of the array of words.
    assert!(units >= room + chunk - (3 << 12), "{units} bytes of {room} and {chunk}");
    assert!((0..texts_count).all(|i| texts.get(&i).unwrap().as_deref() == Some(&[7; 1500][..])));
    pool.check(&mut |map, finding| panic!("{map}: {finding:?}")).unwrap();
}

/// A sweep that ended while a map is removed freed records that the removal freed once more, after another
/// map had taken them.
#[test]
fn a_sweep_does_not_end_while_a_map_is_removed() {
    let entries = budget(1000, 3000);
    let sim = Sim::new(64 << 20);
    let pool: Pool = options(Design::Reh).create_on(sim.clone()).unwrap();
    let kept: Map<str, str> = pool.create("kept", &options(Design::Reh)).unwrap();
    let lists: MultiMap<u64, u64> = pool.create("lists", &options(Design::Pea)).unwrap();
    let text: Map<str, str> = pool.create("text", &options(Design::Reh)).unwrap();
    for i in 0..entries {
        text.put(&i.to_string(), &"y".repeat(200)).unwrap();
        (0..20).for_each(|j| lists.add(&(i % 20), &(i * 100 + j)).unwrap());
    }
    kept.put("x", "x").unwrap();
    drop((kept, lists, text));
    pool.close().unwrap();
    for name in ["lists", "text"].into_iter().cycle().take(budget(4, 40) as usize) {
        let pool: Pool = on_sim(Sim::from_image(&sim.image(), 64 << 20)).unwrap();
        let kept: Map<str, str> = pool.open("kept").unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| pool.remove(name).unwrap());
            threads.spawn(|| {
                while pool.names().len() == 3 {}
                while pool.step().unwrap() {}
            });
            threads.spawn(|| {
                (0..entries).for_each(|i| kept.put(&i.to_string(), &"z".repeat(200)).unwrap());
            });
        });
        for i in 0..entries {
            assert_eq!(kept.get(&i.to_string()).unwrap(), Some("z".repeat(200)), "{name} {i}");
        }
        while pool.step().unwrap() {}
        pool.check(&mut |map, finding| panic!("{name}, {map}: {finding:?}")).unwrap();
    }
}

/// A sweep ends, and others take what it found, between the commit of what removes a list or values and the release
/// of their blocks, which freed them once more.
#[test]
fn blocks_removed_while_a_sweep_ends_are_freed_once() {
    const BYTES: u64 = 8 << 20;
    type Lists = MultiMap<u64, u64>;
    type Texts = MultiMap<u64, [u8]>;
    let text = |key: u64, i: u64| vec![(key + i) as u8; 100];
    let sim = Sim::new(BYTES);
    let pool: Pool = options(Design::Pea).create_on(sim.clone()).unwrap();
    let open = |pool: &Pool, name: &str| -> (Lists, Texts) {
        let [lists, texts] = ["lists", "texts"].map(|of| format!("{name} {of}"));
        let options = options(Design::Pea);
        let lists = pool.open_or_create(&lists, &options).unwrap();
        (lists, pool.open_or_create(&texts, &options).unwrap())
    };
    let fill = move |lists: &Lists, texts: &Texts, keys: std::ops::Range<u64>| {
        for (key, i) in keys.flat_map(|key| (0..30).map(move |i| (key, i))) {
            lists.add(&key, &i).unwrap();
            texts.add(&key, &text(key, i)).unwrap();
        }
    };
    for name in ["own", "other"] {
        let (lists, texts) = open(&pool, name);
        fill(&lists, &texts, 0..40);
    }
    pool.close().unwrap();
    type Change<'a> = &'a dyn Fn(&Lists, &Texts);
    let changes: [Change<'_>; 8] = [
        &|lists, _| (30..70).for_each(|i| lists.add(&0, &i).unwrap()),
        &|lists, _| (10..30).for_each(|i| assert!(lists.remove_one(&0, &i).unwrap())),
        &|lists, _| (1..30).for_each(|i| assert!(lists.remove_one(&0, &i).unwrap())),
        &|lists, _| assert_eq!(lists.remove_all(&0).unwrap(), 30),
        &|_, texts| assert!(texts.remove_one(&0, &text(0, 1)).unwrap()),
        &|_, texts| assert_eq!(texts.remove_all(&0).unwrap(), 30),
        &|lists, _| lists.clear().unwrap(),
        &|_, texts| texts.clear().unwrap(),
    ];
    for change in changes {
        let sim = Sim::from_image(&sim.image(), BYTES);
        let pool: Pool = on_sim(sim.clone()).unwrap();
        let ((lists, texts), others) = (open(&pool, "own"), open(&pool, "other"));
        let sweeper = pool.clone();
        let is_release = |call, site: Site| {
            call == Call::Event(Event::Look) && site.file().ends_with("pool/alloc.rs")
        };
        meanwhile(&sim, is_release, move || {
            while sweeper.step().unwrap() {}
            fill(&others.0, &others.1, 1000..1040);
        });
        assert!(pool.stats().sweep_pending);
        change(&lists, &texts);
        assert!(!pool.stats().sweep_pending, "nothing was released");
        fill(&lists, &texts, 2000..2040);
        pool.check(&mut |map, finding| panic!("{map}: {finding:?}")).unwrap();
    }
}

/// The space of an emptied map is room for records of another one, without closing the pool.
#[test]
fn an_emptied_map_of_any_kind_leaves_its_room_to_others() {
    for design in [Design::Reh, Design::Esh] {
        let bytes = 1 << 20;
        let pool: Pool = options(design).max_bytes(bytes).in_memory().unwrap();
        let words: Map<u64, u64> = pool.create("words", &options(design)).unwrap();
        let texts: Map<u64, [u8]> = pool.create("texts", &options(design)).unwrap();
        let is_full = |e: Error| assert!(matches!(e.kind(), ErrorKind::Full { .. }), "{e}");
        let puts = (0..).map(|i| words.put(&i, &i)).take_while(Result::is_ok).count() as u64;
        is_full(words.put(&puts, &puts).unwrap_err());
        is_full(texts.put(&0, &[7; 3000]).unwrap_err());
        (0..puts).for_each(|i| assert_eq!(words.remove(&i).unwrap(), Some(i)));
        // A value is an extent.
        let values = (0..).map(|i| texts.put(&i, &[7; 3000])).take_while(Result::is_ok).count();
        println!("{design}: {puts} words, then {values} values");
        assert!(values as u64 * 4096 > bytes * 3 / 4, "{design}: {values} values");
        assert_eq!(texts.get(&1).unwrap().as_deref(), Some(&[7; 3000][..]));
        texts.clear().unwrap();
        let again = (0..puts).map(|i| words.put(&i, &i)).take_while(Result::is_ok).count() as u64;
        assert!(again * 10 > puts * 9, "{design}: {again} of {puts} words");
        pool.check(&mut |_, finding| panic!("{finding:?}")).unwrap();
    }
}

/// The table of the maps is a block among records of nearly its size.
#[test]
fn a_map_is_made_behind_records_of_every_size() {
    let geometry = Geometry { extent_shift: 13, ..Geometry::default() };
    let main: Map<u64, [u8]> = Options::new().seed(1).geometry(geometry).in_memory().unwrap();
    for i in 0..20 {
        main.put(&i, &vec![7; 19_500 + i as usize * 50]).unwrap();
    }
    let pool = Pool::of(&main);
    let map: Map<u64, u64> = pool.create("other", &Options::new()).unwrap();
    map.put(&1, &2).unwrap();
    assert_eq!(map.get(&1).unwrap(), Some(2));
    pool.check(&mut |map, finding| panic!("{map}: {finding:?}")).unwrap();
}

//! Readers in other processes, while one process has the pool open for writing.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use durahash::{Design, ErrorKind, Map, MultiMap, Options, Pool, SyncMode};
use durahash_media::Geometry;
use durahash_media::sim::faults;
use durahash_testkit::{budget, new_path};

/// Keys that are always there, and those that come and go.
const STABLE: u64 = 2000;
const FLEETING: u64 = 20_000;
/// Reads of a reader between two words of it.
const READS: u64 = 10_000;

const EIO: i32 = 5;

type Records = Map<str, [u8]>;
/// Multimaps of a pool of Pea Hash. The values of a key have versions one behind the other at any moment.
type Multi = (MultiMap<u64, u64>, MultiMap<str, [u8]>);

/// Keys of multimaps, and how many values they have at the most.
const MANY: u64 = 120;
const MOST: [u64; 4] = [1, 4, 40, 600];

/// Modes of a writer that lets others read: without a log, and with a live image, whose ring is short and fills often.
const MODES: [SyncMode; 2] = [SyncMode::Process, SyncMode::Interval(Duration::from_millis(10))];

fn options(mode: SyncMode) -> Options {
    options_of(Design::Reh, mode)
}

fn options_of(design: Design, mode: SyncMode) -> Options {
    // Small extents, so that they are taken and given back here; and segments of Pea Hash of two, of ESH of a half.
    let buckets = match design {
        Design::Pea => 2,
        Design::Esh => 8,
        _ => 0,
    };
    let geometry = Geometry { extent_shift: 12, buckets, ..Geometry::default() };
    let options = Options::new().sync_mode(mode).live_image(mode != SyncMode::Process);
    options.design(design).log_bytes(1 << 20).readers(true).geometry(geometry).max_bytes(1 << 30)
}

fn text(key: u64) -> String {
    format!("key {key}")
}

/// A value that names its key and its version, of a length of its own.
fn value(key: u64, version: u64) -> Vec<u8> {
    let mut bytes = [key.to_le_bytes(), version.to_le_bytes()].concat();
    bytes.resize(16 + (key ^ version) as usize % 300, version as u8);
    bytes
}

fn version(key: u64, bytes: &[u8]) -> u64 {
    let version = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
    assert_eq!(bytes, value(key, version), "the value of key {key} is torn");
    version
}

/// SplitMix64's finaliser.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Writes until it is killed, or a file says that it is to close the pool.
fn write(path: &Path, stop: &Path, options: &Options) {
    let pool: Pool = loop {
        match options.open_or_create(path) {
            // A reader had the pool for itself for a moment.
            Err(e) if matches!(e.kind(), ErrorKind::Locked) => std::thread::yield_now(),
            opened => break opened.unwrap(),
        }
    };
    let words: Map<u64, u64> = pool.open_or_create("words", options).unwrap();
    let records: Records = pool.open_or_create("records", options).unwrap();
    let mut from = 1;
    for key in 0..STABLE {
        from = from.max(words.get(&key).unwrap().map_or(0, |value| value / STABLE) + 1);
        if let Some(bytes) = records.get(&text(key)).unwrap() {
            from = from.max(version(key, &bytes) + 1);
        }
    }
    let put = |key: u64, version: u64| {
        words.put(&key, &(version * STABLE + key % STABLE)).unwrap();
        records.put(&text(key), &value(key, version)).unwrap();
    };
    (0..STABLE).for_each(|key| put(key, from));
    let mut multi = open_many(&pool, options);
    println!("ready");
    for i in 1.. {
        let random = mix(i ^ from << 40);
        put(random % STABLE, from + i);
        let key = STABLE + (random >> 32) % FLEETING;
        // Filled and emptied in turn, so that buckets split and merge.
        if (random >> 8) % 10 < if (i / 30_000) % 2 == 0 { 8 } else { 1 } {
            put(key, from + i);
        } else {
            words.remove(&key).unwrap();
            records.remove(&text(key)).unwrap();
        }
        if let Some((multi, there)) = &mut multi {
            change(multi, there, random >> 16, (i / 30_000) % 2 == 0);
        }
        if i % 1000 == 0 && stop.exists() {
            break;
        }
    }
    drop((words, records, multi));
    pool.close().unwrap();
}

/// The versions that each key of the multimaps has: the first, and one behind the last.
type There = Vec<[(u64, u64); 2]>;

/// Multimaps of a pool of Pea Hash, and what they have.
fn open_many(pool: &Pool, options: &Options) -> Option<(Multi, There)> {
    let words = pool.open_or_create("many words", options).ok()?;
    let multi: Multi = (words, pool.open_or_create("many records", options).unwrap());
    let seen = |key| [true, false].map(|is_word| versions(&multi, key, is_word).unwrap());
    let mut there: There = (0..MANY).map(seen).collect();
    for (key, there) in (0..MANY).zip(&mut there) {
        for (there, is_word) in there.iter_mut().zip([true, false]) {
            if there.0 == there.1 {
                *there = (1, 2);
                add(&multi, key, 1, is_word);
            }
        }
    }
    Some((multi, there))
}

fn add((words, records): &Multi, key: u64, version: u64, is_word: bool) {
    if is_word {
        words.add(&key, &(version * MANY + key)).unwrap();
    } else {
        records.add(&text(key), &value(key, version)).unwrap();
    }
}

/// Adds a version of a key, or removes its first.
fn change(multi: &Multi, there: &mut There, random: u64, adds: bool) {
    let (key, is_word) = (random % MANY, (random >> 8).is_multiple_of(2));
    let (first, end) = &mut there[key as usize][usize::from(!is_word)];
    let most = MOST[(key % 4) as usize];
    let adds = (random >> 9) % 10 < if adds { 8 } else { 1 };
    if *end - *first == 1 || adds && *end - *first < most {
        add(multi, key, *end, is_word);
        *end += 1;
    } else {
        let gone = if is_word {
            multi.0.remove_one(&key, &(*first * MANY + key))
        } else {
            multi.1.remove_one(&text(key), &value(key, *first))
        };
        assert!(gone.unwrap());
        *first += 1;
    }
}

/// The versions of a key of a multimap, which must be one behind the other.
fn versions((words, records): &Multi, key: u64, is_word: bool) -> durahash::Result<(u64, u64)> {
    let mut all: Vec<u64> = if is_word {
        let own = |value: u64| {
            assert_eq!(value % MANY, key, "key {key} has the value of another");
            value / MANY
        };
        words.get_all(&key)?.into_iter().map(own).collect()
    } else {
        records.get_all(&text(key))?.iter().map(|bytes| version(key, bytes)).collect()
    };
    all.sort_unstable();
    let first = all.first().copied().unwrap_or(0);
    assert!(all.iter().copied().eq(first..first + all.len() as u64), "key {key}: {all:?}");
    Ok((first, first + all.len() as u64))
}

/// Looks at a key of the multimaps: nothing goes back, and a value is always there.
fn look_at_many(multi: &Multi, random: u64, seen: &mut There) -> durahash::Result<()> {
    let (key, is_word) = ((random >> 8) % MANY, random >> 63 == 0);
    let found = versions(multi, key, is_word)?;
    let seen = &mut seen[key as usize][usize::from(!is_word)];
    assert!(found.0 < found.1, "key {key} is missed");
    assert!(seen.0 <= found.0 && seen.1 <= found.1, "key {key}: {found:?} behind {seen:?}");
    *seen = found;
    let count = if is_word { multi.0.count(&key)? } else { multi.1.count(&text(key))? };
    assert!((1..=MOST[(key % 4) as usize].max(2)).contains(&count), "key {key}: {count}");
    Ok(())
}

/// Walks over the multimaps.
fn walk_many((words, records): &Multi) -> durahash::Result<()> {
    let mut keys = vec![0; MANY as usize];
    for pair in words.iter() {
        let (key, value) = pair?;
        assert_eq!(value % MANY, key);
        keys[key as usize] |= 1;
    }
    for pair in records.iter() {
        let (name, bytes) = pair?;
        let key: u64 = name["key ".len()..].parse().unwrap();
        version(key, &bytes);
        keys[key as usize] |= 2;
    }
    assert!(keys.iter().all(|seen| *seen == 3), "a walk over multimaps: {keys:?}");
    words.check(&mut |finding| panic!("{finding:?}"))?;
    records.check(&mut |finding| panic!("{finding:?}"))?;
    assert!(words.len()? >= MANY && records.stats()?.keys >= MANY);
    Ok(())
}

/// What a reader has seen of each key, in either map.
type Seen = HashMap<(bool, u64), u64>;

/// Looks at a key; what it sees is never older than what it saw before.
fn look(pool: &(Map<u64, u64>, Records), random: u64, seen: &mut Seen) -> durahash::Result<()> {
    let (words, records) = pool;
    let key = if random.is_multiple_of(3) {
        STABLE + (random >> 8) % FLEETING
    } else {
        (random >> 8) % STABLE
    };
    let is_word = random >> 63 == 0;
    let found = if is_word {
        words.get(&key)?.map(|value| {
            assert_eq!(value % STABLE, key % STABLE, "key {key} has the value of another");
            value / STABLE
        })
    } else {
        records.get(&text(key))?.map(|bytes| version(key, &bytes))
    };
    assert!(found.is_some() || key >= STABLE, "key {key} is missed");
    if let Some(found) = found {
        let before = seen.insert((is_word, key), found).unwrap_or(0);
        assert!(found >= before, "key {key} had version {before}, and has {found}");
    }
    Ok(())
}

/// Walks over everything.
fn walk((words, records): &(Map<u64, u64>, Records)) -> durahash::Result<()> {
    let mut stable = 0;
    for pair in words.iter() {
        let (key, value) = pair?;
        assert_eq!(value % STABLE, key % STABLE);
        stable += u64::from(key < STABLE);
    }
    assert_eq!(stable, STABLE, "a walk over words");
    stable = 0;
    for pair in records.iter() {
        let (name, bytes) = pair?;
        let key: u64 = name["key ".len()..].parse().unwrap();
        version(key, &bytes);
        stable += u64::from(key < STABLE);
    }
    assert_eq!(stable, STABLE, "a walk over records");
    words.check(&mut |finding| panic!("{finding:?}"))?;
    records.check(&mut |finding| panic!("{finding:?}"))?;
    let some: Vec<u64> = (0..100).collect();
    let mut found = vec![None; some.len()];
    words.get_many(&some, &mut found)?;
    assert!(found.iter().all(Option::is_some));
    assert!(words.stats()?.keys >= STABLE && records.len()? >= STABLE);
    Ok(())
}

/// Reads, opening the pool again when its writer is another, until there is none.
fn read(path: &Path, stop: &Path) {
    let mut seen = Seen::new();
    let mut seen_many = vec![[(0, 0); 2]; MANY as usize];
    let mut reads = 0;
    while !stop.exists() {
        let pool: Pool = match Options::new().read_only(true).open(path) {
            Err(e) if matches!(e.kind(), ErrorKind::Locked | ErrorKind::WriterGone) => {
                std::thread::yield_now();
                continue;
            }
            opened => opened.unwrap(),
        };
        let maps: (Map<u64, u64>, Records) =
            (pool.open("words").unwrap(), pool.open("records").unwrap());
        let multi: Option<Multi> = match pool.open("many words") {
            Ok(words) => Some((words, pool.open("many records").unwrap())),
            Err(_) => None,
        };
        assert!(matches!(maps.0.put(&1, &1).unwrap_err().kind(), ErrorKind::ReadOnly));
        println!("opened");
        let done = loop {
            reads += 1;
            let random = mix(reads ^ u64::from(std::process::id()) << 32);
            let mut done = match &multi {
                Some(multi) if reads % 4 == 0 => look_at_many(multi, random, &mut seen_many),
                _ => look(&maps, random, &mut seen),
            };
            if reads % READS == 0 {
                done = done.and_then(|()| walk(&maps));
                done = done.and_then(|()| multi.as_ref().map_or(Ok(()), walk_many));
                println!("read");
                if stop.exists() {
                    break Ok(());
                }
            }
            if done.is_err() {
                break done;
            }
        };
        match done {
            Err(e) if !matches!(e.kind(), ErrorKind::WriterGone) => panic!("{e}"),
            _ => {}
        }
    }
    println!("ended");
}

#[test]
fn child() {
    let Ok(path) = std::env::var("DURAHASH_READERS_POOL") else {
        return;
    };
    let path = Path::new(&path);
    let stop = path.with_extension("stop");
    match std::env::var("DURAHASH_READERS_ROLE").unwrap().as_str() {
        "read" => read(path, &stop),
        role => {
            let (design, mode) = role.split_once(' ').unwrap();
            let options = options_of(design.parse().unwrap(), mode.parse().unwrap());
            write(path, &stop, &options);
        }
    }
}

struct Process(Child, BufReader<ChildStdout>);

impl Process {
    fn start(path: &Path, role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "readers::child", "--nocapture"])
            .env("DURAHASH_READERS_POOL", path)
            .env("DURAHASH_READERS_ROLE", role)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Process(child, out)
    }

    /// Waits until it has said a word.
    fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        while !line.trim_end().ends_with(word) {
            line.clear();
            assert_ne!(self.1.read_line(&mut line).unwrap(), 0, "it ended before it said {word}");
        }
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Readers verify while their writer is killed so many times, and some of them too. At the end it closes the pool.
fn verified(design: Design, mode: SyncMode, rounds: u64) {
    const READERS: usize = 8;
    let (_dir, path) = new_path();
    let write = || {
        let mut writer = Process::start(&path, &format!("{design} {mode}"));
        writer.wait_for("ready");
        writer
    };
    let read = || Process::start(&path, "read");
    let mut writer = write();
    let mut readers: Vec<_> = (0..READERS).map(|_| read()).collect();
    for round in 0..rounds as usize {
        // Each opens the pool once beside each writer. One that opened it while there is none would keep others out.
        readers.iter_mut().for_each(|reader| reader.wait_for("opened"));
        if round % 4 == 1 {
            let mut killed = std::mem::replace(&mut readers[round % READERS], read());
            killed.kill();
            readers[round % READERS].wait_for("opened");
        }
        (0..round % 3).for_each(|i| readers[(round + i) % READERS].wait_for("read"));
        writer.kill();
        if round % 4 == 0 {
            // They go on with what it has left.
            readers.iter_mut().for_each(|reader| reader.wait_for("read"));
        }
        writer = write();
    }
    readers.iter_mut().for_each(|reader| reader.wait_for("opened"));
    std::fs::write(path.with_extension("stop"), "").unwrap();
    writer.1.lines().for_each(drop);
    assert!(writer.0.wait().unwrap().success());
    for mut reader in readers {
        reader.wait_for("ended");
        reader.1.lines().for_each(drop);
        assert!(reader.0.wait().unwrap().success());
    }
    let pool: Pool = Options::new().open(&path).unwrap();
    pool.check(&mut |map, finding| panic!("{map}: {finding:?}")).unwrap();
}

fn rounds() -> u64 {
    let default = budget(2, 100);
    std::env::var("DURAHASH_KILL_ROUNDS").map_or(default, |rounds| rounds.parse().unwrap())
}

#[test]
fn readers_verify_while_writers_and_readers_are_killed() {
    verified(Design::Reh, MODES[0], rounds());
}

#[test]
fn readers_of_a_live_image_verify_while_writers_and_readers_are_killed() {
    verified(Design::Reh, MODES[1], rounds());
}

#[test]
fn readers_of_pea_hash_verify_while_writers_and_readers_are_killed() {
    MODES.iter().for_each(|mode| verified(Design::Pea, *mode, rounds()));
}

#[test]
fn readers_of_esh_verify_while_writers_and_readers_are_killed() {
    MODES.iter().for_each(|mode| verified(Design::Esh, *mode, rounds()));
}

#[test]
fn readers_of_rewo_hash_verify_while_writers_and_readers_are_killed() {
    MODES.iter().for_each(|mode| verified(Design::Rewo, *mode, rounds()));
}

#[test]
fn a_reader_follows_a_pool_that_grows_and_is_told_of_its_end() {
    for design in Design::ALL {
        for mode in MODES {
            // Each of them is on the disk.
            let most = if mode == SyncMode::Strict { 60_000 } else { 2_000_000 };
            follow(&options_of(*design, mode), budget(60_000, most));
        }
    }
}

fn follow(options: &Options, keys: u64) {
    let (_dir, path) = new_path();
    let map: Map<u64, u64> = options.create(&path).unwrap();
    let reader: Map<u64, u64> = Options::new().read_only(true).open(&path).unwrap();
    assert_eq!((reader.get(&1).unwrap(), reader.len().unwrap()), (None, 0));
    // Beyond the space that was mapped, and the first tables of extents.
    for key in 0..keys {
        map.put(&key, &!key).unwrap();
        if key % 1000 == 0 {
            assert_eq!(reader.get(&key).unwrap(), Some(!key));
        }
    }
    assert!((0..keys).all(|key| reader.get(&key).unwrap() == Some(!key)));
    assert_eq!(reader.len().unwrap(), keys);
    reader.check(&mut |finding| panic!("{finding:?}")).unwrap();
    assert!((0..keys).all(|key| map.remove(&key).unwrap() == Some(!key)));
    assert_eq!((reader.get(&5).unwrap(), reader.iter().count()), (None, 0));
    let bytes = std::fs::metadata(&path).unwrap().len();
    map.close().unwrap();
    for _ in 0..2 {
        assert!(matches!(reader.get(&1).unwrap_err().kind(), ErrorKind::WriterGone));
        assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes, "it is mapped by a reader");
        // Nor by another writer, who has no file for readers.
        let again: Map<u64, u64> = Options::new().open(&path).unwrap();
        assert!(matches!(reader.get(&1).unwrap_err().kind(), ErrorKind::WriterGone));
        again.close().unwrap();
    }
    drop(reader);
    options.open::<Map<u64, u64>>(&path).unwrap().close().unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() < bytes);
    let mut files = std::fs::read_dir(path.parent().unwrap()).unwrap().map(|file| file.unwrap());
    // A long live image stays.
    let may_stay = |file: std::fs::DirEntry| {
        file.path() == path
            || file.path().extension() == Some("live".as_ref())
                && file.metadata().unwrap().len() > 16 << 20
    };
    assert!(files.all(may_stay), "the file for readers goes, and a short live image");
}

/// A long list is read while other keys of its counter are changed all the time.
#[test]
fn other_keys_do_not_keep_a_reader_of_many_values_looking() {
    const VALUES: u64 = 200_000;
    let (_dir, path) = new_path();
    let options = options_of(Design::Pea, SyncMode::Process).geometry(Geometry::default());
    let map: MultiMap<u64, u64> = options.create(&path).unwrap();
    (0..VALUES).for_each(|value| map.add(&0, &value).unwrap());
    let reader: MultiMap<u64, u64> = Options::new().read_only(true).open(&path).unwrap();
    assert!(matches!(reader.add(&1, &1).unwrap_err().kind(), ErrorKind::ReadOnly));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // So many that each counter is changed while the list is read.
            for key in (1..=20_000).cycle() {
                map.add(&key, &key).unwrap();
                assert_eq!(map.remove_all(&key).unwrap(), 1);
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..budget(20, 1000) {
            let mut all = reader.get_all(&0).unwrap();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..VALUES));
            assert_eq!(reader.count(&0).unwrap(), VALUES);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn pools_that_are_not_for_readers_are_refused() {
    let (_dir, path) = new_path();
    let map: Map<u64, u64> = Options::new().sync_mode(SyncMode::Process).create(&path).unwrap();
    let refused = Options::new().read_only(true).open::<Pool>(&path).err().unwrap();
    assert!(matches!(refused.kind(), ErrorKind::Locked));
    map.close().unwrap();
    let (_dir, path) = new_path();
    let is_refused = |options: Options, path: &Path| {
        let refused = options.open_or_create::<Map<u64, u64>>(path).err().unwrap();
        assert!(matches!(refused.kind(), ErrorKind::Options { .. }), "{refused}");
    };
    is_refused(options(MODES[1]).live_image(false), &path);
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    options(MODES[1]).create::<Map<u64, u64>>(&path).unwrap().close().unwrap();
    is_refused(options(MODES[1]).live_image(false), &path);
}

#[test]
fn counters_of_a_killed_writer_are_not_those_of_a_pool_restored_in_its_place() {
    let (_dir, path) = new_path();
    let options = options(SyncMode::Process);
    options.create::<Map<u64, u64>>(&path).unwrap().close().unwrap();
    let backup = std::fs::read(&path).unwrap();
    let map: Map<u64, u64> = options.open(&path).unwrap();
    let names = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let beside = names.map(|name| name.unwrap().path()).find(|other| *other != path).unwrap();
    let counters = std::fs::read(&beside).unwrap();
    map.close().unwrap();
    // What a kill leaves, and a backup in the same file.
    std::fs::write(&path, backup).unwrap();
    std::fs::write(&beside, &counters).unwrap();
    let _again: Map<u64, u64> = Options::new().sync_mode(SyncMode::Process).open(&path).unwrap();
    // It has come to the number of the open that the counters are of.
    let state = &std::fs::read(&path).unwrap()[128..];
    assert_eq!(state[..4], counters[8..12]);
    let seen = Options::new().read_only(true).open::<Map<u64, u64>>(&path);
    assert!(matches!(seen.err().unwrap().kind(), ErrorKind::Locked));
}

/// Whatever it uses for its stores: the pool's file, this live image, another one, or pages of its own.
#[test]
fn another_writer_is_seen_at_once_behind_a_killed_one() {
    let others: [fn(Options) -> Options; 4] = [
        |options| options,
        |options| options.sync_mode(SyncMode::Process),
        |options| options.sync_mode(SyncMode::INTERVAL),
        |options| options.sync_mode(SyncMode::INTERVAL).live_image(false).log_bytes(1 << 20),
    ];
    for mode in MODES {
        for other in others {
            let (_dir, path) = new_path();
            let mut writer = Process::start(&path, &format!("reh {mode}"));
            writer.wait_for("ready");
            let pool: Pool = Options::new().read_only(true).open(&path).unwrap();
            let words: Map<u64, u64> = pool.open("words").unwrap();
            writer.kill();
            let left = words.get(&5).unwrap();
            assert!(left.is_some());
            let again: Pool = other(Options::new()).open(&path).unwrap();
            assert!(matches!(words.get(&5).unwrap_err().kind(), ErrorKind::WriterGone));
            assert_eq!(again.open::<Map<u64, u64>>("words").unwrap().get(&5).unwrap(), left);
        }
    }
}

#[test]
fn a_long_live_image_is_not_cut_under_its_readers() {
    const BYTES: usize = 1 << 20;
    let (dir, path) = new_path();
    let options = options(MODES[1]).geometry(Geometry::default());
    let map: Map<u64, [u8]> = options.create(&path).unwrap();
    (0..48).for_each(|key| map.put(&key, &[key as u8; BYTES]).unwrap());
    let reader: Map<u64, [u8]> = Options::new().read_only(true).open(&path).unwrap();
    let has = |map: &Map<u64, [u8]>, key: u64| map.get(&key).map(|value| value.unwrap()[0]);
    assert_eq!(has(&reader, 47).unwrap(), 47);
    let names = || std::fs::read_dir(dir.path()).unwrap().map(|name| name.unwrap().path());
    let live = names().find(|name| name.extension().is_some_and(|ext| ext == "live")).unwrap();
    let bytes = || std::fs::metadata(&live).unwrap().len();
    let long = bytes();
    (24..48).for_each(|key| assert!(map.remove(&key).unwrap().is_some()));
    map.close().unwrap();
    assert_eq!(bytes(), long);
    // The next one grows over what is left behind the pool's end.
    let map: Map<u64, [u8]> = options.open(&path).unwrap();
    assert!(has(&reader, 7).is_err_and(|e| matches!(e.kind(), ErrorKind::WriterGone)));
    (24..64).for_each(|key| {
        map.put(&key, &[key as u8; BYTES]).unwrap();
        assert!(bytes() >= long);
    });
    let again: Map<u64, [u8]> = Options::new().read_only(true).open(&path).unwrap();
    assert!((0..64).all(|key| has(&again, key).unwrap() == key as u8));
    map.check(&mut |finding| panic!("{finding:?}")).unwrap();
    drop((reader, again));
    (24..64).for_each(|key| assert!(map.remove(&key).unwrap().is_some()));
    map.close().unwrap();
    assert!(bytes() < long);
}

#[test]
fn readers_of_a_writer_whose_disk_fails_are_told() {
    let (_dir, path) = new_path();
    let hour = SyncMode::Interval(Duration::from_secs(3600));
    let map: Map<u64, u64> = options(hour).create(&path).unwrap();
    map.put(&1, &1).unwrap();
    let open = || Options::new().read_only(true).open::<Map<u64, u64>>(&path);
    let reader = open().unwrap();
    assert_eq!(reader.get(&1).unwrap(), Some(1));
    faults::arm(1, EIO);
    assert!(map.sync().is_err() && faults::disarm());
    assert!(map.get(&1).is_err());
    assert!(matches!(reader.get(&1).unwrap_err().kind(), ErrorKind::WriterGone));
    assert!(matches!(open().err().unwrap().kind(), ErrorKind::Locked));
    drop(map);
    // The next one trusts what the live image has.
    let map: Map<u64, u64> = options(hour).open(&path).unwrap();
    assert_eq!((map.get(&1).unwrap(), open().unwrap().get(&1).unwrap()), (Some(1), Some(1)));
}

#[test]
fn readers_beside_strict_see_nothing_that_is_not_on_the_disk() {
    let mut failures = 0;
    for round in 0..budget(20, 500) {
        let (_dir, path) = new_path();
        let map: Map<u64, u64> = options(SyncMode::Strict).create(&path).unwrap();
        let reader: Map<u64, u64> = Options::new().read_only(true).open(&path).unwrap();
        (0..20).for_each(|key| {
            map.put(&key, &1).unwrap();
            assert_eq!(reader.get(&key).unwrap(), Some(1));
        });
        let (begun, key) = (Barrier::new(2), round % 20);
        let read = || {
            let mut last = Some(1);
            begun.wait();
            while last == Some(1) {
                last = match reader.get(&key) {
                    Err(e) if matches!(e.kind(), ErrorKind::WriterGone) => break,
                    found => found.unwrap(),
                };
            }
            last
        };
        let (has_failed, last) = std::thread::scope(|scope| {
            let reading = scope.spawn(read);
            begun.wait();
            faults::arm(1, EIO);
            // Another thread may take the snapshot.
            let has_failed = map.put(&key, &2).is_err();
            faults::disarm();
            (has_failed, reading.join().unwrap())
        });
        if has_failed && last == Some(2) {
            // Its store may be in a snapshot of another thread, which came before.
            let copy = path.with_extension("copy");
            std::fs::copy(&path, &copy).unwrap();
            let of_disk: Map<u64, u64> = Options::new().accept_suspect(true).open(&copy).unwrap();
            assert_eq!(of_disk.get(&key).unwrap(), last);
        } else {
            assert_eq!(last, Some(if has_failed { 1 } else { 2 }));
        }
        failures += u64::from(has_failed);
    }
    assert_ne!(failures, 0);
}

#[test]
fn a_live_image_elsewhere_is_found_where_its_directory_is_given() {
    let (_dir, path) = new_path();
    let elsewhere = tempfile::tempdir().unwrap();
    let map: Map<u64, u64> =
        options(MODES[1]).live_dir(elsewhere.path().into()).create(&path).unwrap();
    map.put(&1, &1).unwrap();
    let reader = Options::new().read_only(true);
    let e = reader.open::<Map<u64, u64>>(&path).err().unwrap();
    assert!(matches!(e.kind(), ErrorKind::Options { .. }), "{e}");
    let reader: Map<u64, u64> = reader.live_dir(elsewhere.path().into()).open(&path).unwrap();
    assert_eq!(reader.get(&1).unwrap(), Some(1));
    drop(map);
    assert!(matches!(reader.get(&1).unwrap_err().kind(), ErrorKind::WriterGone));
}

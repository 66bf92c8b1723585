//! Processes killed at random moments while several threads write to a real pool file, in every mode.
//! Everything that an operation returned to a thread is there when the pool is opened again.
//!
//! `DURAHASH_KILL_ROUNDS=10000 cargo test --release -p durahash --test kill -- --nocapture`; with
//! `DURAHASH_KILL_ONLY=esh`, of one design; with `DURAHASH_KILL_THREADS=128`, of as many threads.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use durahash::cache::Clock;
use durahash::{Batch, Cache, Design, Map, MultiMap, Options, Pool, SyncMode};
use durahash_media::Geometry;
use durahash_media::hash::WordMix;
use durahash_testkit::{Handle, assert_sound, budget, new_path, seed};

/// Threads of a child.
fn threads() -> u64 {
    std::env::var("DURAHASH_KILL_THREADS").map_or(3, |threads| threads.parse().unwrap())
}

/// Keys of one thread; no other writes them.
const KEYS: u64 = 1500;
/// Operations after which a thread turns from filling to emptying, so that units split and merge.
const PHASE: u64 = 4000;

/// Operation number `i` of a thread: a key, and its new value if it is put.
fn operation(seed: u64, thread: u64, i: u64) -> (u64, Option<u64>) {
    let random = mix(seed ^ (thread << 56) ^ i);
    let puts_of_ten = if (i / PHASE).is_multiple_of(2) { 8 } else { 3 };
    let put = random % 10 < puts_of_ten;
    (thread * KEYS + (random >> 8) % KEYS, put.then_some(random >> 20))
}

fn mix(x: u64) -> u64 {
    const MIX: WordMix = WordMix::new(42);
    MIX.mix(x)
}

/// A map under test: how numbers become its keys and values.
trait Subject: Handle + Sync {
    /// The number of entries.
    fn entries(&self) -> u64;
    /// Bytes of records, once nothing is left to be found free.
    fn record_bytes(&self) -> u64;
    fn put(&self, key: u64, value: u64);
    fn remove(&self, key: u64);
    /// All that is in the map, every value verified to be whole.
    fn pairs(&self) -> Vec<(u64, u64)>;

    fn operation(seed: u64, thread: u64, i: u64) -> (u64, Option<u64>) {
        operation(seed, thread, i)
    }

    /// The value of a key that had `before` and to which `value` was put.
    fn after(_before: Option<u64>, value: u64) -> u64 {
        value
    }
}

/// The methods that do not depend on how numbers become keys and values; a number has so many entries.
macro_rules! sizes {
    ($members:expr) => {
        fn entries(&self) -> u64 {
            self.len().unwrap() / $members
        }
        fn record_bytes(&self) -> u64 {
            while self.step().unwrap() {}
            self.stats().unwrap().space.record_bytes
        }
    };
}

type Words = Map<u64, u64>;

impl Subject for Words {
    sizes!(1);
    fn put(&self, key: u64, value: u64) {
        Map::put(self, &key, &value).unwrap();
    }
    fn remove(&self, key: u64) {
        Map::remove(self, &key).unwrap();
    }
    fn pairs(&self) -> Vec<(u64, u64)> {
        self.iter().map(Result::unwrap).collect()
    }
}

type Records = Map<str, [u8]>;

/// Of many lengths, up to some size classes.
fn bytes_of(value: u64) -> Vec<u8> {
    let mut bytes = value.to_le_bytes().to_vec();
    bytes.resize(8 + (value % 700) as usize, value as u8);
    bytes
}

impl Subject for Records {
    sizes!(1);
    fn put(&self, key: u64, value: u64) {
        Map::put(self, &format!("key {key}"), &bytes_of(value)).unwrap();
    }
    fn remove(&self, key: u64) {
        Map::remove(self, &format!("key {key}")).unwrap();
    }
    fn pairs(&self) -> Vec<(u64, u64)> {
        let number = |(key, bytes): (String, Vec<u8>)| {
            let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert_eq!(bytes, bytes_of(value));
            (key["key ".len()..].parse().unwrap(), value)
        };
        self.iter().map(|pair| number(pair.unwrap())).collect()
    }
}

/// Numbers that stand for several keys of a map, which one batch puts or removes.
const MEMBERS: u64 = 5;

/// The methods of a map that has these members' keys and values.
macro_rules! batches {
    ($of:expr) => {
        sizes!(MEMBERS);
        fn put(&self, key: u64, value: u64) {
            let (mut batch, of) = (Batch::new(), $of);
            for member in 0..MEMBERS {
                let (key, value) = of(key * MEMBERS + member, value + member);
                batch.put(self, &key, &value).unwrap();
            }
            batch.apply().unwrap();
        }
        fn remove(&self, key: u64) {
            let (mut batch, of) = (Batch::new(), $of);
            for member in 0..MEMBERS {
                batch.remove(self, &of(key * MEMBERS + member, 0).0).unwrap();
            }
            batch.apply().unwrap();
        }
    };
}

type Batches = Map<u32, u64>;

impl Subject for Batches {
    batches!(|key, value| (key as u32, value));
    fn pairs(&self) -> Vec<(u64, u64)> {
        whole(self.iter().map(Result::unwrap).map(|(key, value)| (u64::from(key), value)))
    }
}

/// The same of byte strings.
type RecordBatches = Map<u64, [u8]>;

impl Subject for RecordBatches {
    batches!(|key, value| (key, bytes_of(value)));
    fn pairs(&self) -> Vec<(u64, u64)> {
        whole(self.iter().map(Result::unwrap).map(|(key, bytes)| {
            let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert_eq!(bytes, bytes_of(value));
            (key, value)
        }))
    }
}

/// One pair for each number, whose members are all there, of one batch.
fn whole(pairs: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut all: Vec<_> = pairs.collect();
    all.sort_unstable();
    let groups = all.chunk_by(|a, b| a.0 / MEMBERS == b.0 / MEMBERS);
    let one = |group: &[(u64, u64)]| {
        let (key, value) = (group[0].0 / MEMBERS, group[0].1);
        let members = (0..MEMBERS).map(|i| (key * MEMBERS + i, value + i));
        assert!(group.iter().copied().eq(members), "half a batch: {group:?}");
        (key, value)
    };
    groups.map(one).collect()
}

/// A multimap of few keys with long lists. A sum over its values stands for a key's list, as neither has
/// an order.
type Lists = MultiMap<u64, u64>;

impl Subject for Lists {
    sizes!(1);
    fn put(&self, key: u64, value: u64) {
        self.add(&key, &value).unwrap();
    }
    fn remove(&self, key: u64) {
        self.remove_all(&key).unwrap();
    }
    fn pairs(&self) -> Vec<(u64, u64)> {
        self.iter().map(Result::unwrap).collect()
    }
    fn operation(seed: u64, thread: u64, i: u64) -> (u64, Option<u64>) {
        let random = mix(seed ^ (thread << 56) ^ i);
        // The lower a key is, the more often it comes.
        let key = (random >> 8) % 300 % (1 + (random >> 32) % 300);
        let put = !random.is_multiple_of(40);
        (thread * KEYS + key, put.then_some(random >> 20))
    }
    fn after(before: Option<u64>, value: u64) -> u64 {
        before.unwrap_or(0).wrapping_add(mix(value))
    }
}

/// A map of records for each thread, of another design each, beside which maps come and go.
impl Subject for Pool {
    fn entries(&self) -> u64 {
        let maps = self.list().unwrap().into_iter();
        maps.filter(|map| map.name.starts_with("of ")).map(|map| map.entries).sum()
    }
    fn record_bytes(&self) -> u64 {
        while self.step().unwrap() {}
        self.stats().record_bytes
    }
    fn put(&self, key: u64, value: u64) {
        let thread = key / KEYS;
        Subject::put(&of_thread(self, thread), key, value);
        if value.is_multiple_of(50) {
            let (name, renamed) = (format!("by {thread}"), format!("renamed by {thread}"));
            for name in [&name, &renamed] {
                // The one that a kill left.
                let _ = self.remove(name);
            }
            let design = Design::ALL[value as usize / 50 % Design::ALL.len()];
            let map: Records = self.create(&name, &options(design)).unwrap();
            Subject::put(&map, key, value);
            drop(map);
            self.rename(&name, &renamed).unwrap();
            if value.is_multiple_of(100) {
                self.remove(&renamed).unwrap();
            }
        }
    }
    fn remove(&self, key: u64) {
        Subject::remove(&of_thread(self, key / KEYS), key);
    }
    fn pairs(&self) -> Vec<(u64, u64)> {
        let maps = self.names().into_iter();
        let maps = maps.filter(|name| name.starts_with("of "));
        maps.flat_map(|name| self.open::<Records>(&name).unwrap().pairs()).collect()
    }
}

/// The map of a thread's keys.
fn of_thread(pool: &Pool, thread: u64) -> Records {
    let design = Design::ALL[thread as usize % Design::ALL.len()];
    pool.open_or_create(&format!("of {thread}"), &options(design)).unwrap()
}

/// Extents of 16 KiB, so that what fills an extent before it splits does so here.
fn options(design: Design) -> Options {
    let geometry = Geometry { extent_shift: 14, ..Geometry::default() };
    Options::new().design(design).geometry(geometry).max_bytes(1 << 30)
}

fn apply<S: Subject>(map: &S, seed: u64, thread: u64, i: u64) {
    match S::operation(seed, thread, i) {
        (key, Some(value)) => map.put(key, value),
        (key, None) => map.remove(key),
    }
}

/// The child: writes until it is killed, and tells every operation that has returned.
fn write_for_ever<S: Subject>(path: &Path, design: Design, seed: u64, mode: &str) {
    // A log so short that it is written back many times in a round.
    let options = options(design).sync_mode(sync_mode(mode)).log_bytes(256 << 10);
    let options = options.live_image(mode.starts_with("live"));
    let map: S = options.open_or_create(path).unwrap();
    tell_for_ever(|thread, i| apply(&map, seed, thread, i));
}

/// Does the operations of all threads, and tells of each that has returned.
fn tell_for_ever(apply: impl Fn(u64, u64) + Sync) {
    // Without the buffer of `stdout()`, in which what was told would die with the process.
    let pipe = File::from(std::io::stdout().as_fd().try_clone_to_owned().unwrap());
    std::thread::scope(|scope| {
        for thread in 0..threads() {
            let (apply, mut pipe) = (&apply, &pipe);
            scope.spawn(move || {
                for i in 0.. {
                    apply(thread, i);
                    // So few bytes reach a pipe at once or not at all.
                    if pipe.write_all(&[b'=', thread as u8]).is_err() {
                        std::process::exit(0);
                    }
                }
            });
        }
    });
}

#[test]
fn child() {
    let Ok(path) = std::env::var("DURAHASH_KILL_POOL") else {
        return;
    };
    let seed = std::env::var("DURAHASH_KILL_SEED").unwrap().parse().unwrap();
    let mode = &std::env::var("DURAHASH_KILL_MODE").unwrap();
    let design = std::env::var("DURAHASH_KILL_DESIGN").unwrap().parse().unwrap();
    match std::env::var("DURAHASH_KILL_SUBJECT").as_deref() {
        Ok("Words") => write_for_ever::<Words>(Path::new(&path), design, seed, mode),
        Ok("Batches") => write_for_ever::<Batches>(Path::new(&path), design, seed, mode),
        Ok("RecordBatches") => {
            write_for_ever::<RecordBatches>(Path::new(&path), design, seed, mode);
        }
        Ok("Pool") => write_for_ever::<Pool>(Path::new(&path), design, seed, mode),
        Ok("Cache") => {
            let cache: Cache<u64, u64> = Options::new().open(&path).unwrap();
            tell_for_ever(|thread, i| put_once(&cache, seed, thread, i));
        }
        Ok("Lists") => write_for_ever::<Lists>(Path::new(&path), design, seed, mode),
        _ => write_for_ever::<Records>(Path::new(&path), design, seed, mode),
    }
}

fn sync_mode(name: &str) -> SyncMode {
    match name {
        "process" => SyncMode::Process,
        "strict" | "live-strict" => SyncMode::Strict,
        // So long that only staged lines, or marks, know of most.
        "interval" | "live" => SyncMode::Interval(Duration::from_millis(20)),
        other => panic!("no mode {other}"),
    }
}

/// Runs a child until it has told `told` operations, kills it, and returns how many each thread
/// has told.
fn run_and_kill(
    (subject, design, mode): (&str, Design, &str),
    path: &Path,
    seed: u64,
    told: u64,
) -> Vec<u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env("DURAHASH_KILL_POOL", path)
        .env("DURAHASH_KILL_SEED", seed.to_string())
        .env("DURAHASH_KILL_SUBJECT", subject)
        .env("DURAHASH_KILL_MODE", mode)
        .env("DURAHASH_KILL_DESIGN", design.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let (mut counts, mut total, mut killed) = (vec![0; threads() as usize], 0, false);
    let mut stopped = false;
    let (mut bytes, mut marked) = (vec![0; 4096], false);
    loop {
        let n = pipe.read(&mut bytes).unwrap();
        if n == 0 {
            break;
        }
        for byte in &bytes[..n] {
            // The test harness's own output has no mark before a byte this small.
            let tells = marked && usize::from(*byte) < counts.len();
            if tells {
                counts[usize::from(*byte)] += 1;
                total += 1;
            }
            marked = *byte == b'=' && !tells;
        }
        if total >= told / 2 && !stopped && told % 4 == 3 {
            // Stopped wherever its threads are, and made to go on.
            for signal in ["-STOP", "-CONT"] {
                let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
                assert!(sent.unwrap().success());
            }
            stopped = true;
        }
        if total >= told && !killed {
            child.kill().unwrap();
            killed = true;
        }
    }
    let status = child.wait().unwrap();
    // One that breaks off by itself may have told enough before.
    let by_itself = !killed || status.signal() != Some(9);
    assert!(!by_itself, "seed {seed}: the child ended by itself: {status}");
    counts
}

fn rounds() -> u64 {
    // Every other one is measured, and growth takes two to be seen.
    let default = budget(4, 25);
    std::env::var("DURAHASH_KILL_ROUNDS").map_or(default, |rounds| rounds.parse().unwrap())
}

fn survive<S: Subject>(subject: &str, design: Design, mode: &str) {
    if let Ok(only) = std::env::var("DURAHASH_KILL_ONLY")
        && only.parse::<Design>().unwrap() != design
    {
        return;
    }
    // Each of them is on the disk.
    let most = if mode.ends_with("strict") { 2000 } else { budget(8000, 20_000) };
    let (dir, path) = new_path();
    let mut model: HashMap<u64, u64> = HashMap::new();
    let mut sizes = Vec::new();
    for round in 0..rounds() {
        let seed = mix(round ^ 0xdead ^ (seed(0) << 32));
        let counts = run_and_kill((subject, design, mode), &path, seed, mix(seed) % most);
        // Every other time the file stays as the kill left it: recovery happens in memory.
        let options = Options::new().read_only(round % 2 == 0);
        println!("{subject} of {design}, {mode}: round {round}, seed {seed}");
        let map: S = options.open(&path).unwrap();
        assert_sound(&map);
        let (len, pairs) = (map.entries(), map.pairs());
        assert_eq!(len, pairs.len() as u64);
        let mut found = HashMap::new();
        for (key, value) in pairs {
            found.insert(key, S::after(found.get(&key).copied(), value));
        }
        for (thread, told) in (0..).zip(counts.iter().copied()) {
            for i in 0..told {
                match S::operation(seed, thread, i) {
                    (key, Some(value)) => {
                        let after = S::after(model.get(&key).copied(), value);
                        model.insert(key, after)
                    }
                    (key, None) => model.remove(&key),
                };
            }
            // The one that was under way: all of it, or nothing.
            let (key, value) = S::operation(seed, thread, told);
            let value = value.map(|value| S::after(model.get(&key).copied(), value));
            if found.get(&key) == value.as_ref() {
                match value {
                    Some(value) => model.insert(key, value),
                    None => model.remove(&key),
                };
            }
        }
        assert!(found == model, "round {round}, seed {seed}: {}", difference(&found, &model));
        let records = (round % 2 == 1).then(|| map.record_bytes());
        map.close().unwrap();
        // The next process that writes cuts the space that a killed one had taken ahead of use.
        if let Some(records) = records {
            sizes.push([std::fs::metadata(&path).unwrap().len(), records, len]);
        }
        println!(
            "{subject} of {design}, {mode}: round {round}, {} operations told",
            counts.iter().sum::<u64>()
        );
    }
    println!("{subject} of {design}, {mode}: bytes, of them records, entries: {sizes:?}");
    let (early, late) = sizes.split_at(sizes.len() / 2);
    let most = |sizes: &[[u64; 3]]| {
        [0, 1, 2]
            .map(|i| sizes.iter().map(|size| size[i]).max().expect("rounds enough to tell") as f64)
    };
    let ([early_bytes, early_records, early_len], [late_bytes, late_records, late_len]) =
        (most(early), most(late));
    let alive = never_killed::<S>(design, &dir.path().join("twin"));
    // Not counted as growth: what more entries take, and a resize that comes late.
    let entries = late_len.max(early_len) / early_len;
    let [bytes, records] = [early_bytes, early_records].map(|early| early * entries);
    let what = format!("{sizes:?}; never killed: {alive:?}");
    assert!(late_records <= records.max(alive[1]) * 1.25, "records grow with the kills: {what}");
    // Nor that a file of many kinds of blocks may have taken another quarter of itself ahead of use.
    let ahead = if late_records > 0.0 { 1.25 } else { 1.0 };
    assert!(
        late_bytes <= (bytes * ahead).max(alive[0]) * 1.25,
        "the pool grows with the kills: {what}"
    );
}

/// The most bytes, and of them those of records, of a pool that has had the same operations and ends with
/// every key, but was closed each time.
fn never_killed<S: Subject>(design: Design, path: &Path) -> [f64; 2] {
    let (mut most, seed) = ([0; 2], mix(0xa11));
    let mut round = |work: &dyn Fn(&S)| {
        let map: S = options(design).open_or_create(path).unwrap();
        work(&map);
        let records = map.record_bytes();
        map.close().unwrap();
        most = [most[0].max(std::fs::metadata(path).unwrap().len()), most[1].max(records)];
    };
    for first in (0..4 * PHASE).step_by(PHASE as usize / 4) {
        round(&|map| {
            for (i, thread) in (first..first + PHASE / 4)
                .flat_map(|i| (0..threads()).map(move |thread| (i, thread)))
            {
                apply(map, seed, thread, i);
            }
        });
    }
    round(&|map| (0..threads() * KEYS).for_each(|key| map.put(key, mix(key) >> 20)));
    most.map(|bytes| bytes as f64)
}

fn difference(found: &HashMap<u64, u64>, model: &HashMap<u64, u64>) -> String {
    let keys = model.keys().chain(found.keys());
    let wrong = keys.filter(|key| found.get(key) != model.get(key)).take(5);
    let told = wrong
        .map(|key| format!("key {key}: found {:?}, expected {:?}", found.get(key), model.get(key)));
    told.collect::<Vec<_>>().join("; ")
}

macro_rules! survive {
    ($($name:ident: $subject:ident of $designs:expr, $mode:literal;)*) => {$(
        #[test]
        fn $name() {
            for design in $designs {
                survive::<$subject>(stringify!($subject), *design, $mode);
            }
        }
    )*};
}

survive! {
    words_survive_kills: Words of Design::ALL, "process";
    records_survive_kills: Records of Design::ALL, "process";
    several_maps_survive_kills: Pool of &[Design::Reh], "process";
    several_maps_survive_kills_before_the_log_is_written: Pool of &[Design::Reh], "interval";
    lists_survive_kills: Lists of &[Design::Pea], "process";
    lists_survive_kills_before_the_log_is_written: Lists of &[Design::Pea], "interval";
    words_survive_kills_before_the_log_is_written: Words of Design::ALL, "interval";
    records_survive_kills_before_the_log_is_written: Records of &[Design::Reh], "interval";
    words_survive_kills_while_the_log_is_written: Words of Design::ALL, "strict";
    records_survive_kills_while_the_log_is_written: Records of &[Design::Reh], "strict";
    words_survive_kills_in_a_live_image: Words of Design::ALL, "live";
    records_survive_kills_in_a_live_image: Records of &[Design::Reh], "live";
    lists_survive_kills_in_a_live_image: Lists of &[Design::Pea], "live";
    several_maps_survive_kills_in_a_live_image: Pool of &[Design::Reh], "live";
    batches_survive_kills_in_a_live_image: Batches of Design::ALL, "live";
    words_survive_kills_while_a_snapshot_is_waited_for: Words of &[Design::Reh, Design::Pea],
        "live-strict";
    batches_survive_kills: Batches of Design::ALL, "process";
    batches_of_records_survive_kills: RecordBatches of &[Design::Reh], "process";
    batches_survive_kills_before_the_log_is_written: Batches of Design::ALL, "interval";
    batches_of_records_survive_kills_while_the_log_is_written: RecordBatches of &[Design::Reh],
        "strict";
}

/// Operation number `i` of a thread on a cache: a key that comes once. Every eighth entry expires soon.
fn key_once(seed: u64, thread: u64, i: u64) -> u64 {
    mix(seed ^ (thread << 56) ^ i)
}

fn put_once(cache: &Cache<u64, u64>, seed: u64, thread: u64, i: u64) {
    let key = key_once(seed, thread, i);
    if i.is_multiple_of(8) {
        cache.put_for(&key, &mix(key), Duration::from_millis(i % 50)).unwrap();
    } else {
        cache.put(&key, &mix(key)).unwrap();
    }
}

/// A cache that keeps what goes: each entry that was put is in the cache or told, and not both, until it is done.
#[test]
fn what_goes_from_a_cache_survives_kills() {
    const MAX: u64 = 200;
    for &design in Design::ALL {
        let (_dir, path) = new_path();
        let options = options(design).max_entries(MAX).keep_evicted(true);
        options.create::<Cache<u64, u64>>(&path).unwrap().close().unwrap();
        let mut put = BTreeSet::new();
        for round in 0..rounds() {
            let seed = mix(round ^ 0xcace ^ (seed(0) << 32));
            let counts = run_and_kill(("Cache", design, "process"), &path, seed, mix(seed) % 8000);
            println!("a cache of {design}: round {round}, seed {seed}, told {counts:?}");
            // Far ahead, where all that may expire has, or stands still: nothing expires between two looks.
            let options = Options::new().sweep(false).clock(Clock::manual(1 << 50));
            let cache: Cache<u64, u64> = options.open(&path).unwrap();
            assert_sound(&Pool::of(&cache));
            assert!(cache.len().unwrap() <= MAX);
            while cache.step().unwrap() {}
            let mut found = BTreeSet::new();
            let mut find = |key, value| {
                assert_eq!(value, mix(key));
                assert!(
                    found.insert(key),
                    "seed {seed}: {key} is told, and in the cache or told again"
                );
            };
            cache.iter().map(Result::unwrap).for_each(|(key, value)| find(key, value));
            cache.evicted().map(Result::unwrap).for_each(|gone| find(gone.key, gone.value));
            for (thread, told) in (0..).zip(counts) {
                put.extend((0..told).map(|i| key_once(seed, thread, i)));
                // The one that was under way: all of it, or nothing.
                put.extend(found.get(&key_once(seed, thread, told)));
            }
            assert!(found == put, "seed {seed}: {} put, {} found", put.len(), found.len());
            // Some of what is told is done.
            for gone in cache.evicted().map(Result::unwrap).filter(|gone| gone.key % 4 > 0) {
                assert!(cache.done(gone.id).unwrap() && put.remove(&gone.key));
            }
            cache.close().unwrap();
        }
    }
}

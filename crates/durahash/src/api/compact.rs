//! A pool written anew, without gaps.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use durahash_media::{Error, ErrorKind, FileLock, Mapped, Result};

use crate::api::options::{Compiled, Options};
use crate::engine::chain::Rule;
use crate::engine::map::Raw;
use crate::engine::multi_map::MultiRaw;
use crate::engine::open::Wanted;
use crate::index::{Change, IndexStats, OneKey, Room, Values};

/// See [`AnyMap::compact`](crate::AnyMap::compact).
pub(crate) fn compact<R: Copied>(
    path: &Path,
    options: &Options,
    watch: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    // Where the name is a link, the file that it leads to is replaced, not the link.
    let path = &fs::canonicalize(path)
        .map_err(|e| Error::io("looking for", Some(path.to_path_buf()), e))?;
    let options = &options.clone().read_only(false);
    let (old, old_lock) = R::open(options, path, &|_, _, _| Ok(()))?;
    if old.store.facts().suspect {
        let what = "a suspect pool is not compacted: dump it into a new one";
        return Err(ErrorKind::Options { what }.into());
    }
    let aside = aside(path);
    // Only the holder of the old pool's lock compacts it: what is there was left by a crash.
    remove(&aside)?;
    // The new pool stays locked until its name is on the disk: what is acknowledged in it before
    // could be lost with the name.
    let replaced = copy(&old, &aside, options, watch).and_then(|new| new.replace(&old_lock));
    if replaced.is_err() {
        // The first failure is the one to report.
        let _ = remove(&aside);
    }
    replaced
}

/// Where the new pool grows.
fn aside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".compact~");
    path.with_file_name(name)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("removing", Some(path.to_path_buf()), e))
        }
        _ => Ok(()),
    }
}

/// Copies all entries into a new pool at `path`, and closes it. Its file stays locked.
fn copy<R: Copied>(
    old: &R,
    path: &Path,
    options: &Options,
    watch: &mut dyn FnMut(u64, u64),
) -> Result<FileLock> {
    let format = old.store.format();
    let wanted = Wanted {
        design: old.design,
        key: old.key,
        value: old.value,
        geometry: format.geometry,
        seed: format.seed,
        max_bytes: format.max_bytes,
        sync_mode: old.store.sync_mode()?,
        tuning: options.tuning,
        publish: true,
    };
    let medium = Mapped::create_private(path, &options.mapped(format.max_bytes))?;
    let lock = medium.file_lock();
    let new = R::create_in(medium, &wanted)?;
    old.copy_to(&new, watch)?;
    new.close()?;
    Ok(lock)
}

/// What is copied.
pub(crate) trait Copied: Compiled {
    /// Copies all entries into `new`, which is empty, and tells `watch` of its progress.
    fn copy_to(&self, new: &Self, watch: &mut dyn FnMut(u64, u64)) -> Result<()>;
}

impl Copied for Raw {
    fn copy_to(&self, new: &Self, watch: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let slots = self.index.len()?;
        let mut copied = 0;
        let mut pairs = Vec::new();
        let scan = &mut |at, out: &mut Vec<(u64, u64)>| self.index.scan(at, out);
        each_slot(slots, &self.index.stats(), scan, &mut |h, payload| {
            copied += 1;
            watch(copied, slots);
            if self.is_words() {
                let set = &mut |_| Ok(Change::Set(payload));
                return new.index.update(h, Room::ForNew, set).map(drop);
            }
            pairs.clear();
            self.pairs(h, &mut pairs)?;
            for (key, value) in &pairs {
                let _ = new.change(key, Some(value), Rule::Always, None)?;
            }
            Ok(())
        })
    }
}

impl Copied for MultiRaw {
    fn copy_to(&self, new: &Self, watch: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let entries = self.index.len()?;
        let mut copied = 0;
        let mut slots = Vec::new();
        // Each hash once.
        let scan = &mut |at, out: &mut Vec<(u64, u64)>| {
            slots.clear();
            let next = self.index.scan(at, &mut slots)?;
            out.extend(slots.chunk_by(|a, b| a.0 == b.0).map(|of_one| (of_one[0].0, 0)));
            Ok(next)
        };
        let (mut found, mut pairs) = (Values::default(), Vec::new());
        each_slot(self.index.stats().slots_used, &self.index.stats(), scan, &mut |h, _| {
            if self.is_words() {
                self.index.read(h, &OneKey, &mut found, &mut |_, _| Ok(()))?;
                for v in &found.payloads {
                    new.add_word(h, *v)?;
                }
                copied += found.payloads.len() as u64;
            } else {
                pairs.clear();
                self.pairs(h, &mut pairs)?;
                for (key, value) in &pairs {
                    new.add(key, value)?;
                }
                copied += pairs.len() as u64;
            }
            watch(copied, entries);
            Ok(())
        })
    }
}

/// As [`Index::scan`](crate::Index::scan).
type Scan<'a> = &'a mut dyn FnMut(u64, &mut Vec<(u64, u64)>) -> Result<Option<u64>>;

/// The largest units, in slots, of which one is many ranges.
const SMALL_UNIT: u64 = 64;

/// Calls `f` with each of so many slots that `scan` gives, ranges of hashes in the order of their
/// reversed bits: each halves the widest gap between those before it. In the order of hashes the new
/// index would be full at one end and empty at the other, and its directory outgrow its bound.
fn each_slot(
    slots: u64,
    stats: &IndexStats,
    scan: Scan<'_>,
    f: &mut dyn FnMut(u64, u64) -> Result<()>,
) -> Result<()> {
    // A slot or two a range: more of them at once would already split a unit of few. Units of many
    // are ranges themselves.
    let units: u64 = stats.depths.iter().sum();
    // Positions that are not hashes, for a table that is full at all places at once: one range.
    let ranges = if units == 0 {
        1
    } else if slots / units <= SMALL_UNIT {
        slots
    } else {
        units
    };
    let range_bits = ranges.max(1).ilog2();
    let mut found = Vec::new();
    for i in 0..1_u64 << range_bits {
        let first = i.reverse_bits();
        let last = first | (u64::MAX >> range_bits);
        let mut at = Some(first);
        while let Some(from) = at.filter(|at| *at <= last) {
            found.clear();
            at = scan(from, &mut found)?;
            for (h, payload) in found.iter().filter(|(h, _)| *h <= last) {
                f(*h, *payload)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

    use durahash_media::sim::faults;

    use super::*;
    use crate::api::map::Map;

    const ENTRIES: u64 = 100;

    fn make(path: &Path) {
        let map: Map<u64, u64> = Options::new().create(path).unwrap();
        for i in 0..ENTRIES {
            map.put(&i, &!i).unwrap();
        }
        map.close().unwrap();
    }

    fn assert_whole(path: &Path) {
        let map: Map<u64, u64> = Options::new().open(path).unwrap();
        assert_eq!(map.len().unwrap(), ENTRIES);
        assert!((0..ENTRIES).all(|i| map.get(&i).unwrap() == Some(!i)));
    }

    #[test]
    fn owner_and_permissions_stay_and_the_copy_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map.pool");
        make(&path);
        // Only root gives files away; others compact their own.
        match chown(&path, Some(1234), Some(5678)) {
            Err(e) if e.kind() != io::ErrorKind::PermissionDenied => panic!("{e}"),
            _ => {}
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let before = fs::metadata(&path).unwrap();
        compact::<Raw>(&path, &Options::new(), &mut |_, _| {
            assert_eq!(fs::metadata(aside(&path)).unwrap().mode() & 0o777, 0o600);
        })
        .unwrap();
        let after = fs::metadata(&path).unwrap();
        assert_ne!(after.ino(), before.ino());
        let facts = |m: &fs::Metadata| (m.uid(), m.gid(), m.mode());
        assert_eq!(facts(&after), facts(&before));
        assert_whole(&path);
    }

    #[test]
    fn a_file_that_took_the_name_meanwhile_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("map.pool"), dir.path().join("moved"));
        make(&path);
        let swap = &mut |done, _| {
            if done == 1 {
                fs::rename(&path, &moved).unwrap();
                fs::write(&path, "another").unwrap();
            }
        };
        let e = compact::<Raw>(&path, &Options::new(), swap).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Io { .. }), "{e}");
        assert_eq!(fs::read(&path).unwrap(), b"another");
        assert_whole(&moved);
        assert!(!aside(&path).exists());
    }

    #[test]
    fn whichever_call_fails_a_whole_pool_has_the_name() {
        const EIO: i32 = 5;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map.pool");
        make(&path);
        let mut replaced_and_failed = 0;
        for n in 1.. {
            let before = fs::metadata(&path).unwrap().ino();
            faults::arm(n, EIO);
            let end = compact::<Raw>(&path, &Options::new(), &mut |_, _| ());
            let failed = faults::disarm();
            assert!(failed || end.is_ok());
            let replaced = fs::metadata(&path).unwrap().ino() != before;
            assert!(replaced || end.is_err());
            replaced_and_failed += u32::from(replaced && end.is_err());
            assert_whole(&path);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "call {n}");
            if !failed {
                break;
            }
        }
        // The sync of the directory.
        assert_eq!(replaced_and_failed, 1);
    }

    #[test]
    fn a_compacted_pool_has_everything_in_the_space_of_a_fresh_one() {
        const KEYS: u64 = 1_000_000;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map.pool");
        let options = Options::new().seed(42);
        let map: Map<u64, u64> = options.create(&path).unwrap();
        for i in 0..2 * KEYS {
            map.put(&i, &!i).unwrap();
        }
        for i in KEYS..2 * KEYS {
            map.remove(&i).unwrap();
        }
        map.close().unwrap();
        compact::<Raw>(&path, &options, &mut |done, of| assert!(done <= of)).unwrap();

        let map: Map<u64, u64> = options.open(&path).unwrap();
        assert_eq!(map.len().unwrap(), KEYS);
        for i in 0..KEYS {
            assert_eq!(map.get(&i).unwrap(), Some(!i));
        }
        map.check(&mut |finding| panic!("{finding:?}")).unwrap();
        let fresh: Map<u64, u64> = options.in_memory().unwrap();
        for i in 0..KEYS {
            fresh.put(&i, &!i).unwrap();
        }
        // How keys are spread over buckets is not a matter of their order.
        assert_eq!(map.stats().unwrap().index.depths, fresh.stats().unwrap().index.depths);
    }

    #[test]
    fn chains_of_equal_hashes_are_copied_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map.pool");
        let geometry = durahash_media::Geometry { hash_bits: 4, ..Default::default() };
        let map: Map<str, str> = Options::new().geometry(geometry).create(&path).unwrap();
        for i in 0..500 {
            map.put(&format!("key {i}"), &format!("value {i}")).unwrap();
        }
        map.close().unwrap();
        compact::<Raw>(&path, &Options::new(), &mut |_, _| ()).unwrap();
        let map: Map<str, str> = Options::new().open(&path).unwrap();
        assert_eq!(map.len().unwrap(), 500);
        for i in 0..500 {
            assert_eq!(map.get(&format!("key {i}")).unwrap(), Some(format!("value {i}")));
        }
        map.check(&mut |finding| panic!("{finding:?}")).unwrap();
    }
}

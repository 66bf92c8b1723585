//! A pool written anew, without gaps.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use durahash_media::{Error, ErrorKind, Mapped, Result};

use crate::chain::Rule;
use crate::index::{Change, Room};
use crate::open::{self, Wanted};
use crate::options::Options;
use crate::raw::Raw;

/// See [`AnyMap::compact`](crate::AnyMap::compact).
pub(crate) fn compact(
    path: &Path,
    options: &Options,
    watch: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    // Where the name is a link, the file that it leads to is replaced, not the link.
    let path = &fs::canonicalize(path)
        .map_err(|e| Error::io("looking for", Some(path.to_path_buf()), e))?;
    let old = options.clone().read_only(false).open_raw(path, &|_, _, _| Ok(()))?;
    if old.store.facts().suspect {
        let what = "a suspect pool is not compacted: dump it into a new one";
        return Err(ErrorKind::Options { what }.into());
    }
    let aside = aside(path);
    // Only the holder of the old pool's lock compacts it: what is there was left by a crash.
    remove(&aside)?;
    let copied = copy(&old, &aside, options, watch).and_then(|()| {
        fs::rename(&aside, path)
            .and_then(|()| fs::File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all())
            .map_err(|e| Error::io("putting the compacted pool in place of", Some(path.into()), e))
    });
    if copied.is_err() {
        // The first failure is the one to report.
        let _ = remove(&aside);
    }
    copied
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

/// Copies all entries into a new pool at `path`, and closes it.
fn copy(old: &Raw, path: &Path, options: &Options, watch: &mut dyn FnMut(u64, u64)) -> Result<()> {
    let format = old.store.format();
    let wanted = Wanted {
        design: old.design,
        key: old.key,
        value: old.value,
        geometry: format.geometry,
        seed: format.seed,
        max_bytes: format.max_bytes,
    };
    let mapped = options.mapped(format.max_bytes);
    let new = open::create(Mapped::create(path, &mapped)?, &wanted)?;
    let slots = old.index.len()?;
    let mut copied = 0;
    let mut pairs = Vec::new();
    each_slot(old, slots, &mut |h, payload| {
        copied += 1;
        watch(copied, slots);
        if old.is_words() {
            let set = &mut |_| Ok(Change::Set(payload));
            return new.index.update(h, Room::ForNew, set).map(drop);
        }
        pairs.clear();
        old.pairs(h, &mut pairs)?;
        for (key, value) in &pairs {
            let _ = new.change(key, Some(value), Rule::Always, None)?;
        }
        Ok(())
    })?;
    new.close()
}

/// Calls `f` with each of so many slots, ranges of hashes in the order of their reversed bits: each halves the
/// widest gap between those before it. In the order of hashes the new index would be full at one
/// end and empty at the other, and its directory outgrow its bound.
fn each_slot(old: &Raw, slots: u64, f: &mut dyn FnMut(u64, u64) -> Result<()>) -> Result<()> {
    // A slot or two a range: more of them at once would already split a unit of few.
    let range_bits = slots.max(1).ilog2();
    let mut found = Vec::new();
    for i in 0..1_u64 << range_bits {
        let first = i.reverse_bits();
        let last = first | (u64::MAX >> range_bits);
        let mut at = Some(first);
        while let Some(from) = at.filter(|at| *at <= last) {
            found.clear();
            at = old.index.scan(from, &mut found)?;
            for (h, payload) in found.iter().filter(|(h, _)| *h <= last) {
                f(*h, *payload)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Map;

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
        compact(&path, &options, &mut |done, of| assert!(done <= of)).unwrap();

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
        compact(&path, &Options::new(), &mut |_, _| ()).unwrap();
        let map: Map<str, str> = Options::new().open(&path).unwrap();
        assert_eq!(map.len().unwrap(), 500);
        for i in 0..500 {
            assert_eq!(map.get(&format!("key {i}")).unwrap(), Some(format!("value {i}")));
        }
        map.check(&mut |finding| panic!("{finding:?}")).unwrap();
    }
}

//! A pool written anew, without gaps.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durahash_media::hash::ByteHash;
use durahash_media::{Error, FileLock, Format, Mapped, Result};

use super::maps::{Handle, OpenPool, with};
use super::open::{self, CreateSpec};
use super::settings::Settings;
use super::spec::{MapSpec, Required, refused};
use super::walk::Place;
use super::{At, Engine, Kind, Member};
use crate::index::IndexBase;

/// See [`Options::compact`](crate::Options::compact).
pub(crate) fn compact(
    settings: &Settings,
    required: Required,
    path: &Path,
    watch: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    // Where the name is a link, the file that it leads to is replaced, not the link.
    let path = &fs::canonicalize(path)
        .map_err(|e| Error::io("looking for", Some(path.to_path_buf()), e))?;
    let (old, old_lock) = open_old(settings, required, path)?;
    let aside = aside(path);
    // Only the holder of the old pool's lock compacts it: a file there was left by a crash.
    remove(&aside)?;
    // The new pool stays locked until its name is on the disk: changes acknowledged in it before
    // could be lost with the name.
    let replaced = copy_all(&old, &aside, settings, watch).and_then(|new| {
        // It is closed before the new one can be opened.
        drop(old);
        new.replace(&old_lock)
    });
    if replaced.is_err() {
        // The first failure is the one to report.
        let _ = remove(&aside);
    }
    drop(old_lock);
    replaced
}

/// See [`Options::compact_to`](crate::Options::compact_to).
pub(crate) fn compact_to(
    settings: &Settings,
    required: Required,
    (path, to): (&Path, &Path),
    watch: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let settings = &Settings { read_only: true, ..settings.clone() };
    let (old, _lock) = open_in_place(settings, required, path)?;
    copy_all(&old, to, settings, watch)?.publish()
}

/// The pool to be replaced, and its lock, for one writer. It is in private pages, so that nothing that fails harms it; but one with damage
/// that can be mended is opened to mend it.
fn open_old(
    settings: &Settings,
    required: Required,
    path: &Path,
) -> Result<(Arc<OpenPool>, FileLock)> {
    let options = Settings { readers: false, ..settings.clone() }.mapped(u64::MAX);
    let locked = Mapped::open(path, false, &options)?;
    let lock = locked.file_lock();
    let reading = Settings { read_only: true, ..settings.clone() };
    let required = Required { changes: false, ..required };
    let old = open::open_to_read(&reading, locked.reader()?, required).and_then(trusted)?;
    drop(locked);
    let is_sound = |member: &Member| with!(member, engine => engine.index.mend().is_ok());
    if old.named().iter().all(|(_, member)| is_sound(member)) {
        return Ok((old, lock));
    }
    drop((old, lock));
    open_in_place(&Settings { read_only: false, ..reading }, required, path)
}

fn open_in_place(
    settings: &Settings,
    required: Required,
    path: &Path,
) -> Result<(Arc<OpenPool>, FileLock)> {
    let required = Required { changes: false, ..required };
    let (pool, lock) = open::make(settings, required, At::Existing(path))?;
    let Some(lock) = lock else { return refused("a pool in memory is not compacted") };
    Ok((trusted(pool)?, lock))
}

fn trusted(pool: Arc<OpenPool>) -> Result<Arc<OpenPool>> {
    if pool.store.facts().suspect {
        return refused("a suspect pool is not compacted: dump it into a new one");
    }
    Ok(pool)
}

/// The longest name to which more may be added: file systems know names of up to 255 bytes.
const NAME_BYTES_MAX: usize = 240;

/// Where the new pool is before it replaces the old one; or grows, where the file system knows no files without
/// names.
fn aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    let mut aside = OsString::from(".");
    if name.len() <= NAME_BYTES_MAX {
        aside.push(name);
    } else {
        aside.push(format!("{:016x}", ByteHash::new(0).hash(name.as_encoded_bytes())));
    }
    aside.push(".compact~");
    path.with_file_name(aside)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("removing", Some(path.to_path_buf()), e))
        }
        _ => Ok(()),
    }
}

/// Copies all maps into a new pool at `path`, and closes it. Its file stays locked.
pub(crate) fn copy_all(
    old: &OpenPool,
    path: &Path,
    settings: &Settings,
    watch: &mut dyn FnMut(u64, u64),
) -> Result<FileLock> {
    let format = old.store.format();
    let maps = old.named();
    let own = maps.first().filter(|_| format.kind != Format::NO_MAP);
    let spec = CreateSpec {
        map: own.map(|(_, member)| with!(member, engine => spec_of(engine, settings))),
        geometry: format.geometry,
        seed: format.seed,
        max_bytes: format.max_bytes,
        sync_mode: old.store.sync_mode()?,
        publish: false,
        is_for_log: false,
        verify: false,
    };
    let medium = Mapped::create_private(path, &settings.mapped(format.max_bytes))?;
    let lock = medium.file_lock();
    let new = open::create_on(medium, &spec)?;
    let slots_of = |member: &Member| with!(member, engine => engine.index.stats().slots_used);
    let (mut copied, slots) = (0, maps.iter().map(|(_, member)| slots_of(member)).sum());
    let watch = &mut |unit| {
        copied += unit;
        watch(copied.min(slots), slots);
    };
    for (name, member) in &maps {
        let is_own = own.is_some_and(|(own, _)| own == name);
        with!(member, engine => {
            let map = if is_own { 0 } else { new.create(name, &spec_of(engine, settings), Ok)? };
            copy(engine, new.handle(map, Some((engine.key, engine.value)))?, watch)?;
        });
    }
    new.close_last()?;
    Ok(lock)
}

/// The properties of a map that is like this one.
fn spec_of<K: Kind>(engine: &Engine<K>, settings: &Settings) -> MapSpec {
    MapSpec {
        kind: K::NUMBER,
        design: engine.design,
        key: engine.key,
        value: engine.value,
        geometry: engine.format.geometry,
        seed: engine.format.seed,
        design_options: settings.design_options,
    }
}

/// Copies all entries into a new map.
fn copy<K: Kind>(old: &Engine<K>, new: Handle<K>, watch: &mut dyn FnMut(u64)) -> Result<()> {
    let (mut words, mut pairs) = (Vec::new(), Vec::new());
    // Records are copied by lookups, from which damage may hide entries that the walk meets. Damage that cannot be
    // mended, as in a full pool, stays.
    let _ = old.index.mend();
    each_hash(old, &mut |unit| {
        let slots = unit.len() as u64;
        K::take(old, unit, &mut words, &mut pairs)?;
        for (h, v) in words.drain(..) {
            K::add_word(&new.engine, h, v)?;
        }
        for (key, value) in pairs.drain(..) {
            K::add_pair(&new.engine, &key, &value)?;
        }
        watch(slots);
        Ok(())
    })
}

/// A closure over the slots of one hash.
type OfHash<'a, S> = &'a mut dyn FnMut(&mut Vec<(u64, S)>) -> Result<()>;

/// Calls `f` with the slots of each hash.
fn each_hash<K: Kind>(old: &Engine<K>, f: OfHash<'_, K::Slot>) -> Result<()> {
    let (mut found, mut of_one) = (Vec::new(), Vec::new());
    let mut at = Some(Place::first(&*old.index));
    while let Some(place) = at {
        found.clear();
        at = place.step(&*old.index, &mut found)?;
        for slots in found.chunk_by(|a, b| a.0 == b.0) {
            of_one.clear();
            of_one.extend_from_slice(slots);
            f(&mut of_one)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

    use durahash_media::sim::{budget, faults};

    use durahash_media::ErrorKind;

    use super::*;
    use crate::{Design, Map, Options};

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
    fn a_name_of_the_greatest_length_is_compacted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n".repeat(255));
        make(&path);
        compact(&Settings::new(), Required::ANY, &path, &mut |_, _| {
            let names = fs::read_dir(dir.path()).unwrap().count();
            assert!(names <= 2, "{names}");
        })
        .unwrap();
        assert_whole(&path);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
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
        compact(&Settings::new(), Required::ANY, &path, &mut |_, _| {
            if let Ok(growing) = fs::metadata(aside(&path)) {
                assert_eq!(growing.mode() & 0o777, 0o600);
            }
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
        let e = compact(&Settings::new(), Required::ANY, &path, swap).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Io { .. }), "{e}");
        assert_eq!(fs::read(&path).unwrap(), b"another");
        assert_whole(&moved);
        assert!(!aside(&path).exists());
    }

    #[test]
    fn if_any_call_fails_a_whole_pool_has_the_name() {
        const EIO: i32 = 5;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map.pool");
        make(&path);
        let mut replaced_and_failed = 0;
        for n in 1.. {
            let before = fs::metadata(&path).unwrap().ino();
            faults::arm(n, EIO);
            let end = compact(&Settings::new(), Required::ANY, &path, &mut |_, _| ());
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

    fn a_compacted_pool_is_as_a_fresh_one(design: Design, keys: u64) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("map.pool");
        let options = Options::new().design(design).seed(42);
        let map: Map<u64, u64> = options.create(&path).unwrap();
        for i in 0..2 * keys {
            map.put(&i, &!i).unwrap();
        }
        for i in keys..2 * keys {
            map.remove(&i).unwrap();
        }
        map.close().unwrap();
        compact(&Settings::new(), Required::ANY, &path, &mut |done, of| assert!(done <= of))
            .unwrap();

        let map: Map<u64, u64> = options.open(&path).unwrap();
        assert_eq!(map.len().unwrap(), keys);
        for i in 0..keys {
            assert_eq!(map.get(&i).unwrap(), Some(!i));
        }
        map.check(&mut |finding| panic!("{finding:?}")).unwrap();
        let fresh: Map<u64, u64> = options.in_memory().unwrap();
        for i in 0..keys {
            fresh.put(&i, &!i).unwrap();
        }
        // How keys are spread over buckets is not a matter of their order.
        let [map, fresh] = [map, fresh].map(|map| map.stats().unwrap().index);
        assert_eq!(map.depths, fresh.depths);
        assert!(map.medium_bytes <= 2 * fresh.medium_bytes);
    }

    #[test]
    fn a_compacted_pool_has_everything_in_the_space_of_a_fresh_one() {
        a_compacted_pool_is_as_a_fresh_one(Design::Reh, budget(100_000, 1_000_000));
    }

    /// Its keys come by their places in tables, which no directory tells.
    #[test]
    fn a_large_pool_of_rewo_hash_is_compacted() {
        a_compacted_pool_is_as_a_fresh_one(Design::Rewo, budget(200_000, 1_000_000));
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
        compact(&Settings::new(), Required::ANY, &path, &mut |_, _| ()).unwrap();
        let map: Map<str, str> = Options::new().open(&path).unwrap();
        assert_eq!(map.len().unwrap(), 500);
        for i in 0..500 {
            assert_eq!(map.get(&format!("key {i}")).unwrap(), Some(format!("value {i}")));
        }
        map.check(&mut |finding| panic!("{finding:?}")).unwrap();
    }
}

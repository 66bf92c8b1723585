use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_reconfigure,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use tempfile::TempDir;

use super::*;
use crate::medium::changes::FILE_BYTES;
use crate::medium::sim::faults;

const EXTENT: u64 = 512 << 10;

fn directory() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    (dir, path)
}

fn options() -> MappedOptions {
    MappedOptions::default()
}

fn word(medium: &Mapped, off: u64) -> &PmU64 {
    medium.region().at::<PmU64>(off).unwrap()
}

/// A published pool of `bytes` bytes whose word 0 is `v`.
fn make(path: &Path, bytes: u64, v: u64) -> Result<()> {
    let medium = Mapped::create(path, &options())?;
    medium.grow(bytes)?;
    medium.store(medium.region().at(0)?, v);
    medium.sync(0, bytes)?;
    medium.publish()
}

fn names(dir: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(dir.path()).unwrap();
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

fn kind<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => "Ok".into(),
        Err(e) => format!("{e:?}").split([' ', '(']).next().unwrap_or_default().into(),
    }
}

/// Runs this test binary again as a child that runs only `test`, with `path` in its environment.
fn child(test: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([&format!("medium::mapped::tests::{test}"), "--exact"])
        .args(["--nocapture", "--test-threads=1"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

const CHILD: &str = "DURAHASH_TEST_CHILD";

fn child_path() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

#[test]
fn stores_are_there_after_growing_and_opening_again() {
    let (_dir, path) = directory();
    make(&path, EXTENT, 7).unwrap();
    {
        let medium = Mapped::open(&path, false, &options()).unwrap();
        assert_eq!(medium.region().len(), EXTENT);
        medium.grow(9 * EXTENT).unwrap();
        medium.grow(EXTENT).unwrap();
        assert_eq!(medium.region().len(), 9 * EXTENT);
        assert_eq!(medium.load(word(&medium, 8 * EXTENT)), 0);
        medium.store(word(&medium, 9 * EXTENT - 8), 8);
        medium.store_nt(word(&medium, 8), 9);
        medium.flush(word(&medium, 8));
        medium.fence();
        medium.drain();
        assert_eq!(medium.durability(), Durability::Process);
        assert!(medium.huge_bytes().is_some());
        assert_eq!(medium.path(), Some(&*path));
    }
    let on_disk = fs::metadata(&path).unwrap();
    assert_eq!(on_disk.len(), 9 * EXTENT);
    assert!(on_disk.blocks() * 512 >= 9 * EXTENT, "never sparse");
    let medium = Mapped::open(&path, false, &options()).unwrap();
    let found = [0, 8, 9 * EXTENT - 8].map(|off| medium.load(word(&medium, off)));
    assert_eq!(found, [7, 9, 8]);
}

#[test]
fn forced_flushes_change_nothing_but_time() {
    let (_dir, path) = directory();
    let forced = MappedOptions { force_flushes: true, ..options() };
    let medium = Mapped::create(&path, &forced).unwrap();
    assert!(matches!(medium.flushes, Flushes::Real(_)));
    medium.grow(EXTENT).unwrap();
    let words = medium.region().words(8, 100).unwrap();
    for (i, word) in words.iter().enumerate() {
        if i % 2 == 0 {
            medium.store(word, i as u64);
        } else {
            medium.store_nt(word, i as u64);
        }
    }
    medium.flush(words);
    medium.drain();
    for (i, word) in words.iter().enumerate() {
        assert_eq!(medium.load(word), i as u64);
    }
    assert_eq!(medium.durability(), Durability::Process);
}

#[test]
fn a_file_is_open_for_one_writer_or_for_readers() {
    let (_dir, path) = directory();
    make(&path, EXTENT, 7).unwrap();
    let open = |read_only| Mapped::open(&path, read_only, &options());
    let writer = open(false).unwrap();
    assert_eq!(kind(open(false)), "Locked");
    assert_eq!(kind(open(true)), "Locked");
    drop(writer);
    let readers = (open(true).unwrap(), open(true).unwrap());
    assert_eq!(kind(open(false)), "Locked");
    drop(readers);
    open(false).unwrap();
}

#[test]
fn stores_of_a_reader_stay_private_and_the_file_may_be_read_only() {
    let (_dir, path) = directory();
    make(&path, EXTENT + 8, 7).unwrap();
    let before = fs::read(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let medium = Mapped::open(&path, true, &options()).unwrap();
    assert!(medium.read_only());
    medium.store(word(&medium, 0), 1);
    medium.store_nt(word(&medium, EXTENT), 2);
    medium.flush(word(&medium, 0));
    medium.drain();
    medium.sync(0, EXTENT + 8).unwrap();
    assert_eq!(medium.load(word(&medium, 0)), 1);
    assert_eq!(medium.load(word(&medium, EXTENT)), 2);
    assert_eq!(kind(medium.grow(2 * EXTENT)), "ReadOnly");
    assert_eq!(kind(medium.trim(0)), "ReadOnly");
    drop(medium);
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn other_files_are_refused_without_waiting() {
    let (dir, path) = directory();
    let open = |path: &Path, read_only| kind(Mapped::open(path, read_only, &options()));
    let fifo = dir.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    fs::write(dir.path().join("empty"), b"").unwrap();
    for read_only in [false, true] {
        assert_eq!(open(&path, read_only), "Io");
        assert_eq!(open(&path.join("below"), read_only), "Io");
        assert_eq!(open(dir.path(), read_only), "NotAPool");
        assert_eq!(open(&fifo, read_only), "NotAPool");
        assert_eq!(open(&dir.path().join("empty"), read_only), "NotAPool");
        assert_eq!(open(Path::new("/dev/null"), read_only), "NotAPool");
    }
    let error = Mapped::open(&path, false, &options()).err().unwrap();
    let text = error.to_string();
    assert!(text.starts_with("opening the pool"), "{text}");
    assert!(text.contains(path.to_str().unwrap()), "{text}");
}

#[test]
fn a_name_that_cannot_be_created_is_refused() {
    let (dir, path) = directory();
    let create = |path: &Path| kind(Mapped::create(path, &options()));
    std::os::unix::fs::symlink(dir.path().join("nowhere"), dir.path().join("link")).unwrap();
    make(&path, EXTENT, 7).unwrap();
    assert_eq!(create(&path), "Exists");
    assert_eq!(create(&dir.path().join("link")), "Exists");
    assert_eq!(create(dir.path()), "Exists");
    assert_eq!(create(Path::new("/")), "Options");
    assert_eq!(create(&dir.path().join("missing/pool")), "Io");
    assert_eq!(create(&path.join("below")), "Io");
    let mut left = names(&dir);
    left.sort();
    assert_eq!(left, ["link", "pool"]);
}

#[test]
fn an_unpublished_file_goes_away() {
    let (dir, path) = directory();
    let medium = Mapped::create(&path, &options()).unwrap();
    medium.grow(EXTENT).unwrap();
    // Nor has it a name that a kill would leave behind, where files may have none.
    assert!(names(&dir).is_empty() || sys::create_unnamed(dir.path(), 0o600).is_err());
    drop(medium);
    assert!(names(&dir).is_empty());
}

#[test]
fn of_two_creations_one_wins() {
    for _ in 0..20 {
        let (dir, path) = directory();
        let barrier = Barrier::new(2);
        let run = || {
            barrier.wait();
            let medium = Mapped::create(&path, &options())?;
            medium.grow(EXTENT)?;
            barrier.wait();
            medium.publish()?;
            assert_eq!(kind(Mapped::open(&path, true, &options())), "Locked");
            Ok(())
        };
        let mut ends = std::thread::scope(|scope| {
            let other = scope.spawn(|| kind(run()));
            [kind(run()), other.join().unwrap()]
        });
        ends.sort();
        assert_eq!(ends, ["Exists", "Ok"]);
        assert_eq!(names(&dir), ["pool"]);
    }
}

#[test]
fn growth_ends_at_the_size_limit() {
    let (_dir, path) = directory();
    let limited = MappedOptions { max_bytes: 2 * EXTENT, ..options() };
    let medium = Mapped::create(&path, &limited).unwrap();
    medium.grow(2 * EXTENT).unwrap();
    assert_eq!(kind(medium.grow(2 * EXTENT + 1)), "Full");
    assert_eq!(medium.region().len(), 2 * EXTENT);
    medium.publish().unwrap();
    drop(medium);
    // An existing pool is always mapped, whatever the limit.
    let limited = MappedOptions { max_bytes: 1, ..limited };
    let medium = Mapped::open(&path, false, &limited).unwrap();
    assert_eq!(medium.region().len(), 2 * EXTENT);
    assert_eq!(kind(medium.grow(2 * EXTENT + 1)), "Full");
}

#[test]
fn the_holes_of_a_sparse_copy_are_filled_by_a_writer() {
    let (_dir, path) = directory();
    let file = fs::File::create(&path).unwrap();
    file.set_len(8 * EXTENT).unwrap();
    Mapped::open(&path, true, &options()).unwrap();
    assert_eq!(file.metadata().unwrap().blocks(), 0);
    let medium = Mapped::open(&path, false, &options()).unwrap();
    // It may be anybody's file: nobody has looked at what is in it.
    assert_eq!(file.metadata().unwrap().blocks(), 0);
    medium.begin().unwrap();
    assert!(file.metadata().unwrap().blocks() * 512 >= 8 * EXTENT);
}

#[test]
fn a_file_that_loses_its_name_before_it_is_locked_is_not_the_pool() {
    for read_only in [false, true] {
        let (dir, path) = directory();
        let other = dir.path().join("other");
        make(&path, EXTENT, 7).unwrap();
        make(&other, EXTENT, 8).unwrap();
        let to = path.clone();
        faults::before_lock(Some(Box::new(move || match fs::rename(&other, &to) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => panic!("{e}"),
            _ => {}
        })));
        let medium = Mapped::open(&path, read_only, &options()).unwrap();
        assert_eq!(medium.load(word(&medium, 0)), 8);
        drop(medium);

        // The name is gone for good, or goes to yet another file each time.
        let gone = path.clone();
        faults::before_lock(Some(Box::new(move || fs::remove_file(&gone).unwrap())));
        assert_eq!(kind(Mapped::open(&path, read_only, &options())), "Io");
        fs::write(&path, "first").unwrap();
        let (next, to) = (dir.path().join("next"), path.clone());
        faults::before_lock(Some(Box::new(move || {
            fs::write(&next, "next").unwrap();
            fs::rename(&next, &to).unwrap();
        })));
        assert_eq!(kind(Mapped::open(&path, read_only, &options())), "Locked");
        faults::before_lock(None);
    }
}

/// Between its creation and its lock a file looks like a leftover: another process locks it, or has removed it.
#[test]
fn a_new_file_that_is_taken_for_a_leftover_is_made_again() {
    faults::NAMED_ONLY.set(true);
    for removes in [false, true] {
        let (dir, path) = directory();
        let (within, mut locked) = (dir.path().to_owned(), None);
        faults::before_lock(Some(Box::new(move || {
            if locked.is_none() {
                let file = fs::read_dir(&within).unwrap().next().unwrap().unwrap().path();
                locked = Some(fs::File::open(&file).unwrap());
                if removes {
                    fs::remove_file(file).unwrap();
                } else {
                    locked.as_ref().unwrap().lock().unwrap();
                }
            }
        })));
        make(&path, EXTENT, 7).unwrap();
        faults::before_lock(None);
        assert_eq!(names(&dir), ["pool"]);
        Mapped::open(&path, false, &options()).unwrap();
    }
    faults::NAMED_ONLY.set(false);
}

/// A file system of 1 MiB, where the test may mount one: its context and its root. It is in nobody's
/// tree of names, and goes away when these are closed.
fn small_file_system() -> Option<(OwnedFd, OwnedFd)> {
    let fs = match fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC) {
        Ok(fs) => fs,
        // Only root mounts. Without it, `growth_stops_at_the_limit_of_the_process` fills up.
        Err(Errno::PERM | Errno::ACCESS | Errno::NOSYS) => return None,
        Err(e) => panic!("opening a tmpfs: {e}"),
    };
    fsconfig_set_string(&fs, "size", "1m").unwrap();
    fsconfig_create(&fs).unwrap();
    let (flags, attributes) = (FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty());
    let root = fsmount(&fs, flags, attributes).unwrap();
    Some((fs, root))
}

#[test]
fn a_pool_on_a_read_only_file_system_can_be_read() {
    let Some((fs, root)) = small_file_system() else {
        return;
    };
    let path = PathBuf::from(format!("/proc/self/fd/{}/pool", root.as_raw_fd()));
    make(&path, EXTENT, 7).unwrap();
    fsconfig_set_flag(&fs, "ro").unwrap();
    fsconfig_reconfigure(&fs).unwrap();
    assert_eq!(kind(Mapped::open(&path, false, &options())), "Io");
    let other = path.with_file_name("other");
    assert_eq!(kind(Mapped::create(&other, &options())), "Io");
    let medium = Mapped::open(&path, true, &options()).unwrap();
    medium.store(word(&medium, 8), 8);
    assert_eq!(medium.load(word(&medium, 0)), 7);
    assert_eq!(medium.load(word(&medium, 8)), 8);
}

#[test]
fn a_full_file_system_is_full_and_nothing_has_changed() {
    let Some((_fs, root)) = small_file_system() else {
        return;
    };
    let path = PathBuf::from(format!("/proc/self/fd/{}/pool", root.as_raw_fd()));
    let medium = Mapped::create(&path, &options()).unwrap();
    medium.grow(EXTENT).unwrap();
    medium.store(word(&medium, 0), 7);
    medium.publish().unwrap();
    for bytes in [3 * EXTENT, 1 << 30] {
        assert_eq!(kind(medium.grow(bytes)), "Full");
        assert_eq!(medium.region().len(), EXTENT);
        assert_eq!(fs::metadata(&path).unwrap().len(), EXTENT);
    }
    // Space taken on the way was given back.
    medium.grow(EXTENT + EXTENT / 2).unwrap();
    assert_eq!(medium.load(word(&medium, 0)), 7);
    medium.store(word(&medium, EXTENT), 8);
}

/// The reader of a copy with holes needs no space; its writer is told how much.
fn a_full_disk_has_no_space_for_holes(path: &Path, open: impl Fn(bool) -> Result<Mapped>) {
    let error = open(false).err().unwrap();
    let wanted = ErrorKind::Full { wanted_bytes: EXTENT - 4096, limit: Limit::Holes };
    assert_eq!(format!("{:?}", error.kind()), format!("{wanted:?}"));
    assert_eq!(error.path(), Some(path));
    assert!(
        error.to_string().ends_with("free so many bytes, or open the pool read-only"),
        "{error}"
    );
    let medium = open(true).unwrap();
    let words = medium.region().words(0, EXTENT / 8).unwrap();
    assert_eq!(words.iter().map(|word| medium.load(word)).sum::<u64>(), 7);
    medium.store(&words[EXTENT as usize / 8 - 1], 8);
}

#[test]
fn holes_on_a_full_disk_are_read_and_not_written() {
    let begun = |path: &Path, read_only| {
        let medium = Mapped::open(path, read_only, &options())?;
        medium.begin()?;
        Ok(medium)
    };
    let make_holes = |path: &Path| {
        make(path, EXTENT, 7).unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        sys::punch(&file, 4096, EXTENT - 4096).unwrap();
    };
    let (_dir, path) = directory();
    make_holes(&path);
    a_full_disk_has_no_space_for_holes(&path, |read_only| {
        let medium = Mapped::open(&path, read_only, &options())?;
        // The second call reserves space.
        faults::arm(2, Errno::NOSPC.raw_os_error());
        let begun = medium.begin();
        faults::disarm();
        begun.map(|()| medium)
    });

    // In memory a hole takes space even when it is read.
    let Some((_fs, root)) = small_file_system() else {
        return;
    };
    let path = PathBuf::from(format!("/proc/self/fd/{}/pool", root.as_raw_fd()));
    make_holes(&path);
    let filler = path.with_file_name("filler");
    assert!(fs::write(&filler, vec![1; 1 << 20]).is_err());
    a_full_disk_has_no_space_for_holes(&path, |read_only| begun(&path, read_only));
    fs::remove_file(filler).unwrap();
    let medium = begun(&path, false).unwrap();
    medium.store(word(&medium, EXTENT - 8), 8);
    assert_eq!(fs::metadata(&path).unwrap().blocks() * 512, EXTENT);
}

/// An attempt would fill the disk for a moment, and be undone: that changes the file.
#[test]
fn more_than_the_disk_has_is_not_attempted() {
    let (_dir, path) = directory();
    make(&path, EXTENT, 7).unwrap();
    let medium = Mapped::open(&path, false, &options()).unwrap();
    let changed = || {
        let metadata = fs::metadata(&path).unwrap();
        (metadata.ctime(), metadata.ctime_nsec(), metadata.len())
    };
    let (before, free) = (changed(), sys::space_free(&fs::File::open(&path).unwrap()));
    if free > 1 << 45 {
        // Other limits would be met first.
        return;
    }
    // The clock of files has ticks.
    std::thread::sleep(Duration::from_millis(20));
    let full = medium.grow(free / 4096 * 4096 + (64 << 30)).unwrap_err();
    assert!(matches!(full.kind(), ErrorKind::Full { limit: Limit::Disk, .. }), "{full}");
    assert_eq!(changed(), before);
    medium.grow(2 * EXTENT).unwrap();
}

#[test]
fn growth_stops_at_the_limit_of_the_process() {
    if let Some(path) = child_path() {
        let limit = Rlimit { current: Some(2 * EXTENT), maximum: None };
        setrlimit(Resource::Fsize, limit).unwrap();
        let medium = Mapped::open(&path, false, &options()).unwrap();
        medium.grow(2 * EXTENT).unwrap();
        assert_eq!(kind(medium.grow(3 * EXTENT)), "Full");
        assert_eq!(medium.region().len(), 2 * EXTENT);
        return;
    }
    let (_dir, path) = directory();
    make(&path, EXTENT, 7).unwrap();
    let end = child("growth_stops_at_the_limit_of_the_process", &path).wait_with_output().unwrap();
    assert!(end.status.success(), "{end:?}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 2 * EXTENT);
}

#[test]
fn a_stored_word_survives_sigkill() {
    if let Some(path) = child_path() {
        let medium = Mapped::open(&path, false, &options()).unwrap();
        medium.grow(4 * EXTENT).unwrap();
        medium.store(word(&medium, 4 * EXTENT - 8), 0xabcd);
        println!("stored");
        loop {
            std::thread::park();
        }
    }
    let (_dir, path) = directory();
    make(&path, EXTENT, 7).unwrap();
    let mut child = child("a_stored_word_survives_sigkill", &path);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("stored")));
    assert_eq!(kind(Mapped::open(&path, false, &options())), "Locked");
    child.kill().unwrap();
    child.wait().unwrap();
    let medium = Mapped::open(&path, false, &options()).unwrap();
    assert_eq!(medium.load(word(&medium, 4 * EXTENT - 8)), 0xabcd);
    assert_eq!(medium.load(word(&medium, 0)), 7);
}

#[test]
fn children_of_a_fork_do_not_have_the_mapping() {
    let (_dir, path) = directory();
    make(&path, EXTENT, 7).unwrap();
    for read_only in [false, true] {
        let medium = Mapped::open(&path, read_only, &options()).unwrap();
        let base = medium.mapping.base().as_ptr().addr();
        assert!((base as u64).is_multiple_of(2 << 20));
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let flags = smaps
            .lines()
            .skip_while(|line| !line.starts_with(&format!("{base:x}-")))
            .find_map(|line| line.strip_prefix("VmFlags:"))
            .unwrap();
        assert!(flags.split_whitespace().any(|flag| flag == "dc"), "{flags}");
    }
}

#[test]
fn dax_that_is_required_and_not_there_is_an_error() {
    let (dir, path) = directory();
    let required = MappedOptions { dax: Dax::Require, ..options() };
    make(&path, EXTENT, 7).unwrap();
    for read_only in [false, true] {
        assert_eq!(kind(Mapped::open(&path, read_only, &required)), "NoDax");
    }
    let other = dir.path().join("other");
    assert_eq!(kind(Mapped::create(&other, &required)), "NoDax");
    assert_eq!(names(&dir), ["pool"]);
    let off = MappedOptions { dax: Dax::Off, ..options() };
    Mapped::open(&path, false, &off).unwrap();
}

#[test]
fn trim_cuts_the_file_and_nobody_dies_of_it() {
    let (_dir, path) = directory();
    make(&path, 4 * EXTENT, 7).unwrap();
    let medium = Mapped::open(&path, false, &options()).unwrap();
    let beyond = word(&medium, 3 * EXTENT);
    medium.store(beyond, 8);
    medium.trim(5 * EXTENT).unwrap();
    assert_eq!(medium.load(beyond), 8);
    medium.trim(2 * EXTENT).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 2 * EXTENT);
    assert_eq!(medium.load(word(&medium, 0)), 7);
    assert_eq!(medium.load(beyond), 0);
    medium.store(beyond, 9);
    assert_eq!(kind(medium.grow(5 * EXTENT)), "Full");
    drop(medium);
    let medium = Mapped::open(&path, false, &options()).unwrap();
    assert_eq!(medium.region().len(), 2 * EXTENT);
    assert_eq!(medium.load(word(&medium, 0)), 7);
}

/// Error numbers with which calls may fail; true if some call has another way then.
const FAILURES: [(Errno, bool); 7] = [
    (Errno::IO, false),
    (Errno::NOSPC, false),
    (Errno::PERM, true),
    (Errno::OPNOTSUPP, true),
    (Errno::INVAL, true),
    (Errno::NOMEM, true),
    (Errno::EXIST, true),
];

/// Runs `f` with its `n`th system call failing, for every `n`, and tells `after` how it ended.
fn fail_each(errno: Errno, mut f: impl FnMut() -> Result<()>, mut after: impl FnMut(Result<()>)) {
    for n in 1.. {
        faults::arm(n, errno.raw_os_error());
        let end = f();
        let failed = faults::disarm();
        assert!(failed || end.is_ok());
        after(end);
        if !failed {
            break;
        }
    }
}

#[test]
fn if_any_call_fails_a_creation_is_whole_or_leaves_nothing() {
    let ways = FAILURES.map(|(errno, has_another_way)| (errno, has_another_way, true));
    let unnamed = FAILURES.map(|(errno, has_another_way)| (errno, has_another_way, false));
    for (errno, has_another_way, named) in ways.into_iter().chain(unnamed) {
        faults::NAMED_ONLY.set(named);
        let (dir, path) = directory();
        let mut survived = 0;
        fail_each(
            errno,
            || make(&path, EXTENT, 7),
            |end| {
                if end.is_ok() {
                    survived += 1;
                    assert_eq!(names(&dir), ["pool"], "{errno:?}");
                    let medium = Mapped::open(&path, false, &options()).unwrap();
                    assert_eq!(medium.load(word(&medium, 0)), 7);
                    assert_eq!(medium.region().len(), EXTENT);
                    fs::remove_file(&path).unwrap();
                } else {
                    assert_eq!(names(&dir), [""; 0], "{errno:?} {end:?}");
                }
            },
        );
        // The last run, in which no call failed, always succeeds.
        assert!(survived >= 1, "{errno:?}");
        assert_eq!(survived > 1, has_another_way, "{errno:?}");
    }
    faults::NAMED_ONLY.set(false);
}

#[test]
fn if_any_call_fails_a_growth_is_whole_or_changes_nothing() {
    for (errno, _) in FAILURES {
        let (_dir, path) = directory();
        make(&path, EXTENT, 7).unwrap();
        let mut bytes = EXTENT;
        let medium = Mapped::open(&path, false, &options()).unwrap();
        let next = std::cell::Cell::new(2 * EXTENT);
        fail_each(
            errno,
            || medium.grow(next.get()),
            |end| {
                if end.is_ok() {
                    bytes = next.get();
                    next.set(bytes + EXTENT);
                } else if errno == Errno::NOSPC {
                    assert!(matches!(kind(end).as_str(), "Full" | "Io"));
                }
                assert_eq!(medium.region().len(), bytes, "{errno:?}");
                assert_eq!(fs::metadata(&path).unwrap().len(), bytes, "{errno:?}");
                let words = medium.region().words(0, bytes / 8).unwrap();
                assert_eq!(words.iter().map(|w| medium.load(w)).sum::<u64>(), 7);
            },
        );
        // And opening and cutting, with a call failing, leave it as it is or do what they shall.
        drop(medium);
        let cut = || {
            let medium = Mapped::open(&path, false, &options())?;
            medium.sync(0, EXTENT)?;
            medium.trim(EXTENT)
        };
        fail_each(errno, cut, |_| {
            let medium = Mapped::open(&path, true, &options()).unwrap();
            assert!([bytes, EXTENT].contains(&medium.region().len()));
            assert_eq!(medium.load(word(&medium, 0)), 7);
        });
        assert_eq!(fs::metadata(&path).unwrap().len(), EXTENT);
    }
}

/// A sync that has nothing to write succeeds, also where the one before it has failed.
#[test]
fn pages_that_a_sync_may_have_lost_are_written_by_the_next() {
    const STATE_OFF: u64 = 128;
    const PAGE_CACHE: u64 = 1 << 34;
    const CLEAN: u64 = 1 << 32;
    let (_dir, path) = directory();
    make(&path, EXTENT, 1).unwrap();
    for (state, left) in [(PAGE_CACHE | CLEAN, false), (0, false), (PAGE_CACHE, true)] {
        let medium = Mapped::open(&path, false, &options()).unwrap();
        medium.store(word(&medium, STATE_OFF), state);
        drop(medium);
        let medium = Mapped::open(&path, false, &options()).unwrap();
        let unsynced = || *medium.unsynced.lock().unwrap();
        assert_eq!(unsynced(), left);
        medium.sync(0, EXTENT / 2).unwrap();
        assert_eq!(unsynced(), left, "the rest is as it was");
        medium.sync(0, EXTENT).unwrap();
        assert!(!unsynced());
        faults::arm(1, Errno::IO.raw_os_error());
        assert!(medium.sync(0, 512).is_err());
        assert!(faults::disarm());
        assert!(unsynced());
        medium.sync(0, EXTENT).unwrap();
        assert!(!unsynced());
    }
}

fn for_readers() -> MappedOptions {
    MappedOptions { readers: true, ..options() }
}

#[test]
fn a_reader_takes_no_file_that_its_writer_removes_meanwhile() {
    let (_dir, path) = directory();
    make(&path, EXTENT, 7).unwrap();
    let writer = Mapped::open(&path, false, &for_readers()).unwrap();
    assert!(Mapped::look_on(&path, None, &options()).unwrap().is_none(), "nothing is counted yet");
    writer.changes().unwrap().count_for(1);
    assert!(Mapped::look_on(&path, None, &options()).unwrap().is_some());
    let name = path.with_file_name(writer.file_id.readers_name());
    faults::before_lock(Some(Box::new(move || fs::remove_file(&name).unwrap())));
    let seen = Mapped::look_on(&path, None, &options());
    faults::before_lock(None);
    assert!(seen.unwrap().is_none());
}

#[test]
fn a_reader_beside_strict_waits_until_what_it_may_have_seen_is_durable_or_its_writer_gone() {
    let (_dir, path) = directory();
    make(&path, EXTENT, 7).unwrap();
    let writer = Mapped::open(&path, false, &for_readers()).unwrap();
    let changes = writer.changes().unwrap();
    changes.count_for(1);
    let look_on = || Mapped::look_on(&path, None, &options()).unwrap().unwrap();
    let seen = look_on();
    let waits_for = |end: &dyn Fn()| {
        assert!(!seen.is_durable());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| seen.wait_until_durable().unwrap());
            std::thread::sleep(Duration::from_millis(5));
            let waits = !waiting.is_finished();
            end();
            waiting.join().unwrap();
            waits
        })
    };
    assert!(seen.is_durable());
    changes.stores_in(7);
    assert!(waits_for(&|| changes.durable_to(7)) && seen.is_durable());
    changes.stores_in(8);
    assert!(waits_for(&|| changes.count_for(0)), "its disk has failed, say");
    changes.count_for(1);
    // One that never rests.
    changes.stores_in(9);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for epoch in (9..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                changes.stores_in(epoch + 1);
                changes.durable_to(epoch);
            }
        });
        seen.wait_until_durable().unwrap();
        stop.store(true, Ordering::Relaxed);
    });
    changes.stores_in(u64::MAX);
    // As the system does where it is killed.
    assert!(waits_for(&|| writer.file.file().unlock().unwrap()));
    assert!(seen.is_durable() && seen.wait_until_durable().is_ok());
    assert!(!look_on().is_durable(), "another reader finds that out for itself");
    assert!(sys::try_lock(writer.file.file(), false).unwrap(), "the reader keeps nobody out");
}

#[test]
fn what_is_no_file_for_readers_is_in_the_way_of_its_writer_only() {
    let (_dir, path) = directory();
    make(&path, 2 * EXTENT, 7).unwrap();
    let name = FileId::of(&fs::metadata(&path).unwrap()).readers_name();
    fs::create_dir(path.with_file_name(&name)).unwrap();
    let refused = Mapped::open(&path, false, &for_readers()).err().unwrap();
    assert!(format!("{refused:?}").contains(&name), "{refused:?}");
    assert!(Mapped::look_on(&path, None, &options()).unwrap().is_none());
    Mapped::open(&path, false, &options()).unwrap().trim(EXTENT).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), EXTENT);
}

#[test]
fn if_any_call_fails_no_file_for_readers_is_left() {
    for (errno, _) in FAILURES {
        let (dir, path) = directory();
        make(&path, EXTENT, 7).unwrap();
        let mode = fs::metadata(&path).unwrap().mode();
        let open = || Mapped::open(&path, false, &for_readers()).map(drop);
        let mut left = 0;
        fail_each(errno, open, |_| {
            left = names(&dir).len() - 1;
            // The call that failed may be that which takes it away.
            names(&dir).iter().filter(|name| *name != "pool").for_each(|name| {
                let file = fs::metadata(dir.path().join(name)).unwrap();
                assert_eq!((file.len(), file.mode()), (FILE_BYTES, mode), "{errno:?}");
                fs::remove_file(dir.path().join(name)).unwrap();
            });
        });
        assert_eq!(left, 0, "{errno:?}");
    }
}

#[test]
fn a_growth_that_fails_cuts_nothing_that_readers_may_have_mapped() {
    for (errno, _) in FAILURES {
        let (_dir, path) = directory();
        make(&path, EXTENT, 7).unwrap();
        let medium = Mapped::open(&path, false, &options()).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let len = || file.metadata().unwrap().len();
        // Of a close beside readers.
        file.set_len(4 * EXTENT).unwrap();
        sys::write_at(&file, &[1; 8], EXTENT + 64).unwrap();
        let lengthen = || medium.lengthen(EXTENT, 2 * EXTENT).map(drop);
        fail_each(errno, lengthen, |_| assert_eq!(len(), 4 * EXTENT, "{errno:?}"));
        assert_eq!(fs::read(&path).unwrap()[EXTENT as usize..], vec![0; 3 * EXTENT as usize]);
        let extend = || medium.file.extend(EXTENT, 2 * EXTENT, EXTENT).map(drop);
        fail_each(errno, extend, |_| assert_eq!(len(), 4 * EXTENT, "{errno:?}"));
        let grow = || medium.grow(2 * EXTENT);
        fail_each(errno, grow, |_| assert_eq!(len(), 4 * EXTENT, "{errno:?}"));
        assert_eq!(medium.region().len(), 2 * EXTENT);
    }
}

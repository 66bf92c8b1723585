use std::fs;
use std::path::PathBuf;

use rustix::io::Errno;

use super::*;
use crate::error::Limit;
use crate::identity::{copies_pass, set_boot};

const BYTES: u64 = 8192;

fn header() -> SharedHeader {
    SharedHeader { id: 7, number: 0, count: 1, rows: 4, bytes: BYTES }
}

/// A new file, and the directory that it lies in.
fn made() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node");
    NodeFile::create(&path, header(), 0o600).unwrap();
    (dir, path)
}

fn refused(path: &Path) -> Error {
    let e = NodeFile::open(path, None, false).err().unwrap();
    assert_eq!(e.path(), Some(path), "{e}");
    e
}

#[test]
fn what_was_stored_is_there_after_a_kill_and_after_a_close() {
    let (_dir, path) = made();
    let file = NodeFile::open(&path, None, false).unwrap();
    assert!(file.region().header() == header() && !file.may_be_mapped() && !file.is_suspect());
    file.region().write(BYTES - 3, b"abc").unwrap();
    assert!(matches!(refused(&path).kind(), ErrorKind::Locked));
    let opening = file.opening();
    drop(file);
    let file = NodeFile::open(&path, None, false).unwrap();
    assert!(file.opening() > opening, "whatever the clock says");
    let mut bytes = [0; 3];
    file.region().read(BYTES - 3, &mut bytes).unwrap();
    assert!(&bytes == b"abc" && file.may_be_mapped());
    assert_eq!(file.memory().len() as u64, HEADER_BYTES + BYTES);
    file.region().write(0, b"d").unwrap();
    file.close().unwrap();
    let file = NodeFile::open(&path, None, false).unwrap();
    file.region().read(0, &mut bytes[..1]).unwrap();
    assert!(&bytes == b"dbc" && !file.may_be_mapped());
    // Clients map the same.
    assert_eq!(SharedRegion::attach(&path).unwrap().header(), header());
}

#[test]
fn a_file_that_was_open_when_the_machine_went_down_is_suspect_for_ever() {
    let (_dir, path) = made();
    drop(NodeFile::open(&path, None, false).unwrap());
    set_boot(1);
    let before = fs::read(&path).unwrap();
    assert!(matches!(refused(&path).kind(), ErrorKind::PowerLoss));
    assert_eq!(fs::read(&path).unwrap(), before, "it is untouched");
    let file = NodeFile::open(&path, None, true).unwrap();
    assert!(file.is_suspect() && !file.may_be_mapped());
    file.close().unwrap();
    set_boot(2);
    // A closed one may come from any boot.
    assert!(NodeFile::open(&path, None, false).unwrap().is_suspect());
    set_boot(0);
}

#[test]
fn a_copy_of_an_open_file_is_refused_and_one_of_a_closed_file_is_not() {
    let (dir, path) = made();
    let copy = dir.path().join("copy");
    fs::copy(&path, &copy).unwrap();
    NodeFile::open(&copy, None, false).unwrap();
    let file = NodeFile::open(&path, None, false).unwrap();
    fs::copy(&path, &copy).unwrap();
    assert!(matches!(refused(&copy).kind(), ErrorKind::Copied));
    // Of the other machine, too.
    set_boot(1);
    assert!(matches!(refused(&copy).kind(), ErrorKind::Copied));
    set_boot(0);
    let accepted = NodeFile::open(&copy, None, true).unwrap();
    assert!(accepted.is_suspect() && !accepted.may_be_mapped());
    // What a snapshot of the file system shows is on another device.
    let shared = tempfile::tempdir_in("/dev/shm");
    let dev = |dir: &tempfile::TempDir| fs::metadata(dir.path()).unwrap().dev();
    if let Some(other) = shared.ok().filter(|other| dev(other) != dev(&dir)) {
        let snapshot = other.path().join("node");
        fs::copy(&path, &snapshot).unwrap();
        copies_pass(true);
        assert!(matches!(refused(&snapshot).kind(), ErrorKind::PowerLoss));
        copies_pass(false);
    }
    file.close().unwrap();
}

#[test]
fn files_that_are_none_of_a_node_are_refused_and_untouched() {
    let (dir, path) = made();
    let missing = refused(&dir.path().join("none"));
    assert!(matches!(missing.kind(), ErrorKind::Io { .. }));
    assert!(matches!(refused(dir.path()).kind(), ErrorKind::NotAPool { .. }));
    let other_size = NodeFile::open(&path, Some(4096), false).err().unwrap();
    assert!(matches!(other_size.kind(), ErrorKind::Region { found: BYTES, expected: 4096, .. }));
    let good = fs::read(&path).unwrap();
    let kind = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let e = refused(&path);
        assert_eq!(fs::read(&path).unwrap(), bytes);
        e
    };
    assert!(matches!(kind(b"").kind(), ErrorKind::NotAPool { .. }));
    for bytes in [&good[..100], &good[..good.len() - 1]] {
        assert!(matches!(kind(bytes).kind(), ErrorKind::Truncated { .. }));
    }
    let long = [&good[..], b"x"].concat();
    for i in (0..64).chain(STATE_OFF as usize..STATE_OFF as usize + 40) {
        let mut bad = good.clone();
        bad[i] ^= 4;
        let e = kind(&bad);
        assert!(matches!(e.kind(), ErrorKind::Region { .. }), "byte {i}: {e}");
    }
    // That of processes which share memory without a node.
    let other = dir.path().join("region");
    drop(SharedRegion::create(&other, header(), 0o600).unwrap());
    for bytes in [&long, &fs::read(&other).unwrap()] {
        assert!(matches!(kind(bytes).kind(), ErrorKind::Region { .. }));
    }
}

#[test]
fn a_creation_that_fails_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node");
    let create = || NodeFile::create(&path, header(), 0o600);
    let mut calls = 0;
    loop {
        calls += 1;
        sys::faults::arm(calls, Errno::NOSPC.raw_os_error());
        let made = create();
        if !sys::faults::disarm() {
            made.unwrap();
            break;
        }
        let e = made.unwrap_err();
        assert_eq!(e.path(), Some(&*path), "{e}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "call {calls}: {e}");
    }
    assert!(calls > 8, "{calls}");
    assert!(matches!(create().unwrap_err().kind(), ErrorKind::Exists));
}

#[test]
fn a_full_disk_is_told_before_the_file_is_served() {
    let (dir, path) = made();
    let full = (1..20).find_map(|nth| {
        sys::faults::arm(nth, Errno::NOSPC.raw_os_error());
        let made = NodeFile::create(&dir.path().join("other"), header(), 0o600);
        assert!(sys::faults::disarm());
        let e = made.unwrap_err();
        matches!(e.kind(), ErrorKind::Full { limit: Limit::Disk, .. }).then_some(e)
    });
    assert!(full.is_some());
    // A copy without the zeros has holes.
    let sparse = dir.path().join("sparse");
    fs::write(&sparse, &fs::read(&path).unwrap()[..4096]).unwrap();
    File::options().write(true).open(&sparse).unwrap().set_len(HEADER_BYTES + BYTES).unwrap();
    let holes = (1..20).find_map(|nth| {
        sys::faults::arm(nth, Errno::NOSPC.raw_os_error());
        let opened = NodeFile::open(&sparse, None, false);
        assert!(sys::faults::disarm());
        let e = opened.err().unwrap();
        matches!(e.kind(), ErrorKind::Full { limit: Limit::Holes, .. }).then_some(e)
    });
    assert!(holes.is_some());
    // Where the system cannot reserve space, zeros take it.
    let opened = (1..20).find_map(|nth| {
        sys::faults::arm(nth, Errno::OPNOTSUPP.raw_os_error());
        let opened = NodeFile::open(&sparse, None, false);
        assert!(sys::faults::disarm());
        opened.ok()
    });
    let metadata = fs::metadata(&sparse).unwrap();
    assert!(metadata.blocks() * 512 >= metadata.len());
    opened.unwrap().close().unwrap();
}

#[test]
fn what_could_not_be_written_back_makes_a_file_suspect() {
    let (_dir, path) = made();
    // A closed file has nothing to write; after a kill, the sync of the state tells of what the last node stored.
    for was_open in [false, true] {
        let file = (1..).find_map(|nth| {
            sys::faults::arm(nth, Errno::IO.raw_os_error());
            let opened = NodeFile::open(&path, None, false);
            if sys::faults::disarm() {
                assert!(opened.is_err());
                return None;
            }
            opened.ok()
        });
        assert_eq!(file.unwrap().is_suspect(), was_open);
    }
    let (_dir, path) = made();
    let file = NodeFile::open(&path, None, false).unwrap();
    for (errno, failed) in [(Errno::NOSYS, false), (Errno::IO, true)] {
        sys::faults::arm(1, errno.raw_os_error());
        assert_eq!(file.written_back().is_err(), failed);
        assert!(sys::faults::disarm());
        assert_eq!(file.is_suspect(), failed);
    }
    drop(file);
    assert!(NodeFile::open(&path, None, false).unwrap().is_suspect());
}

#[test]
fn a_close_that_fails_leaves_the_file_open() {
    let (_dir, path) = made();
    for nth in 1..=3 {
        let file = NodeFile::open(&path, None, false).unwrap();
        assert_eq!(
            file.is_suspect(),
            nth > 1,
            "what was not written stays so, whatever a later sync says"
        );
        sys::faults::arm(nth, Errno::IO.raw_os_error());
        let closed = file.close();
        assert!(sys::faults::disarm(), "there are three calls");
        assert!(matches!(closed.err().unwrap().kind(), ErrorKind::Io { .. }));
        if nth < 3 {
            set_boot(1);
            assert!(matches!(refused(&path).kind(), ErrorKind::PowerLoss));
            set_boot(0);
        }
    }
}

use std::ffi::OsStr;

use durahash_media::FileId;
use durahash_media::sim::set_boot;

use super::*;
use crate::executor::block_on;
use crate::fabric::{Addr, Batch, Fabric, Local, LocalClient};
use crate::{Options, RemoteMap};

fn made() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memory.node");
    FileMemory::create(&path, 16 << 20).unwrap();
    (dir, path)
}

fn open(path: &Path) -> FileMemory {
    FileMemory::open(path, None, false).unwrap()
}

/// As processes of this host attach it.
fn attach(offer: &Offer) -> Result<Local> {
    Local::attach(Path::new(OsStr::from_bytes(&offer.place)), Some(offer.id))
}

fn ticks(map: &RemoteMap<LocalClient>) -> u64 {
    for _ in 0..30 {
        block_on(map.tick()).unwrap();
    }
    map.stats().evictions
}

#[test]
fn clients_of_a_killed_node_count_as_alive_for_as_long_as_they_are() {
    let (_dir, path) = made();
    let memory = open(&path);
    let local = attach(&memory.lend().unwrap()).unwrap();
    let options = Options { max_depth: 8, ..Options::default() };
    let client = || local.client().unwrap();
    let first = block_on(RemoteMap::create(client(), options)).unwrap();
    let [second, third] = [(); 2].map(|()| block_on(RemoteMap::open(client(), options)).unwrap());
    block_on(second.put(b"key", b"value")).unwrap();
    // As those whose processes are killed with the node's: they do not leave.
    drop((first, second, memory));

    let memory = open(&path);
    let again = attach(&memory.lend().unwrap()).unwrap();
    assert_eq!(again.clients().unwrap(), 1, "the third");
    let map = block_on(RemoteMap::open(again.client().unwrap(), options)).unwrap();
    // It has the row of the first one; that of the second was behind.
    assert_eq!(ticks(&map), 1);
    assert_eq!(block_on(map.get(b"key")).unwrap().as_deref(), Some(&b"value"[..]));
    // The third has the memory attached, and could go on.
    assert_eq!(block_on(third.get(b"key")).unwrap().as_deref(), Some(&b"value"[..]));
    drop(third);
    assert_eq!(ticks(&map), 2);
}

#[test]
fn a_file_is_closed_when_nobody_can_store_to_it_any_more() {
    let (_dir, path) = made();
    let memory = open(&path);
    let offer = memory.lend().unwrap();
    let local = attach(&offer).unwrap();
    let refused = memory.close(Duration::ZERO).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Locked), "{refused}");
    set_boot(1);
    let refused = FileMemory::open(&path, None, false).err().unwrap();
    assert!(matches!(refused.kind(), ErrorKind::PowerLoss), "{refused}");
    set_boot(0);

    // A fabric that reaches it through the node's process has it alone.
    let refused = open(&path).shut().err().unwrap();
    assert!(matches!(refused.kind(), ErrorKind::Locked));
    drop(local);
    let memory = open(&path).shut().unwrap();
    let busy = attach(&offer).err().unwrap();
    assert!(busy.to_string().contains("its node is being stopped"), "{busy}");
    memory.close(Duration::ZERO).unwrap();
    assert!(!Path::new(OsStr::from_bytes(&offer.place)).exists());
    // Who has the offer from before comes too late.
    let gone = attach(&offer).err().unwrap();
    assert!(gone.to_string().contains("node-0"), "{gone}");
    set_boot(2);
    let memory = open(&path);
    assert!(!memory.is_suspect() && memory.lend().unwrap() == offer);
    attach(&offer).unwrap();
    set_boot(0);
}

#[test]
fn a_copy_beside_a_file_has_clients_of_its_own() {
    let (dir, path) = made();
    let copy = dir.path().join("copy.node");
    fs::copy(&path, &copy).unwrap();
    let (memory, other) = (open(&path), open(&copy));
    let (offer, _) = (memory.lend().unwrap(), other.lend().unwrap());
    let client = attach(&offer).unwrap().client().unwrap();
    block_on(client.post(Batch::of(|batch| batch.write_word(Addr::new(0, 64), 7)))).unwrap();
    drop(client);
    let word = |memory: &FileMemory| {
        let mut bytes = [0; 8];
        memory.file().region().read(64, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    };
    assert_eq!((word(&memory), word(&other)), (7, 0));
    // Nor does who comes later get the copy where it takes the file's path.
    fs::rename(&copy, &path).unwrap();
    let refused = attach(&offer).err().unwrap();
    assert!(refused.to_string().contains("leads to another one"), "{refused}");
    other.close(Duration::ZERO).unwrap();
    memory.close(Duration::ZERO).unwrap();
}

#[test]
fn a_file_whose_clients_cannot_be_counted_stays_closed() {
    let (dir, path) = made();
    let id = FileId::of(&fs::metadata(&path).unwrap());
    fs::write(dir.path().join(id.clients_name()), "").unwrap();
    let before = fs::read(&path).unwrap();
    FileMemory::open(&path, None, false).err().unwrap();
    assert!(fs::read(&path).unwrap() == before);
}

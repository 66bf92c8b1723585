use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use super::*;
use crate::executor::block_on;

const DIR: &str = "DURAHASH_TEST_FABRIC";

fn small() -> LocalOptions {
    LocalOptions { node_bytes: vec![8192, 4096], max_clients: 3, ..LocalOptions::default() }
}

fn post<T>(client: &LocalClient, fill: impl FnOnce(&mut Batch) -> T) -> Done {
    block_on(client.post(Batch::of(fill))).unwrap()
}

fn evict(client: &LocalClient, row: u32) -> bool {
    block_on(client.evict(row)).unwrap()
}

#[test]
fn atomics_of_many_threads_are_exact() {
    const THREADS: u64 = 4;
    const EACH: u64 = 5_000;
    let (adds, swaps) = (Addr::new(1, 8), Addr::new(0, 64));
    let local = Local::anonymous(&LocalOptions { max_clients: 8, ..small() }).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let client = local.client().unwrap();
                for _ in 0..EACH {
                    post(&client, |batch| batch.fetch_add(adds, 1));
                    let mut was = 0;
                    loop {
                        let now = post(&client, |b| b.compare_swap(swaps, was, was + 3)).word(0);
                        if now == was {
                            break;
                        }
                        was = now;
                    }
                    // Bytes beside each other in one word.
                    let byte = Addr::new(0, 128 + u64::from(client.row()));
                    let was = post(&client, |batch| batch.read(byte, 1)).bytes(0)[0];
                    post(&client, |batch| batch.write(byte, &[was.wrapping_add(1)]));
                }
            });
        }
    });
    let client = local.client().unwrap();
    assert_eq!(post(&client, |batch| batch.read(adds, 8)).word(0), THREADS * EACH);
    assert_eq!(post(&client, |batch| batch.read(swaps, 8)).word(0), THREADS * EACH * 3);
    let bytes = post(&client, |batch| batch.read(Addr::new(0, 128), 8));
    let sum: u64 = bytes.bytes(0).iter().map(|&byte| u64::from(byte)).sum();
    // A row is given to the next thread when one has ended, so it may count for both.
    assert_eq!(sum % 256, THREADS * EACH % 256);
}

/// Of two clients that write and then read what the other wrote, at least one sees it.
#[test]
fn of_two_clients_that_write_and_then_read_one_sees_the_other() {
    let local = Local::anonymous(&small()).unwrap();
    let (one, two) = (local.client().unwrap(), local.client().unwrap());
    let meet = std::sync::Barrier::new(2);
    let (x, y) = (Addr::new(0, 64), Addr::new(0, 256));
    let run = |client: &LocalClient, own: Addr, other: Addr| {
        (1..=2_000_u64)
            .map(|round| {
                meet.wait();
                post(client, |batch| batch.write_word(own, round));
                post(client, |batch| batch.read(other, 8)).word(0) == round
            })
            .collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let seen = scope.spawn(|| run(&one, x, y));
        let also = run(&two, y, x);
        let seen = seen.join().unwrap();
        for (round, pair) in seen.iter().zip(&also).enumerate() {
            assert!(*pair.0 || *pair.1, "round {round}");
        }
    });
}

#[test]
fn rows_are_those_of_the_living() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("fabric");
    for local in [Local::anonymous(&small()).unwrap(), Local::create(&dir, &small()).unwrap()] {
        let clients: Vec<_> = (0..3).map(|_| local.client().unwrap()).collect();
        assert_eq!(clients.iter().map(Fabric::row).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(clients[0].max_clients(), 3);
        let none = local.client().err().unwrap();
        assert!(none.to_string().contains("all 3 clients are alive"), "{none}");
        assert!(!evict(&clients[0], 1) && !evict(&clients[0], 0));
        let mut clients = clients.into_iter();
        let (first, second) = (clients.next().unwrap(), clients.next().unwrap());
        let same = second.clone();
        drop(second);
        assert!(!evict(&first, 1), "a clone is the same client");
        drop(same);
        assert!(evict(&first, 1) && evict(&first, 7));
        assert_eq!(local.client().unwrap().row(), 1);
    }
}

/// The lock is with the file: without the file it is unknown whether the client lives, and its memory must not be taken.
#[test]
fn a_row_whose_file_was_removed_is_not_taken_for_a_dead_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("fabric");
    let local = Local::create(&dir, &small()).unwrap();
    let (one, two) = (local.client().unwrap(), local.client().unwrap());
    fs::remove_file(dir.join("client-1")).unwrap();
    let error = block_on(one.evict(two.row())).unwrap_err();
    assert!(error.to_string().contains("client-1"), "{error}");
    assert_eq!(local.clients().unwrap(), 1, "as far as is known");
}

#[test]
fn another_fabric_than_the_one_meant_is_refused() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("fabric");
    let refused = |id| Local::attach(&dir, id).err().unwrap();
    assert!(matches!(refused(None).kind(), ErrorKind::Io { .. }));
    let local = Local::create(&dir, &small()).unwrap();
    let taken = Local::create(&dir, &small()).err().unwrap();
    assert!(matches!(taken.kind(), ErrorKind::Exists));
    assert_eq!(Local::attach(&dir, Some(local.id())).unwrap().id(), local.id());
    assert!(matches!(refused(Some(local.id() ^ 1)).kind(), ErrorKind::Region { .. }));

    // A node of another fabric, and a node under the number of another.
    let other = tmp.path().join("other");
    Local::create(&other, &small()).unwrap();
    fs::copy(other.join("node-1"), dir.join("node-1")).unwrap();
    assert!(matches!(refused(None).kind(), ErrorKind::Region { .. }));
    fs::copy(dir.join("node-0"), dir.join("node-1")).unwrap();
    assert!(matches!(refused(None).kind(), ErrorKind::Region { .. }));
    fs::remove_file(dir.join("node-1")).unwrap();
    assert!(matches!(refused(None).kind(), ErrorKind::Io { .. }));
    File::options().write(true).open(dir.join("node-0")).unwrap().set_len(5000).unwrap();
    assert!(matches!(refused(None).kind(), ErrorKind::Truncated { .. }));

    // Headers that are well formed, but describe a fabric that cannot be.
    for (count, rows) in [(0, 1), (256, 1), (1, 0), (1, 1 << 32)] {
        let header = SharedHeader { id: 1, number: 0, count, rows, bytes: 4096 };
        fs::remove_file(dir.join("node-0")).unwrap();
        SharedRegion::create(&dir.join("node-0"), header, 0o640).unwrap();
        assert!(matches!(refused(None).kind(), ErrorKind::Region { .. }), "{header:?}");
    }

    for (node_bytes, max_clients) in
        [(vec![], 1), (vec![4096; 256], 1), (vec![4096], 0), (vec![100], 1)]
    {
        let wrong = LocalOptions { node_bytes, max_clients, ..small() };
        let dir = tmp.path().join("wrong");
        let refused = Local::create(&dir, &wrong).err().unwrap();
        assert!(matches!(refused.kind(), ErrorKind::Options { .. }), "{wrong:?}");
        assert!(!dir.exists());
    }
}

#[test]
fn files_of_rows_have_the_permissions_of_the_regions() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("fabric");
    let local = Local::create(&dir, &LocalOptions { mode: 0o640, ..small() }).unwrap();
    let clients = [local.client().unwrap(), Local::attach(&dir, None).unwrap().client().unwrap()];
    assert_eq!(clients.each_ref().map(Fabric::row), [0, 1]);
    let mode = |name: &str| fs::metadata(dir.join(name)).unwrap().permissions().mode();
    assert_eq!(mode("client-1"), mode("node-0"));
}

/// The other process: this binary, started with a directory in its environment.
#[test]
fn other_process() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let local = Local::attach(Path::new(&dir), None).unwrap();
    let client = local.client().unwrap();
    println!("\nrow {}", client.row());
    std::io::stdout().flush().unwrap();
    // Whatever becomes of the test, this process does not outlive it.
    let parent = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == parent {
        post(&client, |batch| batch.fetch_add(Addr::new(0, 64), 1));
        post(&client, |batch| batch.fetch_add(Addr::new(1, 64), 1));
    }
}

#[test]
fn a_process_that_is_killed_leaves_its_row_and_no_half_words() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("fabric");
    let local = Local::create(&dir, &small()).unwrap();
    let client = local.client().unwrap();
    let word = |node| post(&client, |batch| batch.read(Addr::new(node, 64), 8)).word(0);
    let mut own = 0;
    for _ in 0..5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "fabric::local::tests::other_process", "--nocapture"])
            .env(DIR, &dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let row = lines.map_while(|line| line.ok()).find(|line| line.starts_with("row"));
        assert_eq!(row.as_deref(), Some("row 1"), "the row of the one before is free again");
        assert!(!evict(&client, 1));
        let before = word(0);
        while word(0) < before + 100 {
            post(&client, |batch| batch.fetch_add(Addr::new(0, 64), 1));
            own += 1;
        }
        // That is kill -9.
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(evict(&client, 1), "the system has released the lock");
        let (first, second) = (word(0) - own, word(1));
        assert!(second <= first && first <= second + 5, "{first} and {second}");
        assert_eq!(word(0) - own, first, "the dead do nothing more");
    }
}

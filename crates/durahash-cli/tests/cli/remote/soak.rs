//! Two nodes with files and their clients over TCP, of which any is killed at any moment: what was acknowledged is there,
//! and clients go on by themselves. Of each client some threads put and remove keys one by one, and one puts many together.
//! Behind many rounds, and a sweep, no more memory is in use than a fresh load needs, and a fifth. Without that sweep, a client
//! that is left alone comes down to an eighth more, and what it keeps. What is in use while clients die is told.
//!
//! Two clients live all the time, in this process. Loaders are processes: this binary, with the nodes in its environment.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::parent_id;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use durahash_media::hash::WordMix;
use durahash_media::sim::{budget, seed};
use durahash_remote::node::{Limits, Offers};
use durahash_remote::tcp::Tcp;
use durahash_remote::{BlockingMap, ErrorKind, Options, Result};

use super::node::{Node, Over, patiently};
use crate::tool::Work;

const NODES: &str = "DURAHASH_TEST_NODES";
/// The first write of each lane.
const FIRST: &str = "DURAHASH_TEST_FIRST";
/// Threads of a client that write, each to keys of its own.
const LANES: usize = 4;
const KEYS: u64 = 800;
/// Writes that the last lane of a client does together.
const TOGETHER: u64 = 32;
/// Rounds from which on what is in use is compared: it is much of what clients hold before.
const ROUNDS: u64 = 100;
/// The number of the loader, behind the clients that live.
const LOADER: usize = 2;

/// So small that there are merges and splits all the time, and clients take memory again and again.
fn options() -> Options {
    let mut options = Options::default();
    (options.cur_entries, options.main_entries) = (8, 128);
    (options.max_depth, options.chunk_bytes) = (10, 4 << 10);
    options
}

fn attach(nodes: &[String]) -> Result<Tcp> {
    Tcp::attach(Offers::gather(nodes, None, &Limits::default())?)
}

/// The client, and which of its threads.
type Name = [usize; 2];

/// A key of a lane.
fn key([client, lane]: Name, i: u64) -> Vec<u8> {
    format!("{client}.{lane}.{i}").into()
}

/// Which key the `n`th write of a lane is to.
fn key_of(n: u64) -> u64 {
    WordMix::new(1).mix(n) % KEYS
}

/// A value tells of which write it is.
fn value(n: u64) -> Vec<u8> {
    n.to_le_bytes().repeat(1 + n as usize % 12)
}

/// How many writes a lane does at once.
fn together(lane: usize) -> u64 {
    if lane == LANES - 1 { TOGETHER } else { 1 }
}

/// True if the write of a lane removes its key.
fn removes(lane: usize, n: u64) -> bool {
    together(lane) == 1 && n.is_multiple_of(8)
}

/// Does as many writes as the lane does at once. Returns whether they are acknowledged; otherwise each has taken effect or not.
fn write(map: &BlockingMap<Tcp>, name: Name, n: u64) -> bool {
    let lane = name[1];
    let key = |n| key(name, key_of(n));
    let done = match together(lane) {
        1 if removes(lane, n) => map.delete(&key(n)).map(drop),
        1 => map.put(&key(n), &value(n)),
        all => map.put_many(&(n..n + all).map(|n| (key(n), value(n))).collect::<Vec<_>>()),
    };
    match done {
        Ok(()) => true,
        Err(error) if matches!(error.kind(), ErrorKind::NodeLost { .. }) => {
            sleep(Duration::from_millis(1));
            false
        }
        Err(error) => panic!("{name:?}, write {n}: {error}"),
    }
}

/// What is known of the writes of a lane.
#[derive(Clone, Debug, Default)]
struct Lane {
    name: Name,
    next: u64,
    /// Of each key the last one that was acknowledged, and of all.
    acknowledged: HashMap<u64, u64>,
    last: u64,
    /// Those that have taken effect or not.
    unknown: HashSet<u64>,
}

/// The lanes of a client.
type Lanes = Arc<[Mutex<Lane>]>;

fn lanes(client: usize) -> Lanes {
    let lane = |lane| Mutex::new(Lane { name: [client, lane], next: 1, ..Lane::default() });
    (0..LANES).map(lane).collect()
}

impl Lane {
    fn told(&mut self, n: u64, is_done: bool) {
        self.next = n + together(self.name[1]);
        for n in n..self.next {
            if is_done {
                self.acknowledged.insert(key_of(n), n);
                self.last = n;
            } else {
                self.unknown.insert(n);
            }
        }
    }

    /// Compares all keys. A writer that `goes_on` has written more.
    fn verify(&self, map: &BlockingMap<Tcp>, goes_on: bool) {
        let name = self.name;
        let keys: Vec<_> = (0..KEYS).map(|i| key(name, i)).collect();
        for (i, found) in (0..).zip(map.get_many(&keys).unwrap()) {
            let acknowledged = self.acknowledged.get(&i);
            let Some(found) = found else {
                let may_remove = |n: &u64| key_of(*n) == i && removes(name[1], *n);
                let may_be_gone = goes_on && together(name[1]) == 1
                    || acknowledged.is_none_or(may_remove)
                    || self.unknown.iter().any(may_remove);
                assert!(may_be_gone, "{name:?}: key {i} is lost");
                continue;
            };
            let n = u64::from_le_bytes(*found.first_chunk().unwrap());
            assert!(found == value(n) && key_of(n) == i, "{name:?}: key {i} has {found:?}");
            let is_newer = acknowledged.is_none_or(|&last| n > last);
            assert!(
                acknowledged == Some(&n) || self.unknown.contains(&n) || goes_on && is_newer,
                "{name:?}: key {i} has write {n}, not {acknowledged:?}"
            );
        }
    }
}

/// The other process.
#[test]
fn loader() {
    let Ok(nodes) = std::env::var(NODES) else { return };
    let nodes: Vec<_> = nodes.split(' ').map(str::to_owned).collect();
    // It does not outlive the test.
    let parent = parent_id();
    let map = loop {
        match attach(&nodes).and_then(|tcp| BlockingMap::open(tcp, options())) {
            Ok(map) => break map,
            // A node has been killed.
            Err(error) if parent_id() == parent => {
                eprintln!("the loader tries again: {error}");
                sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("{error}"),
        }
    };
    let first = std::env::var(FIRST).unwrap();
    thread::scope(|scope| {
        for (lane, first) in first.split(' ').enumerate() {
            let (map, first) = (&map, first.parse().unwrap());
            scope.spawn(move || {
                for n in (first..).step_by(together(lane) as usize) {
                    let is_done = write(map, [LOADER, lane], n);
                    writeln!(std::io::stdout(), "told {lane} {n} {is_done}").unwrap();
                    if parent_id() != parent {
                        break;
                    }
                }
            });
        }
    });
}

/// A loader, and the thread that hears what it tells.
struct Loader {
    child: Child,
    hears: JoinHandle<()>,
}

impl Loader {
    fn start(nodes: &[String], lanes: &Lanes) -> Self {
        let first: Vec<_> =
            lanes.iter().map(|lane| lane.lock().unwrap().next.to_string()).collect();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "remote::soak::loader", "--nocapture"])
            .env(NODES, nodes.join(" "))
            .env(FIRST, first.join(" "))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (out, lanes) = (child.stdout.take().unwrap(), Arc::clone(lanes));
        let hears = thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let words: Vec<_> = line.split(' ').collect();
                if let ["told", lane, n, is_done] = words[..] {
                    let lane = &lanes[lane.parse::<usize>().unwrap()];
                    lane.lock().unwrap().told(n.parse().unwrap(), is_done == "true");
                }
            }
        });
        Loader { child, hears }
    }

    fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// kill -9. What it had under way has taken effect or not.
    fn kill(mut self, lanes: &Lanes) {
        assert!(self.lives(), "the loader ended by itself");
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.hears.join().unwrap();
        for lane in lanes.iter() {
            let mut lane = lane.lock().unwrap();
            let under_way = lane.next;
            lane.told(under_way, false);
        }
    }
}

/// Of this address, connections have no port that a node had before it was killed.
fn start_node<'a>(work: &'a Work, i: usize, port: &str) -> Node<'a> {
    let arguments = format!("--listen 127.0.0.2:{port} --size 16MiB --file {i}.node --until-eof");
    Node::start(work, Over::Net, &arguments)
}

fn addresses(nodes: &[Node<'_>]) -> Vec<String> {
    nodes.iter().map(|node| node.address.clone()).collect()
}

/// Bytes taken from the nodes, and those of them that are neither on the shelf nor free for this client: of these, those of
/// the index, those of KV blocks with old values, and those that other clients have, or had when they died.
fn memory(map: &BlockingMap<Tcp>) -> [u64; 5] {
    let report = map.check().unwrap();
    let used = report.taken_bytes - report.shelf_bytes - report.held_bytes;
    [report.taken_bytes, used, report.index_bytes, report.kv_bytes, report.unaccounted_bytes]
}

fn rounds() -> u64 {
    let default = budget(8, 100);
    std::env::var("DURAHASH_KILL_ROUNDS").map_or(default, |rounds| rounds.parse().unwrap())
}

/// Ends writers.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Does this while the clients that live write.
fn beside_writers(live: &[BlockingMap<Tcp>], written: &[Lanes], does: impl FnOnce()) {
    let stops = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stops = Stops(&stops);
        for (lane, map) in
            written.iter().zip(live).flat_map(|(all, map)| all.iter().map(move |lane| (lane, map)))
        {
            let stops = &stops;
            scope.spawn(move || {
                while !stops.load(Relaxed) {
                    let Lane { name, next, .. } = *lane.lock().unwrap();
                    let is_done = write(map, name, next);
                    lane.lock().unwrap().told(next, is_done);
                }
            });
        }
        does();
    });
}

#[test]
fn clients_and_nodes_that_are_killed_lose_nothing() {
    let work = Over::Net.work();
    let mut nodes = [0, 1].map(|i| start_node(&work, i, "0"));
    let addresses = addresses(&nodes);
    let first = BlockingMap::create(attach(&addresses).unwrap(), options()).unwrap();
    let live = [first, BlockingMap::open(attach(&addresses).unwrap(), options()).unwrap()];
    let all = [0, 1, LOADER].map(lanes);
    let [written @ .., loaded] = &all;
    let [mut kills_of_loaders, mut kills_of_nodes] = [0; 2];
    let mut longest = Duration::ZERO;
    let mut loader = None;
    let mut samples = Vec::new();
    for round in 0..rounds() {
        let mix = WordMix::new(seed(round));
        let draw = |what, below| mix.mix(what) % below;
        let (nodes_killed, loader_killed) = match draw(0, 8) {
            0 => (&[0][..], true),
            1 => (&[0][..], false),
            2 => (&[1][..], false),
            3 => (&[0, 1][..], false),
            _ => (&[][..], true),
        };
        println!("round {round}: nodes {nodes_killed:?}, the loader {loader_killed}");
        let mut loads = loader.take().unwrap_or_else(|| Loader::start(&addresses, loaded));
        beside_writers(&live, written, || {
            // The loader may still be opening the index, or is somewhere in a merge.
            if draw(1, 4) == 0 {
                sleep(Duration::from_micros(draw(2, 30_000)));
            } else {
                let next = || loaded[0].lock().unwrap().next;
                let until = next() + draw(2, 200);
                patiently(|| {
                    assert!(loads.lives(), "the loader ended by itself");
                    next() >= until
                });
            }
            nodes_killed.iter().for_each(|&i| nodes[i].kill());
            kills_of_nodes += nodes_killed.len();
            if loader_killed {
                loads.kill(loaded);
                kills_of_loaders += 1;
            } else {
                loader = Some(loads);
            }
            sleep(Duration::from_micros(draw(3, 20_000)));
            for &i in nodes_killed {
                let (_, port) = addresses[i].split_once(':').unwrap();
                nodes[i] = start_node(&work, i, port);
            }
            let started = Instant::now();
            // All that live go on by themselves.
            for lane in all[..if loader_killed { LOADER } else { LOADER + 1 }]
                .iter()
                .flat_map(|lanes| lanes.iter())
            {
                let next = lane.lock().unwrap().next;
                patiently(|| lane.lock().unwrap().last >= next);
            }
            longest = longest.max(started.elapsed());
        });
        for (lanes, client) in all.iter().zip(0..) {
            let map = &live[(client + 1) % 2];
            for lane in lanes.iter() {
                let lane = lane.lock().unwrap().clone();
                lane.verify(map, client == LOADER && loader.is_some());
            }
        }
        if loader.is_none() && round % 10 >= 5 {
            samples.push(memory(&live[0])[1]);
            println!("bytes taken, used, of the index, of keys, of others: {:?}", memory(&live[0]));
        }
    }
    if let Some(loads) = loader {
        loads.kill(loaded);
    }
    let mid = samples.len() / 2;
    samples.sort_unstable();
    println!("median {:?} most {:?}", samples.get(mid), samples.last());
    // A fresh load of the same keys, and what is in use after all of that: at once, with what the other client that lives
    // has; when one of these is alone and has had time to sweep; and behind a sweep that was asked for.
    let at_once = memory(&live[0]);
    let (mut pairs, mut pages) = (Vec::new(), live[0].pages());
    while let Some(page) = pages.next().unwrap() {
        pairs.extend(page);
    }
    let other = Over::Net.work();
    let nodes = [0, 1].map(|i| start_node(&other, i, "0"));
    let map = BlockingMap::create(attach(&self::addresses(&nodes)).unwrap(), options()).unwrap();
    map.put_many(&pairs).unwrap();
    let fresh = memory(&map);
    let [first, second] = live;
    second.close().unwrap();
    let mut left = memory(&first);
    if rounds() >= ROUNDS {
        // It sweeps by itself once more than an eighth is lost, and what a client keeps.
        let most = fresh[1] * 6 / 5 + fresh[1] / 8 + 2 * 8 * options().chunk_bytes;
        patiently(|| {
            // The epoch moves between checks.
            sleep(Duration::from_millis(300));
            left = memory(&first);
            left[1] <= most
        });
    }
    first.sweep().unwrap();
    let swept = memory(&first);
    println!(
        "{kills_of_loaders} kills of loaders, {kills_of_nodes} of nodes; all went on {longest:?} after a restart at the latest; \
         {} keys; bytes taken, used, of the index, of keys, of others: {at_once:?}, later {left:?}, after a sweep {swept:?}, \
         by a fresh load {fresh:?}",
        pairs.len()
    );
    if rounds() >= ROUNDS {
        assert!(swept[1] * 5 <= fresh[1] * 6, "{swept:?} {fresh:?}");
    }
}

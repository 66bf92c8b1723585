//! A reader that is held up wherever it is, while others do whole operations and one is held up in
//! the middle of another: every pair of such places, one after the other. Schedules at random hit
//! the narrow ones too rarely.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use durahash_crash::case::{Case, Table};
use durahash_crash::cases::named;
use durahash_crash::linear::{Operation, outcomes};
use durahash_crash::script::Op;
use durahash_media::Event;
use durahash_media::sim::{Call, Hook, Sim, Site};

/// What is done, and in which states.
struct Scene {
    name: &'static str,
    before: Vec<Op>,
    /// The reader's key.
    read: u16,
    /// Done as a whole while the reader is held up.
    whole: Vec<Op>,
    /// Done after that, and held up too, until the reader has its answer.
    held_up: Op,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Nobody,
    Reader,
    /// Who does operations while the last one is held up.
    Between,
    Last,
}

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::Nobody) };
}

/// Where the one who is held up last stands.
#[derive(Default)]
struct Last {
    stands: bool,
    may_go_on: bool,
    ended: bool,
}

struct Stage {
    table: Mutex<Option<Arc<dyn Table>>>,
    keys: Vec<u64>,
    whole: Vec<Op>,
    held_up: Op,
    /// Done as a whole while both are held up. The reader must hold nothing that this needs.
    meanwhile: Vec<Op>,
    /// Calls that are left until the reader, and the last one, are held up.
    reader: AtomicUsize,
    last: AtomicUsize,
    state: Mutex<Last>,
    turned: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Stage {
    fn apply(&self, table: &dyn Table, op: Op) -> Option<u64> {
        let key = op.key().map_or(0, |key| self.keys[usize::from(key)]);
        table.apply(op, key).expect("nothing fails here")
    }

    fn turn(&self, f: impl FnOnce(&mut Last)) {
        f(&mut self.state.lock().unwrap());
        self.turned.notify_all();
    }

    fn wait_until(&self, f: impl Fn(&Last) -> bool) {
        let mut state = self.state.lock().unwrap();
        while !f(&state) {
            state = self.turned.wait(state).unwrap();
        }
    }

    /// What others do while the reader is held up.
    fn others(self: &Arc<Self>) {
        ROLE.set(Role::Nobody);
        let table = self.table.lock().unwrap().clone().expect("set before");
        for op in &self.whole {
            self.apply(&*table, *op);
        }
        let stage = Arc::clone(self);
        let held_up = Arc::clone(&table);
        *self.thread.lock().unwrap() = Some(std::thread::spawn(move || {
            ROLE.set(Role::Last);
            stage.apply(&*held_up, stage.held_up);
            stage.turn(|last| last.ended = true);
        }));
        self.wait_until(|last| last.stands || last.ended);
        ROLE.set(Role::Between);
        for op in &self.meanwhile {
            self.apply(&*table, *op);
        }
        ROLE.set(Role::Reader);
    }

    /// Whether this is the call at which to stop.
    fn is_due(left: &AtomicUsize) -> bool {
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) == Ok(1)
    }
}

struct Switch(Arc<Stage>);

impl Hook for Switch {
    fn before(&self, call: Call, _site: Site) {
        let stage = &self.0;
        match ROLE.get() {
            // A reader may wait for a writer that makes its change visible, a writer for its locks.
            Role::Reader | Role::Between if call == Call::Event(Event::Wait) => {
                stage.turn(|last| last.may_go_on = true);
                stage.wait_until(|last| last.ended);
            }
            Role::Nobody | Role::Between => {}
            Role::Reader => {
                if Stage::is_due(&stage.reader) {
                    stage.others();
                }
            }
            Role::Last => {
                if Stage::is_due(&stage.last) {
                    stage.turn(|last| last.stands = true);
                    stage.wait_until(|last| last.may_go_on);
                }
            }
        }
    }
}

/// Whether the reader, and the last one, were held up at all.
fn play(
    case: &Case,
    (scene, meanwhile): (&Scene, &[Op]),
    reader: usize,
    last: usize,
) -> (bool, bool) {
    let sim = Sim::new(case.max_bytes);
    let table: Arc<dyn Table> = Arc::from((case.create)(sim.clone()).expect("a table"));
    let stage = Arc::new(Stage {
        table: Mutex::new(Some(Arc::clone(&table))),
        keys: case.keys.clone(),
        whole: scene.whole.clone(),
        held_up: scene.held_up,
        meanwhile: meanwhile.to_vec(),
        reader: AtomicUsize::new(reader),
        last: AtomicUsize::new(last),
        state: Mutex::default(),
        turned: Condvar::new(),
        thread: Mutex::default(),
    });
    for op in &scene.before {
        stage.apply(&*table, *op);
    }
    let initial = stage.apply(&*table, Op::Get(scene.read));
    sim.set_hook(Box::new(Switch(Arc::clone(&stage))));

    ROLE.set(Role::Reader);
    let answer = stage.apply(&*table, Op::Get(scene.read));
    // What was seen once stays, also while the writer is held up. The reader is not held up itself.
    stage.reader.store(0, Ordering::Relaxed);
    let again = stage.apply(&*table, Op::Get(scene.read));
    ROLE.set(Role::Nobody);
    stage.turn(|last| last.may_go_on = true);
    let thread = stage.thread.lock().unwrap().take();
    let was_held_up = thread.is_some();
    if let Some(thread) = thread {
        thread.join().expect("it ends");
    }
    // The table holds the hook by its medium.
    *stage.table.lock().unwrap() = None;

    // The reader began before all others, and ended before the last did.
    let get =
        |begin, end, answer| Operation { op: Op::Get(scene.read), begin, end: Some((end, answer)) };
    let mut history = vec![get(0, 96, answer), get(97, 98, again)];
    let mut held = initial;
    if was_held_up {
        for (op, at) in scene.whole.iter().zip((1..).step_by(2)) {
            if op.key() == Some(scene.read) {
                history.push(Operation { op: *op, begin: at, end: Some((at + 1, held)) });
                held = op.outcome(held);
            }
        }
        if scene.held_up.key() == Some(scene.read) {
            history.push(Operation { op: scene.held_up, begin: 90, end: Some((99, held)) });
        }
        for (op, at) in meanwhile.iter().zip((91..).step_by(2)) {
            if op.key() == Some(scene.read) {
                history.push(Operation { op: *op, begin: at, end: Some((at + 1, held)) });
                held = op.outcome(held);
            }
        }
    }
    let name = scene.name;
    assert!(
        !outcomes(initial, &history).is_empty(),
        "{name}, reader held up at {reader}, the last at {last}: {answer:?}, {again:?} of {history:?}"
    );
    let mut findings = Vec::new();
    table.check(&mut |finding| findings.push(finding)).expect("checks");
    assert!(findings.is_empty(), "{name}: {findings:?}");
    let stands = stage.state.lock().unwrap().stands;
    (was_held_up, stands)
}

fn every_place(case: &Case, scenes: &[Scene]) {
    every_place_while(case, scenes, &[]);
}

/// The same, with others who do something while both are held up.
fn every_place_while(case: &Case, scenes: &[Scene], meanwhile: &[Op]) {
    for scene in scenes {
        let mut plays = 0;
        for reader in 1.. {
            let mut reached = false;
            for last in 1.. {
                let (was_held_up, stands) = play(case, (scene, meanwhile), reader, last);
                reached |= was_held_up;
                plays += 1;
                if !stands {
                    break;
                }
            }
            if !reached {
                break;
            }
        }
        println!("{}: {plays} plays", scene.name);
        assert!(plays > 20, "{}: only {plays}", scene.name);
    }
}

fn puts(keys: &[u16]) -> Vec<Op> {
    keys.iter().map(|key| Op::Put(*key, 1)).collect()
}

#[test]
fn readers_of_buckets_that_change_under_them() {
    // Keys 0 to 7 begin with 00, 8 to 15 with 01, 16 to 23 with 1; a bucket has three slots.
    let mut two_buckets = puts(&[0, 1, 8, 16, 17, 18, 2]);
    two_buckets.push(Op::Remove(2));
    let scenes = [
        Scene {
            name: "merged away, and the bucket is another half's",
            before: two_buckets.clone(),
            read: 8,
            whole: vec![Op::Remove(1)],
            held_up: Op::Put(19, 2),
        },
        Scene {
            name: "merged, and split again",
            before: two_buckets,
            read: 8,
            whole: vec![Op::Remove(1), Op::Put(9, 2)],
            held_up: Op::Put(10, 2),
        },
        Scene {
            name: "moved by a split, and changed there",
            before: puts(&[0, 1, 8]),
            read: 8,
            whole: vec![Op::Put(2, 2), Op::Put(8, 2)],
            held_up: Op::Put(8, 3),
        },
        Scene {
            name: "removed, and the slot is another key's",
            before: puts(&[0, 1, 8]),
            read: 8,
            whole: vec![Op::Remove(8), Op::Put(9, 2)],
            held_up: Op::Remove(0),
        },
        Scene {
            name: "the directory doubles and doubles again",
            before: puts(&[0, 1, 2]),
            read: 2,
            whole: puts(&[3, 4, 5]),
            held_up: Op::Put(6, 2),
        },
        Scene {
            name: "being split",
            before: puts(&[0, 1, 8]),
            read: 8,
            whole: vec![],
            held_up: Op::Put(2, 2),
        },
        Scene {
            name: "being replaced",
            before: puts(&[0, 1, 8]),
            read: 8,
            whole: vec![Op::Put(8, 2)],
            held_up: Op::Put(8, 3),
        },
        Scene {
            name: "being merged",
            before: [puts(&[0, 1, 8, 2]), vec![Op::Remove(2)]].concat(),
            read: 8,
            whole: vec![],
            held_up: Op::Remove(1),
        },
    ];
    every_place(&named("reh"), &scenes);
}

/// Keys 20 to 33 share a segment; the even ones have bucket 0 as their first, the odd ones 1.
#[test]
fn readers_of_segments_that_change_under_them() {
    let first = [20, 22, 24];
    let both = [20, 22, 24, 21, 23, 25];
    let full: Vec<u16> = (20..32).collect();
    let scenes = [
        Scene {
            name: "moved within its bucket",
            before: puts(&[20]),
            read: 20,
            whole: vec![],
            held_up: Op::Put(22, 2),
        },
        Scene {
            name: "inserted by the next strategy",
            before: puts(&first),
            read: 26,
            whole: vec![Op::Put(26, 2)],
            held_up: Op::Remove(26),
        },
        Scene {
            name: "from its second bucket to its first",
            before: puts(&[20, 22, 24, 26]),
            read: 26,
            whole: vec![Op::Remove(20), Op::Remove(26)],
            held_up: Op::Put(26, 2),
        },
        Scene {
            name: "into the stash",
            before: puts(&both),
            read: 26,
            whole: vec![],
            held_up: Op::Put(26, 2),
        },
        Scene {
            name: "out of the stash",
            before: puts(&[&both[..], &[26]].concat()),
            read: 26,
            whole: vec![Op::Remove(26), Op::Remove(20)],
            held_up: Op::Put(26, 2),
        },
        Scene {
            name: "being split",
            before: puts(&full),
            read: 31,
            whole: vec![],
            held_up: Op::Put(32, 2),
        },
        Scene {
            name: "split, and merged again",
            before: puts(&full),
            read: 31,
            whole: [vec![Op::Put(32, 2)], full[..8].iter().map(|key| Op::Remove(*key)).collect()]
                .concat(),
            held_up: Op::Remove(32),
        },
    ];
    every_place(&named("pea"), &scenes);
}

/// Keys 22 to 37 share a segment of twelve slots; 22, 23, 25, 27, 29 and 30 have bucket 0 as their
/// home, which has three.
#[test]
fn readers_of_buckets_that_lend_each_other_room() {
    let home = [22, 23, 25];
    let overflowed = [22, 23, 25, 27];
    let full: Vec<u16> = (22..34).collect();
    let scenes = [
        Scene {
            name: "overflows",
            before: puts(&home),
            read: 27,
            whole: vec![],
            held_up: Op::Put(27, 2),
        },
        Scene {
            name: "comes home",
            before: puts(&overflowed),
            read: 27,
            whole: vec![],
            held_up: Op::Remove(22),
        },
        Scene {
            name: "came home, and is replaced there",
            before: puts(&overflowed),
            read: 27,
            whole: vec![Op::Remove(22)],
            held_up: Op::Put(27, 3),
        },
        Scene {
            name: "replaced elsewhere, then comes home",
            before: puts(&overflowed),
            read: 27,
            whole: vec![Op::Put(27, 3)],
            held_up: Op::Remove(23),
        },
        Scene {
            name: "removed elsewhere, and the slot is another key's",
            before: puts(&overflowed),
            read: 27,
            whole: vec![Op::Remove(27), Op::Put(29, 2)],
            held_up: Op::Remove(29),
        },
        Scene {
            name: "not there, and being inserted where another home's was beyond it",
            before: puts(&[22, 23, 25, 27, 24, 32, 26, 34, 28, 36]),
            read: 29,
            whole: vec![Op::Remove(24)],
            held_up: Op::Put(29, 2),
        },
        Scene {
            name: "not there, and being inserted where another home's was in its own",
            before: puts(&[22, 23, 25, 27, 32, 26, 34, 28, 36, 29]),
            read: 24,
            whole: vec![Op::Remove(27)],
            held_up: Op::Put(24, 2),
        },
        Scene {
            name: "a segment that is split",
            before: puts(&full),
            read: 33,
            whole: vec![],
            held_up: Op::Put(34, 2),
        },
        Scene {
            name: "a segment that was split, and its key changed there",
            before: puts(&full),
            read: 33,
            whole: vec![Op::Put(34, 2), Op::Put(33, 2)],
            held_up: Op::Put(33, 3),
        },
        Scene {
            name: "a segment that was split, and is merged again",
            before: puts(&full),
            read: 33,
            whole: [vec![Op::Put(34, 2)], full[..8].iter().map(|key| Op::Remove(*key)).collect()]
                .concat(),
            held_up: Op::Remove(34),
        },
    ];
    every_place(&named("esh"), &scenes);
}

/// Twelve slots of the first table: the inserts that follow evict, add a table, and migrate.
#[test]
fn readers_of_tables_that_are_added() {
    let full: Vec<u16> = (0..11).map(|i| i * 9 % 32).collect();
    let mut scenes = Vec::new();
    for read in full.iter().copied().chain([31]) {
        scenes.push(Scene {
            name: "what makes room",
            before: puts(&full),
            read,
            whole: vec![],
            held_up: Op::Put(31, 2),
        });
        scenes.push(Scene {
            name: "migrates",
            before: puts(&[&full[..], &[31, 6]].concat()),
            read,
            whole: vec![Op::Put(read, 2)],
            held_up: Op::Put(full[0], 3),
        });
    }
    every_place(&named("rewo"), &scenes);
}

/// A copy in DRAM is made, or given up, while its slot changes.
#[test]
fn readers_of_copies() {
    let full: Vec<u16> = (0..9).map(|i| i * 9 % 32).collect();
    let scene = |name, whole, held_up| Scene { name, before: puts(&full), read: 9, whole, held_up };
    let scenes = [
        scene("is replaced", vec![], Op::Put(9, 2)),
        scene("is replaced again", vec![Op::Get(9), Op::Put(9, 2)], Op::Put(9, 3)),
        scene("is removed", vec![Op::Get(9)], Op::Remove(9)),
        scene("comes again", vec![Op::Get(9), Op::Remove(9)], Op::Put(9, 3)),
        scene("gives way", full.iter().map(|key| Op::Get(*key)).collect(), Op::Put(9, 3)),
    ];
    every_place(&named("rewo-cached"), &scenes);
}

/// The same, where another thread changes it while the writer waits for the medium.
#[test]
fn readers_of_copies_that_others_change() {
    let full: Vec<u16> = (0..9).map(|i| i * 9 % 32).collect();
    let scene = |name, whole, held_up| Scene { name, before: puts(&full), read: 9, whole, held_up };
    let scenes = [
        scene("is replaced", vec![Op::Get(9)], Op::Put(9, 2)),
        scene("is removed", vec![Op::Get(9)], Op::Remove(9)),
        scene("comes again", vec![Op::Remove(9)], Op::Put(9, 3)),
    ];
    every_place_while(&named("rewo-synced"), &scenes, &[Op::Step]);
}

/// The number of copies follows the tables, and so do the places of copies; the record that a copy names
/// goes, and its block is another's.
#[test]
fn readers_of_copies_of_records() {
    let full: Vec<u16> = (0..10).collect();
    let mut before = puts(&full);
    before.push(Op::Get(5));
    let scene =
        |name, whole, held_up| Scene { name, before: before.clone(), read: 5, whole, held_up };
    let grow: Vec<Op> = (10..13).map(|key| Op::Put(key, 3)).collect();
    let replace = vec![Op::Put(5, 2), Op::Put(6, 4)];
    let scenes = [
        scene("the block is another record's", replace.clone(), Op::Put(7, 5)),
        scene(
            "grows, then the block is another's",
            [grow.clone(), replace.clone()].concat(),
            Op::Put(7, 5),
        ),
        scene(
            "the block is another's while it grows",
            [&grow[..1], &replace].concat(),
            Op::Put(11, 3),
        ),
        scene("is removed while it grows", [&grow[..1], &[Op::Remove(5)]].concat(), Op::Put(11, 3)),
    ];
    every_place(&named("rewo-small-map"), &scenes);
}

/// The number of copies changes, and writers look for one elsewhere, while the copy is still where it was:
/// its record goes, and the block is another's.
#[test]
fn readers_of_copies_whose_places_change() {
    // One more, and a table is added.
    const KEYS: u16 = 11;
    let all: Vec<u16> = (0..KEYS).collect();
    for read in 0..6 {
        let scene = Scene {
            name: "left behind by a table of copies that grows",
            before: [puts(&all), vec![Op::Get(read)]].concat(),
            read,
            whole: vec![],
            held_up: Op::Put(KEYS, 1),
        };
        let meanwhile = [Op::Put(read, 2), Op::Put(read + 1, 4)];
        every_place_while(&named("rewo-small-map"), &[scene], &meanwhile);
    }
}

#[test]
fn readers_of_records_that_change_under_them() {
    let all: Vec<u16> = (0..16).collect();
    let scenes = [
        Scene {
            name: "the block is another record's",
            before: puts(&all),
            read: 5,
            whole: vec![Op::Put(5, 2), Op::Put(6, 4)],
            held_up: Op::Put(7, 5),
        },
        Scene {
            name: "a chain that is copied",
            before: puts(&all),
            read: 5,
            whole: all.iter().map(|key| Op::Put(*key, 3)).collect(),
            held_up: Op::Remove(5),
        },
        Scene {
            name: "a chain that goes away",
            before: puts(&all),
            read: 5,
            whole: all.iter().map(|key| Op::Remove(*key)).collect(),
            held_up: Op::Put(5, 9),
        },
    ];
    every_place(&named("reh-map"), &scenes);
}

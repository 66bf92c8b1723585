//! Who waits for whom: writers of ESH whose buckets are disjoint never do.
//!
//! One writer is stopped at each of its calls into the medium in turn, whatever it holds there, and the
//! other does all that it has to do meanwhile. Its hook panics if it waits.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use durahash_crash::case::Table;
use durahash_crash::cases::named;
use durahash_crash::script::Op;
use durahash_media::Event;
use durahash_media::sim::{Call, Hook, Sim, Site};

thread_local! {
    static IS_OTHER: Cell<bool> = const { Cell::new(false) };
}

type Work = Box<dyn FnOnce() + Send>;

/// Lets the other do its work before the call of this number.
struct Switch {
    left: Arc<AtomicUsize>,
    others: Arc<Mutex<Option<Work>>>,
}

impl Hook for Switch {
    fn before(&self, call: Call, site: Site) {
        if IS_OTHER.get() {
            assert!(call != Call::Event(Event::Wait), "waits at {site}");
            return;
        }
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let work = self.others.lock().unwrap().take().expect("done once");
            work();
        }
    }
}

/// `one` is stopped before its call number `at`, and `others` are done; whether it came that far.
fn stop_at(before: &[Op], one: Op, others: &[Op], at: usize) -> bool {
    let case = &named("esh");
    let keys = case.keys.clone();
    let sim = Sim::new(named("esh").max_bytes);
    let table: Arc<dyn Table> = Arc::from((case.create)(sim.clone()).unwrap());
    let apply = |table: &dyn Table, keys: &[u64], op: Op| {
        table.apply(op, keys[usize::from(op.key().unwrap())]).unwrap();
    };
    before.iter().for_each(|op| apply(&*table, &keys, *op));
    let left = Arc::new(AtomicUsize::new(usize::MAX));
    let others_work: Work = {
        let (table, keys, others) = (Arc::clone(&table), keys.clone(), others.to_vec());
        Box::new(move || {
            let thread = std::thread::spawn(move || {
                IS_OTHER.set(true);
                others.iter().for_each(|op| apply(&*table, &keys, *op));
            });
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        })
    };
    let others = Arc::new(Mutex::new(Some(others_work)));
    sim.set_hook(Box::new(Switch { left: Arc::clone(&left), others: Arc::clone(&others) }));
    left.store(at, Ordering::Relaxed);
    apply(&*table, &keys, one);
    left.store(usize::MAX, Ordering::Relaxed);
    // What was not done has the table, which has the hook.
    let was_stopped = others.lock().unwrap().take().is_none();
    table.check(&mut |finding| panic!("{finding:?}")).unwrap();
    was_stopped
}

fn never_wait(before: &[Op], one: Op, others: &[Op]) -> usize {
    (1..).find(|at| !stop_at(before, one, others, *at)).expect("an operation ends") - 1
}

/// Keys 22 to 37 share a segment; 24 and 32 have bucket 1 as their home, 26 and 34 bucket 2, 28 and 36
/// bucket 3, all others bucket 0, which holds three.
#[test]
fn writers_of_disjoint_buckets_never_wait_for_each_other() {
    let puts = |keys: &[u16]| keys.iter().map(|key| Op::Put(*key, 1)).collect::<Vec<_>>();
    let others = [Op::Put(28, 2), Op::Put(36, 2), Op::Put(28, 3), Op::Remove(28), Op::Remove(36)];
    let mut stops = 0;
    // Within the home: insert, update, remove.
    for (before, one) in [
        (puts(&[22, 23, 24, 26]), Op::Put(25, 2)),
        (puts(&[22, 23, 24, 26]), Op::Put(22, 2)),
        (puts(&[22, 23, 24, 26]), Op::Remove(22)),
    ] {
        stops += never_wait(&before, one, &others);
    }
    // Bucket 0 is full and bucket 1 the emptiest of the next: overflow, and its way home.
    let full = puts(&[22, 23, 25, 26, 34, 28]);
    let overflowed = [&full[..], &puts(&[27])].concat();
    for (before, one) in [
        (&full, Op::Put(27, 2)),
        (&overflowed, Op::Put(27, 2)),
        (&overflowed, Op::Remove(27)),
        (&overflowed, Op::Remove(22)),
    ] {
        stops += never_wait(before, one, &others);
    }
    // The other bucket of the segment, and another segment.
    stops +=
        never_wait(&overflowed, Op::Remove(22), &[Op::Put(26, 2), Op::Put(0, 2), Op::Remove(0)]);
    assert!(stops > 100, "only {stops}");
}

/// The test above is no use if nobody ever waits.
#[test]
fn writers_of_one_bucket_do_wait() {
    let others = [Op::Put(23, 2)];
    let waits = (1..).map_while(|at| {
        let stopped =
            std::panic::catch_unwind(|| stop_at(&[Op::Put(22, 1)], Op::Put(22, 2), &others, at));
        match stopped {
            Ok(false) => None,
            Ok(true) => Some(false),
            Err(_) => Some(true),
        }
    });
    assert!(waits.filter(|waits| *waits).count() > 3);
}

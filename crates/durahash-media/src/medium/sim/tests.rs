use super::*;
use crate::error::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn actions(steps: &[Step]) -> Vec<Action> {
    steps.iter().map(|step| step.action).collect()
}

#[test]
fn a_medium_begins_with_its_image_and_zeros() {
    for _ in 0..3 {
        // The second round gets the first one's buffer back.
        let sim = Sim::from_image(&[1, 2, 3], 4096);
        assert_eq!(sim.image(), [1, 2, 3]);
        assert_eq!(sim.region().len(), 24);
        sim.grow(4096).unwrap();
        let words = sim.region().words(0, 512).unwrap();
        assert!(words[3..].iter().all(|word| sim.load(word) == 0));
        words.iter().for_each(|word| sim.store(word, 7));
    }
    assert_eq!(Sim::new(4096).image(), []);
}

#[test]
fn a_trace_says_what_was_done_where() {
    let sim = Sim::new(4096);
    name_thread(3);
    sim.record(Vec::new());
    sim.grow(1024).unwrap();
    let words = sim.region().words(0, 128).unwrap();
    let line = line!() + 1;
    sim.store(&words[9], 5);
    sim.store_nt(&words[10], 6);
    assert_eq!(sim.cas(&words[9], 5, 7), Ok(5));
    assert_eq!(sim.cas(&words[9], 5, 8), Err(7));
    sim.flush(&words[7..9]);
    sim.fence();
    sim.drain();
    sim.event(Event::Begin);
    sim.mark(11);
    sim.sync(8, 17).unwrap();
    sim.trim(512).unwrap();
    let steps = sim.recorded();
    sim.store(&words[0], 1);
    assert!(sim.recorded().is_empty());

    assert_eq!(
        actions(&steps),
        [
            Action::Resize { words: 128 },
            Action::Store { word: 9, v: 5 },
            Action::StoreNt { word: 10, v: 6 },
            Action::Cas { word: 9, v: 7 },
            Action::Flush { line: 0, lines: 2 },
            Action::Fence,
            Action::Drain,
            Action::Event(Event::Begin),
            Action::Mark(11),
            Action::Sync { word: 1, words: 3 },
            Action::Resize { words: 64 },
        ]
    );
    assert!(steps.iter().all(|step| step.thread == 3));
    assert_eq!((steps[1].site.file(), steps[1].site.line()), (file!(), line));
    assert_eq!(sim.image().len(), 64);
}

#[test]
fn growth_stops_at_the_limit() {
    let sim = Sim::new(4096).with_line_order(false);
    sim.set_limit(2048);
    sim.grow(2048).unwrap();
    let full = sim.grow(2049).unwrap_err();
    assert!(matches!(full.kind(), ErrorKind::Full { wanted_bytes: 2056, .. }));
    assert_eq!(sim.region().len(), 2048);
    sim.set_limit(u64::MAX);
    sim.grow(4096).unwrap();
    sim.grow(4097).unwrap_err();
}

#[test]
fn a_budget_bounds_the_calls() {
    let sim = Sim::from_image(&[0; 8], 64);
    let words = sim.region().words(0, 8).unwrap();
    sim.set_budget(Some(3));
    let endless = || {
        loop {
            sim.load(&words[0]);
        }
    };
    assert!(catch_unwind(AssertUnwindSafe(endless)).is_err());
    // A guard flushes while its thread unwinds: a second panic would end the process.
    struct Guard<'a>(&'a Sim);
    impl Drop for Guard<'_> {
        fn drop(&mut self) {
            self.0.drain();
        }
    }
    let guarded = || {
        let _guard = Guard(&sim);
        sim.load(&words[0])
    };
    assert!(catch_unwind(AssertUnwindSafe(guarded)).is_err());
    sim.set_budget(None);
    assert_eq!(sim.load(&words[0]), 0);
}

#[test]
fn a_hook_sees_each_call_and_names_the_thread() {
    struct Watch(Arc<Mutex<Vec<Call>>>);
    impl Hook for Watch {
        fn thread(&self) -> u32 {
            42
        }
        fn before(&self, call: Call, _site: Site) {
            self.0.lock().unwrap().push(call);
        }
    }
    let calls = Arc::new(Mutex::new(Vec::new()));
    let sim = Sim::from_image(&[0; 8], 64);
    sim.set_hook(Box::new(Watch(Arc::clone(&calls))));
    sim.record(Vec::new());
    let words = sim.region().words(0, 8).unwrap();
    sim.store(&words[1], 1);
    sim.load(&words[1]);
    sim.event(Event::Wait);
    let seen = std::mem::take(&mut *calls.lock().unwrap());
    assert_eq!(seen, [Call::Store, Call::Load, Call::Event(Event::Wait)]);
    assert!(sim.recorded().iter().all(|step| step.thread == 42));
}

use super::*;
use crate::medium::Dram;

fn metered() -> Metered<Dram> {
    let medium = Metered::new(Dram::new(1 << 20).unwrap());
    medium.grow(1 << 20).unwrap();
    medium
}

/// Word `i` of the region.
fn word<M: Medium>(medium: &M, i: u64) -> &PmU64 {
    medium.region().at(i * 8).unwrap()
}

#[test]
fn distinct_is_per_operation() {
    let medium = metered();
    for _ in 0..2 {
        medium.event(Event::Begin);
        // Three lines in two blocks: words 0 and 1, 8, 32.
        for i in [0, 1, 8, 32, 0] {
            medium.load(word(&medium, i));
        }
        medium.store(word(&medium, 0), 1);
        medium.store(word(&medium, 9), 1);
        medium.flush(medium.region().words(0, 9).unwrap());
        medium.fence();
        medium.store_nt(word(&medium, 64), 1);
        medium.drain();
        medium.event(Event::Ack);
    }
    let once = Counts {
        operations: 1,
        lines_read: 3,
        lines_written: 3,
        blocks_read: 2,
        blocks_written: 2,
        flushes: 2,
        fences: 1,
        drains: 1,
        nt_stores: 1,
        bytes_loaded: 40,
        bytes_stored: 24,
    };
    assert_eq!(medium.counts(), once + once);
    assert_eq!(medium.counts().named().map(|(_, n)| n).sum::<u64>(), 2 * 80);
}

#[test]
fn a_swap_reads_and_if_it_is_made_writes() {
    let medium = metered();
    assert_eq!(medium.cas(word(&medium, 0), 1, 2), Err(0));
    let failed = medium.counts();
    assert_eq!((failed.bytes_loaded, failed.bytes_stored), (8, 0));
    assert_eq!(medium.cas(word(&medium, 0), 0, 2), Ok(0));
    let made = medium.counts() - failed;
    assert_eq!((made.bytes_loaded, made.bytes_stored), (8, 8));
    assert_eq!((made.lines_read, made.lines_written), (0, 1));
}

#[test]
fn what_lies_outside_operations_is_one_of_its_own() {
    let medium = metered();
    let read = |medium: &Metered<Dram>| {
        medium.load(word(medium, 0));
        medium.counts().lines_read
    };
    assert_eq!(read(&medium), 1);
    assert_eq!(read(&medium), 1);
    medium.event(Event::Begin);
    assert_eq!(read(&medium), 2);
    medium.event(Event::Locked(1));
    assert_eq!(read(&medium), 2);
    medium.event(Event::Ack);
    assert_eq!(read(&medium), 3);
    assert_eq!(read(&medium), 3);
    assert_eq!(medium.counts().operations, 1);
}

#[test]
fn threads_and_media_are_counted_apart_and_added_up() {
    let (a, b) = (metered(), metered());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for i in 0..100 {
                    a.load(word(&a, i * 8));
                    b.store(word(&b, 0), i);
                }
            });
        }
    });
    assert_eq!((a.counts().lines_read, a.counts().blocks_read), (300, 75));
    assert_eq!((b.counts().lines_written, b.counts().bytes_stored), (3, 2400));
    drop(a);
    // A medium in the place of the former starts from nothing.
    let c = metered();
    c.load(word(&c, 0));
    assert_eq!(c.counts().lines_read, 1);
    assert_eq!(b.counts().lines_read, 0);
}

#[test]
fn an_emulated_medium_is_slower() {
    let slow = Metered::with_profile(metered(), Profile::OPTANE_FLAT);
    // Only the least time that it may take is asked for: that needs no clock to be fair.
    let start = Instant::now();
    for block in 0..1000 {
        slow.load(word(&slow, block * 32));
    }
    assert!(start.elapsed() >= Duration::from_micros(300));
    let start = Instant::now();
    for block in 0..1000 {
        slow.flush(word(&slow, block * 32));
    }
    slow.drain();
    assert!(start.elapsed() >= Duration::from_micros(43));
    // The inner medium counts as well.
    assert_eq!(slow.counts(), slow.inner().counts());
    assert_eq!(slow.counts().blocks_read, 1000);
}

#[test]
fn a_model_changes_no_count_and_finds_the_same_again() {
    let plain = metered();
    let run = |medium: &Metered<Dram>| {
        for i in 0..2000_u64 {
            medium.event(Event::Begin);
            let at = i * i % 4096 * 8;
            let v = medium.load(word(medium, at));
            medium.store(word(medium, at), v + 1);
            medium.flush(word(medium, at));
            medium.fence();
            medium.prefetch(word(medium, at + 8));
            medium.store_nt(word(medium, at + 16), v);
            medium.drain();
            medium.event(Event::Ack);
        }
        medium.counts()
    };
    let counts = run(&plain);
    assert_eq!(plain.meter().traffic(), Traffic::default());
    for profile in Profile::ALL {
        let [first, again] = [(); 2].map(|()| {
            let medium = Dram::new(1 << 20).unwrap();
            medium.grow(1 << 20).unwrap();
            let medium = Metered::with_profile(medium, profile);
            assert_eq!(run(&medium), counts, "{}", profile.name);
            medium.meter().traffic()
        });
        assert_eq!(first, again, "{}", profile.name);
        assert_eq!(first == Traffic::default(), profile.name.ends_with("flat"));
    }
}

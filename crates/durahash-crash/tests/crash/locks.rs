//! Waits for locks: writers of ESH whose buckets are disjoint never wait for one another.
//!
//! One writer is stopped at each of its calls into the medium in turn, whatever it holds there, and the
//! other does all that it has to do meanwhile.

use durahash_crash::cases::named;
use durahash_crash::script::Op::{self, Put, Remove};

use crate::stage::{Plays, Scene, every_place, puts};

/// `one` is stopped, and another does `other`.
fn stop(before: &[Op], one: Op, other: &[Op]) -> Plays {
    let (before, one, other) = (before.to_vec(), vec![one], other.to_vec());
    let scene = Scene { before, one, other, ..Scene::default() };
    every_place(&named("esh"), &scene).unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// Keys 22 to 37 share a segment; 24 and 32 have bucket 1 as their home, 26 and 34 bucket 2, 28 and 36
/// bucket 3, all others bucket 0, which holds three.
#[test]
fn writers_of_disjoint_buckets_never_wait_for_each_other() {
    let others = [Put(28, 2), Put(36, 2), Put(28, 3), Remove(28), Remove(36)];
    let home = puts(&[22, 23, 24, 26]);
    // Bucket 0 is full and bucket 1 the emptiest of the next: overflow, and its way home.
    let full = puts(&[22, 23, 25, 26, 34, 28]);
    let overflowed = [&full[..], &puts(&[27])].concat();
    let mut stops = 0;
    for (before, one, others) in [
        // Within the home: insert, update, remove.
        (&home, Put(25, 2), &others[..]),
        (&home, Put(22, 2), &others),
        (&home, Remove(22), &others),
        (&full, Put(27, 2), &others),
        (&overflowed, Put(27, 2), &others),
        (&overflowed, Remove(27), &others),
        (&overflowed, Remove(22), &others),
        // The other bucket of the segment, and another segment.
        (&overflowed, Remove(22), &[Put(26, 2), Put(0, 2), Remove(0)]),
    ] {
        let Plays { plays, waited } = stop(before, one, others);
        assert_eq!(waited, 0, "{one} after {before:?}");
        stops += plays - 1;
    }
    println!("{stops} plays");
    assert!(stops > 100, "only {stops}");
}

/// The test above is no use if nobody ever waits.
#[test]
fn writers_of_one_bucket_do_wait() {
    assert!(stop(&[Put(22, 1)], Put(22, 2), &[Put(23, 2)]).waited > 3);
}

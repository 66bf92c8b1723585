//! Conditional operations cost what their parts do: a lookup, and where they write, the KV block and the
//! swap one after the other.

use durahash_remote::fabric::{Counts, SimClient};
use durahash_remote::{Compared, RemoteMap, Result, Tally};

use super::{cost, key, run, small};

/// Round trips of `counts` without those that took chunks.
fn trips(counts: &Counts, tally: &Tally) -> u64 {
    counts.round_trips - tally.chunks
}

/// The value of `key`, and the cost of the lookup.
async fn look(map: &RemoteMap<SimClient>, key: &[u8]) -> Result<(Option<Vec<u8>>, u64)> {
    let (counts, tally, found) = cost(map, map.get(key)).await?;
    Ok((found, trips(&counts, &tally)))
}

/// Operations that wrote, and of these how many took three and four round trips.
#[derive(Debug, Default)]
struct Wrote {
    all: u64,
    three: u64,
    four: u64,
}

impl Wrote {
    /// Checks what an operation cost whose lookup takes `looked` round trips.
    fn check(&mut self, looked: u64, counts: &Counts, tally: &Tally) {
        let trips = trips(counts, tally);
        if tally.splits > 0 {
            assert!(trips <= looked + 2 + 6 + 4 * tally.doublings, "split: {trips} {tally:?}");
        } else if tally.merges > 0 {
            assert!(trips <= looked + 2 + 5, "merge: {trips} {tally:?}");
        } else {
            assert_eq!(trips, looked + 2, "{counts:?}");
            assert_eq!((counts.writes, counts.swaps, counts.unsignaled), (1, 1, 1));
            self.three += u64::from(trips == 3);
            self.four += u64::from(trips == 4);
        }
        self.all += 1;
    }
}

/// Checks that an operation only looked.
fn only_looked(looked: u64, counts: &Counts) {
    assert_eq!(counts.round_trips, looked, "{counts:?}");
    assert_eq!(counts.verbs(), counts.reads);
}

#[test]
fn what_finds_nothing_to_do_costs_a_lookup() {
    run(|[a]| async move {
        let map = RemoteMap::create(a, small()).await?;
        for i in 0..2000 {
            map.put(&key(i), &i.to_le_bytes()).await?;
        }
        for i in 0..2000 {
            let (found, looked) = look(&map, &key(i)).await?;
            assert_eq!((found.is_some(), looked), (true, 2));
            let (counts, _, new) = cost(&map, map.insert_new(&key(i), b"new")).await?;
            assert!(!new);
            only_looked(looked, &counts);
            let name = key(i);
            let differs = map.compare_set(&name, Some(b"other"), Some(b"new"));
            let (counts, _, compared) = cost(&map, differs).await?;
            assert_eq!(compared, Compared::Differs(found));
            only_looked(looked, &counts);
        }
        for i in 2000..3000 {
            // One round trip but where another key has the same fingerprints.
            let (found, looked) = look(&map, &key(i)).await?;
            assert!(found.is_none() && looked <= 2);
            let (counts, _, taken) = cost(&map, map.take(&key(i))).await?;
            assert_eq!(taken, None);
            only_looked(looked, &counts);
            let (counts, _, compared) = cost(&map, map.compare_set(&key(i), None, None)).await?;
            assert_eq!(compared, Compared::Set);
            only_looked(looked, &counts);
        }
        Ok(())
    });
}

#[test]
fn new_keys_take_three_round_trips_and_keys_that_are_there_four() {
    run(|[a]| async move {
        let map = RemoteMap::create(a, small()).await?;
        map.put(&key(0), &[0; 32]).await?;
        let mut of_new = Wrote::default();
        for i in (1..3000).step_by(3) {
            let (_, looked) = look(&map, &key(i)).await?;
            let (counts, tally, new) = cost(&map, map.insert_new(&key(i), &[1; 32])).await?;
            assert!(new);
            of_new.check(looked, &counts, &tally);
            let (_, looked) = look(&map, &key(i + 1)).await?;
            let name = key(i + 1);
            let absent = map.compare_set(&name, None, Some(&[1; 32]));
            let (counts, tally, compared) = cost(&map, absent).await?;
            assert_eq!(compared, Compared::Set);
            of_new.check(looked, &counts, &tally);
            let (_, looked) = look(&map, &key(i + 2)).await?;
            let (counts, tally, old) = cost(&map, map.replace(&key(i + 2), &[1; 32])).await?;
            assert_eq!(old, None);
            of_new.check(looked, &counts, &tally);
        }
        // The others had to compare a key, or filled a segment.
        assert!(of_new.three > 2700 && of_new.all == 3000, "{of_new:?}");

        let mut of_old = Wrote::default();
        for i in (1..3000).step_by(3) {
            let (_, looked) = look(&map, &key(i)).await?;
            let name = key(i);
            let equal = map.compare_set(&name, Some(&[1; 32]), Some(&[2; 32]));
            let (counts, tally, compared) = cost(&map, equal).await?;
            assert_eq!(compared, Compared::Set);
            of_old.check(looked, &counts, &tally);
            let (_, looked) = look(&map, &key(i + 1)).await?;
            let (counts, tally, old) = cost(&map, map.replace(&key(i + 1), &[2; 32])).await?;
            assert_eq!(old, Some(vec![1; 32]));
            of_old.check(looked, &counts, &tally);
            let (_, looked) = look(&map, &key(i + 2)).await?;
            let (counts, tally, old) = cost(&map, map.take(&key(i + 2))).await?;
            assert_eq!(old, Some(vec![1; 32]));
            of_old.check(looked, &counts, &tally);
            let (_, looked) = look(&map, &key(i)).await?;
            let equal = map.compare_set(&name, Some(&[2; 32]), None);
            let (counts, tally, compared) = cost(&map, equal).await?;
            assert_eq!(compared, Compared::Set);
            of_old.check(looked, &counts, &tally);
        }
        assert!(of_old.four > 3600 && of_old.all == 4000 && of_old.three == 0, "{of_old:?}");
        Ok(())
    });
}

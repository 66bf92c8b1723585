//! Conditional operations cost what their parts do: a lookup, and where they write, the KV block and the
//! swap one after the other.

use durahash_remote::fabric::SimClient;
use durahash_remote::{Compared, RemoteMap, Result};

use super::{cost, key, run, small};

/// The value of `key`, and the round trips of the lookup without those that took chunks.
async fn look(map: &RemoteMap<SimClient>, key: &[u8]) -> Result<(Option<Vec<u8>>, u64)> {
    let (counts, stats, found) = cost(map, map.get(key)).await?;
    Ok((found, counts.round_trips - stats.chunks))
}

/// Operations that wrote, and of these how many took three and four round trips.
#[derive(Debug, Default)]
struct Wrote {
    all: u64,
    three: u64,
    four: u64,
}

impl Wrote {
    /// Checks what an operation on `key` cost that writes, after a lookup; its result.
    async fn by<T>(
        &mut self,
        map: &RemoteMap<SimClient>,
        key: &[u8],
        operation: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let (_, looked) = look(map, key).await?;
        let (counts, stats, done) = cost(map, operation).await?;
        let trips = counts.round_trips - stats.chunks;
        if stats.splits > 0 {
            assert!(trips <= looked + 2 + 6 + 4 * stats.doublings, "split: {trips} {stats:?}");
        } else if stats.merges > 0 {
            assert!(trips <= looked + 2 + 5, "merge: {trips} {stats:?}");
        } else {
            assert_eq!(trips, looked + 2, "{counts:?}");
            assert_eq!((counts.writes, counts.swaps, counts.unsignaled), (1, 1, 1));
            self.three += u64::from(trips == 3);
            self.four += u64::from(trips == 4);
        }
        self.all += 1;
        Ok(done)
    }
}

/// Checks that an operation only looks; its result.
async fn only_looks<T>(
    map: &RemoteMap<SimClient>,
    looked: u64,
    operation: impl Future<Output = Result<T>>,
) -> Result<T> {
    let (counts, _, done) = cost(map, operation).await?;
    assert_eq!(counts.round_trips, looked, "{counts:?}");
    assert_eq!(counts.verbs(), counts.reads);
    Ok(done)
}

#[test]
fn operations_with_nothing_to_do_cost_a_lookup() {
    run(|[a]| async move {
        let map = RemoteMap::create(a, small()).await?;
        for i in 0..2000 {
            map.put(&key(i), &i.to_le_bytes()).await?;
        }
        for i in 0..2000 {
            let (found, looked) = look(&map, &key(i)).await?;
            assert_eq!((found.is_some(), looked), (true, 2));
            let name = key(i);
            assert!(!only_looks(&map, looked, map.insert_new(&name, b"new")).await?);
            let differs = map.compare_set(&name, Some(b"other"), Some(b"new"));
            let compared = only_looks(&map, looked, differs).await?;
            assert_eq!(compared, Compared::Differs(found));
        }
        for i in 2000..3000 {
            // One round trip but where another key has the same fingerprints.
            let name = key(i);
            let (found, looked) = look(&map, &name).await?;
            assert!(found.is_none() && looked <= 2);
            assert_eq!(only_looks(&map, looked, map.take(&name)).await?, None);
            let compared = only_looks(&map, looked, map.compare_set(&name, None, None)).await?;
            assert_eq!(compared, Compared::Set);
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
            let [one, two, three] = [i, i + 1, i + 2].map(key);
            assert!(of_new.by(&map, &one, map.insert_new(&one, &[1; 32])).await?);
            let absent = map.compare_set(&two, None, Some(&[1; 32]));
            assert_eq!(of_new.by(&map, &two, absent).await?, Compared::Set);
            assert_eq!(of_new.by(&map, &three, map.replace(&three, &[1; 32])).await?, None);
        }
        // The others had to compare a key, or filled a segment.
        assert!(of_new.three > 2700 && of_new.all == 3000, "{of_new:?}");

        let mut of_old = Wrote::default();
        for i in (1..3000).step_by(3) {
            let [one, two, three] = [i, i + 1, i + 2].map(key);
            let old = Some(vec![1; 32]);
            let equal = map.compare_set(&one, Some(&[1; 32]), Some(&[2; 32]));
            assert_eq!(of_old.by(&map, &one, equal).await?, Compared::Set);
            assert_eq!(of_old.by(&map, &two, map.replace(&two, &[2; 32])).await?, old);
            assert_eq!(of_old.by(&map, &three, map.take(&three)).await?, old);
            let equal = map.compare_set(&one, Some(&[2; 32]), None);
            assert_eq!(of_old.by(&map, &one, equal).await?, Compared::Set);
        }
        assert!(of_old.four > 3600 && of_old.all == 4000 && of_old.three == 0, "{of_old:?}");
        Ok(())
    });
}

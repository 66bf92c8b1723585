//! Bounds on what each operation costs, by how the segment stands that it meets.

use durahash_remote::RemoteMap;

use super::{cost, key, run, small};

#[test]
fn puts_take_two_round_trips_and_merges_five() {
    run(|[a]| async move {
        let map = RemoteMap::create(a, small()).await?;
        map.put(&key(0), &[0; 32]).await?;
        let mut seen = [0; 3];
        for i in 1..4000 {
            let (counts, stats, ()) = cost(&map, map.put(&key(i), &[0; 32])).await?;
            let trips = counts.round_trips - stats.chunks;
            if stats.splits > 0 {
                // A doubling reads the depth and the directory, writes it, and swaps the depth.
                assert!(trips <= 2 + 6 + 4 * stats.doublings, "split: {trips} {stats:?}");
                seen[2] += 1;
            } else if stats.merges > 0 {
                assert!(trips <= 2 + 5, "merge: {trips}");
                seen[1] += 1;
            } else {
                assert_eq!(trips, 2, "put {i}: {stats:?}");
                // The block, word A, buddies and a window; the swap, the hint.
                assert_eq!((counts.reads, counts.swaps, counts.writes), (3, 1, 1));
                assert_eq!(counts.unsignaled, 1);
                seen[0] += 1;
            }
        }
        assert!(seen.iter().all(|&n| n > 20), "{seen:?}");
        Ok(())
    });
}

#[test]
fn gets_take_two_round_trips() {
    run(|[a]| async move {
        let map = RemoteMap::create(a, small()).await?;
        for i in 0..4000 {
            map.put(&key(i), &i.to_le_bytes()).await?;
        }
        map.put(b"432 bytes in all", &[1; 416]).await?;
        map.put(b"449 bytes in all", &[1; 433]).await?;
        for i in 0..4000 {
            let (counts, _, value) = cost(&map, map.get(&key(i))).await?;
            assert_eq!((counts.round_trips, value), (2, Some(i.to_le_bytes().to_vec())));
        }
        for i in 4000..5000 {
            // The second one only where another key has the same fingerprints.
            let (counts, _, value) = cost(&map, map.get(&key(i))).await?;
            assert!(counts.round_trips <= 2 && value.is_none());
        }
        let names = [b"432 bytes in all".to_vec(), b"449 bytes in all".to_vec()];
        for (name, trips) in names.iter().zip([2, 3]) {
            let (counts, _, value) = cost(&map, map.get(name)).await?;
            assert_eq!((counts.round_trips, value.is_some()), (trips, true));
        }
        // 32 together take as many as one, and a long one of them another one.
        let keys: Vec<_> = (0..3200).map(key).collect();
        for round in keys.chunks(32) {
            let (counts, _, values) = cost(&map, map.get_many(round)).await?;
            assert_eq!((counts.round_trips, values.iter().flatten().count()), (2, 32));
        }
        let (counts, _, values) = cost(&map, map.get_many(&names)).await?;
        assert_eq!((counts.round_trips, values.iter().flatten().count()), (3, 2));
        Ok(())
    });
}

/// Of the segments that it has written last, a client knows what they hold.
#[test]
fn what_a_client_keeps_saves_round_trips() {
    run(|[a]| async move {
        let mut options = small();
        options.kept_entries = 512;
        let map = RemoteMap::create(a, options).await?;
        let (mut merges, mut early) = (0, 0);
        for i in 0..2000 {
            let (counts, stats, ()) = cost(&map, map.put(&key(i), &[0; 32])).await?;
            let is_merge = stats.merges == 1 && stats.chunks == 0;
            merges += u64::from(is_merge && counts.round_trips <= 2 + 3);
            let (counts, _, value) = cost(&map, map.get(&key(i / 2))).await?;
            assert!(value.is_some() && counts.round_trips <= 2);
            early += u64::from(counts.round_trips == 1);
        }
        assert!(merges > 20 && (20..1900).contains(&early), "{merges} {early}");
        assert!(map.stats().kept_entries <= 512);
        Ok(())
    });
}

/// The cost of another client's merges and splits to this one.
#[test]
fn unseen_changes_cost_little() {
    run(|[a, b]| async move {
        let a = RemoteMap::create(a, small()).await?;
        for i in 0..500 {
            a.put(&key(i), b"").await?;
        }
        let b = RemoteMap::open(b, small()).await?;
        for i in 0..500 {
            b.get(&key(i)).await?;
        }
        let (mut turned, mut hopped) = (0, 0);
        for round in 0..200 {
            for i in 0..40 {
                a.put(&key(500 + round * 40 + i), b"").await?;
            }
            let (counts, stats, value) = cost(&b, b.get(&key(round))).await?;
            assert_eq!(value.as_deref(), Some(&b""[..]));
            assert!(counts.round_trips <= 4 + stats.hops, "get: {counts:?} {stats:?}");
            turned += stats.turns;
            hopped += stats.hops;
            let (counts, stats, ()) = cost(&b, b.put(&key(round + 200), b"")).await?;
            if stats.merges + stats.splits == 0 {
                let trips = counts.round_trips - stats.chunks;
                assert!(trips <= 3 + stats.hops, "put: {counts:?} {stats:?}");
            }
        }
        assert!(turned > 20 && hopped > 20, "{turned} {hopped}");
        Ok(())
    });
}

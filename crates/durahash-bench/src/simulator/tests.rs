use super::*;

fn own() -> impl Iterator<Item = Policy> {
    evicting()
}

/// The hits of each of durahash's policies, then of what they are held against.
fn all(trace: &Trace, size: usize) -> Vec<u64> {
    let own = own().map(|policy| of_policy(policy, trace, size).hits);
    own.chain(Reference::ALL.map(|one| of_reference(one, trace, size).hits)).collect()
}

/// Belady's example, in a cache of three.
#[test]
fn lru_and_the_optimum_are_exact() {
    let keys = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
    let lookups = keys.map(|key| key - 1).to_vec();
    let trace = Trace { name: "anomaly".into(), lookups, keys: 5 };
    assert_eq!(of_reference(Reference::Lru, &trace, 3).hits, 2);
    assert_eq!(of_reference(Reference::Optimum, &trace, 3).hits, 5);
    assert_eq!(of_reference(Reference::Optimum, &trace, 5).hits, 7);
}

/// The same on every machine: what changes a policy changes these.
#[test]
fn hits_are_counted() {
    let zipf = Trace::zipf(5000, 0.99, 42);
    let scans = Trace::scans(5000, 42);
    let looped = Trace::loops(1000);
    let counted = [(&zipf, 50), (&zipf, 500), (&scans, 500), (&looped, 250)];
    let counted = counted.map(|(trace, size)| all(trace, size));
    assert_eq!(
        counted,
        [
            [22872, 16983, 19705, 20244, 14176, 16557, 22577, 26751],
            [35645, 32180, 34041, 34310, 29563, 31973, 35246, 39406],
            [18703, 14522, 18398, 17884, 12659, 14367, 18484, 21607],
            [1941, 0, 19, 0, 181, 0, 362, 2250],
        ]
    );
}

#[test]
fn no_policy_is_better_than_the_optimum_and_all_hit_where_everything_fits() {
    let trace = Trace::zipf(2000, 0.7, 3);
    for size in [1, 2, 3, 10, 100, 1000] {
        let mut hits = all(&trace, size);
        let optimum = hits.pop().unwrap();
        assert!(hits.iter().all(|hits| *hits <= optimum), "{size}: {hits:?} {optimum}");
    }
    let most = (trace.lookups.len() - trace.keys) as u64;
    assert!(all(&trace, trace.keys).iter().all(|hits| *hits == most));
}

/// A close saves what a policy knows, but for keys that went.
#[test]
fn a_restart_costs_little() {
    let trace = Trace::zipf(20_000, 0.99, 42);
    for (policy, times) in own().flat_map(|policy| [(policy, 1), (policy, 10)]) {
        let [goes_on, restarted] = of_restart(policy, &trace, 1000, 1000 * times);
        let most = (10 * times) as u64;
        assert!(restarted + most >= goes_on, "{policy}: {restarted} of {goes_on}");
    }
}

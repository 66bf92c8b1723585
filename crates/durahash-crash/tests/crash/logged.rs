//! Pools behind a log, under the model `block`.

use durahash_crash::block::Omit;
use durahash_crash::logged::{Case, Tester};
use durahash_media::sim::{budget, seed};

/// The script that a seed stands for is that of every case.
const OPS: usize = 60;

#[test]
fn every_cut_is_recovered() {
    let rounds: u64 = budget(5_000, 100_000);
    let cases = Case::all();
    // As many of live images alone.
    let live = cases.iter().filter(|case| case.live).count() as u64;
    let (mut cuts, mut cuts_of_live, mut blocks) = (0, 0, 0);
    for case in &cases {
        let mut tester = Tester::new(*case);
        // Of a live image more is cut at each step.
        let ops = budget(if case.live { 24 } else { 40 }, OPS);
        let enough = rounds.div_ceil(if case.live { live } else { cases.len() as u64 });
        for n in 0.. {
            let looked = tester.looked;
            // A live image writes little in the mode interval: until the ring was gone round, too.
            let is_round = looked.inside > 0 && looked.blocks > 4;
            let is_longer = looked.longer > 0 || !case.extends;
            let is_met = !case.live
                || looked.torn > 0
                    && looked.spills > 0
                    && looked.damaged > budget(5, 100)
                    && looked.kills > 50;
            if looked.states + looked.inside >= enough && is_round && is_longer && is_met {
                break;
            }
            assert!(n < 200, "{case:?} does not come to {looked:?}");
            tester.random(seed(n), ops).unwrap();
        }
        let looked = tester.looked;
        println!("{case:?}: {looked:?}");
        let [_, two, more] = looked.batches;
        assert!(two + more > 0 || !case.live, "no batch has several parts");
        assert!(looked.kills > 50 || !case.live, "processes were killed too seldom");
        let met = looked.states + looked.inside;
        (cuts, blocks) = (cuts + met, blocks + looked.blocks);
        cuts_of_live += if case.live { met } else { 0 };
    }
    println!("{cuts} different cuts, {cuts_of_live} of them with live images");
    assert!(blocks > 200, "the ring was not gone round often enough");
    assert!(cuts_of_live >= rounds, "live images were cut too seldom");
}

#[test]
fn every_order_and_sync_is_missed() {
    for live in [false, true] {
        for omit in Omit::ALL.iter().filter(|omit| omit.is_of(live)) {
            let cases = Case::all().into_iter().filter(|case| case.live == live);
            let planted = |case| Tester::new(Case { omit: Some(*omit), ..case });
            let mut testers: Vec<Tester> = cases.map(planted).collect();
            let found = (seed(0)..seed(20)).find_map(|seed| {
                testers.iter_mut().find_map(|tester| tester.random(seed, OPS).err())
            });
            let Some(found) = found else {
                panic!("{omit:?} left out is not missed where live is {live}");
            };
            println!("{found}");
        }
    }
}

#[test]
fn a_call_that_fails_is_told_and_loses_nothing() {
    for case in Case::all() {
        Tester::new(case).failing(seed(1), budget(4, 25)).unwrap();
    }
}

//! Pools behind a log, under the model `block`.

use durahash_crash::block::Omit;
use durahash_crash::logged::{Case, Tester};
use durahash_media::sim::{budget, seed};

/// The script that a seed stands for is that of every case.
const OPS: usize = 60;

#[test]
fn every_cut_is_recovered() {
    let rounds = budget(5_000, 100_000);
    let cases = Case::all();
    let (mut cuts, mut blocks) = (0, 0);
    for case in &cases {
        let mut tester = Tester::new(*case);
        for seed in seed(0).. {
            let looked = tester.looked;
            let enough = looked.states + looked.inside >= rounds / cases.len() as u64;
            // A live image writes little in the mode interval: until the ring was gone round, too.
            if enough && looked.inside > 0 && looked.blocks > 4 {
                break;
            }
            tester.random(seed, budget(40, OPS)).unwrap();
        }
        let looked = tester.looked;
        println!("{case:?}: {looked:?}");
        assert!(looked.inside > 0 && looked.blocks > 4, "the ring was never gone round");
        assert!(looked.kills > 50 || !case.live, "processes were killed too seldom");
        (cuts, blocks) = (cuts + looked.states + looked.inside, blocks + looked.blocks);
    }
    println!("{cuts} different cuts");
    assert!(blocks > 200, "the ring was not gone round often enough");
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

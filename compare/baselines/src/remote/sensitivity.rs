//! Which conclusions about SepHash and RACE stand with half and twice of each assumption.

use durahash_bench::{About, Result};

use super::{Run, YCSB, many, many_kinds};
use crate::bed::{Bed, Phase};

/// What both are compared by.
#[derive(Clone, Copy)]
enum What {
    Insert,
    /// Into many small segments.
    Many,
    Search,
    Ycsb(usize),
}

/// Each as rows name it, with a number of clients.
const COMPARED: [(&str, What, usize); 8] = [
    ("insert by 1", What::Insert, 1),
    ("insert by 128", What::Insert, 128),
    ("many segments by 128", What::Many, 128),
    ("search by 1", What::Search, 1),
    ("search by 16", What::Search, 16),
    ("search by 128", What::Search, 128),
    ("YCSB A", What::Ycsb(0), 128),
    ("YCSB C", What::Ycsb(2), 128),
];
/// Many segments have so many times fewer keys than where they are measured by themselves.
const FEWER: u64 = 4;

impl Run<'_, '_> {
    /// Operations a second of SepHash, RACE's = 1, by each set of assumptions.
    pub(super) fn sensitivity(&mut self) -> Result<()> {
        let (usual, few) = (self.images()?, many(self.keys) / FEWER);
        let assumed = self.assumed;
        let mut small = Vec::new();
        for (name, kind) in &many_kinds()[..2] {
            small.push((*kind, self.many_load(few, name, *kind)?.0));
        }
        for (case, varied) in assumed.varied() {
            self.assumed = varied;
            for (metric, what, clients) in COMPARED {
                self.recorder.next(1, &format!("simulated: {case}: {metric}"));
                let mut per_s = [0.0; 2];
                for (i, per_s) in per_s.iter_mut().enumerate() {
                    let phase = match what {
                        What::Many => self.many_inserts(few, small[i].0, &small[i].1, clients)?,
                        _ => {
                            let setting = self.setting(usual[i].kind, clients);
                            self.phase(what, &Bed::from_image(setting, &usual[i].image)?, clients)?
                        }
                    };
                    *per_s = phase.ops_per_s();
                }
                // Of several numbers of clients, which stand in one line.
                let (table, design, keys) =
                    ("simulated sensitivity", "sephash over race", self.keys);
                let about = About { table, design, case: &case, threads: 1, keys };
                self.recorder.add(&about, metric, per_s[0] / per_s[1]);
            }
        }
        self.assumed = assumed;
        Ok(())
    }

    fn phase(&self, what: What, bed: &Bed, clients: usize) -> Result<Phase> {
        match what {
            What::Search => self.lookups(bed, clients),
            What::Ycsb(mix) => self.mixed(bed, clients, YCSB[mix].1, YCSB[mix].2),
            What::Insert | What::Many => self.insert(bed, clients),
        }
    }
}

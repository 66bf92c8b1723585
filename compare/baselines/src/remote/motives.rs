//! What SepHash's paper sets out from (section 3): what resizes cost RACE, and what accesses of some sizes take.

use durahash_bench::{About, Result};

use super::{RACE, Run, base, streams};
use crate::bed::{self, Bed};
use crate::index::{Kind, Op};
use crate::race::{self, Moves};

/// RACE that begins empty: the case, how it moves entries, and true if it never has to.
const RESIZES: [(&str, Moves, bool); 3] = [
    ("insert", Moves::Each, false),
    ("insert, batched moves", Moves::Batched, false),
    ("insert, no resizes", Moves::Each, true),
];
/// Numbers of clients of those, and the slots for each key where nothing splits.
const RESIZED_AT: [usize; 4] = [1, 16, 64, 128];
const ROOMY: u64 = 2;
/// Bytes of an access, and clients that do it.
const ACCESSES: [usize; 7] = [8, 64, 128, 256, 512, 1024, 4096];
const ACCESSED_AT: [usize; 2] = [1, 64];

/// The runs.
pub(super) fn accesses_work() -> u64 {
    (ACCESSES.len() * ACCESSED_AT.len()) as u64
}

/// The runs.
pub(super) fn resizes_work() -> u64 {
    (RESIZES.len() * RESIZED_AT.len()) as u64
}

impl Run<'_, '_> {
    /// Reads and writes of some sizes: what is assumed of NICs, as numbers.
    pub(super) fn accesses(&mut self) -> Result<()> {
        for bytes in ACCESSES {
            for clients in ACCESSED_AT {
                self.recorder.next(1, &format!("simulated: {bytes} bytes, {clients} clients"));
                for (what, writes) in [("read", false), ("write", true)] {
                    let phase =
                        bed::accesses(self.assumed.nic(), bytes, clients, writes, self.seed)?;
                    let case = format!("{what} of {bytes} bytes");
                    let about = About {
                        table: "simulated access",
                        design: "nic",
                        case: &case,
                        threads: clients,
                        keys: phase.ops,
                    };
                    self.recorder.add(&about, "ops_per_s", phase.ops_per_s());
                    self.recorder.add_percentiles(&about, &phase.latency, &[("p50_ns", 2)]);
                    let gigabytes = phase.ops_per_s() * bytes as f64 / 1e9;
                    self.recorder.add(&about, "gigabytes_per_s", gigabytes);
                }
            }
        }
        Ok(())
    }

    /// Inserts of an empty RACE: as it is, with moves in batches, and so large from the start that nothing splits.
    pub(super) fn resizes(&mut self) -> Result<()> {
        let keys = base(self.keys);
        for (case, moves, is_large) in RESIZES {
            for clients in RESIZED_AT {
                self.recorder.next(1, &format!("simulated: race, {case}, {clients} clients"));
                let mut options = race::Options { moves, ..race::Options::default() };
                if is_large {
                    let slots = u64::from(options.groups * 3 * options.slots);
                    options.first_depth = (ROOMY * keys / slots).max(1).ilog2() + 1;
                }
                let bed = Bed::new(self.setting(Kind::Race(options), clients))?;
                let phase = bed.run(streams(clients, keys, |_, i| Op::Put(i)), true)?;
                self.add_phase("simulated resizes", RACE, case, clients, &phase);
            }
        }
        Ok(())
    }
}

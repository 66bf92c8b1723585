//! The designs and the tables of other papers side by side: counts, which are the same on every machine.

use std::sync::Arc;

use durahash_bench::{Config, Make, Recorder, Result};
use durahash_media::Dram;
use durahash_media::metered::{Meter, Metered};

use crate::contender::Contender;
use crate::tables::{Baseline, Subject};

/// Address space for a table.
const BYTES: u64 = 16 << 30;

/// The work of one table, in runs of all keys.
const WORK: u64 = 2;

fn contenders(config: &Config) -> Vec<Contender> {
    let designs = config.designs.iter().map(|design| Contender::of_design(*design, config.seed));
    designs.chain(Baseline::ALL.map(Contender::of_baseline)).collect()
}

/// The work, in runs of all keys.
pub(crate) fn work(config: &Config) -> u64 {
    WORK * contenders(config).len() as u64
}

/// Counts and fills a table of each kind.
pub(crate) fn measure(recorder: &mut Recorder<'_>) -> Result<()> {
    for contender in contenders(recorder.config()) {
        count(recorder, &contender)?;
        fill(recorder, &contender)?;
    }
    Ok(())
}

/// An empty table on a medium that counts.
pub(crate) fn metered(contender: &Contender) -> Result<(Box<dyn Subject>, Arc<Meter>)> {
    let medium = Metered::new(Dram::new(BYTES)?);
    let meter = Arc::clone(medium.meter());
    Ok((contender.clone().on(medium)?, meter))
}

/// Counts what operations do to the medium.
pub(crate) fn count(recorder: &mut Recorder<'_>, contender: &Contender) -> Result<()> {
    recorder.next(1, &format!("{}: counting", contender.name));
    let (table, meter) = metered(contender)?;
    recorder.count(&contender.name, &*table, &|| table.figures(), &meter)
}

/// Fills a table, and looks at how full it is.
pub(crate) fn fill(recorder: &mut Recorder<'_>, contender: &Contender) -> Result<()> {
    recorder.next(1, &format!("{}: load factor", contender.name));
    let table = contender.clone().on(Dram::new(BYTES)?)?;
    recorder.load_factors(&contender.name, &*table, &|| table.figures())
}

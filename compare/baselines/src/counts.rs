//! The designs and the tables of other papers side by side: counts, which are the same on every machine.

use std::sync::Arc;

use durahash::{Map, Options};
use durahash_bench::{Config, Make, Recorder, Result};
use durahash_media::Dram;
use durahash_media::metered::Metered;

use crate::tables::{Baseline, Subject};

/// Address space for a table.
const BYTES: u64 = 16 << 30;

/// The work, in runs of all keys.
pub(crate) fn work(config: &Config) -> u64 {
    2 * (config.designs.len() + Baseline::ALL.len()) as u64
}

/// Counts and fills a table of each kind.
pub(crate) fn measure(recorder: &mut Recorder<'_>) -> Result<()> {
    let config = recorder.config();
    for &design in &config.designs {
        let options = Options::new().design(design).seed(config.seed);
        let make = |medium| -> Result<Box<dyn Subject>> {
            Ok(Box::new(options.create_on::<Map<u64, u64>, _>(medium)?))
        };
        of_one(recorder, &design.to_string(), make)?;
    }
    for baseline in Baseline::ALL {
        of_one(recorder, baseline.name(), |medium| baseline.on(medium))?;
    }
    Ok(())
}

fn of_one(
    recorder: &mut Recorder<'_>,
    name: &str,
    make: impl Fn(Metered<Dram>) -> Result<Box<dyn Subject>>,
) -> Result<()> {
    recorder.next(1, &format!("{name}: counting"));
    let medium = Metered::new(Dram::new(BYTES)?);
    let meter = Arc::clone(medium.meter());
    let table = make(medium)?;
    recorder.count(name, &*table, &|| table.figures(), &meter)?;
    recorder.next(1, &format!("{name}: load factor"));
    let table = make(Metered::new(Dram::new(BYTES)?))?;
    recorder.load_factors(name, &*table, &|| table.figures())
}

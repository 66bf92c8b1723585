//! A map of byte strings over REH: records, their chains and the sweep, with hashes of four bits so
//! that most keys share theirs with others.

use durahash::{Finding, Map, Options, Outcome, Result};
use durahash_media::{Geometry, Sim};

use crate::script::Op;
use crate::subject::{Prefill, Subject, Table};

/// A map over REH under test.
pub struct RehMapSubject;

const KEYS: u64 = 16;

impl RehMapSubject {
    fn options() -> Options {
        Options::new().seed(1).geometry(Geometry {
            extent_shift: 12,
            slots: 3,
            hash_bits: 4,
        })
    }
}

impl Subject for RehMapSubject {
    const NAME: &'static str = "reh-map";
    const MAX_BYTES: u64 = 512 << 10;

    fn create<const LINE: bool>(&self, sim: Sim<LINE>) -> Result<Box<dyn Table>> {
        Ok(Box::new(Strings(Self::options().create_on(sim)?)))
    }

    fn open<const LINE: bool>(&self, sim: Sim<LINE>) -> Result<Box<dyn Table>> {
        Ok(Box::new(Strings(Self::options().open_on(sim)?)))
    }

    fn keys(&self) -> Vec<u64> {
        (0..KEYS).collect()
    }

    fn prefills(&self) -> Vec<Prefill> {
        let kinds = vec![
            Op::Put(0, 0),
            Op::Insert(1, 0),
            Op::Update(2, 0),
            Op::Remove(0),
            Op::Remove(3),
            Op::Step,
        ];
        let put = |count| (0..count).map(|key| Op::Put(key, 1)).collect();
        vec![
            Prefill {
                name: "empty",
                ops: Vec::new(),
                kinds: kinds.clone(),
            },
            Prefill {
                name: "full",
                ops: put(KEYS as u16),
                kinds,
            },
        ]
    }
}

/// Keys and values are words in decimal; every third value is longer than a line.
struct Strings(Map<str, str>);

fn text(v: u64) -> String {
    let width = if v.is_multiple_of(3) { 70 } else { 1 };
    format!("{v:0width$}")
}

fn word(text: &str) -> u64 {
    // What is no number was never put, and is no key of the key space either.
    text.parse().unwrap_or(u64::MAX)
}

impl Table for Strings {
    fn apply(&self, op: Op, key: u64) -> Result<Option<u64>> {
        let map = &self.0;
        let name = key.to_string();
        let found = map.get(&name)?;
        match op {
            Op::Put(_, v) => return Ok(map.insert(&name, &text(v))?.as_deref().map(word)),
            Op::Insert(_, v) => drop(map.try_insert(&name, &text(v))?),
            Op::Update(_, v) => {
                if let Some(old) = &found {
                    let swapped = map.compare_exchange(&name, old, &text(v))?;
                    assert_eq!(swapped, Outcome::Done, "nobody else writes");
                }
            }
            Op::Remove(_) => return Ok(map.remove(&name)?.as_deref().map(word)),
            Op::Step => drop(map.step()?),
            Op::Get(_) | Op::Reopen | Op::Close | Op::Crash(_) => {}
        }
        Ok(found.as_deref().map(word))
    }

    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()> {
        for pair in &self.0 {
            let (key, value) = pair?;
            out.push((word(&key), word(&value)));
        }
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        self.0.len()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.0.check(found)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }
}

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
        Options::new().seed(1).geometry(Geometry { extent_shift: 12, slots: 3, hash_bits: 4 })
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
            Prefill { name: "empty", ops: Vec::new(), kinds: kinds.clone() },
            Prefill { name: "full", ops: put(KEYS as u16), kinds },
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
        // Where the answer comes from another call than the change, a change by somebody else in
        // between is seen, and all is done again.
        let found = match op {
            Op::Put(_, v) => map.insert(&name, &text(v))?,
            Op::Insert(_, v) => loop {
                if map.try_insert(&name, &text(v))? == Outcome::Done {
                    break None;
                }
                if let Some(found) = map.get(&name)? {
                    break Some(found);
                }
            },
            Op::Update(_, v) => loop {
                let Some(found) = map.get(&name)? else {
                    break None;
                };
                if map.compare_exchange(&name, &found, &text(v))? == Outcome::Done {
                    break Some(found);
                }
            },
            Op::Remove(_) => map.remove(&name)?,
            Op::Get(_) => map.get(&name)?,
            Op::Step => {
                map.step()?;
                None
            }
            Op::Reopen | Op::Close | Op::Crash(_) => None,
        };
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

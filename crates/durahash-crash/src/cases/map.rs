//! A map of byte strings over any design: records, their chains and the sweep, mostly with hashes of four
//! bits so that most keys share theirs with others.

use std::sync::Arc;

use durahash::{Change, Design, Finding, Map, Options, Outcome, Result};
use durahash_media::Geometry;

use super::{text, word};
use crate::case::{Case, Prefill, Table};
use crate::script::Op;

/// Maps over every design; then over Rewo-Hash with whole hashes and the smallest tables, so that these are
/// resized, and what is copied of them in DRAM with them.
pub(super) fn all() -> [Case; 5] {
    [
        over("reh-map", Design::Reh, 12, 4),
        over("pea-map", Design::Pea, 12, 4),
        over("esh-map", Design::Esh, 12, 4),
        over("rewo-map", Design::Rewo, 12, 4),
        over("rewo-small-map", Design::Rewo, 10, 0),
    ]
}

fn over(name: &'static str, design: Design, extent_shift: u8, hash_bits: u8) -> Case {
    const KEYS: u16 = 16;
    let geometry = Geometry { extent_shift, slots: 3, hash_bits, buckets: 0 };
    let create = Options::new().design(design).seed(1).geometry(geometry);
    let open = create.clone();
    let kinds = vec![
        Op::Put(0, 0),
        Op::Insert(1, 0),
        Op::Update(2, 0),
        Op::Remove(0),
        Op::Remove(3),
        Op::Step,
    ];
    let full = (0..KEYS).map(|key| Op::Put(key, 1)).collect();
    Case {
        keys: (0..u64::from(KEYS)).collect(),
        prefills: vec![
            Prefill { name: "empty", ops: Vec::new(), kinds: kinds.clone() },
            Prefill { name: "full", ops: full, kinds },
        ],
        ..Case::new(
            name,
            512 << 10,
            Arc::new(move |sim| Ok(Box::new(Strings(create.create_on(sim)?)))),
            Arc::new(move |sim| Ok(Box::new(Strings(open.open_on(sim)?)))),
        )
    }
}

/// Keys and values are words in decimal.
struct Strings(Map<str, str>);

impl Table for Strings {
    fn apply(&self, op: Op, key: u64) -> Result<Option<u64>> {
        let map = &self.0;
        let name = key.to_string();
        let found = match op {
            Op::Put(_, v) => map.insert(&name, &text(v))?,
            Op::Insert(_, v) => match map.try_insert(&name, &text(v))? {
                Outcome::Present(found) => Some(found),
                Outcome::Done | Outcome::Absent => None,
            },
            Op::Update(_, v) => {
                let mut found = None;
                map.update(&name, |old| {
                    found = old;
                    if found.is_some() { Change::Set(text(v)) } else { Change::Keep }
                })?;
                found
            }
            Op::Remove(_) => map.remove(&name)?,
            Op::Get(_) => map.get(&name)?,
            Op::Step => {
                map.step()?;
                None
            }
            Op::Apply(..) | Op::Add(..) | Op::RemoveOne(..) | Op::RemoveAll(_) => {
                unreachable!("{op} is for others")
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

    fn count(&self) -> Result<u64> {
        self.0.len()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.0.check(found)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }
}

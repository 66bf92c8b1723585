//! Files of multimaps, compared with multisets.

use std::collections::BTreeMap;

use durahash::{AnyMultiMap, Result};

use crate::Features;
use crate::files::{Held, is_limit, text};

/// How often each pair is there, as texts.
type Bags = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, u64>>;

impl Held for AnyMultiMap {
    type Model = Bags;
    const NAME: &'static str = "multimap";
    const KEYS: [usize; 3] = [3, 20, 120];

    fn contents(&self, blind_to: Option<&'static str>, features: &mut Features) -> Option<Bags> {
        let (mut found, mut sound, mut total) = (Bags::new(), true, 0);
        let checked = self.check(&mut |finding| {
            sound &= blind_to == Some(finding.invariant);
            features.add(("file", finding.invariant));
        });
        sound &= checked.is_ok();
        for pair in self {
            match pair {
                Ok((key, value)) => {
                    *found.entry(key).or_default().entry(value).or_default() += 1;
                    total += 1;
                }
                Err(e) => features.damaged(sound, "iteration of a file", &e),
            }
        }
        for (key, bag) in &found {
            match self.get_all(key).and_then(|all| Ok((all, self.count(key)?))) {
                Ok((all, count)) => {
                    let mut got: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
                    all.into_iter().for_each(|v| *got.entry(v).or_default() += 1);
                    let same = got == *bag && count == bag.values().sum::<u64>();
                    assert!(!sound || same, "values of a key");
                }
                Err(e) => assert!(!sound, "{e}"),
            }
        }
        match self.len() {
            Ok(len) => assert!(!sound || len == total, "{len} entries"),
            Err(e) => assert!(!sound, "{e}"),
        }
        sound.then_some(found)
    }

    /// Adds the value of number `v`, or removes it, or all of the key.
    fn change(&self, model: &mut Bags, k: u64, v: u64, sound: bool, features: &mut Features) {
        let (key, value) = (text(self.key_type(), k), text(self.value_type(), v % 12));
        let done: Result<()> = match v {
            0..100 => self.add(&key, &value).map(|()| {
                *model.entry(key).or_default().entry(value).or_default() += 1;
            }),
            100..150 => self.remove_one(&key, &value).map(|was| {
                let bag = model.get_mut(&key);
                let count = bag.and_then(|bag| bag.get_mut(&value));
                assert!(!sound || was == count.is_some(), "remove_one");
                if let Some(count) = count {
                    *count -= 1;
                }
                tidy(model);
            }),
            _ => self.remove_all(&key).map(|count| {
                let want = model.remove(&key).map_or(0, |bag| bag.values().sum());
                assert!(!sound || count == want, "remove_all");
            }),
        };
        if let Err(e) = done {
            assert!(!sound || is_limit(&e), "{e}");
            features.complain("change of a file", &e);
        }
    }

    fn look(&self, model: &Bags, k: u64) {
        let key = text(self.key_type(), k);
        let count = self.count(&key).expect("counts");
        let want = model.get(&key).map_or(0, |bag| bag.values().sum());
        assert!(count == want, "count");
    }

    fn put(&self) -> Result<()> {
        self.add(&text(self.key_type(), 1), &text(self.value_type(), 1))
    }

    fn note(&self, features: &mut Features) {
        let stats = self.stats().expect("figures");
        let types = (self.key_type(), self.value_type());
        let sizes = (stats.index.global_depth, stats.keys.checked_ilog2());
        features.add(("multimap", types, sizes));
    }
}

/// Without what is there no more.
fn tidy(model: &mut Bags) {
    for bag in model.values_mut() {
        bag.retain(|_, count| *count > 0);
    }
    model.retain(|_, bag| !bag.is_empty());
}

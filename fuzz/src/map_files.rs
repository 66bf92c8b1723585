//! Files of maps, compared with maps.

use std::collections::BTreeMap;

use durahash::{AnyMap, Result};

use crate::Features;
use crate::files::{Held, is_limit, text};

/// What a map holds, as texts.
type Texts = BTreeMap<Vec<u8>, Vec<u8>>;

impl Held for AnyMap {
    type Model = Texts;
    const NAME: &'static str = "map";
    const KEYS: [usize; 3] = [120; 3];

    fn contents(&self, blind_to: Option<&'static str>, features: &mut Features) -> Option<Texts> {
        let (mut found, mut sound) = (Texts::new(), true);
        let checked = self.check(&mut |finding| {
            sound &= blind_to == Some(finding.invariant);
            features.add(("file", finding.invariant));
        });
        sound &= checked.is_ok();
        for pair in self {
            match pair {
                Ok((key, value)) => {
                    match self.get(&key) {
                        Ok(got) => assert!(!sound || got.as_ref() == Some(&value), "lookup"),
                        Err(e) => assert!(!sound, "{e}"),
                    }
                    let twice = found.insert(key, value).is_some();
                    assert!(!twice || !sound, "a key twice");
                }
                Err(e) => features.damaged(sound, "iteration of a file", &e),
            }
        }
        match self.len() {
            Ok(len) => assert!(!sound || len == found.len() as u64, "{len} keys"),
            Err(e) => assert!(!sound, "{e}"),
        }
        sound.then_some(found)
    }

    /// Puts the value of number `v`, or removes the key where that is too large for one.
    fn change(&self, model: &mut Texts, k: u64, v: u64, sound: bool, features: &mut Features) {
        let (key, value) = (text(self.key_type(), k), text(self.value_type(), v));
        let done: Result<()> = if v < 120 {
            self.put(&key, &value).map(|()| drop(model.insert(key, value)))
        } else {
            self.remove(&key).map(|had| {
                let want = model.remove(&key).is_some();
                assert!(!sound || had == want, "remove");
            })
        };
        if let Err(e) = done {
            assert!(!sound || is_limit(&e), "{e}");
            features.complain("change of a file", &e);
        }
    }

    fn look(&self, model: &Texts, k: u64) {
        let key = text(self.key_type(), k);
        let got = self.get(&key).expect("a lookup");
        assert!(got.as_ref() == model.get(&key), "get");
    }

    fn put(&self) -> Result<()> {
        AnyMap::put(self, &text(self.key_type(), 1), &text(self.value_type(), 1))
    }

    fn note(&self, features: &mut Features) {
        let stats = self.stats().expect("figures");
        let types = (self.key_type(), self.value_type());
        let sizes = (stats.index.global_depth, stats.keys.checked_ilog2());
        features.add((self.design(), types, sizes));
    }
}

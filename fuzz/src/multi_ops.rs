//! Operations on multimaps, compared with a multiset for each key; closed, killed between two
//! operations and in the middle of one, and opened again.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};

use durahash::{Error, ErrorKind, MultiMap, Options, Result};
use durahash_media::Memory;
use durahash_media::sim::{Sim, Step};
use durahash_testkit::Sample;

use crate::Features;
use crate::bytes::{Bytes, MAX_BYTES, OPS_MAX};

/// How often each value is there, by the numbers of their samples.
type Bag = BTreeMap<u64, u64>;

/// Values are numbers below this.
const VALUES: usize = 13;

/// A multimap, what it shall hold, and its medium.
pub(crate) struct MultiRun<K: Sample + ?Sized, V: Sample + ?Sized> {
    sim: Sim,
    /// None only while it is closed.
    map: Option<MultiMap<K, V>>,
    model: BTreeMap<u64, Bag>,
    /// Whether more keys may have one hash than a bucket has slots for.
    may_skew: bool,
}

/// What a death may cut.
#[derive(Clone, Copy)]
enum Cut {
    Add(u64),
    RemoveOne(u64),
    RemoveAll,
}

fn with(bag: &Bag, v: u64) -> Bag {
    let mut bag = bag.clone();
    *bag.entry(v).or_default() += 1;
    bag
}

fn without(bag: &Bag, v: u64) -> Bag {
    let mut bag = bag.clone();
    if let Some(count) = bag.get_mut(&v) {
        *count -= 1;
    }
    bag.retain(|_, count| *count > 0);
    bag
}

impl<K: Sample + ?Sized, V: Sample + ?Sized> MultiRun<K, V> {
    pub(crate) fn new(options: &Options, sim: Sim, may_skew: bool) -> Self {
        let map = options.create_on(sim.clone()).expect("a new multimap");
        MultiRun { sim, map: Some(map), model: BTreeMap::new(), may_skew }
    }

    fn map(&self) -> &MultiMap<K, V> {
        self.map.as_ref().expect("open")
    }

    /// Whether an addition may be refused with this error: long sequences fill the medium.
    fn is_limit(&self, e: &Error) -> bool {
        match e.kind() {
            ErrorKind::Full { .. } => true,
            ErrorKind::Skewed { .. } => self.may_skew,
            _ => false,
        }
    }

    fn bag(&self, k: u64) -> Bag {
        self.model.get(&k).cloned().unwrap_or_default()
    }

    pub(crate) fn all(mut self, mut bytes: Bytes<'_>, features: &mut Features) {
        let keys = [2, 12, 120][bytes.below(3)];
        for _ in 0..OPS_MAX {
            if bytes.is_empty() {
                break;
            }
            self.one(keys, &mut bytes, features);
        }
        self.compare();
        self.check();
        self.note(features);
        self.open();
        let mut steps = 0;
        while self.map().step().expect("a step") {
            steps += 1;
            assert!(steps < 1 << 20, "a sweep without an end");
        }
        self.compare();
        self.check();
        self.close();
    }

    fn one(&mut self, keys: usize, bytes: &mut Bytes<'_>, features: &mut Features) {
        let (k, v, n) = (bytes.number(keys), bytes.number(VALUES), bytes.number(150));
        match bytes.below(64) {
            0..=22 => self.add(k, v),
            23..=25 => (0..n).for_each(|i| self.add(k, (v + i) % VALUES as u64)),
            26..=32 => self.remove_one(k, v),
            33..=38 => self.remove_one(k, self.some_value(k, n)),
            39 | 40 => (0..n).for_each(|_| self.remove_one(k, self.some_value(k, v))),
            41 => {
                let count = self.map().remove_all(K::sample(k).borrow()).expect("a removal");
                let want = self.model.remove(&k).unwrap_or_default();
                assert_eq!(count, want.values().sum(), "remove_all");
            }
            42..=44 => self.compare_key(k),
            45 => self.compare(),
            46 => self.check(),
            47 | 48 => drop(self.map().step().expect("a step")),
            49 if n < 30 => {
                self.map().clear().expect("clears");
                self.model.clear();
            }
            50 | 51 => {
                self.note(features);
                self.open();
            }
            52 => self.close(),
            53 => self.fill(k, bytes),
            54..=57 => self.cut(k, Cut::Add(v), bytes),
            58..=61 => self.cut(k, Cut::RemoveOne(self.some_value(k, n)), bytes),
            _ => self.cut(k, Cut::RemoveAll, bytes),
        }
    }

    /// A value that the key has, if it has any.
    fn some_value(&self, k: u64, n: u64) -> u64 {
        let bag = self.bag(k);
        let at = n as usize % bag.len().max(1);
        bag.keys().nth(at).copied().unwrap_or(0)
    }

    fn put_in_model(&mut self, k: u64, bag: Bag) {
        if bag.is_empty() {
            self.model.remove(&k);
        } else {
            self.model.insert(k, bag);
        }
    }

    fn try_add(&mut self, k: u64, v: u64) -> Result<()> {
        self.map().add(K::sample(k).borrow(), V::sample(v).borrow())?;
        self.put_in_model(k, with(&self.bag(k), v));
        Ok(())
    }

    fn add(&mut self, k: u64, v: u64) {
        if let Err(e) = self.try_add(k, v) {
            assert!(self.is_limit(&e), "{e}");
        }
    }

    fn try_remove_one(&mut self, k: u64, v: u64) -> Result<()> {
        let was = self.map().remove_one(K::sample(k).borrow(), V::sample(v).borrow())?;
        let bag = self.bag(k);
        assert_eq!(was, bag.contains_key(&v), "remove_one");
        self.put_in_model(k, without(&bag, v));
        Ok(())
    }

    fn remove_one(&mut self, k: u64, v: u64) {
        self.try_remove_one(k, v).expect("a removal");
    }

    fn compare_key(&self, k: u64) {
        let (key, bag) = (K::sample(k), self.bag(k));
        let want: HashMap<V::Owned, u64> = bag.iter().map(|(v, n)| (V::sample(*v), *n)).collect();
        let mut got = HashMap::new();
        for v in self.map().get_all(key.borrow()).expect("values") {
            *got.entry(v).or_default() += 1;
        }
        assert_eq!(got, want, "values of {k}");
        let total: u64 = bag.values().sum();
        let mut seen = 0;
        assert_eq!(self.map().each(key.borrow(), |_| seen += 1).expect("values"), total);
        assert_eq!(seen, total, "each");
        assert_eq!(self.map().count(key.borrow()).expect("counts"), total);
        assert_eq!(self.map().contains_key(key.borrow()).expect("counts"), total > 0);
    }

    fn compare(&self) {
        let mut want = HashMap::new();
        for (k, bag) in &self.model {
            for (v, n) in bag {
                want.insert((K::sample(*k), V::sample(*v)), *n);
            }
        }
        let mut got = HashMap::new();
        for pair in self.map() {
            *got.entry(pair.expect("readable")).or_default() += 1;
        }
        assert_eq!(got, want, "contents");
        assert_eq!(self.map().len().expect("counts"), want.values().sum(), "len");
        assert_eq!(self.map().is_empty().expect("counts"), want.is_empty());
        self.model.keys().for_each(|k| self.compare_key(*k));
    }

    fn check(&self) {
        let checked = self.map().check(&mut |finding| panic!("{finding:?}"));
        checked.expect("the check runs");
    }

    /// As a process finds it after the death of another.
    fn open(&mut self) {
        let image = self.sim.image();
        self.open_image(&image);
    }

    fn open_image(&mut self, image: &[u64]) {
        let order = self.sim.same_line_order();
        self.sim = Sim::from_image(image, MAX_BYTES).with_line_order(order);
        let opened = Options::new().open_on(self.sim.clone());
        self.map = Some(opened.expect("opens again"));
    }

    fn close(&mut self) {
        let map = self.map.take().expect("always put back");
        map.close().expect("closes");
        self.open();
    }

    /// Writes while the medium is full.
    fn fill(&mut self, from: u64, bytes: &mut Bytes<'_>) {
        self.sim.set_limit(self.sim.image().len() as u64 * 8);
        for k in from..from + 30 {
            let v = bytes.number(3 * VALUES);
            let done = match v.checked_sub(VALUES as u64) {
                None => self.try_remove_one(k, v),
                Some(v) => self.try_add(k, v % VALUES as u64),
            };
            if let Err(e) = done {
                assert!(self.is_limit(&e), "{e}");
            }
        }
        self.sim.set_limit(MAX_BYTES);
    }

    /// The process dies within an operation: some of its stores were done.
    fn cut(&mut self, k: u64, what: Cut, bytes: &mut Bytes<'_>) {
        let mut image = self.sim.image();
        self.sim.record(Vec::new());
        let (key, old) = (K::sample(k), self.bag(k));
        let new = match what {
            Cut::Add(v) => match self.map().add(key.borrow(), V::sample(v).borrow()) {
                Ok(()) => with(&old, v),
                Err(e) => {
                    assert!(self.is_limit(&e), "{e}");
                    old.clone()
                }
            },
            Cut::RemoveOne(v) => {
                let removed = self.map().remove_one(key.borrow(), V::sample(v).borrow());
                removed.expect("a removal");
                without(&old, v)
            }
            Cut::RemoveAll => {
                self.map().remove_all(key.borrow()).expect("a removal");
                Bag::new()
            }
        };
        let steps = self.sim.recorded();
        let cut = bytes.below(256) * (steps.len() + 1) / 256;
        Step::replay(&steps[..cut], &mut image);
        self.open_image(&image);
        let count = self.map().count(key.borrow()).expect("counts");
        // They differ in how many values they have, if they differ.
        let bag = if count == new.values().sum() { new } else { old };
        self.put_in_model(k, bag);
        self.compare();
    }

    fn note(&self, features: &mut Features) {
        let stats = self.map().stats().expect("figures");
        let index = &stats.index;
        let sizes = [
            index.splits,
            index.merges,
            index.doublings,
            index.halvings,
            stats.keys,
            stats.space.record_bytes,
            self.model.values().map(|bag| bag.values().sum()).max().unwrap_or(0),
        ];
        for (i, size) in sizes.into_iter().enumerate() {
            features.add(("multi", i, size.checked_ilog2()));
        }
        for (i, count) in index.pea.map_or([0; 3], |pea| pea.strategies).into_iter().enumerate() {
            features.add(("multi strategy", i, count.checked_ilog2()));
        }
        features.add(("multi", index.global_depth, stats.space.sweep_pending));
    }
}

//! Operations on multimaps, compared with a multiset for each key; closed, killed between two
//! operations and in the middle of one, and opened again.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};

use durahash::{Error, ErrorKind, MultiMap, Options, Result};
use durahash_media::sim::Sim;
use durahash_testkit::Sample;

use crate::Features;
use crate::bytes::{Bytes, MAX_BYTES};
use crate::kept::{OnSim, Ops};

/// How often each value is there, by the numbers of their samples.
type Bag = BTreeMap<u64, u64>;

/// Values are numbers below this.
const VALUES: usize = 13;

/// A multimap, what it shall hold, and its medium.
pub(crate) struct MultiRun<K: Sample + ?Sized, V: Sample + ?Sized> {
    on: OnSim<MultiMap<K, V>>,
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
        MultiRun { on: OnSim::new(options, sim), model: BTreeMap::new(), may_skew }
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
        self.on.map().add(K::sample(k).borrow(), V::sample(v).borrow())?;
        self.put_in_model(k, with(&self.bag(k), v));
        Ok(())
    }

    fn add(&mut self, k: u64, v: u64) {
        if let Err(e) = self.try_add(k, v) {
            assert!(self.is_limit(&e), "{e}");
        }
    }

    fn try_remove_one(&mut self, k: u64, v: u64) -> Result<()> {
        let was = self.on.map().remove_one(K::sample(k).borrow(), V::sample(v).borrow())?;
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
        for v in self.on.map().get_all(key.borrow()).expect("values") {
            *got.entry(v).or_default() += 1;
        }
        assert_eq!(got, want, "values of {k}");
        let total: u64 = bag.values().sum();
        let mut seen = 0;
        assert_eq!(self.on.map().each(key.borrow(), |_| seen += 1).expect("values"), total);
        assert_eq!(seen, total, "each");
        assert_eq!(self.on.map().count(key.borrow()).expect("counts"), total);
        assert_eq!(self.on.map().contains_key(key.borrow()).expect("counts"), total > 0);
    }

    /// Writes while the medium is full.
    fn fill(&mut self, from: u64, bytes: &mut Bytes<'_>) {
        self.on.sim.set_limit(self.on.sim.image().len() as u64 * 8);
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
        self.on.sim.set_limit(MAX_BYTES);
    }

    /// The process dies within an operation: some of its stores were done.
    fn cut(&mut self, k: u64, what: Cut, bytes: &mut Bytes<'_>) {
        let (key, old) = (K::sample(k), self.bag(k));
        let operation = |map: &MultiMap<K, V>| match what {
            Cut::Add(v) => map.add(key.borrow(), V::sample(v).borrow()),
            Cut::RemoveOne(v) => map.remove_one(key.borrow(), V::sample(v).borrow()).map(drop),
            Cut::RemoveAll => map.remove_all(key.borrow()).map(drop),
        };
        let new = match (self.on.die_within(operation, 0, bytes.below(256)), what) {
            (Err(e), Cut::Add(_)) => {
                assert!(self.is_limit(&e), "{e}");
                old.clone()
            }
            (Err(e), _) => panic!("a removal: {e}"),
            (Ok(()), Cut::Add(v)) => with(&old, v),
            (Ok(()), Cut::RemoveOne(v)) => without(&old, v),
            (Ok(()), Cut::RemoveAll) => Bag::new(),
        };
        let count = self.on.map().count(key.borrow()).expect("counts");
        // They differ in how many values they have, if they differ.
        let bag = if count == new.values().sum() { new } else { old };
        self.put_in_model(k, bag);
        self.compare();
    }
}

impl<K: Sample + ?Sized, V: Sample + ?Sized> Ops for MultiRun<K, V> {
    type Map = MultiMap<K, V>;
    const KEYS: [usize; 3] = [2, 12, 120];

    fn on(&mut self) -> &mut OnSim<MultiMap<K, V>> {
        &mut self.on
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
                let count = self.on.map().remove_all(K::sample(k).borrow()).expect("a removal");
                let want = self.model.remove(&k).unwrap_or_default();
                assert_eq!(count, want.values().sum(), "remove_all");
            }
            42..=44 => self.compare_key(k),
            45 => self.compare(),
            46 => self.on.check(),
            47 | 48 => drop(self.on.map().step().expect("a step")),
            49 if n < 30 => {
                self.on.map().clear().expect("clears");
                self.model.clear();
            }
            50 | 51 => {
                self.note(features);
                self.on.reopen();
            }
            52 => self.on.close(),
            53 => self.fill(k, bytes),
            54..=57 => self.cut(k, Cut::Add(v), bytes),
            58..=61 => self.cut(k, Cut::RemoveOne(self.some_value(k, n)), bytes),
            _ => self.cut(k, Cut::RemoveAll, bytes),
        }
    }

    fn compare(&self) {
        let mut want = HashMap::new();
        for (k, bag) in &self.model {
            for (v, n) in bag {
                want.insert((K::sample(*k), V::sample(*v)), *n);
            }
        }
        let mut got = HashMap::new();
        for pair in self.on.map() {
            *got.entry(pair.expect("readable")).or_default() += 1;
        }
        assert_eq!(got, want, "contents");
        assert_eq!(self.on.map().len().expect("counts"), want.values().sum(), "len");
        assert_eq!(self.on.map().is_empty().expect("counts"), want.is_empty());
        self.model.keys().for_each(|k| self.compare_key(*k));
    }

    fn note(&self, features: &mut Features) {
        let most = self.model.values().map(|bag| bag.values().sum()).max().unwrap_or(0);
        self.on.note("multi", most, features);
    }
}

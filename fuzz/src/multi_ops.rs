//! Operations on multimaps, compared with a multiset for each key; closed, killed between two
//! operations and in the middle of one, and opened again.

use durahash::{ErrorKind, MultiMap, Options};
use durahash_media::sim::Sim;
use durahash_testkit::Sample;

use crate::Features;
use crate::bytes::{Bytes, MAX_BYTES};
use crate::kept::{Do, Kept, Model, OnSim, Ops, note, read};

/// Values are numbers below this.
const VALUES: usize = 13;

/// A multimap, its model, and its medium.
pub(crate) struct MultiRun<K: Sample + ?Sized, V: Sample + ?Sized> {
    on: OnSim<MultiMap<K, V>>,
    model: Model<MultiMap<K, V>>,
    /// True if more keys may have one hash than a bucket has slots for.
    may_skew: bool,
}

impl<K: Sample + ?Sized, V: Sample + ?Sized> MultiRun<K, V> {
    pub(crate) fn new(options: &Options, sim: Sim, may_skew: bool) -> Self {
        MultiRun {
            on: OnSim::new(options, sim),
            model: Model::<MultiMap<K, V>>::default(),
            may_skew,
        }
    }

    /// An addition may fail: long sequences fill the medium. A removal may where `full`.
    fn check_end(&self, end: durahash::Result<()>, op: Do, full: bool) {
        if let Err(e) = end {
            let is_limit = match e.kind() {
                ErrorKind::Full { .. } => true,
                ErrorKind::Skewed { .. } => self.may_skew,
                _ => false,
            };
            assert!(is_limit && (full || matches!(op, Do::Put(_))), "{op:?}: {e}");
        }
    }

    fn change(&mut self, k: u64, v: u64, op: Do, full: bool) {
        let end = self.on.map().change(&mut self.model, K::sample(k), v, op, true);
        self.check_end(end, op, full);
    }

    /// Writes while the medium is full.
    fn fill(&mut self, from: u64, bytes: &mut Bytes<'_>) {
        self.on.sim.set_limit(self.on.sim.image().len() as u64 * 8);
        for k in from..from + 30 {
            let v = bytes.number(3 * VALUES);
            let op = if v < VALUES as u64 { Do::Remove(1) } else { Do::Put(1) };
            self.change(k, v % VALUES as u64, op, true);
        }
        self.on.sim.set_limit(MAX_BYTES);
    }

    /// The process dies within an operation: some of its stores were done.
    fn cut(&mut self, k: u64, v: u64, op: Do, bytes: &mut Bytes<'_>) {
        let mut new = self.model.clone();
        let operation = |map: &MultiMap<K, V>| map.change(&mut new, K::sample(k), v, op, true);
        let end = self.on.die_within(operation, 0, bytes.below(256));
        self.check_end(end, op, false);
        let found = read(self.on.map(), true, &mut Features::default());
        assert!(found == new || found == self.model, "{k}: neither old nor new");
        self.model = found;
        self.compare();
    }
}

impl<K: Sample + ?Sized, V: Sample + ?Sized> Ops for MultiRun<K, V> {
    type Map = MultiMap<K, V>;
    const KEYS: [usize; 3] = MultiMap::<K, V>::KEYS;

    fn on(&mut self) -> &mut OnSim<MultiMap<K, V>> {
        &mut self.on
    }

    fn one(&mut self, keys: usize, bytes: &mut Bytes<'_>, features: &mut Features) {
        let (k, v, n) = (bytes.number(keys), bytes.number(VALUES), bytes.number(150));
        let op = match bytes.below(64) {
            0..=22 => Do::Put(1),
            23..=25 => Do::Put(n),
            26..=32 => Do::Remove(1),
            33..=38 => Do::RemoveSome(1),
            39 | 40 => Do::RemoveSome(n),
            41 => Do::RemoveAll,
            42..=44 => Do::Look,
            45 => return self.compare(),
            46 => return self.on.check(),
            47 | 48 => {
                self.on.map().step().expect("a step");
                return;
            }
            49 if n < 30 => {
                self.model.clear();
                return self.on.map().clear().expect("clears");
            }
            50 | 51 => {
                self.note(features);
                return self.on.reopen();
            }
            52 => return self.on.close(),
            53 => return self.fill(k, bytes),
            54..=57 => return self.cut(k, v, Do::Put(1), bytes),
            58..=61 => return self.cut(k, n, Do::RemoveSome(1), bytes),
            _ => return self.cut(k, v, Do::RemoveAll, bytes),
        };
        self.change(k, v, op, false);
    }

    fn compare(&self) {
        assert_eq!(read(self.on.map(), true, &mut Features::default()), self.model, "contents");
        assert_eq!(self.on.map().is_empty().expect("counts"), self.model.is_empty());
    }

    fn note(&self, features: &mut Features) {
        let most = self.model.values().map(MultiMap::<K, V>::values).max().unwrap_or(0);
        note(self.on.map(), most.checked_ilog2(), features);
    }
}

//! The maps of a pool that is open, and what they share: finding free record space, and the close.
//!
//! All of them are opened with the pool, used or not: their records share the space that is found to be
//! free. A design recovers later the state that its open put off. The pool stays open as long as a handle of any of
//! its maps is left, and is closed by the last.

use std::any::Any;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use durahash_media::process::{self, Process};
use durahash_media::{Error, ErrorKind, Format, Result};

use super::data::Type;
use super::design::Design;
use super::record::Store;
use super::settings::DesignOptions;
use super::spec::{MapSpec, check_wanted, known};
use super::{
    Engine, Host, Kind, Member, Multi, Peers, Single, check_blocks, hides_slots, lock, unnamed,
};
use crate::index::Finding;

/// A map and the pool that it keeps open.
pub(crate) struct Handle<K: Kind> {
    pub(crate) engine: Arc<Engine<K>>,
    pool: Arc<OpenPool>,
}

impl<K: Kind> Handle<K> {
    /// Runs an operation. Its error names the pool's file, if it is about that.
    #[inline(always)]
    pub(crate) fn run<T>(&self, f: impl FnOnce(&Engine<K>) -> Result<T>) -> Result<T> {
        f(&self.engine).map_err(|e| self.named(e))
    }

    /// An error that names the pool's file, unless it is about what the caller gave.
    #[cold]
    fn named(&self, e: Error) -> Error {
        match e.kind() {
            ErrorKind::Text { .. } | ErrorKind::TooLarge { .. } => e,
            _ => e.at_path(self.engine.store.path()),
        }
    }

    pub(crate) fn pool(&self) -> &Arc<OpenPool> {
        &self.pool
    }

    /// Closes the pool, if this is its last handle.
    pub(crate) fn close(self) -> Result<()> {
        let Handle { engine, pool } = self;
        drop(engine);
        pool.close_last()
    }
}

impl<K: Kind> Clone for Handle<K> {
    fn clone(&self) -> Self {
        Handle { engine: Arc::clone(&self.engine), pool: Arc::clone(&self.pool) }
    }
}

/// Does something with the engine of a [`Member`], whatever its kind.
macro_rules! with {
    ($member:expr, $engine:ident => $done:expr) => {
        match $member {
            Member::Single($engine) => $done,
            Member::Multi($engine) => $done,
        }
    };
}

pub(crate) use with;

fn len<K: Kind>(engine: &Engine<K>) -> Result<u64> {
    K::len(engine)
}

fn check_own<K: Kind>(
    engine: &Engine<K>,
    found: &mut dyn FnMut(Finding),
    watch: &mut dyn FnMut(u64, u64),
) -> Result<HashSet<u64>> {
    K::check_own(engine, found, watch)
}

/// A map in a list of them.
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) is_multimap: bool,
    pub(crate) types: (Design, Type, Type),
    pub(crate) entries: u64,
}

/// As [`OpenPool::shared`].
type Shared = BTreeMap<u8, Weak<dyn Any + Send + Sync>>;

/// A pool that is open.
pub struct OpenPool {
    host: Box<dyn Host>,
    pub(crate) store: Arc<dyn Store>,
    /// Lookups verify every record.
    verifies: bool,
    members: Mutex<BTreeMap<u8, Member>>,
    /// Held while a map is made, renamed or removed, or all are looked at.
    changing: Mutex<()>,
    /// The map and the place where the sweep goes on; held during a step.
    sweep_at: Mutex<(u8, u64)>,
    /// True from when all maps are recovered until the close.
    is_open: AtomicBool,
    /// The thread that warms the maps, and its stop flag.
    warming: Mutex<Option<(Arc<AtomicBool>, JoinHandle<()>)>>,
    /// What the handles of a map have in common beside its engine, by the map's number.
    shared: Mutex<Shared>,
    /// The process that opened it: a forked child has a copy of this, without the mapped file.
    process: Process,
}

impl OpenPool {
    /// A pool whose maps are still to be [started](OpenPool::start), before it is [opened](OpenPool::opened).
    pub(crate) fn new(host: Box<dyn Host>, verifies: bool) -> Arc<Self> {
        Arc::new(OpenPool {
            store: host.store(),
            host,
            verifies,
            members: Mutex::default(),
            changing: Mutex::default(),
            sweep_at: Mutex::default(),
            is_open: AtomicBool::new(false),
            warming: Mutex::default(),
            shared: Mutex::default(),
            process: Process::own(),
        })
    }

    /// Says that all maps are there: a pool with one that could not be recovered is not closed as a sound one.
    pub(crate) fn opened(self: Arc<Self>) -> Arc<Self> {
        self.is_open.store(true, Ordering::Relaxed);
        self
    }

    /// Has a thread make the state in DRAM that operations would make as they come to it.
    pub(crate) fn warm(&self) {
        let members: Vec<Member> = self.members().values().cloned().collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let warm = move || {
            for member in &members {
                with!(member, engine => engine.index.warm(&stopped));
            }
        };
        // Where the system gives no more threads, operations do it.
        let thread = process::spawn("durahash-warm", warm);
        *self.warming() = thread.ok().map(|thread| (stop, thread));
    }

    fn warming(&self) -> MutexGuard<'_, Option<(Arc<AtomicBool>, JoinHandle<()>)>> {
        lock(&self.warming, &*self.store)
    }

    /// Ends that, and says if there was something to end: only the handles of a map keep its engine from
    /// here on.
    fn stop_warming(&self) -> bool {
        let Some((stop, thread)) = self.warming().take() else {
            return false;
        };
        stop.store(true, Ordering::Relaxed);
        // A panic was told, and operations make the rest.
        let _ = thread.join();
        true
    }

    /// What the handles of a map have in common beside its engine: made by the first, dropped by the last.
    pub(crate) fn shared(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared, &*self.store)
    }

    fn members(&self) -> MutexGuard<'_, BTreeMap<u8, Member>> {
        lock(&self.members, &*self.store)
    }

    /// Makes the index of a map, or opens it. `start`: when that, or the open of the pool, began.
    pub(crate) fn start(
        self: &Arc<Self>,
        map: (u8, &Format),
        options: DesignOptions,
        is_new: bool,
        start: Instant,
    ) -> Result<()> {
        self.read(map, options, is_new, start)?()
    }

    /// The part of [`start`](Self::start) that stores nothing in a map that is there; it returns the other one.
    pub(crate) fn read(
        self: &Arc<Self>,
        map: (u8, &Format),
        options: DesignOptions,
        is_new: bool,
        start: Instant,
    ) -> Result<Box<dyn FnOnce() -> Result<()>>> {
        if map.1.kind == Multi::NUMBER {
            self.read_as::<Multi>(map, options, is_new, start)
        } else {
            self.read_as::<Single>(map, options, is_new, start)
        }
    }

    fn read_as<K: Kind>(
        self: &Arc<Self>,
        (map, format): (u8, &Format),
        options: DesignOptions,
        is_new: bool,
        start: Instant,
    ) -> Result<Box<dyn FnOnce() -> Result<()>>> {
        let types = known(format)?;
        let index = K::index_of(&*self.host, map, (types.0, options, is_new))?;
        let (pool, format) = (Arc::clone(self), format.clone());
        Ok(Box::new(move || {
            let peers: Weak<dyn Peers> = Arc::<OpenPool>::downgrade(&pool);
            let store = Arc::clone(&pool.store);
            let engine = Engine::new(
                index()?,
                (store, peers),
                (map, &format),
                types,
                (is_new, pool.verifies),
                start,
            )?;
            pool.members().insert(map, K::member(Arc::new(engine)));
            Ok(())
        }))
    }

    /// A handle of a map. `types`: of keys and values, if it must have these.
    pub(crate) fn handle<K: Kind>(
        self: &Arc<Self>,
        map: u8,
        types: Option<(Type, Type)>,
    ) -> Result<Handle<K>> {
        let members = self.members();
        let member = members.get(&map);
        let format = with!(member.ok_or(ErrorKind::Closed)?, engine => &engine.format);
        check_wanted(format, K::NUMBER, types, false)?;
        let engine = member.and_then(K::of).ok_or(ErrorKind::Closed)?;
        Ok(Handle { engine: Arc::clone(engine), pool: Arc::clone(self) })
    }

    /// The name of the map of this number.
    pub(crate) fn name(&self, map: u8) -> Result<String> {
        let found = self.store.maps().into_iter().find(|(other, ..)| *other == map);
        found.map(|(_, name, _)| name).ok_or_else(|| ErrorKind::Closed.into())
    }

    /// The number of the map of this name.
    fn number(&self, name: &str) -> Result<u8> {
        let maps = self.store.maps();
        let found = maps.into_iter().find(|(_, other, _)| other == name);
        let none = || ErrorKind::NoMap { name: name.into() }.into();
        found.map(|(map, ..)| map).ok_or_else(none)
    }

    /// A handle of the map of this name.
    pub(crate) fn open<K: Kind>(
        self: &Arc<Self>,
        name: &str,
        types: Option<(Type, Type)>,
    ) -> Result<Handle<K>> {
        let _changing = lock(&self.changing, &*self.store);
        self.handle(self.number(name)?, types)
    }

    /// Makes a map, of which `handle` makes a handle by its number.
    pub(crate) fn create<T>(
        self: &Arc<Self>,
        name: &str,
        spec: &MapSpec,
        handle: impl FnOnce(u8) -> Result<T>,
    ) -> Result<T> {
        let start = Instant::now();
        // No thread removes the map before it has its handle.
        let _changing = lock(&self.changing, &*self.store);
        let map = match self.create_once(name, spec, start) {
            Err(e) if matches!(e.kind(), ErrorKind::Full { .. }) => {
                self.find_room()?;
                self.create_once(name, spec, start)
            }
            made => made,
        }?;
        self.store.wait_until_durable()?;
        handle(map)
    }

    fn create_once(self: &Arc<Self>, name: &str, spec: &MapSpec, start: Instant) -> Result<u8> {
        let mut format = spec.format();
        format.max_bytes = self.store.format().max_bytes;
        // The default sizes are for the extents of a new pool.
        if spec.geometry == spec.design.geometry() {
            let extent_shift = self.store.format().geometry.extent_shift;
            format.geometry = spec.design.geometry_in(extent_shift);
        }
        let map = self.store.begin_map(name, &format)?;
        let made = self
            .start((map, &format), spec.design_options, true, start)
            .and_then(|()| self.store.publish_map(map));
        if let Err(e) = made {
            self.members().remove(&map);
            // Where that fails, or the pool takes no more writes, the next open does it.
            let _ = self.store.writable().and_then(|()| self.store.finish_removal(map));
            return Err(e);
        }
        Ok(map)
    }

    /// Gives a map another name.
    pub(crate) fn rename(&self, name: &str, new: &str) -> Result<()> {
        let _changing = lock(&self.changing, &*self.store);
        self.store.rename_map(self.number(name)?, new)?;
        self.store.wait_until_durable()
    }

    /// Removes a map that is not open.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        let _changing = lock(&self.changing, &*self.store);
        let map = self.number(name)?;
        self.store.writable()?;
        let was_warming = self.stop_warming();
        let removed = self.remove_unused(map);
        if was_warming {
            // The others, and this one, if it was refused.
            self.warm();
        }
        removed
    }

    fn remove_unused(&self, map: u8) -> Result<()> {
        // No sweep ends before its records are free: it would free those that it did not come to, and others
        // would take them.
        let sweeping = lock(&self.sweep_at, &*self.store);
        let member = {
            let mut members = self.members();
            let member = members.get(&map).ok_or(ErrorKind::Closed)?;
            if with!(member, engine => Arc::strong_count(engine)) > 1 {
                let what =
                    "a map that is open is not removed: drop its handles and iterators first";
                return Err(ErrorKind::Options { what }.into());
            }
            members.remove(&map).ok_or(ErrorKind::Closed)?
        };
        if let Err(e) = self.store.begin_removal(map) {
            self.members().insert(map, member);
            return Err(e);
        }
        let waited = self.store.wait_until_durable();
        // The sweep of the next open finds the space that damage hides.
        let _ = with!(&member, engine => engine.free_records());
        drop(sweeping);
        drop(member);
        self.store.finish_removal(map)?;
        waited.and_then(|()| self.store.wait_until_durable())
    }

    /// The map of this number, if it is one and no multimap.
    pub(crate) fn single(&self, map: u8) -> Option<Arc<Engine<Single>>> {
        self.members().get(&map).and_then(Single::of).cloned()
    }

    /// All maps and their names, in the order of their numbers.
    pub(crate) fn named(&self) -> Vec<(String, Member)> {
        let maps = self.store.maps().into_iter();
        maps.filter_map(|(map, name, _)| Some((name, self.members().get(&map)?.clone()))).collect()
    }

    /// All maps, and how many entries they have.
    pub(crate) fn list(&self) -> Result<Vec<Listed>> {
        let _changing = lock(&self.changing, &*self.store);
        let listed = self.named().into_iter().map(|(name, member)| {
            let entries = with!(&member, engine => len(engine))?;
            let types = with!(&member, engine => (engine.design, engine.key, engine.value));
            let is_multimap = matches!(member, Member::Multi(_));
            Ok(Listed { name, is_multimap, types, entries })
        });
        listed.collect()
    }

    /// Verifies every invariant of all maps and of the pool. `found` gets the name of the map, too; `watch` is
    /// told how many entries of how many of a map were looked at.
    pub(crate) fn check(
        &self,
        found: &mut dyn FnMut(&str, Finding),
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        check_blocks(&*self.store, &mut |finding| found("", finding));
        let mut named = BTreeMap::new();
        for (name, member) in self.named() {
            let found = &mut |finding| found(&name, finding);
            let blocks = with!(&member, engine => check_own(engine, found, watch))?;
            for off in blocks {
                if let Some(other) = named.insert(off, name.clone()) {
                    let what = format!("named by the map {other:?}, too");
                    found(Finding { invariant: "REC-2", off, what });
                }
            }
        }
        let mut others = Vec::new();
        self.store.each_block(&mut |off| {
            if !named.contains_key(&off) {
                others.push(off);
            }
        });
        others.into_iter().for_each(|off| found("", unnamed(off)));
        Ok(())
    }

    /// Does a piece of background work of any map; true if more is waiting.
    pub(crate) fn step(&self) -> Result<bool> {
        let _changing = lock(&self.changing, &*self.store);
        let mut more = self.sweep_step()?;
        for (_, member) in self.named() {
            more |= with!(member, engine => engine.index.step())?;
        }
        Ok(more)
    }

    /// Puts everything that has returned where loss of power does not reach it.
    pub(crate) fn sync(&self) -> Result<()> {
        self.store.writable()?;
        self.store.sync()
    }

    /// Refuses a forked child, which has no pool.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.process == Process::own() {
            return Ok(());
        }
        let what = "a forked child has no part in the pools of its parent";
        Err(ErrorKind::Options { what }.into())
    }

    /// Closes the pool, if this is the last that keeps it open.
    pub(crate) fn close_last(self: Arc<Self>) -> Result<()> {
        Arc::into_inner(self)
            .map_or(Ok(()), |pool| pool.close().map_err(|e| e.at_path(pool.store.path())))
    }

    /// Closes the pool, if that was not done; it is not in use.
    fn close(&self) -> Result<()> {
        self.check_process().inspect_err(|_| {
            // Never dropped: that would unmap what this process has mapped in the file's place.
            std::mem::forget(Arc::clone(&self.store));
        })?;
        self.stop_warming();
        if !self.is_open.swap(false, Ordering::Relaxed) || self.store.is_read_only() {
            return Ok(());
        }
        for member in self.members().values() {
            match member {
                Member::Single(engine) => Single::save(engine),
                Member::Multi(engine) => Multi::save(engine),
            }
        }
        self.store.close()
    }
}

impl Peers for OpenPool {
    fn sweep_step(&self) -> Result<bool> {
        let mut at = lock(&self.sweep_at, &*self.store);
        if !self.store.sweep_goes_on() {
            return Ok(false);
        }
        let next = self.members().range(at.0..).next().map(|(map, member)| (*map, member.clone()));
        if let Some((map, member)) = next {
            let from = if map == at.0 { at.1 } else { 0 };
            *at = match with!(member, engine => engine.mark_from(from)) {
                Ok(Some(next)) => (map, next),
                Ok(None) => (map + 1, 0),
                Err(e) if hides_slots(&e) => {
                    self.store.give_up_sweep();
                    return Ok(false);
                }
                Err(e) => return Err(e),
            };
            if self.members().range(at.0..).next().is_some() {
                return Ok(true);
            }
        }
        self.store.finish_sweep().map(|()| false)
    }

    fn find_room(&self) -> Result<()> {
        while self.sweep_step()? {}
        // Held, so that no other thread finds a map open that is not.
        let members = self.members();
        let mut each = members.values();
        each.try_for_each(|member| with!(member, engine => engine.index.give_back()))?;
        self.store.give_back_blocks()
    }

    fn is_alone(&self) -> bool {
        self.members().len() == 1
    }
}

impl Drop for OpenPool {
    fn drop(&mut self) {
        // Nothing is left that could report a failure: the pool stays unclean and is recovered when it is
        // opened. `close` reports.
        let _ = self.close();
    }
}

#[cfg(test)]
mod tests {
    use durahash_media::{Dram, Geometry, Pool};

    use super::*;

    /// The warming goes on, also if a map is removed meanwhile or its removal is refused.
    #[test]
    fn a_removal_does_not_end_the_warming_of_others() {
        let geometry = Geometry::default();
        let spec = MapSpec {
            kind: Single::NUMBER,
            design: Design::Reh,
            key: Type::Bytes,
            value: Type::Bytes,
            geometry,
            seed: 7,
            design_options: DesignOptions::default(),
        };
        let max_bytes = 16 << 20;
        let format = Format { kind: Format::NO_MAP, max_bytes, ..spec.format() };
        let pool = Pool::create(Dram::new(max_bytes).unwrap(), &format).unwrap();
        let pool = OpenPool::new(Box::new(Arc::new(pool)), false).opened();
        let make = |name| pool.create(name, &spec, |map| pool.handle::<Single>(map, None)).unwrap();
        let (one, other) = (make("one"), make("other"));
        pool.warm();
        assert!(pool.remove("one").is_err() && pool.warming().is_some());
        drop(one);
        pool.remove("one").unwrap();
        assert!(pool.warming().is_some());
        drop(other);
    }
}

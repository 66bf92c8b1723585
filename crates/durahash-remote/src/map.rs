//! The map: byte strings in remote memory.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::rc::Rc;

use durahash_media::{Error, ErrorKind, Result};

use crate::executor::all;
use crate::fabric::{Counts, Fabric};
use crate::planted::{Fault, planted};
use crate::sep::{
    Change, Core, Found, Left, Options, Position, Report, Stats, Summary, Together, is_damage,
};

/// A client of an index in remote memory: keys and values are byte strings of up to 1 MiB.
///
/// Clones are the same client. An operation waits for the fabric most of its time, so run many at once.
/// Operations of all clients are linearizable: each takes effect at one moment between its call and its end.
///
/// ```
/// use durahash_remote::fabric::{Local, LocalOptions};
/// use durahash_remote::executor::block_on;
/// use durahash_remote::{Options, RemoteMap};
/// let local = Local::anonymous(&LocalOptions::default())?;
/// let client = local.client()?;
/// block_on(async {
///     let map = RemoteMap::create(client, Options::default()).await?;
///     map.put(b"key", b"value").await?;
///     assert_eq!(map.get(b"key").await?.as_deref(), Some(&b"value"[..]));
///     map.put(b"key", b"another").await?;
///     map.delete(b"key").await?;
///     assert_eq!(map.get(b"key").await?, None);
///     map.close().await
/// })?;
/// # Ok::<(), durahash_remote::Error>(())
/// ```
///
/// **Concurrency.** A map belongs to one thread, on which any number of operations may run at once. Several threads
/// need a client each, or a [`BlockingMap`](crate::BlockingMap).
///
/// **Durability.** A completed operation survives the death of any client, as long as the nodes keep their memory.
///
/// **Dropped futures.** An operation whose future is dropped early has taken effect or not. If it was
/// writing, or waiting for memory, its KV block, or what it gave to others, may be leaked until a [sweep](Self::sweep), and this client then holds back unlinked
/// memory until it leaves, as an idle client does.
/// The same holds after [`NodeLost`](durahash_media::ErrorKind::NodeLost).
///
/// **Memory of other clients.** A client gives what it has in excess to the others, and all of it when it is
/// [closed](Self::close). What dead clients leaked is found by [sweeps](Self::sweep), which clients begin by themselves when
/// it is an eighth of what is in use, and which hold up no operation. Clients do all that when they tick: run
/// [`service`](Self::service).
///
/// **Full nodes.** Deletes and merges need memory, too, and none is reserved for them. When all nodes are full, an operation
/// waits where a sweep may find memory, and then fails with [`Full`](durahash_media::ErrorKind::Full).
///
/// **Idle clients.** Memory that other clients unlink is free only after every client has acknowledged a newer epoch.
/// Operations acknowledge it, and so does [`service`](Self::service), which should run as a
/// task of its own. A client that [rests](Self::rest) is not waited for. A live client that does nothing of that also keeps others from merging a segment
/// more than 64 times: their operations wait for ten seconds, or ten leases, and then fail with an error
/// ([`Io`](durahash_media::ErrorKind::Io), timed out) that names the client.
pub struct RemoteMap<F: Fabric>(Rc<Core<F>>);

impl<F: Fabric> Clone for RemoteMap<F> {
    fn clone(&self) -> Self {
        RemoteMap(Rc::clone(&self.0))
    }
}

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Time without operations after which a client rests.
const REST_NS: u64 = 1_000_000_000;
/// Time after which a client that rests looks whether there is a sweep to do.
const DOZE_NS: u64 = 5_000_000_000;
const DOZE_TICKS: u64 = 100;
/// Operations that [`insert_many`](RemoteMap::insert_many) and its like have under way at once, and puts that go together.
const LANES: usize = 64;
/// Groups that are under way at once: of so many puts that go together, where the one goes on while a segment of the other
/// is merged, and of as many lookups in all, where nodes answer the one while the other is read.
const GROUPS: usize = 2;

/// Outcome of [`RemoteMap::compare_set`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The value was as expected, and was set.
    Set,
    /// The key has this value, or none, and was not changed.
    Differs(Option<Vec<u8>>),
}

impl<F: Fabric> RemoteMap<F> {
    /// Creates an index in regions that are all zero, and opens it. An interrupted creation is not
    /// repaired: afterwards this fails with `Exists` and [`open`](Self::open) with `NotAPool`; recreate the fabric.
    ///
    /// # Errors
    /// [`Exists`](durahash_media::ErrorKind::Exists) when the nodes hold an index, or a client is creating one;
    /// [`Options`](durahash_media::ErrorKind::Options) when `options` contradict each other;
    /// [`Full`](durahash_media::ErrorKind::Full) when a region is too small; those of the fabric.
    pub async fn create(fabric: F, options: Options) -> Result<Self> {
        Ok(RemoteMap(Rc::new(Core::create(fabric, options).await?)))
    }

    /// Opens an index. Its sizes are stored with it; of `options`, only the fields about the client count.
    ///
    /// # Errors
    /// [`NotAPool`](durahash_media::ErrorKind::NotAPool) and
    /// [`Version`](durahash_media::ErrorKind::Version) when the nodes do not hold the
    /// parts of an index of this version; [`Corrupt`](durahash_media::ErrorKind::Corrupt); those of the fabric.
    pub async fn open(fabric: F, options: Options) -> Result<Self> {
        Ok(RemoteMap(Rc::new(Core::open(fabric, options).await?)))
    }

    /// The value of `key`. Takes two round trips if the client's cache of the segment is current, four if the segment
    /// was merged since or is new to this client; one more for a key and value of more than 432 bytes, and
    /// for each split since. Heartbeats add to that where [`service`](Self::service) does not run.
    ///
    /// # Errors
    /// Those of the fabric, and [`Corrupt`](durahash_media::ErrorKind::Corrupt).
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.0.get(key).await
    }

    /// Sets the value of `key`. Takes two round trips, three if the segment was merged since this client last
    /// saw it. The client that fills a segment also merges it. Taking a chunk of memory from a node adds to that now
    /// and then.
    ///
    /// # Errors
    /// [`TooLarge`](durahash_media::ErrorKind::TooLarge);
    /// [`Full`](durahash_media::ErrorKind::Full), and nothing was changed; those of the fabric,
    /// after which the value may or may not have been set.
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.append(key, Some(value)).await
    }

    /// The values of many keys, in their order, several at once: of a key that is given twice, too.
    ///
    /// # Errors
    /// The first error of a [`get`](Self::get).
    pub async fn get_many(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        let rounds = RefCell::new((0..).zip(keys.chunks(LANES / GROUPS)));
        let (found, failed) = (RefCell::new(Vec::new()), RefCell::new(None));
        // Not borrowed while a round runs.
        let next = || rounds.borrow_mut().next().filter(|_| failed.borrow().is_none());
        let get = async || {
            while let Some((number, round)) = next() {
                match self.get_round(round).await {
                    Ok(values) => found.borrow_mut().push((number, values)),
                    Err(error) => drop(failed.borrow_mut().get_or_insert(error)),
                }
            }
        };
        all((0..GROUPS.min(keys.len().div_ceil(LANES / GROUPS))).map(|_| get())).await;
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        let mut found = found.into_inner();
        found.sort_unstable_by_key(|(number, _): &(u32, _)| *number);
        Ok(found.into_iter().flat_map(|(_, values)| values).collect())
    }

    /// Gets the values of some keys, together as far as that is possible.
    async fn get_round(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        let found = self.0.get_together(keys).await?;
        let get = async |left: &Left<'_>| self.0.get_left(&found, left).await;
        let rest = in_lanes(&found.left, |left| left.key, get).await?;
        let Found { mut values, left, .. } = found;
        left.iter().zip(rest).for_each(|(left, value)| values[left.place] = value);
        Ok(values)
    }

    /// Sets the values of many keys, several at once. The last value of a key counts.
    ///
    /// # Errors
    /// The first error of a [`put`](Self::put). Values that were set before it stay.
    pub async fn put_many(&self, pairs: &[Pair]) -> Result<()> {
        if !self.0.appends_together() {
            let put = async |(key, value): &Pair| self.put(key, value).await;
            return in_lanes(pairs, |pair| &pair.0, put).await.map(drop);
        }
        let order = by_key(pairs, |pair| &pair.0);
        let mut runs: Vec<_> = order.chunk_by(|&a, &b| pairs[a].0 == pairs[b].0).collect();
        // One pair of a run goes at a time: the longest take the most rounds.
        runs.sort_by_key(|run| Reverse(run.len()));
        let groups = GROUPS.min(runs.len().div_ceil(LANES));
        // Not borrowed while an operation runs.
        let (runs, failed) = (RefCell::new(VecDeque::from(runs)), RefCell::new(None));
        let next = || {
            let mut runs = runs.borrow_mut();
            let count = if failed.borrow().is_none() { LANES.min(runs.len()) } else { 0 };
            runs.drain(..count).collect::<Vec<_>>()
        };
        let put = async || {
            loop {
                let round = next();
                if round.is_empty() {
                    return;
                }
                self.put_round(pairs, &round, &runs, &failed).await;
            }
        };
        all((0..groups).map(|_| put())).await;
        failed.into_inner().map_or(Ok(()), Err)
    }

    /// Puts the first pair of each run, together as far as that is possible, and gives back what remains of the runs. In
    /// between a run is nowhere else, so the pairs of a key keep their order. Each round puts one pair at least.
    async fn put_round<'a>(
        &self,
        pairs: &[Pair],
        round: &[&'a [usize]],
        runs: &RefCell<VecDeque<&'a [usize]>>,
        failed: &RefCell<Option<Error>>,
    ) {
        let pair = |run: &[usize]| (&pairs[run[0]].0[..], &pairs[run[0]].1[..]);
        // To the front: a long run is in each round.
        let put = |run: &'a [usize]| {
            if run.len() > 1 {
                runs.borrow_mut().push_front(&run[1..]);
            }
        };
        let first: Vec<_> = round.iter().map(|run| pair(run)).collect();
        let Together { put: done, left, later, full } = match self.0.append_together(&first).await {
            Ok(together) => together,
            Err(error) => {
                failed.borrow_mut().get_or_insert(error);
                return;
            }
        };
        done.into_iter().for_each(|i| put(round[i]));
        // To the end: the segments of most are merged now.
        runs.borrow_mut().extend(later.into_iter().map(|i| round[i]));
        // No operation is dropped while it runs: the memory that it took would be lost until a sweep.
        let work = async |filled, run: Option<&'a [usize]>| {
            if let Some(filled) = filled {
                self.0.merge_filled(filled).await;
            }
            let Some(run) = run.filter(|_| failed.borrow().is_none()) else { return };
            if planted(Fault::RestFirst) {
                put(run);
            }
            let (key, value) = pair(run);
            match self.put(key, value).await {
                Ok(()) if planted(Fault::RestFirst) => {}
                Ok(()) => put(run),
                Err(error) => {
                    failed.borrow_mut().get_or_insert(error);
                }
            }
        };
        let merges = full.into_iter().map(|filled| work(Some(filled), None));
        all(merges.chain(left.into_iter().map(|i| work(None, Some(round[i]))))).await;
    }

    /// [`insert_new`](Self::insert_new) for many keys, several at once: tells of each, in their order, whether it had no
    /// value. Of several values for one key the first is set.
    ///
    /// # Errors
    /// The first error of an [`insert_new`](Self::insert_new). Values that were set before it stay.
    pub async fn insert_many(&self, pairs: &[Pair]) -> Result<Vec<bool>> {
        let insert = async |(key, value): &Pair| self.insert_new(key, value).await;
        in_lanes(pairs, |pair| &pair.0, insert).await
    }

    /// Removes `key` if it is there. Costs as much as [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn delete(&self, key: &[u8]) -> Result<()> {
        self.0.append(key, None).await
    }

    /// Sets the value of `key` if it has none, and returns whether it had none. As all conditional operations, it
    /// takes the round trips of a lookup (mostly one if the key is absent), and two more if it writes.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn insert_new(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.compare_set(key, None, Some(value)).await? == Compared::Set)
    }

    /// Sets the value of `key` to `new` if it is `expected`. `None` stands for an absent key, in either place.
    /// Costs as much as [`insert_new`](Self::insert_new).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn compare_set(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Compared> {
        let decide = |found: Option<&[u8]>| match new {
            _ if found != expected => Change::Keep,
            Some(new) => Change::Set(new.to_vec()),
            // There is nothing to remove.
            None if found.is_none() => Change::Keep,
            None => Change::Remove,
        };
        let (found, _) = self.0.conditional(key, decide).await?;
        let equal = found.as_deref() == expected;
        Ok(if equal { Compared::Set } else { Compared::Differs(found) })
    }

    /// Sets the value of `key` and returns the previous one. Costs as much as [`insert_new`](Self::insert_new).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn replace(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.0.conditional(key, |_| Change::Set(value.to_vec())).await?.0)
    }

    /// Removes `key` and returns its value. Costs as much as [`insert_new`](Self::insert_new).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn take(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let decide = |found: Option<&[u8]>| match found {
            Some(_) => Change::Remove,
            None => Change::Keep,
        };
        Ok(self.0.conditional(key, decide).await?.0)
    }

    /// Changes `key` as `f` says of its value, if it has one, and returns the value that it has then. `f` is called again whenever
    /// another write came in between. Costs as much as [`insert_new`](Self::insert_new) each time.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn update(
        &self,
        key: &[u8],
        mut f: impl FnMut(Option<&[u8]>) -> Change,
    ) -> Result<Option<Vec<u8>>> {
        let mut set = None;
        let decide = |found: Option<&[u8]>| {
            let change = match f(found) {
                // There is nothing to remove.
                Change::Remove if found.is_none() => Change::Keep,
                change => change,
            };
            set = if let Change::Set(value) = &change { Some(value.clone()) } else { None };
            change
        };
        let (found, written) = self.0.conditional(key, decide).await?;
        Ok(if written { set } else { found })
    }

    /// Adds `by` to the counter of `key`, eight bytes, lowest first, and returns what it was; a key without a value counts as zero.
    /// It goes round at 2^64. Costs as much as [`insert_new`](Self::insert_new), again whenever another
    /// write came in between.
    ///
    /// # Errors
    /// [`Types`](durahash_media::ErrorKind::Types) when the value has another length; as [`put`](Self::put).
    pub async fn fetch_add(&self, key: &[u8], by: u64) -> Result<u64> {
        let mut before = Ok(0);
        let add = |found: Option<&[u8]>| {
            before = found.map_or(Ok(0), |value| {
                value.try_into().map(u64::from_le_bytes).map_err(|_| ErrorKind::Types {
                    found: format!("a value of {} bytes", value.len()),
                    wanted: "a counter of 8".into(),
                })
            });
            match &before {
                Ok(before) => Change::Set(before.wrapping_add(by).to_le_bytes().to_vec()),
                Err(_) => Change::Keep,
            }
        };
        self.0.conditional(key, add).await?;
        Ok(before?)
    }

    /// Iterates over all keys and values, segment by segment. Each call of [`next`](Pages::next) returns a
    /// consistent snapshot of one segment; a key that is there all the time is returned once.
    ///
    /// # Errors
    /// See [`next`](Pages::next).
    #[must_use]
    pub fn pages(&self) -> Pages<F> {
        Pages { map: self.clone(), cursor: Cursor::START }
    }

    /// Sends a heartbeat, advances the epoch if possible, frees memory that waited for it, takes a step of a sweep if one is
    /// due, and gives memory in excess to the other clients.
    ///
    /// # Errors
    /// [`Evicted`](durahash_media::ErrorKind::Evicted) and others of the fabric.
    pub async fn tick(&self) -> Result<()> {
        self.0.tick().await
    }

    /// Ticks, again and again, until the map is closed or no other clone of it exists.
    ///
    /// # Errors
    /// As [`tick`](Self::tick).
    pub async fn service(self) -> Result<()> {
        self.service_if_busy(1).await
    }

    /// The same, where the time between two ticks of a client that has nothing else to do grows to so many times that of
    /// a busy one, and in a crowd to more.
    pub(crate) async fn service_if_busy(self, idle: u64) -> Result<()> {
        let now_ns = || self.0.fabric.now_ns();
        let (mut times, mut busy_ns) = (1, now_ns());
        while Rc::strong_count(&self.0) > 1 && !self.0.has_left() {
            if self.0.rests() {
                // Without a thread that closes the map, this also finds out that there are no more clones.
                self.0.doze(if idle > 1 { DOZE_NS } else { self.0.tick_ns(DOZE_TICKS) }).await?;
                (times, busy_ns) = (1, now_ns());
                continue;
            }
            let before = self.counts();
            self.0.fabric.sleep_ns(self.0.tick_ns(times)).await;
            let is_idle = self.counts() == before && !self.0.sweeps();
            times = if is_idle { (idle * self.0.crowd()).min(2 * times) } else { 1 };
            self.0.tick().await?;
            if !is_idle {
                busy_ns = now_ns();
            } else if idle > 1 && now_ns() - busy_ns >= REST_NS {
                self.0.rest().await?;
            }
        }
        Ok(())
    }

    /// When the last tick ended that did not fail, or this client registered.
    pub(crate) fn ticked_ns(&self) -> u64 {
        self.0.ticked_ns()
    }

    /// Sleeps for so many ticks, at most for as long as an idle client in a crowd.
    pub(crate) async fn pause(&self, ticks: u64) {
        self.0.fabric.sleep_ns(self.0.tick_ns(ticks)).await;
    }

    /// Gives this client's memory to the others, and lets the epoch go on without it, if no operation of it is under way. The next
    /// operation, or [`sweep`](Self::sweep), takes some more round trips, as it makes it a client again. Maps with a thread of their own do
    /// so when they have been idle for a second. Do not drop the future: others might wait for this client until it ends.
    ///
    /// # Errors
    /// Those of the fabric.
    pub async fn rest(&self) -> Result<()> {
        self.0.rest().await
    }

    /// Gives this client's memory to the others, and then its row, so that no client waits for it. From then on operations of other clones fail with
    /// [`Closed`](durahash_media::ErrorKind::Closed).
    ///
    /// # Errors
    /// Those of the fabric.
    pub async fn close(self) -> Result<()> {
        self.0.leave().await
    }

    /// Verifies all invariants of the index (SEP-1 to SEP-6 in `sep/mod.rs`), and the key and the checksum of every KV
    /// block. Changes nothing. No other client may write meanwhile.
    ///
    /// # Errors
    /// [`Corrupt`](durahash_media::ErrorKind::Corrupt), and those of the fabric.
    pub async fn check(&self) -> Result<Report> {
        self.0.check().await
    }

    /// Figures from a few reads, where [`check`](Self::check) walks over the whole index. Other clients may write meanwhile.
    ///
    /// # Errors
    /// [`Corrupt`](durahash_media::ErrorKind::Corrupt), and those of the fabric.
    pub async fn summary(&self) -> Result<Summary> {
        self.0.summary().await
    }

    /// Finds the memory that dead clients leaked, while other clients and operations go on, and returns how many bytes were
    /// free when it ended, those that clients had before included. Clients sweep by themselves; this is for one that does not
    /// want to wait until it is worth it.
    ///
    /// # Errors
    /// [`Corrupt`](durahash_media::ErrorKind::Corrupt); [`Io`](durahash_media::ErrorKind::Io), timed out, when a live client
    /// that does not tick, or the dropped future of a write, holds the epoch back; those of the fabric.
    pub async fn sweep(&self) -> Result<u64> {
        self.0.sweep().await
    }

    /// The same index by [another client](Fabric::again), where this one has lost a node.
    pub(crate) async fn again(&self) -> Option<Result<Self>> {
        let fabric = self.0.fabric.again()?;
        Some(match fabric {
            Ok(fabric) => {
                let map = RemoteMap::open(fabric, self.0.options()).await;
                map.inspect(|map| map.0.succeeds(&self.0))
            }
            Err(error) => Err(error),
        })
    }

    /// Counts of this client's work, and the sizes of its cache.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Counts of this client's verbs.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.fabric.counts()
    }
}

/// The position of an iteration.
pub(crate) struct Cursor {
    at: Option<Position>,
    /// An error to return before the next segment.
    damage: VecDeque<Error>,
}

impl Cursor {
    pub(crate) const START: Cursor = Cursor { at: Some(Position::START), damage: VecDeque::new() };

    /// The position, for a step; unless it comes back, the next step reads the same segment again.
    pub(crate) fn lend(&mut self) -> Cursor {
        Cursor { at: self.at, damage: std::mem::take(&mut self.damage) }
    }
}

/// The keys and values of a map, from [`RemoteMap::pages`].
pub struct Pages<F: Fabric> {
    pub(crate) map: RemoteMap<F>,
    pub(crate) cursor: Cursor,
}

impl<F: Fabric> Pages<F> {
    /// The keys and values of the next segment, possibly none; `None` at the end.
    ///
    /// # Errors
    /// [`Corrupt`](durahash_media::ErrorKind::Corrupt) once for each damaged block, after the other keys of
    /// its segment, less those whose newest value depends on that block. The next call continues
    /// behind it, or ends if the segment itself is damaged. Otherwise as
    /// [`RemoteMap::get`], and the next call tries the same segment again.
    pub async fn next(&mut self) -> Result<Option<Vec<Pair>>> {
        if let Some(e) = self.cursor.damage.pop_front() {
            return Err(e);
        }
        let Some(at) = self.cursor.at else { return Ok(None) };
        match self.map.0.page(at).await {
            Ok(page) => {
                self.cursor = Cursor { at: page.next, damage: page.damage };
                Ok(Some(page.pairs))
            }
            Err(e) => {
                // Damage does not go away.
                self.cursor.at = self.cursor.at.filter(|_| !is_damage(&e));
                Err(e)
            }
        }
    }
}

/// The places of the items: those of one key stand together, in their order.
fn by_key<T>(items: &[T], key: impl Fn(&T) -> &[u8]) -> Vec<usize> {
    let mut order: Vec<_> = (0..items.len()).collect();
    order.sort_by_key(|&idx| key(&items[idx]));
    order
}

/// Runs `operation` for all items, several at once, and those of one key one after the other. Returns the first error.
async fn in_lanes<T, R>(
    items: &[T],
    key: impl Fn(&T) -> &[u8],
    operation: impl AsyncFn(&T) -> Result<R>,
) -> Result<Vec<R>> {
    // A lane takes all of a key.
    let order = by_key(items, &key);
    let runs = RefCell::new(order.chunk_by(|&a, &b| key(&items[a]) == key(&items[b])));
    // Not borrowed while an operation runs.
    let next = || runs.borrow_mut().next();
    let results = RefCell::new(items.iter().map(|_| None).collect::<Vec<_>>());
    let failed = RefCell::new(None);
    let run = async || {
        // No operation is dropped while it runs: the memory that it took would be lost until a sweep.
        while let Some(run) = next().filter(|_| failed.borrow().is_none()) {
            for &idx in run {
                match operation(&items[idx]).await {
                    Ok(result) => results.borrow_mut()[idx] = Some(result),
                    Err(error) => {
                        failed.borrow_mut().get_or_insert(error);
                        return;
                    }
                }
            }
        }
    };
    all((0..items.len().min(LANES)).map(|_| run())).await;
    match failed.into_inner() {
        Some(error) => Err(error),
        None => Ok(results.into_inner().into_iter().flatten().collect()),
    }
}

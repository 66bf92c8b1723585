//! The map: byte strings in remote memory.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use durahash_media::{Error, Result};

use crate::fabric::{Counts, Fabric};
use crate::sep::{Core, Decision, Options, Position, Report, Tally, is_damage};

/// A client of an index in remote memory: keys and values are byte strings of up to 1 MiB.
///
/// Clones are the same client. Each operation under way is a coroutine of it; have many of them at
/// once, as each waits for the fabric most of its time. Operations take effect at one moment between
/// their call and their end, whichever clients do them.
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
///     map.close().await
/// })?;
/// # Ok::<(), durahash_remote::Error>(())
/// ```
///
/// **Concurrency.** Of one thread; any number of operations at once. For several threads, take a client each,
/// or a [`BlockingMap`](crate::BlockingMap).
///
/// **Durability.** An operation that has ended stays, whoever dies, as long as the nodes' memory does.
///
/// **Dropped futures.** An operation whose future is dropped before it ended has taken effect or
/// not. If that was while something was being written, its KV block may be lost to a
/// [sweep](Self::sweep), and memory that is unlinked from then on is not used again before this client
/// has left, as for an idle client below; the same after [`NodeLost`](durahash_media::ErrorKind::NodeLost).
///
/// **Full nodes.** Deletes and merges need memory, too, and none is kept for them: where no node has any
/// left, only a [sweep](Self::sweep) may find some.
///
/// **Idle clients.** A client holds memory back that others have unlinked, until it says that it has
/// moved on. It does so during operations, or in [`service`](Self::service), which should run as a
/// task of its own. A client that lives and does neither also stops others from merging a segment
/// more than 64 times: their operations wait for ten seconds, or ten leases, and then end with an error
/// ([`Io`](durahash_media::ErrorKind::Io), timed out) that names the client.
pub struct RemoteMap<F: Fabric>(Rc<Core<F>>);

impl<F: Fabric> Clone for RemoteMap<F> {
    fn clone(&self) -> Self {
        RemoteMap(Rc::clone(&self.0))
    }
}

/// Operations that [`put_many`](RemoteMap::put_many) has under way at once.
const LANES: usize = 32;

/// What [`RemoteMap::compare_set`] came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The value was as expected, and was set.
    Set,
    /// It was another, which was left: this one, or none.
    Differs(Option<Vec<u8>>),
}

impl<F: Fabric> RemoteMap<F> {
    /// Makes an index in regions that are all zero, and opens it. One whose making was cut short is not
    /// repaired: this is `Exists` from then on, and [`open`](Self::open) `NotAPool`; make the fabric anew.
    ///
    /// # Errors
    /// [`Exists`](durahash_media::ErrorKind::Exists) when there is one, or one is being made;
    /// [`Options`](durahash_media::ErrorKind::Options) when they contradict each other;
    /// [`Full`](durahash_media::ErrorKind::Full) when a region is too small; those of the fabric.
    pub async fn create(fabric: F, options: Options) -> Result<Self> {
        Ok(RemoteMap(Rc::new(Core::create(fabric, options).await?)))
    }

    /// Opens an index. Its sizes are as it was made; of `options`, only what is the client's counts.
    ///
    /// # Errors
    /// [`NotAPool`](durahash_media::ErrorKind::NotAPool) and
    /// [`Version`](durahash_media::ErrorKind::Version) when there is none that this library knows,
    /// or the nodes do not hold its parts; [`Corrupt`](durahash_media::ErrorKind::Corrupt); those of
    /// the fabric.
    pub async fn open(fabric: F, options: Options) -> Result<Self> {
        Ok(RemoteMap(Rc::new(Core::open(fabric, options).await?)))
    }

    /// The value of `key`. Two round trips if the segment is as this client knows it, four if it was
    /// merged since, or is met for the first time; one more for a key and value of more than 432 bytes, and
    /// for each split that was not seen. Heartbeats come on top, where [`service`](Self::service) does not run.
    ///
    /// # Errors
    /// Those of the fabric, and [`Corrupt`](durahash_media::ErrorKind::Corrupt).
    ///
    /// ```
    /// # use durahash_remote::{Options, RemoteMap, executor::block_on, fabric::{Local, LocalOptions}};
    /// # let client = Local::anonymous(&LocalOptions::default())?.client()?;
    /// # block_on(async {
    /// let map = RemoteMap::create(client, Options::default()).await?;
    /// assert_eq!(map.get(b"key").await?, None);
    /// map.put(b"key", b"value").await?;
    /// assert_eq!(map.get(b"key").await?.as_deref(), Some(&b"value"[..]));
    /// # map.close().await
    /// # })?;
    /// # Ok::<(), durahash_remote::Error>(())
    /// ```
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.0.get(key).await
    }

    /// Sets the value of `key`. Two round trips, three if the segment was merged since it was last
    /// seen; who fills a segment also merges it. A chunk of memory taken from a node now and then comes on top.
    ///
    /// # Errors
    /// [`TooLarge`](durahash_media::ErrorKind::TooLarge);
    /// [`Full`](durahash_media::ErrorKind::Full), then nothing was changed; those of the fabric,
    /// after which the value may have been set or not.
    ///
    /// ```
    /// # use durahash_remote::{Options, RemoteMap, executor::block_on, fabric::{Local, LocalOptions}};
    /// # let client = Local::anonymous(&LocalOptions::default())?.client()?;
    /// # block_on(async {
    /// let map = RemoteMap::create(client, Options::default()).await?;
    /// map.put(b"key", b"value").await?;
    /// map.put(b"key", b"another").await?;
    /// assert_eq!(map.get(b"key").await?.as_deref(), Some(&b"another"[..]));
    /// # map.close().await
    /// # })?;
    /// # Ok::<(), durahash_remote::Error>(())
    /// ```
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.append(key, Some(value)).await
    }

    /// Sets the values of many keys, several at once; where a key comes again, the last value counts.
    ///
    /// # Errors
    /// As [`put`](Self::put), the first that there was. What was set before stays.
    #[allow(clippy::type_complexity, reason = "pairs of keys and values")]
    pub async fn put_many(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        // Those of one key are in one lane, one after the other.
        let mut lanes = vec![Vec::new(); LANES];
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        for pair in pairs {
            lanes[hasher.hash_one(&pair.0) as usize % LANES].push(pair);
        }
        let failed = Cell::new(None);
        let put = async |lane: Vec<&(Vec<u8>, Vec<u8>)>| {
            for (key, value) in lane {
                // None is given up on its way: what it took would be lost until a sweep.
                let before = failed.take();
                let stop = before.is_some();
                failed.set(before);
                if stop {
                    return;
                }
                if let Err(error) = self.put(key, value).await {
                    failed.set(failed.take().or(Some(error)));
                }
            }
        };
        all(lanes.into_iter().filter(|lane| !lane.is_empty()).map(put).collect()).await;
        failed.into_inner().map_or(Ok(()), Err)
    }

    /// Removes `key`, whether it is there or not; costs as [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// ```
    /// # use durahash_remote::{Options, RemoteMap, executor::block_on, fabric::{Local, LocalOptions}};
    /// # let client = Local::anonymous(&LocalOptions::default())?.client()?;
    /// # block_on(async {
    /// let map = RemoteMap::create(client, Options::default()).await?;
    /// map.put(b"key", b"value").await?;
    /// map.delete(b"key").await?;
    /// assert_eq!(map.get(b"key").await?, None);
    /// # map.close().await
    /// # })?;
    /// # Ok::<(), durahash_remote::Error>(())
    /// ```
    pub async fn delete(&self, key: &[u8]) -> Result<()> {
        self.0.append(key, None).await
    }

    /// Sets the value of `key` if it has none; whether it had none. The round trips of a lookup (one where
    /// there is no such key, mostly), and two more where it writes, one after the other; so do all conditional
    /// operations.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn insert_new(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let decide = |found: Option<&[u8]>| match found {
            Some(_) => Decision::Nothing,
            None => Decision::Put(value.to_vec()),
        };
        Ok(self.0.conditional(key, decide).await?.1)
    }

    /// Sets the value of `key` to `new`, or removes it, if its value is `expected`, or it has none. Costs as
    /// [`insert_new`](Self::insert_new).
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
            _ if found != expected => Decision::Nothing,
            Some(new) => Decision::Put(new.to_vec()),
            // There is nothing to remove.
            None if found.is_none() => Decision::Nothing,
            None => Decision::Delete,
        };
        let (found, _) = self.0.conditional(key, decide).await?;
        let equal = found.as_deref() == expected;
        Ok(if equal { Compared::Set } else { Compared::Differs(found) })
    }

    /// Sets the value of `key`; what it was before. Costs as [`insert_new`](Self::insert_new).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn replace(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.0.conditional(key, |_| Decision::Put(value.to_vec())).await?.0)
    }

    /// Removes `key`; the value it had. Costs as [`insert_new`](Self::insert_new).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn take(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let decide = |found: Option<&[u8]>| match found {
            Some(_) => Decision::Delete,
            None => Decision::Nothing,
        };
        Ok(self.0.conditional(key, decide).await?.0)
    }

    /// All keys and values, segment by segment. Each segment's are those of one moment of its
    /// [`next`](Pages::next); a key that is there all the time is given once.
    ///
    /// # Errors
    /// [`next`](Pages::next) tells them.
    #[must_use]
    pub fn pages(&self) -> Pages<F> {
        self.pages_from(Place::START)
    }

    pub(crate) fn pages_from(&self, place: Place) -> Pages<F> {
        Pages { map: self.clone(), place }
    }

    /// Shows that this client lives, moves the epoch as far as it can, and frees memory that waited
    /// for that.
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
        while Rc::strong_count(&self.0) > 1 && !self.0.has_left() {
            self.0.fabric.sleep_ns(self.0.tick_ns()).await;
            self.0.tick().await?;
        }
        Ok(())
    }

    /// Says that this client has left, so that nobody waits for it, and hands its unused memory to
    /// nobody: a [sweep](Self::sweep) finds that. Operations of other clones fail from then on, as
    /// [`Closed`](durahash_media::ErrorKind::Closed).
    ///
    /// # Errors
    /// Those of the fabric.
    pub async fn close(self) -> Result<()> {
        self.0.leave().await
    }

    /// Verifies all invariants of the index (SEP-1 to SEP-6 in `sep/mod.rs`), and that every KV block has its key and check
    /// sum. Changes nothing. No other client may write meanwhile.
    ///
    /// # Errors
    /// [`Corrupt`](durahash_media::ErrorKind::Corrupt), and those of the fabric.
    pub async fn check(&self) -> Result<Report> {
        self.0.check().await
    }

    /// Finds all memory that nobody has, which dead clients had, for this client; how many bytes
    /// that were. This must be the only client.
    ///
    /// # Errors
    /// [`Locked`](durahash_media::ErrorKind::Locked) when there are other clients, or operations
    /// under way, which includes futures that were dropped while they wrote. Operations that begin
    /// meanwhile get the same error. Else as [`check`](Self::check).
    pub async fn sweep(&self) -> Result<u64> {
        self.0.sweep().await
    }

    /// What this client has done, and remembers.
    #[must_use]
    pub fn stats(&self) -> Tally {
        self.0.stats()
    }

    /// What this client has done over the fabric.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.fabric.counts()
    }
}

/// Where an iteration goes on.
pub(crate) struct Place {
    at: Option<Position>,
    /// What is told before.
    damage: VecDeque<Error>,
}

impl Place {
    pub(crate) const START: Place = Place { at: Some(Position::START), damage: VecDeque::new() };
}

/// The keys and values of a map, from [`RemoteMap::pages`].
pub struct Pages<F: Fabric> {
    map: RemoteMap<F>,
    place: Place,
}

impl<F: Fabric> Pages<F> {
    /// Those of the next segment, possibly none; `None` at the end.
    ///
    /// # Errors
    /// [`Corrupt`](durahash_media::ErrorKind::Corrupt) once for each block that is damaged, after the other keys of
    /// its segment; of these, those whose newest value cannot be told without it are left out, too. The next call goes on
    /// behind it, or ends where what is damaged is the segment itself. Else as
    /// [`RemoteMap::get`]; the same segment is next again.
    #[allow(clippy::type_complexity, reason = "pairs of keys and values")]
    pub async fn next(&mut self) -> Result<Option<Vec<(Vec<u8>, Vec<u8>)>>> {
        if let Some(e) = self.place.damage.pop_front() {
            return Err(e);
        }
        let Some(at) = self.place.at else { return Ok(None) };
        match self.map.0.page(at).await {
            Ok(page) => {
                self.place = Place { at: page.next, damage: page.damage };
                Ok(Some(page.pairs))
            }
            Err(e) => {
                if is_damage(&e) {
                    self.place.at = None;
                }
                Err(e)
            }
        }
    }

    /// Where it goes on.
    pub(crate) fn into_place(self) -> Place {
        self.place
    }
}

/// Ready when all of these are.
async fn all(futures: Vec<impl Future<Output = ()>>) {
    let mut futures: Vec<Pin<Box<_>>> = futures.into_iter().map(Box::pin).collect();
    poll_fn(|cx| {
        futures.retain_mut(|future| future.as_mut().poll(cx).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

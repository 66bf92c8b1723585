//! The map for threads that wait.

use std::sync::Arc;

use durahash_media::Result;

use crate::fabric::{Counts, Fabric};
use crate::map::{Compared, Cursor, Pages, Pair, RemoteMap};
use crate::sep::{Change, Options, Report, Stats, Summary};
use crate::served::{Served, Starting, answer, methods};

/// A client of an index in remote memory for any number of threads. A call blocks until its operation has ended.
///
/// The map has a thread that runs the operations, many at once, and sends heartbeats also between
/// calls, ever more rarely, down to every 32nd of those that its [`Options`] ask for, and fewer where there are 128 clients or more. After a second
/// without operations it [rests](RemoteMap::rest). Clones are the same client, which leaves with the last one, or by [`close`](Self::close).
///
/// **Concurrency.** Operations of all threads and of all other clients are linearizable: each takes
/// effect at one moment between its call and its return.
///
/// **Durability** and **Full nodes** are as for [`RemoteMap`].
///
/// **Lost nodes.** When a node has ended, what is under way fails with [`NodeLost`](durahash_media::ErrorKind::NodeLost):
/// it has taken effect or not. So does what is called later, over [TCP](crate::tcp) until the node is back with the same
/// memory: from then on another client of the same index does it.
///
/// **Panics.** If an operation panics, or a closure given to [`each`](Self::each), the thread ends, and every
/// later call panics. After [`Evicted`](durahash_media::ErrorKind::Evicted) every call fails: open
/// another map with a new client.
///
/// ```
/// use durahash_remote::fabric::{Local, LocalOptions};
/// use durahash_remote::{BlockingMap, Options};
/// let local = Local::anonymous(&LocalOptions::default())?;
/// let map = BlockingMap::create(local.client()?, Options::default())?;
/// map.put(b"key", b"value")?;
/// assert_eq!(map.get(b"key")?.as_deref(), Some(&b"value"[..]));
/// let other = BlockingMap::open(local.client()?, Options::default())?;
/// assert!(!other.insert_new(b"key", b"another")?);
/// map.delete(b"key")?;
/// assert_eq!(map.get(b"key")?, None);
/// # Ok::<(), durahash_remote::Error>(())
/// ```
pub struct BlockingMap<F: Fabric + Send>(Arc<Served<F>>);

impl<F: Fabric + Send> Clone for BlockingMap<F> {
    fn clone(&self) -> Self {
        BlockingMap(Arc::clone(&self.0))
    }
}

macro_rules! forward {
    ($($method:ident($($slice:ident: $type:ty),*) -> $value:ty;)*) => {
        impl<F: Fabric + Send> BlockingMap<F> {$(
            #[doc = concat!("As [`RemoteMap::", stringify!($method), "`].")]
            ///
            /// # Errors
            /// The same.
            pub fn $method(&self, $($slice: &$type),*) -> Result<$value> {
                $(let $slice = $slice.to_vec();)*
                self.call(move |map| async move { map.$method($(&$slice),*).await })
            }
        )*}
    };
}
methods!(forward);

impl<F: Fabric + Send> BlockingMap<F> {
    /// As [`RemoteMap::create`].
    ///
    /// # Errors
    /// The same, and [`Io`](durahash_media::ErrorKind::Io) when no thread can be started.
    pub fn create(fabric: F, options: Options) -> Result<Self> {
        Self::start(move || RemoteMap::create(fabric, options))
    }

    /// As [`RemoteMap::open`].
    ///
    /// # Errors
    /// The same, and [`Io`](durahash_media::ErrorKind::Io) when no thread can be started.
    pub fn open(fabric: F, options: Options) -> Result<Self> {
        Self::start(move || RemoteMap::open(fabric, options))
    }

    fn start<O>(open: impl FnOnce() -> O + Send + 'static) -> Result<Self>
    where
        O: Future<Output = Result<RemoteMap<F>>>,
    {
        let mut served = Starting::new(open)?.wait()?;
        // The row is free again when the last clone is gone.
        served.joins = true;
        Ok(BlockingMap(Arc::new(served)))
    }

    /// Runs `f` on the thread and waits for its result.
    fn call<T, O>(&self, f: impl FnOnce(RemoteMap<F>) -> O + Send + 'static) -> T
    where
        T: Send + 'static,
        O: Future<Output = T> + 'static,
    {
        answer(self.0.wait(self.0.send(f)))
    }

    /// As [`RemoteMap::compare_set`].
    ///
    /// # Errors
    /// The same.
    pub fn compare_set(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Compared> {
        let (key, expected, new) =
            (key.to_vec(), expected.map(<[u8]>::to_vec), new.map(<[u8]>::to_vec));
        self.call(move |map| async move {
            map.compare_set(&key, expected.as_deref(), new.as_deref()).await
        })
    }

    /// As [`RemoteMap::update`]. `f` runs on the map's thread, and must not call this map.
    ///
    /// # Errors
    /// The same.
    pub fn update(
        &self,
        key: &[u8],
        f: impl FnMut(Option<&[u8]>) -> Change + Send + 'static,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.to_vec();
        self.call(move |map| async move { map.update(&key, f).await })
    }

    /// As [`RemoteMap::fetch_add`].
    ///
    /// # Errors
    /// The same.
    pub fn fetch_add(&self, key: &[u8], by: u64) -> Result<u64> {
        let key = key.to_vec();
        self.call(move |map| async move { map.fetch_add(&key, by).await })
    }

    /// Calls `f` for all keys and values, in the order of [`RemoteMap::pages`]. `f` runs on the map's thread and must
    /// not call this map. The first error ends the iteration.
    ///
    /// # Errors
    /// The same.
    pub fn each(&self, mut f: impl FnMut(Vec<u8>, Vec<u8>) + Send + 'static) -> Result<()> {
        self.call(move |map| async move {
            let mut pages = map.pages();
            while let Some(page) = pages.next().await? {
                page.into_iter().for_each(|(key, value)| f(key, value));
            }
            Ok(())
        })
    }

    /// As [`RemoteMap::pages`].
    ///
    /// # Errors
    /// See [`BlockingPages::next`].
    #[must_use]
    pub fn pages(&self) -> BlockingPages<F> {
        BlockingPages { map: self.clone(), cursor: Cursor::START }
    }

    /// As [`RemoteMap::close`]: the client leaves now, and later calls of other clones fail.
    /// Dropping the last clone does the same without reporting errors; the other clients evict one that could
    /// not give up its row.
    ///
    /// # Errors
    /// The same.
    pub fn close(self) -> Result<()> {
        self.call(|map| async move { map.close().await })
    }

    /// As [`RemoteMap::stats`].
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.call(|map| async move { map.stats() })
    }

    /// As [`RemoteMap::counts`].
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.call(|map| async move { map.counts() })
    }
}

/// The keys and values of a map, from [`BlockingMap::pages`].
pub struct BlockingPages<F: Fabric + Send> {
    map: BlockingMap<F>,
    cursor: Cursor,
}

impl<F: Fabric + Send> BlockingPages<F> {
    /// As [`Pages::next`](crate::Pages::next).
    ///
    /// # Errors
    /// The same.
    #[allow(clippy::should_implement_trait, reason = "as `Pages::next`, it tells errors")]
    pub fn next(&mut self) -> Result<Option<Vec<Pair>>> {
        let cursor = self.cursor.lend();
        let page;
        (page, self.cursor) = self.map.call(move |map| async move {
            let mut pages = Pages { map, cursor };
            (pages.next().await, pages.cursor)
        });
        page
    }
}

//! The map for tasks, of any runtime.

use std::sync::Arc;

use durahash_media::Result;

use crate::fabric::{Counts, Fabric};
use crate::map::{Compared, Cursor, Pages, Pair, RemoteMap};
use crate::sep::{Change, Options, Report, Stats, Summary};
use crate::served::{Served, Starting, answer, methods};

/// A client of an index in remote memory for any number of tasks, of tokio or another runtime. All futures are `Send`,
/// and wait without a thread of the runtime.
///
/// As [`BlockingMap`](crate::BlockingMap), which see for concurrency, durability, lost nodes and panics, it has a thread of its own that runs the
/// operations, many at once, and sends heartbeats. Clones are the same client. It leaves by [`close`](Self::close), or some time after
/// the last clone was dropped.
///
/// **Dropped futures.** The thread goes on with an operation whose future was dropped: it takes effect.
///
/// ```
/// use durahash_remote::fabric::{Local, LocalOptions};
/// use durahash_remote::{Options, TaskMap};
/// let local = Local::anonymous(&LocalOptions::default())?;
/// let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
/// runtime.block_on(async {
///     let map = TaskMap::create(local.client()?, Options::default()).await?;
///     let theirs = map.clone();
///     tokio::spawn(async move { theirs.put(b"key", b"value").await }).await.unwrap()?;
///     assert_eq!(map.get(b"key").await?.as_deref(), Some(&b"value"[..]));
///     assert_eq!(map.fetch_add(b"hits", 2).await?, 0);
///     assert_eq!(map.fetch_add(b"hits", 1).await?, 2);
///     map.close().await
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TaskMap<F: Fabric + Send>(Arc<Served<F>>);

impl<F: Fabric + Send> Clone for TaskMap<F> {
    fn clone(&self) -> Self {
        TaskMap(Arc::clone(&self.0))
    }
}

macro_rules! forward {
    ($($method:ident($($slice:ident: $type:ty),*) -> $value:ty;)*) => {
        impl<F: Fabric + Send> TaskMap<F> {$(
            #[doc = concat!("As [`RemoteMap::", stringify!($method), "`].")]
            ///
            /// # Errors
            /// The same.
            pub async fn $method(&self, $($slice: &$type),*) -> Result<$value> {
                $(let $slice = $slice.to_vec();)*
                self.call(move |map| async move { map.$method($(&$slice),*).await }).await
            }
        )*}
    };
}
methods!(forward);

impl<F: Fabric + Send> TaskMap<F> {
    /// As [`RemoteMap::create`].
    ///
    /// # Errors
    /// The same, and [`Io`](durahash_media::ErrorKind::Io) when no thread can be started.
    pub async fn create(fabric: F, options: Options) -> Result<Self> {
        let starting = Starting::new(move || RemoteMap::create(fabric, options))?;
        Ok(TaskMap(Arc::new(starting.ready().await?)))
    }

    /// As [`RemoteMap::open`].
    ///
    /// # Errors
    /// The same, and [`Io`](durahash_media::ErrorKind::Io) when no thread can be started.
    pub async fn open(fabric: F, options: Options) -> Result<Self> {
        let starting = Starting::new(move || RemoteMap::open(fabric, options))?;
        Ok(TaskMap(Arc::new(starting.ready().await?)))
    }

    /// Runs `f` on the thread.
    async fn call<T, O>(&self, f: impl FnOnce(RemoteMap<F>) -> O + Send + 'static) -> T
    where
        T: Send + 'static,
        O: Future<Output = T> + 'static,
    {
        answer(self.0.send(f).await)
    }

    /// As [`RemoteMap::compare_set`].
    ///
    /// # Errors
    /// The same.
    pub async fn compare_set(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Compared> {
        let (key, expected, new) =
            (key.to_vec(), expected.map(<[u8]>::to_vec), new.map(<[u8]>::to_vec));
        let set = move |map: RemoteMap<F>| async move {
            map.compare_set(&key, expected.as_deref(), new.as_deref()).await
        };
        self.call(set).await
    }

    /// As [`RemoteMap::update`]. `f` runs on the map's thread, and must not wait for this map.
    ///
    /// # Errors
    /// The same.
    pub async fn update(
        &self,
        key: &[u8],
        f: impl FnMut(Option<&[u8]>) -> Change + Send + 'static,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.to_vec();
        self.call(move |map| async move { map.update(&key, f).await }).await
    }

    /// As [`RemoteMap::fetch_add`].
    ///
    /// # Errors
    /// The same.
    pub async fn fetch_add(&self, key: &[u8], by: u64) -> Result<u64> {
        let key = key.to_vec();
        self.call(move |map| async move { map.fetch_add(&key, by).await }).await
    }

    /// As [`RemoteMap::pages`].
    #[must_use]
    pub fn pages(&self) -> TaskPages<F> {
        TaskPages { map: self.clone(), cursor: Cursor::START }
    }

    /// As [`RemoteMap::close`]: the client leaves now, and later calls of other clones fail.
    ///
    /// # Errors
    /// The same.
    pub async fn close(self) -> Result<()> {
        self.call(|map| async move { map.close().await }).await
    }

    /// As [`RemoteMap::stats`].
    pub async fn stats(&self) -> Stats {
        self.call(|map| async move { map.stats() }).await
    }

    /// As [`RemoteMap::counts`].
    pub async fn counts(&self) -> Counts {
        self.call(|map| async move { map.counts() }).await
    }
}

/// The keys and values of a map, from [`TaskMap::pages`].
pub struct TaskPages<F: Fabric + Send> {
    map: TaskMap<F>,
    cursor: Cursor,
}

impl<F: Fabric + Send> TaskPages<F> {
    /// As [`Pages::next`](crate::Pages::next). After a future that was dropped the same segment comes again.
    ///
    /// # Errors
    /// The same.
    pub async fn next(&mut self) -> Result<Option<Vec<Pair>>> {
        let cursor = self.cursor.lend();
        let page;
        (page, self.cursor) = self
            .map
            .call(move |map| async move {
                let mut pages = Pages { map, cursor };
                (pages.next().await, pages.cursor)
            })
            .await;
        page
    }
}

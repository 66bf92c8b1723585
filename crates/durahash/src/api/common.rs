//! The methods that all four public types have, with the same documentation except for the examples; the
//! traits of those with types.

use durahash_media::Result;

/// Pairs of an iterator that are written at once.
const PAIRS_AT_ONCE: usize = 1024;

/// Does `put` with all pairs, some at a time.
pub(super) fn in_pieces<P>(
    pairs: impl IntoIterator<Item = P>,
    put: impl Fn(&[P]) -> Result<()>,
) -> Result<()> {
    let mut pairs = pairs.into_iter();
    loop {
        let some: Vec<P> = pairs.by_ref().take(PAIRS_AT_ONCE).collect();
        if some.is_empty() {
            return Ok(());
        }
        put(&some)?;
    }
}

/// Does `remove` with the pairs that `keep` refuses, some at a time; returns how many it removed.
pub(super) fn remove_unless<P>(
    pairs: impl Iterator<Item = Result<P>>,
    mut keep: impl FnMut(&P) -> bool,
    remove: impl Fn(&[P]) -> Result<u64>,
) -> Result<u64> {
    let (mut removed, mut unwanted) = (0, Vec::new());
    for pair in pairs {
        let pair = pair?;
        if !keep(&pair) {
            unwanted.push(pair);
        }
        if unwanted.len() == PAIRS_AT_ONCE {
            removed += remove(&unwanted)?;
            unwanted.clear();
        }
    }
    Ok(removed + remove(&unwanted)?)
}

/// The methods of every handle. `entries`: the word for entries; `example`: makes a `map`; `put`: puts
/// something into it.
macro_rules! common_methods {
    (entries: $entries:literal, example: $example:expr, put: $put:literal) => {
        #[doc = concat!("Returns the number of ", $entries, ".")]
        ///
        /// **Concurrency.** Exact while there are no writers. After the pool was not closed, the
        /// first call may count, which takes time in proportion to the pool.
        ///
        /// # Errors
        /// [`Corrupt`](crate::ErrorKind::Corrupt) where the pool is damaged; [`Io`](crate::ErrorKind::Io) once its disk has failed;
        /// [`WriterGone`](crate::ErrorKind::WriterGone) of a [reader](crate::Options::readers) whose writer has gone.
        ///
        /// ```
        #[doc = $example]
        #[doc = $put]
        /// assert_eq!(map.len()?, 1);
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub fn len(&self) -> Result<u64> {
            self.handle.run(|engine| engine.len())
        }

        /// True if there is no entry.
        ///
        /// **Concurrency.** Exact while there are no writers.
        ///
        /// # Errors
        /// As [`len`](Self::len).
        ///
        /// ```
        #[doc = $example]
        /// assert!(map.is_empty()?);
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub fn is_empty(&self) -> Result<bool> {
            self.handle.run(|engine| engine.index.is_empty())
        }

        /// Makes room for so many more entries, so that hardly any of their inserts splits anything. It takes the
        /// space of slots now; records take theirs when they are written. Removals near empty buckets give
        /// it back. Rewo-Hash does nothing: its tables grow in small pieces beside the inserts.
        ///
        /// **Concurrency.** Any thread may call this at any time.
        ///
        /// # Errors
        /// [`Full`](crate::ErrorKind::Full), where a part of the room may be there;
        /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Poisoned`](crate::ErrorKind::Poisoned),
        /// [`Corrupt`](crate::ErrorKind::Corrupt).
        ///
        /// ```
        #[doc = $example]
        /// map.reserve(1000)?;
        #[doc = $put]
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub fn reserve(&self, additional: u64) -> Result<()> {
            self.handle.run(|engine| engine.reserve(additional))
        }

        /// Removes everything.
        ///
        /// **Durability.** `Ok` means that it stays away after a crash. After a crash before, or an
        /// error, some keys may be left.
        /// **Concurrency.** Removes every key that is there from its call to its return; one that
        /// comes meanwhile may stay.
        ///
        /// # Errors
        /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Poisoned`](crate::ErrorKind::Poisoned),
        /// [`Corrupt`](crate::ErrorKind::Corrupt) where the pool is damaged; entries that are damaged
        /// are removed. A full pool is no reason to fail.
        ///
        /// ```
        #[doc = $example]
        #[doc = $put]
        /// map.clear()?;
        /// assert!(map.is_empty()?);
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub fn clear(&self) -> Result<()> {
            self.handle.run(|engine| engine.clear())
        }

        /// Puts everything that has returned on the disk, whatever the pool's
        /// [`SyncMode`](crate::SyncMode).
        ///
        /// **Durability.** In the mode `Interval` all of it survives the loss of power then. In the mode
        /// `Process` it is on the disk, too, but a pool that was open when the power went is refused all
        /// the same.
        ///
        /// # Errors
        /// [`Io`](crate::ErrorKind::Io) with the system's error; the pool takes no more writes then.
        /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Poisoned`](crate::ErrorKind::Poisoned).
        ///
        /// ```
        #[doc = $example]
        #[doc = $put]
        /// map.sync()?;
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub fn sync(&self) -> Result<()> {
            self.handle.run(|engine| engine.sync())
        }

        /// Writes all maps of the pool to the new file `to`, as a closed pool, while operations go on: a backup. It opens in
        /// any mode, on any machine. The owner alone may open the file.
        ///
        /// With a [live image](crate::Options::live_image) the backup is the pool as it was at one moment during this
        /// call: what had returned before the call is in it, and of what goes on meanwhile each operation or batch as a
        /// whole or not at all. Writers wait for it for a moment, once. It takes as much space as the pool, and for
        /// its time what is written to the pool's log meanwhile. At last the copy is opened once, in this process, so its
        /// disk is to be one for pools: the process ends where a page of it cannot be read (SIGBUS).
        ///
        /// A reader beside a process that writes a pool with a live image makes such a copy, too, for which writers do not wait: it
        /// waits until that process has taken two snapshots, or has nothing to take one of.
        ///
        /// A pool that was closed and is [open for reading](crate::Options::read_only) is copied as it is. Any other (in
        /// memory, behind a log of lines, in the mode `Process`, or on DAX) is copied entry by entry: each as it was at
        /// some moment during this call, those of one batch at different ones.
        ///
        /// **Durability.** `to` has its name when the whole backup is on the disk, and not before. Nothing else is left by a
        /// failure or a kill.
        /// **Concurrency.** Any thread may call this at any time. Of several backups by handles of one
        /// process, of a pool with a live image, one is made after the other; those of readers are made at once.
        ///
        /// # Errors
        /// [`Exists`](crate::ErrorKind::Exists) where `to` is there; [`Full`](crate::ErrorKind::Full) where it does not fit;
        /// [`Corrupt`](crate::ErrorKind::Corrupt) where a block of the pool is damaged; [`Io`](crate::ErrorKind::Io) with the
        /// system's error, and where more is written to the pool than the disk of `to` takes. The pool itself stays as it is.
        /// The same of a reader whose writer has written over its log before it was read, four times over, or has taken no snapshot for
        /// two minutes, though something waits for one. [`WriterGone`](crate::ErrorKind::WriterGone) of a reader whose writer closes the pool, or dies, meanwhile.
        /// [`Options`](crate::ErrorKind::Options) in a forked child, and for a suspect pool without a live image.
        ///
        /// ```
        #[doc = $example]
        #[doc = $put]
        /// # let dir = tempfile::tempdir().unwrap();
        /// # let to = dir.path().join("backup.pool");
        /// map.backup(&to)?;
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub fn backup(&self, to: impl AsRef<Path>) -> Result<()> {
            let backup = self.handle.pool().backup(to.as_ref(), &mut |_, _| ());
            backup.map_err(|e| e.at_path(self.path()))
        }

        /// Figures about the entries, their pool and its medium.
        #[doc = concat!("[`keys`](Stats::keys) is the number of ", $entries, ".")]
        ///
        /// **Concurrency.** Exact while there are no writers.
        ///
        /// # Errors
        /// As [`len`](Self::len).
        ///
        /// ```
        #[doc = $example]
        #[doc = $put]
        /// assert_eq!(map.stats()?.keys, 1);
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub fn stats(&self) -> Result<Stats> {
            self.handle.run(|engine| {
                // In this order: the count of entries may repair units on its way.
                let index = engine.index.stats();
                engine.figures(engine.len()?, index)
            })
        }

        /// Bytes of the pool in huge pages, where the system tells. To find out it walks all page tables of the
        /// process, which takes milliseconds for each gibibyte in use: not for a service that asks every second.
        ///
        /// ```
        #[doc = $example]
        /// assert!(map.huge_bytes().is_some());
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub fn huge_bytes(&self) -> Option<u64> {
            self.handle.engine.store.huge_bytes()
        }

        /// Verifies every invariant of the design, of the pool and of the records, calls `found` with each
        /// violation, and changes nothing.
        ///
        /// **Concurrency.** There must be no writers: a change under way looks like damage.
        ///
        /// # Errors
        /// Errors that keep the check from being done.
        ///
        /// ```
        #[doc = $example]
        #[doc = $put]
        /// map.check(&mut |finding| panic!("{finding:?}"))?;
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
            self.handle.run(|engine| engine.check(found, &mut |_, _| ()))
        }

        /// Does a piece of background work, and returns true if more is waiting.
        ///
        /// There are four kinds of it: finding free record space again after a pool was not closed;
        /// making REH's state in DRAM, and finding its free buckets; repairing segments that a crash may have
        /// left half changed, where the design is ESH; and going on with a resize, where it is Rewo-Hash.
        /// Calling this is never needed for correctness: operations do the work that they rely on themselves. It
        /// helps a pool without writers.
        ///
        /// **Concurrency.** Any thread may call this at any time.
        ///
        /// # Errors
        /// Errors that the work meets.
        ///
        /// ```
        #[doc = $example]
        /// while map.step()? {}
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub fn step(&self) -> Result<bool> {
            self.handle.run(|engine| engine.step())
        }

        /// The design that the pool was made as.
        ///
        /// ```
        #[doc = $example]
        /// println!("design: {}", map.design());
        /// # Ok::<(), durahash::Error>(())
        /// ```
        #[must_use]
        pub fn design(&self) -> Design {
            self.handle.engine.design
        }

        /// The crashes that an acknowledged operation survives.
        ///
        /// ```
        #[doc = $example]
        /// println!("survives: {}", map.durability());
        /// # Ok::<(), durahash::Error>(())
        /// ```
        #[must_use]
        pub fn durability(&self) -> Durability {
            self.handle.engine.store.durability()
        }

        /// True if a change may wait for the disk at present: in the mode `Strict` always, in `Interval` where the log
        /// is nearly full, as a disk that is slower than the writers makes it. It costs a look at a word, and may have
        /// changed when the caller looks at it: for programs that make a change elsewhere then, as
        /// `spawn_blocking` does. A change may always wait for a page of the file.
        ///
        /// ```
        #[doc = $example]
        /// assert!(!map.may_wait(), "memory does not");
        /// # Ok::<(), durahash::Error>(())
        /// ```
        #[must_use]
        #[inline]
        pub fn may_wait(&self) -> bool {
            self.handle.engine.store.may_wait()
        }

        /// The pool's file; `None` in memory.
        ///
        /// ```
        #[doc = $example]
        /// println!("file: {:?}", map.path());
        /// # Ok::<(), durahash::Error>(())
        /// ```
        #[must_use]
        pub fn path(&self) -> Option<&Path> {
            self.handle.engine.store.path()
        }

        /// Closes the pool, if this is the last handle; dropping that does the same, but cannot tell
        /// of an error. While clones or iterators are left, the pool stays open.
        ///
        /// A pool is that of its process. In a forked child nothing may be done with it, as the child does not
        /// have the file's memory, but to drop it; closing it is an error.
        ///
        /// **Durability.** A pool that was closed opens without recovery, and needs no more care than
        /// any file: it may be copied, and loss of power does not harm it.
        ///
        /// # Errors
        /// [`Io`](crate::ErrorKind::Io) with the system's error about writing to the disk;
        /// [`Poisoned`](crate::ErrorKind::Poisoned). The next open recovers then.
        /// [`Options`](crate::ErrorKind::Options) in a forked child.
        ///
        /// ```
        #[doc = $example]
        /// map.close()?;
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub fn close(self) -> Result<()> {
            self.handle.close()
        }
    };
}

/// The traits of a type of maps with types.
macro_rules! typed_traits {
    ($Map:ident, $Iter:ident) => {
        // A panic in a closure of the caller leaves the pool as it is: no lock is held, or it goes on when the
        // lock was released.
        impl<K: Data + ?Sized, V: Data + ?Sized> UnwindSafe for $Map<K, V> {}
        impl<K: Data + ?Sized, V: Data + ?Sized> RefUnwindSafe for $Map<K, V> {}

        impl<K: Data + ?Sized, V: Data + ?Sized> Clone for $Map<K, V> {
            fn clone(&self) -> Self {
                $Map { handle: self.handle.clone(), types: PhantomData }
            }
        }

        impl<K: Data + ?Sized, V: Data + ?Sized> fmt::Debug for $Map<K, V> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.handle.engine.describe(stringify!($Map), f)
            }
        }

        impl<K: Data + ?Sized, V: Data + ?Sized> IntoIterator for &$Map<K, V> {
            type Item = Result<(K::Owned, V::Owned)>;
            type IntoIter = $Iter<K, V>;

            fn into_iter(self) -> $Iter<K, V> {
                self.iter()
            }
        }
    };
}

pub(crate) use {common_methods, typed_traits};

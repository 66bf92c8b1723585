//! What a cache tells its policy, and asks of it.

/// An entry that is to go.
#[derive(Clone, Copy, Debug)]
pub struct Victim {
    /// Its hash.
    pub hash: u64,
    /// Two that go soon, if no other removes them: the one that goes first, and one that was chosen just now.
    pub next: [Option<u64>; 2],
}

/// The entries of a cache, in the order in which they are to go. All methods may be called at the same time.
///
/// Of each hash the policy counts the entries: one more by `inserted`, one less by `removed` and by `victim`. The calls
/// of threads may come in another order than what they tell of. A victim that is no longer there when the caller comes
/// to remove it was removed by another thread, whose `removed` came or will come: the caller makes up for it by
/// `inserted`.
pub trait Evict: Send + Sync {
    /// Starts to fetch what the next call about this hash reads.
    fn fetch(&self, hash: u64);

    /// A lookup found the entry. Takes no lock, and stores nothing where nothing changes.
    fn hit(&self, hash: u64);

    /// An entry is new. A new value for a key that is there is a `hit`.
    fn inserted(&self, hash: u64);

    /// An entry went in another way than as a victim.
    fn removed(&self, hash: u64);

    /// The next to go, which the policy forgets by this call; none if it knows no entry.
    fn victim(&self) -> Option<u64> {
        self.next_victim().map(|victim| victim.hash)
    }

    /// The same, with those that are chosen already.
    fn next_victim(&self) -> Option<Victim>;

    /// What a close saves of part number `part` of the entries, none behind the last part: a word for each entry, those that
    /// went soonest first, as [`restore`](Self::restore) takes it. Changes nothing but what was removed already.
    fn save(&self, part: usize) -> Option<Vec<u64>>;

    /// Begins with the entries of these hashes: those that `saved` has in its order, with what is known of them, then the others.
    /// What `saved` has beside them is as good as not there.
    fn restore(&self, entries: Vec<u64>, saved: &[u64]);

    /// Bytes of DRAM.
    fn bytes(&self) -> u64;
}

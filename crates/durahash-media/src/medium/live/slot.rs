//! The threads that store to a live image, and their lists.
//!
//! A thread has a slot in each pool that it stores to: whether it is inside, and four lists, of the lines that it marked
//! in an epoch, and of copies that it made of lines before it changed them, each for odd and for even epochs. Only the
//! thread appends. The thread that makes a snapshot reads a list as far as its length says, and empties it when no thread
//! appends to lists of that parity. A thread that ends leaves its slot, with what the lists hold, to one that comes.

use std::cell::{Cell, RefCell};
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::{Arc, Mutex, Weak};

use crate::medium::process::Process;
use crate::primitive::{AtomicU64, Ordering, lock};

/// Words of an entry of a list of lines, and of one of copies: the line's offset, and the line.
pub(super) const LINE_ENTRY: usize = 1;
pub(super) const COPY_ENTRY: usize = 9;

/// Entries of the first chunk of a list; each further one has twice as many.
const FIRST_ENTRIES: u64 = if cfg!(loom) { 1 } else { 64 };
/// Chunks of a list: 2^40 entries.
const CHUNKS: usize = 34;

/// A list that grows and stays where it is, of entries of `N` words.
pub(super) struct List<const N: usize> {
    chunks: [AtomicPtr<AtomicU64>; CHUNKS],
    len: AtomicU64,
}

/// The chunk of an entry, and the entry's place in it.
fn place(i: u64) -> (usize, u64) {
    let chunk = (i / FIRST_ENTRIES + 1).ilog2();
    (chunk as usize, i - FIRST_ENTRIES * ((1 << chunk) - 1))
}

fn entries(chunk: usize) -> u64 {
    FIRST_ENTRIES << chunk
}

impl<const N: usize> List<N> {
    fn new() -> Self {
        List { chunks: [const { AtomicPtr::new(null_mut()) }; CHUNKS], len: AtomicU64::new(0) }
    }

    /// Entries that can be read.
    pub(super) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Makes room for `more` entries, by the thread that has the slot.
    pub(super) fn reserve(&self, more: u64) {
        let (last, _) = place(self.len.load(Ordering::Relaxed) + more.max(1) - 1);
        for (k, chunk) in self.chunks[..=last].iter().enumerate().rev() {
            if !chunk.load(Ordering::Relaxed).is_null() {
                break;
            }
            let words = (0..entries(k) * N as u64).map(|_| AtomicU64::new(0)).collect::<Box<[_]>>();
            chunk.store(Box::into_raw(words).cast(), Ordering::Release);
        }
    }

    /// True if `more` entries have room, for the thread that has the slot.
    pub(super) fn has_room(&self, more: u64) -> bool {
        let (last, _) = place(self.len.load(Ordering::Relaxed) + more.max(1) - 1);
        !self.chunks[last].load(Ordering::Relaxed).is_null()
    }

    /// Appends an entry, for which there is room, by the thread that has the slot.
    pub(super) fn push(&self, entry: [u64; N]) {
        let len = self.len.load(Ordering::Relaxed);
        for (word, v) in self.entry(len).iter().zip(entry) {
            word.store(v, Ordering::Relaxed);
        }
        self.len.store(len + 1, Ordering::Release);
    }

    fn entry(&self, i: u64) -> &[AtomicU64] {
        let (chunk, at) = place(i);
        let base = self.chunks[chunk].load(Ordering::Acquire);
        debug_assert!(!base.is_null());
        // SAFETY: a chunk that is there has so many entries, `at` among them, and is freed with the list only. An entry
        // below the length lies in one that was there before the length was stored.
        unsafe { std::slice::from_raw_parts(base.add(at as usize * N), N) }
    }

    /// Entry `i`, which is below a length that was read.
    pub(super) fn get(&self, i: u64) -> [u64; N] {
        let entry = self.entry(i);
        std::array::from_fn(|k| entry[k].load(Ordering::Relaxed))
    }

    /// Empties it, while nobody appends.
    pub(super) fn clear(&self) {
        self.len.store(0, Ordering::Release);
    }
}

impl<const N: usize> Drop for List<N> {
    fn drop(&mut self) {
        for (k, chunk) in self.chunks.iter_mut().enumerate() {
            let base = *chunk.get_mut();
            if !base.is_null() {
                let words = std::ptr::slice_from_raw_parts_mut(base, entries(k) as usize * N);
                // SAFETY: made by `reserve` with this length, and nobody reads it any more.
                drop(unsafe { Box::from_raw(words) });
            }
        }
    }
}

/// What a thread has in a pool; in lines of its own.
#[repr(align(128))]
pub(super) struct Slot {
    /// One while the thread is inside.
    pub(super) inside: AtomicU64,
    /// Marks that it raised from zero, in all. Stored to by the thread alone.
    pub(super) raised: AtomicU64,
    /// It looks whether there are too many when it has raised so many. Of the thread alone.
    pub(super) looks_at: AtomicU64,
    /// Lines marked in odd and in even epochs.
    pub(super) dirty: [List<LINE_ENTRY>; 2],
    /// Lines as they were before they were changed in such an epoch.
    pub(super) saves: [List<COPY_ENTRY>; 2],
}

impl Slot {
    fn new() -> Self {
        Slot {
            inside: AtomicU64::new(0),
            raised: AtomicU64::new(0),
            looks_at: AtomicU64::new(0),
            dirty: [List::new(), List::new()],
            saves: [List::new(), List::new()],
        }
    }
}

impl Slot {
    /// So many marks were raised from zero, by the thread that has the slot.
    pub(super) fn count_raised(&self, marks: u64) {
        self.raised.store(self.raised.load(Ordering::Relaxed) + marks, Ordering::Relaxed);
    }
}

/// The slots of a pool.
pub(super) struct Slots(Arc<Mutex<Table>>);

struct Table {
    /// Tells this pool from all others.
    id: u64,
    all: Vec<Arc<Slot>>,
    free: Vec<Arc<Slot>>,
}

/// What a thread has in a pool, and where to give it back.
struct Own {
    id: u64,
    slot: Arc<Slot>,
    table: Weak<Mutex<Table>>,
    process: Process,
}

/// A thread's slots.
struct All(RefCell<Vec<Own>>);

impl Drop for All {
    fn drop(&mut self) {
        LAST.set((0, std::ptr::null()));
        for own in self.0.get_mut().drain(..) {
            // In a forked child another thread of the parent may have held the lock.
            if own.process == Process::own()
                && let Some(table) = own.table.upgrade()
            {
                lock(&table).free.push(own.slot);
            }
        }
    }
}

thread_local! {
    /// The pool to which this thread stored last, and its slot there.
    static LAST: Cell<(u64, *const Slot)> = const { Cell::new((0, std::ptr::null())) };
    static ALL: All = const { All(RefCell::new(Vec::new())) };
}

impl Slots {
    pub(super) fn new() -> Self {
        static IDS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        Slots(Arc::new(Mutex::new(Table { id, all: Vec::new(), free: Vec::new() })))
    }

    /// Tells these slots from those of all other pools; never zero.
    pub(super) fn id(&self) -> u64 {
        lock(&self.0).id
    }

    /// A slot that no other thread has.
    pub(super) fn take(&self) -> Arc<Slot> {
        let mut table = lock(&self.0);
        table.free.pop().unwrap_or_else(|| {
            let slot = Arc::new(Slot::new());
            table.all.push(Arc::clone(&slot));
            slot
        })
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn give_back(&self, slot: Arc<Slot>) {
        lock(&self.0).free.push(slot);
    }

    /// The slot of this thread in the pool with this id, which is that of these slots.
    #[inline(always)]
    pub(super) fn own(&self, id: u64) -> &Slot {
        let (last, slot) = LAST.get();
        if last == id {
            // SAFETY: `find` has noted it for these slots, whose table holds it as long as they live. Another table
            // has another id, and never this one's.
            return unsafe { &*slot };
        }
        self.find(id)
    }

    #[cold]
    #[inline(never)]
    fn find(&self, id: u64) -> &Slot {
        let found = ALL.try_with(|all| {
            let mut all = all.0.borrow_mut();
            if let Some(own) = all.iter().find(|own| own.id == id) {
                return Arc::as_ptr(&own.slot);
            }
            // Of pools that are gone.
            all.retain(|own| own.table.strong_count() > 0);
            let slot = self.take();
            let at = Arc::as_ptr(&slot);
            let (table, process) = (Arc::downgrade(&self.0), Process::own());
            all.push(Own { id, slot, table, process });
            at
        });
        // A thread that is about to end keeps what it takes now.
        let slot = found.unwrap_or_else(|_| Arc::as_ptr(&self.take()));
        LAST.set((id, slot));
        // SAFETY: the table holds every slot that was ever taken of it, as long as `self` lives.
        unsafe { &*slot }
    }

    pub(super) fn all_outside(&self) -> bool {
        lock(&self.0).all.iter().all(|slot| slot.inside.load(Ordering::Acquire) == 0)
    }

    /// All there are now.
    pub(super) fn all(&self) -> Vec<Arc<Slot>> {
        lock(&self.0).all.clone()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_what_was_appended_and_begins_again_when_it_is_emptied() {
        let list = List::<COPY_ENTRY>::new();
        for round in 0..3 {
            for i in 0..1000_u64 {
                list.reserve(65);
                list.push(std::array::from_fn(|k| round + i * 9 + k as u64));
            }
            assert_eq!(list.len(), 1000);
            assert!((0..1000).all(|i| list.get(i)[8] == round + i * 9 + 8));
            list.clear();
        }
        assert_eq!([0, 63, 64, 191, 192].map(place), [(0, 0), (0, 63), (1, 0), (1, 127), (2, 0)]);
    }

    #[test]
    fn a_thread_has_one_slot_in_each_pool_and_leaves_it_to_the_next() {
        let (one, other) = (Slots::new(), Slots::new());
        let in_thread = |reserve: bool| {
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    let slot = one.own(one.id());
                    assert!(!std::ptr::eq(slot, other.own(other.id())));
                    assert!(std::ptr::eq(slot, one.own(one.id())));
                    if reserve {
                        slot.dirty[0].reserve(1);
                        slot.dirty[0].push([7]);
                    }
                    std::ptr::from_ref(slot).addr()
                });
                thread.join().unwrap()
            })
        };
        assert_eq!(in_thread(true), in_thread(false));
        assert_eq!((one.all().len(), one.all()[0].dirty[0].get(0)), (1, [7]));
    }

    /// Also while others look at all of them: a slot that was lost would be looked at for ever.
    #[test]
    fn threads_that_come_and_go_share_a_slot() {
        let (slots, stop) = (Slots::new(), std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert!(slots.all_outside());
                }
            });
            for _ in 0..if cfg!(miri) { 10 } else { 300 } {
                let own = || assert_eq!(slots.own(slots.id()).dirty[0].len(), 0);
                scope.spawn(own).join().unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(slots.all().len(), 1);
    }
}

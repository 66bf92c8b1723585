//! Every state that a crash may leave, from a trace and a model of persistence.
//!
//! [`explore`](Explorer::explore) walks a trace and keeps, beside the durable words, the stores that
//! are not durable yet, in *cells*: stores of a cell keep their order on the way to the medium; it is a line
//! under [`Model::X86`], a word under [`Model::Word`] and for non-temporal stores. Of each cell any
//! prefix may have reached the medium at a crash, whatever the others did. A flush marks the
//! prefix that a cell has at that moment; a fence of the same thread makes what that thread marked
//! durable.
//!
//! States are visited at *points*: before each step that makes something durable, after each step
//! that promises something to the user (an operation became visible or was acknowledged), and at
//! the end. A store that may be lost or kept between two points may still be lost or kept at the second, so
//! the points miss nothing. Going from one state to the next applies or undoes single stores (a
//! Gray code over the cells' prefixes) and updates a hash of the image by exclusive or, so a state
//! that was seen before costs a few nanoseconds and no copy.

use std::ops::ControlFlow;

use durahash_media::sim::{Action, Step};

use crate::script::{Rng, mix};

/// Words of a line.
const LINE_WORDS: u32 = 8;
/// Up to this many combinations at a point are all visited.
const ALL: u64 = 20_000;
/// Where there are more, so many random ones are, beside the extreme ones.
const SAMPLES: u64 = 4_000;

/// The unfenced stores that may survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Of each line a prefix of its stores; a locked instruction orders flushes as a fence does.
    /// Of non-temporal stores any subset.
    X86,
    /// Of each word a prefix of its stores.
    Word,
    /// Exactly the stores up to some instant: the death of a process, or power failure where caches
    /// are flushed by the machine.
    Program,
}

impl Model {
    /// True if media under this model keep the order of stores to one line.
    #[must_use]
    pub fn same_line_order(self) -> bool {
        self != Model::Word
    }

    /// All models.
    pub const ALL: [Model; 3] = [Model::X86, Model::Word, Model::Program];

    /// The name in commands.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Model::X86 => "x86",
            Model::Word => "word",
            Model::Program => "program",
        }
    }
}

/// A state that a crash may leave.
pub struct CrashState<'a> {
    /// All words of the file.
    pub image: &'a [u64],
    /// A hash of the image and its length.
    pub hash: u64,
    /// The crash was before this step of the trace.
    pub at: usize,
}

/// A visitor of the states.
pub trait Visit {
    /// The walk passed this step. Returns true if more is promised from here on, so that
    /// the states right after it are to be visited.
    fn passed(&mut self, _step: usize) -> bool {
        false
    }

    /// Looks at a state. It may have been visited before: comparing hashes is the visitor's part.
    fn state(&mut self, state: &CrashState<'_>) -> ControlFlow<()>;
}

impl<F: FnMut(&CrashState<'_>) -> ControlFlow<()>> Visit for F {
    fn state(&mut self, state: &CrashState<'_>) -> ControlFlow<()> {
        self(state)
    }
}

/// One store on its way to the medium.
#[derive(Clone, Copy)]
struct Pending {
    /// Its place among all stores of the trace.
    number: u64,
    word: u32,
    v: u64,
    /// The word's value before.
    old: u64,
}

/// Stores that reach the medium in this order.
struct Cell {
    key: u32,
    stores: Vec<Pending>,
    /// How many of `stores` are applied to the image at the moment.
    applied: usize,
}

impl Cell {
    /// The key says which word, or line, it is for.
    fn first_word(&self) -> u32 {
        if self.key.is_multiple_of(2) { self.key / 2 * LINE_WORDS } else { self.key / 2 }
    }
}

/// A flush of a thread: its next fence makes the cell's stores below a number durable.
struct Mark {
    thread: u32,
    key: u32,
    below: u64,
}

const NO_CELL: u32 = u32::MAX;

/// Walks traces; see the [module docs](self). Its memory is reused from walk to walk.
pub struct Explorer {
    model: Model,
    seed: u64,
    /// The durable words; while states are visited, with a prefix of each cell applied.
    image: Vec<u64>,
    hash: u64,
    /// The words as the program sees them.
    current: Vec<u64>,
    cells: Vec<Cell>,
    /// Position in `cells` by key: twice the line, or twice the word and one.
    cell_at: Vec<u32>,
    marks: Vec<Mark>,
    /// Stores so far.
    stores: u64,
    spare: Vec<Vec<Pending>>,
    /// Something was stored or promised since states were last visited.
    changed: bool,
    /// The share of many states that is visited.
    one_in: u64,
}

impl Explorer {
    /// An explorer under `model`; `seed` decides which states are visited where they are too many.
    #[must_use]
    pub fn new(model: Model, seed: u64) -> Self {
        Explorer {
            model,
            seed,
            image: Vec::new(),
            hash: 0,
            current: Vec::new(),
            cells: Vec::new(),
            cell_at: Vec::new(),
            marks: Vec::new(),
            stores: 0,
            spare: Vec::new(),
            changed: false,
            one_in: 1,
        }
    }

    /// The same, but that of many states at a point about one in so many is visited.
    #[must_use]
    pub fn one_in(self, one_in: u64) -> Self {
        Explorer { one_in, ..self }
    }

    /// Walks `trace` over the durable words of `image` and shows `visit` the states of crashes
    /// before step `from`, or any later one.
    ///
    /// # Errors
    /// `Break` as soon as the visitor answers so.
    pub fn explore<V: Visit>(
        &mut self,
        image: &[u64],
        trace: &[Step],
        from: usize,
        visit: &mut V,
    ) -> ControlFlow<()> {
        self.start(image);
        for (at, step) in trace.iter().enumerate() {
            if at >= from && self.changed && self.is_point(step) {
                self.visit_states(at, visit)?;
            }
            self.take(step);
            if visit.passed(at) {
                self.changed = true;
                if at >= from {
                    self.visit_states(at + 1, visit)?;
                }
            }
        }
        if self.changed {
            self.visit_states(trace.len(), visit)?;
        }
        ControlFlow::Continue(())
    }

    /// The words that are durable after the last walk, whatever else is.
    #[must_use]
    pub fn durable(&self) -> &[u64] {
        &self.image
    }

    fn start(&mut self, image: &[u64]) {
        self.image.clear();
        self.image.extend_from_slice(image);
        self.current.clear();
        self.current.extend_from_slice(image);
        while let Some(cell) = self.cells.pop() {
            self.spare.push(cell.stores);
        }
        self.cell_at.clear();
        self.cell_at.resize(image.len() * 2, NO_CELL);
        self.marks.clear();
        self.hash = image_hash(image);
        self.changed = true;
    }

    /// True if the states before `step` are to be visited, because it takes some of them away.
    fn is_point(&self, step: &Step) -> bool {
        match step.action {
            Action::Fence | Action::Drain => self.model != Model::Program,
            Action::Store { .. } | Action::StoreNt { .. } => self.model == Model::Program,
            Action::Cas { .. } => match self.model {
                Model::X86 => self.marks.iter().any(|mark| mark.thread == step.thread),
                Model::Word => false,
                Model::Program => true,
            },
            Action::Resize { .. } => true,
            Action::Flush { .. }
            | Action::Sync { .. }
            | Action::Publish
            | Action::Event(_)
            | Action::Mark(_) => false,
        }
    }

    /// Does what `step` does.
    fn take(&mut self, step: &Step) {
        match step.action {
            Action::Store { word, v } => self.store(word, v),
            Action::StoreNt { word, v } => self.store_nt(step.thread, word, v),
            Action::Cas { word, v } => {
                if self.model == Model::X86 {
                    self.fence(step.thread);
                }
                self.store(word, v);
            }
            Action::Flush { line, lines } => self.flush(step.thread, line, lines),
            Action::Fence | Action::Drain => self.fence(step.thread),
            Action::Resize { words } => self.resize(words as usize),
            // These media lose nothing that was drained, so a sync has nothing left to do, and
            // nothing may rely on it.
            Action::Sync { .. } | Action::Publish | Action::Event(_) | Action::Mark(_) => {}
        }
    }

    fn store(&mut self, word: u32, v: u64) {
        // A word's stores keep their order, so one that has a cell of its own keeps using it.
        let own = word * 2 + 1;
        let line = word / LINE_WORDS * 2;
        let key = if self.model == Model::Word || self.cell_at[own as usize] != NO_CELL {
            own
        } else {
            line
        };
        self.push(key, word, v);
    }

    fn store_nt(&mut self, thread: u32, word: u32, v: u64) {
        let line = word / LINE_WORDS * 2;
        let in_line = self.cell(line).is_some_and(|at| {
            let stores = &self.cells[at].stores;
            stores.iter().any(|pending| pending.word == word)
        });
        let key = if in_line { line } else { word * 2 + 1 };
        self.push(key, word, v);
        self.mark(thread, key);
    }

    fn push(&mut self, key: u32, word: u32, v: u64) {
        self.changed = true;
        let old = std::mem::replace(&mut self.current[word as usize], v);
        if self.model == Model::Program {
            self.set_word(word, old, v);
            return;
        }
        let at = self.cell(key).unwrap_or_else(|| {
            let stores = self.spare.pop().map_or_else(Vec::new, |mut spare| {
                spare.clear();
                spare
            });
            self.cell_at[key as usize] = self.cells.len() as u32;
            self.cells.push(Cell { key, stores, applied: 0 });
            self.cells.len() - 1
        });
        let number = self.stores;
        self.stores += 1;
        let pending = Pending { number, word, v, old };
        self.cells[at].stores.push(pending);
    }

    fn cell(&self, key: u32) -> Option<usize> {
        let at = self.cell_at[key as usize];
        (at != NO_CELL).then_some(at as usize)
    }

    fn flush(&mut self, thread: u32, line: u32, lines: u32) {
        for line in line..line + lines {
            self.mark(thread, line * 2);
            for word in line * LINE_WORDS..(line + 1) * LINE_WORDS {
                self.mark(thread, word * 2 + 1);
            }
        }
    }

    fn mark(&mut self, thread: u32, key: u32) {
        // The last line of a file may be cut.
        if self.cell_at.get(key as usize).is_some_and(|at| *at != NO_CELL) {
            let below = self.stores;
            self.marks.push(Mark { thread, key, below });
        }
    }

    fn fence(&mut self, thread: u32) {
        let mut at = 0;
        while at < self.marks.len() {
            if self.marks[at].thread == thread {
                let Mark { key, below, .. } = self.marks.swap_remove(at);
                if let Some(cell) = self.cell(key) {
                    let stores = &self.cells[cell].stores;
                    let count = stores.partition_point(|pending| pending.number < below);
                    self.make_durable(cell, count);
                }
            } else {
                at += 1;
            }
        }
    }

    /// Moves the first `count` stores of a cell to the durable words; an empty cell goes away.
    fn make_durable(&mut self, at: usize, count: usize) {
        let mut stores = std::mem::take(&mut self.cells[at].stores);
        for Pending { word, v, old, .. } in stores.drain(..count) {
            self.set_word(word, old, v);
        }
        if !stores.is_empty() {
            self.cells[at].stores = stores;
            return;
        }
        self.spare.push(stores);
        let cell = self.cells.swap_remove(at);
        self.cell_at[cell.key as usize] = NO_CELL;
        if let Some(moved) = self.cells.get(at) {
            self.cell_at[moved.key as usize] = at as u32;
        }
    }

    fn resize(&mut self, words: usize) {
        // Stores on their way behind the cut go nowhere.
        let cells = 0..self.cells.len();
        for at in cells.rev() {
            if self.cells[at].first_word() as usize >= words {
                let count = self.cells[at].stores.len();
                self.make_durable(at, count);
            }
        }
        for word in words..self.image.len() {
            self.set_word(word as u32, self.image[word], 0);
        }
        self.hash ^= length_hash(self.image.len()) ^ length_hash(words);
        self.image.resize(words, 0);
        self.current.resize(words, 0);
        self.cell_at.resize(words * 2, NO_CELL);
        self.changed = true;
    }

    #[inline]
    fn set_word(&mut self, word: u32, old: u64, v: u64) {
        self.image[word as usize] = v;
        self.hash ^= word_hash(word, old) ^ word_hash(word, v);
    }

    /// Applies or undoes stores of a cell until its first `count` are applied.
    fn apply(&mut self, at: usize, count: usize) {
        let cell = &mut self.cells[at];
        while cell.applied < count {
            let Pending { word, v, old, .. } = cell.stores[cell.applied];
            self.image[word as usize] = v;
            self.hash ^= word_hash(word, old) ^ word_hash(word, v);
            cell.applied += 1;
        }
        while cell.applied > count {
            cell.applied -= 1;
            let Pending { word, v, old, .. } = cell.stores[cell.applied];
            self.image[word as usize] = old;
            self.hash ^= word_hash(word, old) ^ word_hash(word, v);
        }
    }

    fn visit_states<V: Visit>(&mut self, at: usize, visit: &mut V) -> ControlFlow<()> {
        self.changed = false;
        let combinations = self.cells.iter().try_fold(1_u64, |product, cell| {
            product
                .checked_mul(cell.stores.len() as u64 + 1)
                .filter(|product| *product <= ALL / self.one_in)
        });
        let flow = if combinations.is_some() {
            self.visit_all(at, visit)
        } else {
            self.visit_some(at, visit)
        };
        for cell in 0..self.cells.len() {
            self.apply(cell, 0);
        }
        flow
    }

    fn show<V: Visit>(&self, at: usize, visit: &mut V) -> ControlFlow<()> {
        visit.state(&CrashState { image: &self.image, hash: self.hash, at })
    }

    /// Visits every combination of prefixes: a reflected Gray code of mixed radix (Knuth 7.2.1.1,
    /// algorithm H), one store per state.
    fn visit_all<V: Visit>(&mut self, at: usize, visit: &mut V) -> ControlFlow<()> {
        let count = self.cells.len();
        let mut up = vec![true; count];
        let mut focus: Vec<usize> = (0..=count).collect();
        loop {
            self.show(at, visit)?;
            let cell = std::mem::replace(&mut focus[0], 0);
            if cell == count {
                return ControlFlow::Continue(());
            }
            let applied = self.cells[cell].applied;
            let next = if up[cell] { applied + 1 } else { applied - 1 };
            self.apply(cell, next);
            if next == 0 || next == self.cells[cell].stores.len() {
                up[cell] = !up[cell];
                focus[cell] = focus[cell + 1];
                focus[cell + 1] = cell + 1;
            }
        }
    }

    /// Visits none, all, each cell alone, all but each, and random combinations.
    fn visit_some<V: Visit>(&mut self, at: usize, visit: &mut V) -> ControlFlow<()> {
        let count = self.cells.len();
        self.show(at, visit)?;
        for cell in 0..count {
            self.apply(cell, self.cells[cell].stores.len());
            self.show(at, visit)?;
            self.apply(cell, 0);
        }
        for cell in 0..count {
            self.apply(cell, self.cells[cell].stores.len());
        }
        self.show(at, visit)?;
        for cell in 0..count {
            self.apply(cell, 0);
            self.show(at, visit)?;
            self.apply(cell, self.cells[cell].stores.len());
        }
        let mut rng = Rng::new(self.seed ^ at as u64);
        for _ in 0..SAMPLES / self.one_in {
            for cell in 0..count {
                let prefixes = self.cells[cell].stores.len() + 1;
                self.apply(cell, rng.below(prefixes));
            }
            self.show(at, visit)?;
        }
        ControlFlow::Continue(())
    }
}

/// A word's share of the image's hash. Zeros have none, so that a file of zeros may grow for free.
fn word_hash(word: u32, v: u64) -> u64 {
    if v == 0 { 0 } else { mix(mix(v).wrapping_add(u64::from(word))) }
}

fn length_hash(words: usize) -> u64 {
    mix(!(words as u64))
}

/// The hash that [`CrashState::hash`] gives for `image`.
#[must_use]
pub fn image_hash(image: &[u64]) -> u64 {
    let words = image.iter().enumerate();
    words.fold(length_hash(image.len()), |hash, (word, v)| hash ^ word_hash(word as u32, *v))
}

#[cfg(test)]
#[path = "states_tests.rs"]
mod tests;

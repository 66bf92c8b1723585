//! The pool's file, its spill files, and the caches before them.
//!
//! Whatever was written and not synced is in the cache of its kind, and a loss of power leaves of it what it likes.

use super::{Fault, Image, LINES, Line, Lines, World, sum};

/// Places of the largest ring.
const PLACES: usize = 3;

/// A place in the log: that behind a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Position {
    pub(super) batch: usize,
    /// How many parts there were before; the ring comes round.
    pub(super) part: usize,
    /// The sum of the last part's header.
    chain: u64,
}

/// A head; of generation zero where there is none, or a torn one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Head {
    generation: usize,
    pub(super) at: Position,
    pub(super) closed: bool,
    pub(super) live_bad: bool,
}

impl Head {
    /// The head that is written after this one.
    pub(super) fn next(self, at: Position, closed: bool, live_bad: bool) -> Head {
        Head { generation: self.generation + 1, at, closed, live_bad }
    }

    /// Which of the two it is written over.
    fn place(self) -> usize {
        self.generation % 2
    }
}

/// Header of a part.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Header {
    batch: usize,
    index: usize,
    is_last: bool,
    chain: u64,
    /// Sum of the spill file that has the lines in place of the body.
    spill: Option<u64>,
    /// Sum of the body.
    body: u64,
}

/// A part of a batch.
#[derive(Clone, Default, Hash)]
pub(super) struct Part {
    header: Header,
    body: Lines,
}

impl Part {
    /// The parts of the batch behind `at`: one for each line, or one for a spill file.
    pub(super) fn of(lines: &Lines, at: Position, is_spilled: bool) -> Vec<Part> {
        let mut bodies: Vec<Lines> = lines.iter().map(|line| vec![*line]).collect();
        if is_spilled {
            bodies = vec![Lines::new()];
        }
        let (mut chain, count) = (at.chain, bodies.len());
        let part = |(index, body)| {
            let spill = is_spilled.then(|| sum(lines));
            let (batch, is_last) = (at.batch + 1, index + 1 == count);
            let header = Header { batch, index, is_last, chain, spill, body: sum(&body) };
            chain = sum(&header);
            Part { header, body }
        };
        bodies.into_iter().enumerate().map(part).collect()
    }
}

impl Position {
    /// The place behind these parts of the next batch.
    pub(super) fn behind(self, parts: &[Part]) -> Position {
        let chain = parts.last().map_or(self.chain, |last| sum(&last.header));
        Position { batch: self.batch + 1, part: self.part + parts.len(), chain }
    }
}

/// The log as recovery walks it.
#[derive(Clone, Default, Hash)]
struct Log {
    ring: [Part; PLACES],
    /// Spill files: the batch that each is of, and its lines.
    spills: Vec<(usize, Lines)>,
}

impl Log {
    /// The lines of the batches behind `at`, up to this one, as far as they are sound; and the place behind them.
    fn walk(&self, world: &World, mut at: Position, up_to: usize) -> (Lines, Position) {
        let mut all = Lines::new();
        while at.batch < up_to {
            let (lines, behind) = self.batch(world, at);
            if behind.is_some() || world.planted(Fault::PartWithoutFinal) {
                all.extend(lines);
            }
            let Some(behind) = behind else { break };
            at = behind;
        }
        (all, at)
    }

    /// The lines of the batch behind `at`, and the place behind it if all its parts are sound.
    fn batch(&self, world: &World, mut at: Position) -> (Lines, Option<Position>) {
        let (number, mut lines) = (at.batch + 1, Lines::new());
        for index in 0.. {
            let Part { header, body } = &self.ring[at.part % world.ring];
            let is_next = header.batch == number && header.index == index;
            let is_chained = header.chain == at.chain || world.planted(Fault::NoChain);
            let is_whole = header.body == sum(body) || world.planted(Fault::NoSum);
            if !(is_next && is_chained && is_whole) {
                break;
            }
            match header.spill {
                None => lines.extend(body),
                Some(file) => {
                    let mut files = self.spills.iter().filter(|(batch, _)| *batch == number);
                    let Some((_, spilled)) = files.find(|(_, lines)| sum(lines) == file) else {
                        break;
                    };
                    lines.extend(spilled);
                }
            }
            at = Position { part: at.part + 1, chain: sum(header), ..at };
            if header.is_last {
                return (lines, Some(Position { batch: number, ..at }));
            }
        }
        (lines, None)
    }
}

/// The words of a page of the base.
#[derive(Clone, Copy, Hash)]
struct Words {
    /// There is no sum.
    mark: bool,
    sum: u64,
}

/// One of them. They lie in different lines.
#[derive(Clone, Copy, Hash)]
enum Word {
    Mark(bool),
    Sum(u64),
}

impl Words {
    fn set(&mut self, word: Word) {
        match word {
            Word::Mark(mark) => self.mark = mark,
            Word::Sum(sum) => self.sum = sum,
        }
    }
}

/// What is there, and what was written and not synced, the oldest first.
#[derive(Clone, Hash)]
pub(super) struct Disk {
    base: Image,
    base_cache: Lines,
    words: [Words; LINES],
    words_cache: Vec<(usize, Word)>,
    log: Log,
    ring_cache: Vec<(usize, Part)>,
    spill_cache: Option<(usize, Lines)>,
    heads: [Head; 2],
    heads_cache: Vec<Head>,
}

/// What was written and not synced when a process was killed, and came off well.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// Heads are in the drive's cache.
    pub(super) heads: bool,
    /// So are parts.
    pub(super) parts: bool,
    /// What was written to the base was not lost in silence.
    pub(super) base: bool,
}

impl Disk {
    /// An empty pool with this head.
    pub(super) fn new(head: Head) -> Disk {
        let mut heads = [Head::default(); 2];
        heads[head.place()] = head;
        Disk {
            base: Image::default(),
            base_cache: Lines::new(),
            words: [Words { mark: true, sum: 0 }; LINES],
            words_cache: Vec::new(),
            log: Log::default(),
            ring_cache: Vec::new(),
            spill_cache: None,
            heads,
            heads_cache: Vec::new(),
        }
    }

    pub(super) fn write_base(&mut self, lines: impl IntoIterator<Item = (usize, Line)>) {
        self.base_cache.extend(lines);
    }

    pub(super) fn sync_base(&mut self) {
        apply(&mut self.base, &std::mem::take(&mut self.base_cache));
        for (page, word) in std::mem::take(&mut self.words_cache) {
            self.words[page].set(word);
        }
    }

    /// Writes the sum of a page, or takes it away.
    pub(super) fn write_sum(&mut self, page: usize, sum: Option<u64>) {
        self.words_cache.extend(sum.map(|sum| (page, Word::Sum(sum))));
        self.words_cache.push((page, Word::Mark(sum.is_none())));
    }

    /// The way out's: what it completes from the base has a sum only if that was right before.
    pub(super) fn write_lines(&mut self, world: &World, lines: &Lines) {
        let [_, before] = self.bases_after_kill();
        self.write_base(lines.iter().copied());
        let [_, after] = self.bases_after_kill();
        if world.planted(Fault::WayOutWithoutSums) {
            return;
        }
        for page in world.pages() {
            let is_new = |line: &usize| lines.iter().any(|(new, _)| new == line);
            if !world.lines(page).any(|line| is_new(&line)) {
                continue;
            }
            let mut words = self.words[page];
            let cached = self.words_cache.iter().filter(|(of, _)| *of == page);
            cached.for_each(|(_, word)| words.set(*word));
            let was_right = !words.mark && words.sum == world.sum_of(page, &before);
            let is_known = was_right || world.lines(page).all(|line| is_new(&line));
            self.write_sum(page, is_known.then(|| world.sum_of(page, &after)));
        }
    }

    pub(super) fn write_part(&mut self, world: &World, at: usize, part: &Part) {
        self.ring_cache.push((at % world.ring, part.clone()));
    }

    pub(super) fn sync_ring(&mut self) {
        for (place, part) in self.ring_cache.drain(..) {
            self.log.ring[place] = part;
        }
    }

    pub(super) fn write_head(&mut self, head: Head) {
        self.heads_cache.push(head);
    }

    /// Returns the newest; spill files that are not behind it go.
    pub(super) fn sync_heads(&mut self) -> Head {
        for head in self.heads_cache.drain(..) {
            self.heads[head.place()] = head;
        }
        let head = self.durable_head();
        self.log.spills.retain(|(batch, _)| *batch > head.at.batch);
        head
    }

    pub(super) fn write_spill(&mut self, batch: usize, lines: &Lines) {
        // One that was never synced came to the disk some time.
        self.sync_spill();
        // A process that was killed may have left one.
        self.log.spills.retain(|(other, _)| *other != batch);
        self.spill_cache = Some((batch, lines.clone()));
    }

    pub(super) fn sync_spill(&mut self) {
        self.log.spills.extend(self.spill_cache.take());
    }

    pub(super) fn durable_head(&self) -> Head {
        newest(self.heads)
    }

    /// The newest head as a program reads it.
    pub(super) fn read_head(&self) -> Head {
        newest(self.heads.iter().chain(&self.heads_cache).copied())
    }

    /// Lines of the durable batches behind `at`, up to this one, and the place behind them.
    pub(super) fn batches(&self, world: &World, at: Position, up_to: usize) -> (Lines, Position) {
        self.log.walk(world, at, up_to)
    }

    pub(super) fn is_writing_spill(&self) -> bool {
        self.spill_cache.is_some()
    }

    /// What a killed process leaves; nothing where there is nothing of the kind to be kept or lost.
    pub(super) fn killed(&self, kept: Kept) -> Option<Disk> {
        if kept.heads && self.heads_cache.is_empty()
            || kept.parts && self.ring_cache.is_empty()
            || !kept.base && self.base_cache.is_empty()
        {
            return None;
        }
        let mut left = Disk { spill_cache: None, ..self.clone() };
        if !kept.heads {
            left.heads_cache.clear();
        }
        if !kept.parts {
            left.ring_cache.clear();
        }
        if !kept.base {
            left.base_cache.clear();
            left.words_cache.clear();
        }
        Some(left)
    }

    /// The base after a kill: what was not synced is lost, or not.
    pub(super) fn bases_after_kill(&self) -> [Image; 2] {
        let mut written = self.base;
        apply(&mut written, &self.base_cache);
        [self.base, written]
    }

    /// Every image that recovery may make of what a loss of power leaves; `None` where it may leave no head.
    pub(super) fn replays_after_power_loss(&self, world: &World) -> Option<Vec<Image>> {
        let (bases, logs) = (self.bases_left(), self.logs_left());
        let mut images = Vec::new();
        for head in self.heads_left() {
            if head.generation == 0 {
                return None;
            }
            for log in &logs {
                let (lines, _) = log.walk(world, head.at, usize::MAX);
                for mut image in bases.iter().copied() {
                    apply(&mut image, &lines);
                    images.push(image);
                }
            }
        }
        images.sort_unstable();
        images.dedup();
        Some(images)
    }

    /// A page that has a sum, which is wrong, after a loss of power and replay.
    pub(super) fn wrong_sum_after_power_loss(&self, world: &World) -> Option<usize> {
        let bases = self.bases_left();
        self.heads_left().into_iter().find_map(|head| {
            self.logs_left().iter().find_map(|log| {
                let (lines, _) = log.walk(world, head.at, usize::MAX);
                world.pages().find(|page| {
                    let is_marked = world.lines(*page).any(|own| lines.iter().any(|l| l.0 == own));
                    if is_marked && !world.planted(Fault::SumsNotMarked) {
                        return false;
                    }
                    let words = self.words_left(*page);
                    bases.iter().any(|base| {
                        let mut base = *base;
                        apply(&mut base, &lines);
                        let sum = world.sum_of(*page, &base);
                        words.iter().any(|words| !words.mark && words.sum != sum)
                    })
                })
            })
        })
    }

    /// The same after a kill, where the next process finds these batches behind the head: of their pages it does not ask.
    pub(super) fn wrong_sum_after_kill(&self, world: &World, lines: &Lines) -> Option<usize> {
        let mut written = self.words;
        self.words_cache.iter().for_each(|(page, word)| written[*page].set(*word));
        world.pages().find(|page| {
            let is_at_rest = !world.lines(*page).any(|own| lines.iter().any(|l| l.0 == own));
            let both = self.bases_after_kill().into_iter().zip([self.words, written]);
            is_at_rest
                && both.into_iter().any(|(base, words)| {
                    !words[*page].mark && words[*page].sum != world.sum_of(*page, &base)
                })
        })
    }

    /// Each of the two is as before, or as one of the writes left it.
    fn words_left(&self, page: usize) -> Vec<Words> {
        let mut all = vec![self.words[page]];
        for (_, word) in self.words_cache.iter().filter(|(of, _)| *of == page) {
            fork(&mut all, |words| words.set(*word));
        }
        all
    }

    /// Each line is as before, or as one of the writes left it.
    fn bases_left(&self) -> Vec<Image> {
        let mut bases = vec![self.base];
        for (line, contents) in &self.base_cache {
            fork(&mut bases, |base| base[*line] = *contents);
            bases.sort_unstable();
            bases.dedup();
        }
        bases
    }

    /// Header and body of each place are old or new, each by itself; a spill file is there or not.
    fn logs_left(&self) -> Vec<Log> {
        let mut logs = vec![self.log.clone()];
        for (place, part) in &self.ring_cache {
            fork(&mut logs, |log| log.ring[*place].header = part.header.clone());
            fork(&mut logs, |log| log.ring[*place].body = part.body.clone());
        }
        if let Some(file) = &self.spill_cache {
            fork(&mut logs, |log| log.spills.push(file.clone()));
        }
        logs
    }

    /// What may be the newest head, where each is old, new or torn.
    fn heads_left(&self) -> Vec<Head> {
        let mut both = vec![self.heads];
        for head in &self.heads_cache {
            let place = head.place();
            // The same bytes once more do not tear.
            if *head != self.heads[place] {
                fork(&mut both, |heads| heads[place] = Head::default());
                fork(&mut both, |heads| heads[place] = *head);
            }
        }
        let mut heads: Vec<Head> = both.into_iter().map(newest).collect();
        heads.sort_unstable_by_key(|head| head.generation);
        heads.dedup();
        heads
    }
}

/// Adds each of `all` once more, with a change.
fn fork<T: Clone>(all: &mut Vec<T>, change: impl Fn(&mut T)) {
    for at in 0..all.len() {
        let mut one = all[at].clone();
        change(&mut one);
        all.push(one);
    }
}

fn newest(heads: impl IntoIterator<Item = Head>) -> Head {
    heads.into_iter().max_by_key(|head| head.generation).unwrap_or_default()
}

/// Puts lines into an image, in their order.
pub(super) fn apply(image: &mut Image, lines: &Lines) {
    for (line, contents) in lines {
        image[*line] = *contents;
    }
}

//! `load`: entries from text.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use durahash::{Error, ErrorKind};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::args::{Kind, New};
use crate::escape::read_line;
use crate::exit::{Exit, Failure};
use crate::input::{Input, Line};
use crate::lifetime::{Expiry, parse_lifetime};
use crate::output::print_as;
use crate::pool::open_or_create;
use crate::progress::Progress;
use crate::store::{Pair, Store};

/// Bytes of keys and values from which on a batch is not added to.
const BATCH_BYTES: usize = 1 << 20;

/// Bad lines that are named; of the others, their number is.
const NAMED_MAX: u64 = 20;

/// `durahash load`.
pub(crate) fn load(pool: &Path, file: &Path, json: bool, new: &New) -> Result<Exit, Failure> {
    load_into(file, json, || open_or_create(pool, new))
}

/// Loads a file into what `open` opens.
pub(crate) fn load_into<S: Store>(
    file: &Path,
    json: bool,
    open: impl FnOnce() -> Result<S, Failure>,
) -> Result<Exit, Failure> {
    let start = Instant::now();
    // Before the pool: a wrong name must not leave an empty one behind.
    let mut input = Input::open(file).map_err(|e| unreadable(&file.display().to_string(), &e))?;
    let ends = end_by_signals().map_err(|e| Failure::new(Exit::Io, format!("signals: {e}")))?;
    let store = open()?;
    let (watch, asked) = (store.watch(), Arc::clone(&ends));
    input.watch_meanwhile(Some(Box::new(move || {
        if asked.load(Ordering::Relaxed) {
            return Err(Error::io("reading", None, io::ErrorKind::Interrupted.into()));
        }
        watch.as_ref().map_or(Ok(()), |watch| watch())
    })));
    input.limit_values(store.value_bytes_max());
    let progress = Progress::of_bytes("loading", input.total_bytes);
    let mut load = Load {
        store: &store,
        ends,
        input,
        progress,
        start,
        batch: Vec::new(),
        lifetimes: Vec::new(),
        lines: Vec::new(),
        batch_bytes: 0,
        loaded: 0,
        comments: 0,
        left_out: 0,
    };
    let done = load.run();
    load.count_unnamed();
    done?;
    let Load { input, progress, loaded, comments, left_out, .. } = load;
    drop((input, progress));
    store.close()?;
    let seconds = start.elapsed().as_secs_f64();
    let figures = || json!({ "loaded": loaded, "comments": comments, "left_out": left_out, "seconds": seconds });
    let summary = || {
        format!(
            "entries loaded: {loaded}, comments skipped: {comments}, bad lines left out: \
             {left_out} ({seconds:.1} s)\n"
        )
    };
    print_as(json, figures, summary)?;
    Ok(if left_out == 0 { Exit::Ok } else { Exit::Usage })
}

/// A flag that the first signal to end sets; the second ends the process.
fn end_by_signals() -> io::Result<Arc<AtomicBool>> {
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, Arc::clone(&ends))?;
        flag::register(signal, Arc::clone(&ends))?;
    }
    Ok(ends)
}

struct Load<'a, S> {
    store: &'a S,
    /// Set when the load is to end early.
    ends: Arc<AtomicBool>,
    input: Input,
    progress: Progress,
    start: Instant,
    /// Entries that go to the pool together: those that could be read without waiting.
    batch: Vec<Pair>,
    /// How long each lives, of a cache.
    lifetimes: Vec<Option<Expiry>>,
    /// The lines that they stood in.
    lines: Vec<u64>,
    batch_bytes: usize,
    loaded: u64,
    comments: u64,
    left_out: u64,
}

impl<S: Store> Load<'_, S> {
    fn run(&mut self) -> Result<(), Failure> {
        let mut line = Vec::new();
        loop {
            if self.ends.load(Ordering::Relaxed) {
                self.put_batch()?;
                return Err(self.stopped(Failure::new(Exit::Interrupted, "interrupted"), true));
            }
            let what = match self.input.next_line(&mut line) {
                Ok(what) => what,
                // The same, while lines were waited for.
                Err(_) if self.ends.load(Ordering::Relaxed) => continue,
                Err(e) => {
                    // Not what entries come from, but what they go to.
                    let e = match e.downcast::<Error>() {
                        Ok(e) => return Err(self.pool_failed(&e)),
                        Err(e) => e,
                    };
                    let failure = unreadable(&self.input.name, &e);
                    return Err(self.stopped(failure, !is_bad_data(&e)));
                }
            };
            match what {
                Line::End => return Ok(()),
                Line::Comment => self.comments += 1,
                Line::TooLong(part) => {
                    self.leave_out(self.input.line, &format!("the {part} is too large"));
                }
                Line::Entry => match self.read_entry(&line) {
                    Ok(((key, value), lifetime)) => {
                        self.batch_bytes += key.len() + value.len();
                        self.batch.push((key, value));
                        self.lifetimes.push(lifetime);
                        self.lines.push(self.input.line);
                    }
                    Err(why) => self.leave_out(self.input.line, &why),
                },
            }
            if self.input.may_wait() || self.batch_bytes >= BATCH_BYTES {
                self.put_batch()?;
            }
        }
    }

    /// The key and value of a line, and how long the entry lives. Those for a multimap are good ones.
    fn read_entry(&self, line: &[u8]) -> Result<(Pair, Option<Expiry>), String> {
        let (line, lifetime) = match self.store.kind() {
            Kind::Cache => split_lifetime(line)?,
            _ => (line, None),
        };
        let (key, value) = read_line(line)?;
        self.store.accepts(&key, &value).map_err(|e| e.to_string())?;
        Ok(((key, value), lifetime))
    }

    /// Puts the batch. Where one entry of it is bad all are put again, one by one, which tells
    /// which one it is. A multimap was asked before: nothing may be added twice. Entries of a cache are put one by one.
    fn put_batch(&mut self) -> Result<(), Failure> {
        let batch = std::mem::take(&mut self.batch);
        let lifetimes = std::mem::take(&mut self.lifetimes);
        let put = match self.store.kind() {
            Kind::Cache => Ok(false),
            _ => self.store.put_many(&batch).map(|()| true),
        };
        match put {
            Ok(true) => self.loaded += batch.len() as u64,
            Err(e) if !is_bad_line(&e) => return Err(self.pool_failed(&e)),
            _ => {
                for (i, (key, value)) in batch.iter().enumerate() {
                    match self.store.put(key, value, lifetimes[i]) {
                        Ok(()) => self.loaded += 1,
                        Err(e) if is_bad_line(&e) => self.leave_out(self.lines[i], &e.to_string()),
                        Err(e) => return Err(self.pool_failed(&e)),
                    }
                }
            }
        }
        self.lines.clear();
        self.batch_bytes = 0;
        self.progress.set(self.input.read_bytes());
        self.progress.say(|| {
            let rate = self.loaded as f64 / self.start.elapsed().as_secs_f64();
            format!("{} entries, {rate:.0}/s, ", self.loaded)
        });
        Ok(())
    }

    fn leave_out(&mut self, line: u64, why: &str) {
        self.left_out += 1;
        if self.left_out <= NAMED_MAX {
            self.progress.complain(&format!("{}:{line}: {why}", self.input.name));
        }
    }

    /// Says how many bad lines were not named.
    fn count_unnamed(&self) {
        let unnamed = self.left_out.saturating_sub(NAMED_MAX);
        if unnamed > 0 {
            let text = format!("{}: {unnamed} more bad lines are not named", self.input.name);
            self.progress.complain(&text);
        }
    }

    fn pool_failed(&self, e: &Error) -> Failure {
        let again =
            matches!(e.kind(), ErrorKind::Io { .. } | ErrorKind::Locked | ErrorKind::Poisoned);
        let mut failure = self.store.load_failed(e);
        if matches!(e.kind(), ErrorKind::NodeLost { .. }) {
            // They stay if it was only silent.
            let loaded = self.loaded;
            failure.add(&format!(
                "at least {loaded} entries were loaded; they are lost if the node has ended"
            ));
            return failure;
        }
        self.stopped(failure, again)
    }

    /// The failure that ends the load. Says how many entries were loaded before it, and if trying `again` helps.
    fn stopped(&self, mut failure: Failure, again: bool) -> Failure {
        if self.loaded > 0 {
            let advice = match self.store.kind() {
                // Its entries would be there twice.
                Kind::Multimap => "; to have each once, load all into a new pool",
                _ if again => ", load again for the rest",
                _ => "",
            };
            let loaded = self.loaded;
            failure.add(&format!("at least {loaded} entries were loaded and stay{advice}"));
        }
        failure
    }
}

/// A line for a cache without the lifetime behind its second tab, and that, if it has one.
fn split_lifetime(line: &[u8]) -> Result<(&[u8], Option<Expiry>), String> {
    let mut tabs = line.iter().enumerate().filter(|(_, byte)| **byte == b'\t');
    let Some((end, _)) = tabs.nth(1) else { return Ok((line, None)) };
    let lifetime = parse_lifetime(&String::from_utf8_lossy(&line[end + 1..]))?;
    Ok((&line[..end], Some(lifetime)))
}

/// True if a failure is that of one line, not of the pool.
fn is_bad_line(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Text { .. } | ErrorKind::TooLarge { .. })
}

/// True if reading failed because of the input itself, so that a retry would fail too.
fn is_bad_data(e: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(e.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

fn unreadable(name: &str, e: &io::Error) -> Failure {
    Failure::new(Exit::Io, format!("reading {name}: {e}"))
}

//! A trial of each mode of each store: is everything there after its process was killed?
//!
//! A child process inserts, and tells every acknowledged key through a pipe; it is killed at an
//! arbitrary moment, and its store is opened and checked.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use durahash_bench::workload::Random;
use durahash_bench::{Error, Result, told_by};

use crate::catalog::{Data, Mode, Store, stores};
use crate::store::wrong;

/// The child's message after the keys that it inserts in batches.
const LOADED: u64 = u64::MAX;

/// The most keys that are acknowledged one by one.
const ONE_BY_ONE_MAX: u64 = 4096;

/// The state that a kill left.
pub(crate) struct Left {
    pub(crate) acknowledged: u64,
    pub(crate) lost: u64,
    /// Time to open it, recovery included, and to find one key.
    pub(crate) open: Duration,
}

/// The key with a number, and its value.
fn pair(seed: u64, i: u64) -> (u64, u64) {
    (Random::new(seed ^ i.rotate_left(32)).word(), !i)
}

/// The child's work: it ends when it is killed, or when nobody listens any more.
pub(crate) fn child(store: &str, mode: &str, dir: &Path, seed: u64, loaded: u64) -> Result<()> {
    let store = stores().find(|known| known.name == store);
    let mode = store.and_then(|store| store.modes.iter().find(|known| known.name == mode));
    let mode = mode.ok_or_else(|| Error::Config { what: "no such store or mode".into() })?;
    let error = |source| Error::Io { doing: "writing to the pipe", path: None, source };
    let table = (mode.open)(&Data::Words, dir)?;
    let pipe = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(error)?);
    let tell = |number: u64| io::Write::write_all(&mut &pipe, &number.to_le_bytes());
    let mut pairs = Vec::with_capacity(table.put_batch());
    for i in 0..loaded {
        pairs.push(pair(seed, i));
        if pairs.len() == table.put_batch() || i + 1 == loaded {
            table.put_many(&pairs)?;
            pairs.clear();
        }
    }
    tell(LOADED).map_err(error)?;
    for i in loaded..LOADED {
        let (key, value) = pair(seed, i);
        table.put(key, value)?;
        tell(i).map_err(error)?;
    }
    Ok(())
}

/// Kills a child that inserts about `keys` keys into a store in `dir`, which is empty.
pub(crate) fn kill(store: &Store, mode: &Mode, dir: &Path, seed: u64, keys: u64) -> Result<Left> {
    let one_by_one = (keys / 4).min(ONE_BY_ONE_MAX);
    let one_by_one = one_by_one / 2 + Random::new(seed).below(one_by_one / 2 + 1);
    let loaded = keys - one_by_one;
    let error = |doing| move |source| Error::Io { doing, path: None, source };
    let program = std::env::current_exe().map_err(error("looking for this program"))?;
    let mut command = Command::new(program);
    command.args(["child", store.name, mode.name]).arg(dir);
    command.args([seed, loaded].map(|n| n.to_string()));
    let told = told_by(command, one_by_one + 1)?.words;
    if told.first() != Some(&LOADED) {
        return Err(wrong(format!("{}'s child said something else", store.name)));
    }

    let from = Instant::now();
    let table = (mode.open)(&Data::Words, dir)?;
    table.get(pair(seed, 0).0)?;
    let open = from.elapsed();
    let numbers = (0..loaded).chain(told.into_iter().skip(1));
    let (mut acknowledged, mut lost) = (0, 0);
    for i in numbers {
        let (key, value) = pair(seed, i);
        acknowledged += 1;
        lost += u64::from(table.get(key)? != Some(value));
    }
    Ok(Left { acknowledged, lost, open })
}

/// The result of a mode's trials.
pub(crate) struct Tried {
    pub(crate) store: &'static Store,
    pub(crate) mode: &'static Mode,
    /// The state after each kill, or why it could not be opened.
    pub(crate) left: Result<Vec<Left>>,
}

impl Tried {
    /// True if it may be measured.
    pub(crate) fn survives(&self) -> bool {
        let left = self.left.as_ref();
        left.is_ok_and(|left| left.iter().all(|left| left.lost == 0))
    }
}

/// Kills every mode of every store some times.
pub(crate) fn try_all(
    parent: &Path,
    seed: u64,
    keys: u64,
    kills: u64,
    progress: &mut dyn FnMut(&Tried),
) -> Result<Vec<Tried>> {
    let mut tried = Vec::new();
    for store in stores() {
        for mode in store.modes {
            let left = (0..kills).map(|round| {
                let dir = crate::directory(parent)?;
                kill(store, mode, dir.path(), seed ^ round << 48, keys)
            });
            let left = left.collect();
            let this = Tried { store, mode, left };
            progress(&this);
            tried.push(this);
        }
    }
    Ok(tried)
}

/// The fastest mode of a store that survived every kill.
pub(crate) fn fastest(tried: &[Tried], store: &Store) -> Option<&'static Mode> {
    let mut modes = tried.iter().filter(|tried| tried.store.name == store.name);
    modes.find(|tried| tried.survives()).map(|tried| tried.mode)
}

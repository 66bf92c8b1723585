//! A child process that inserts, is killed in the middle of it, and what it leaves behind.
//!
//! The child is this same program: [`child_main`] does its work if the parent asked for it. It
//! tells of every insert that has returned through a pipe, and never stops of itself.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use durahash::{Design, Map, Options, SyncMode};

use crate::config::Config;
use crate::driver::{BATCH, on_threads};
use crate::error::{Error, Result};
use crate::machine::written_bytes;
use crate::subject::remove;
use crate::workload::Random;

/// Names the pool that a child shall fill; a program that finds it set is such a child.
const CHILD_ENV: &str = "DURAHASH_BENCH_CHILD";

/// The child's message after the keys that it does not acknowledge one by one.
const LOADED: u64 = u64::MAX;

/// The state that a killed child left.
#[derive(Default)]
pub(crate) struct Recovered {
    pub(crate) threads: usize,
    /// Bytes that all children had written.
    pub(crate) written: u64,
    pub(crate) keys: u64,
    pub(crate) acknowledged: u64,
    pub(crate) lost: u64,
    /// Keys whose insert was under way.
    pub(crate) unacknowledged: u64,
    /// Units that the first lookup found to be repaired, and all that were, once every key was looked up.
    pub(crate) repaired_by_first_get: u64,
    pub(crate) repaired: u64,
    /// Times to open the pool after the kill, recovery included.
    pub(crate) open: Vec<Duration>,
    /// The same, until the first lookup was answered.
    pub(crate) first_get: Vec<Duration>,
    /// Times to open it after it was closed.
    pub(crate) open_closed: Vec<Duration>,
}

/// The task of a child.
struct Task {
    path: PathBuf,
    design: Design,
    threads: u64,
    seed: u64,
    /// Keys that are inserted in batches and acknowledged all at once.
    loaded: u64,
    /// When its operations are durable.
    sync_mode: Option<SyncMode>,
    live_image: Option<bool>,
}

/// Does the work of a child process, if this process was started as one by
/// [`run`](crate::run): to be called first thing in `main`, which returns what this does.
#[must_use]
pub fn child_main() -> Option<ExitCode> {
    let path = std::env::var_os(CHILD_ENV)?;
    let done = Task::from_args(path.into(), std::env::args().skip(1)).and_then(|task| task.run());
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // Nobody is left to be told if this fails.
            let _ = writeln!(io::stderr(), "benchmark child: {e}");
            ExitCode::FAILURE
        }
    })
}

impl Task {
    fn from_args(path: PathBuf, mut args: impl Iterator<Item = String>) -> Result<Self> {
        let mut next = |what: &str| {
            args.next()
                .ok_or_else(|| Error::Config { what: format!("the child was not told its {what}") })
        };
        let design = next("design")?.parse()?;
        let mut number = |what: &str| {
            next(what)?
                .parse()
                .map_err(|e| Error::Config { what: format!("the child's {what}: {e}") })
        };
        let [threads, seed, loaded] = [number("threads")?, number("seed")?, number("keys")?];
        let live_image =
            [Some(false), Some(true)].get(number("live image")? as usize).copied().flatten();
        let mode = args.next().map(|mode| mode.parse());
        let sync_mode = mode.transpose().map_err(|what| Error::Config { what })?;
        Ok(Task { path, design, threads, seed, loaded, sync_mode, live_image })
    }

    fn command(&self, program: Option<&Path>) -> Result<Command> {
        let program = match program {
            Some(program) => program.to_owned(),
            None => std::env::current_exe()
                .map_err(|e| Error::io("looking for this program", None, e))?,
        };
        let mut command = Command::new(program);
        command
            .env(CHILD_ENV, &self.path)
            .arg(self.design.to_string())
            .args(
                [self.threads, self.seed, self.loaded, self.live_image.map_or(2, u64::from)]
                    .map(|n| n.to_string()),
            )
            .args(self.sync_mode.map(|mode| mode.to_string()));
        Ok(command)
    }

    /// The child's work. It ends when it is killed, or when nobody listens any more.
    fn run(&self) -> Result<()> {
        let mut options = Options::new().design(self.design).seed(self.seed);
        if let Some(live_image) = self.live_image {
            options = options.live_image(live_image);
        }
        if let Some(mode) = self.sync_mode {
            options = options.sync_mode(mode);
        }
        let map: Map<u64, u64> = options.create(&self.path)?;
        let stdout = io::stdout().as_fd().try_clone_to_owned();
        let pipe = File::from(stdout.map_err(|e| Error::io("duplicating the pipe", None, e))?);
        let numbers: Vec<u64> = (0..self.loaded).collect();
        for batch in numbers.chunks(BATCH) {
            let pairs: Vec<(u64, u64)> = batch.iter().map(|i| (self.key(*i), value(*i))).collect();
            map.put_many(&pairs)?;
        }
        tell(&pipe, LOADED)?;
        let insert = |thread| {
            let mut numbers = (self.loaded + thread..LOADED).step_by(self.threads as usize);
            numbers.try_for_each(|i| {
                map.put(&self.key(i), &value(i))?;
                tell(&pipe, i)
            })
        };
        on_threads(0..self.threads, insert).map(drop)
    }

    /// Opens what the child left and looks up a key; adds to the times what each took from the
    /// beginning.
    fn timed_open(
        &self,
        path: &Path,
        open: &mut Vec<Duration>,
        first_get: &mut Vec<Duration>,
    ) -> Result<Map<u64, u64>> {
        let from = Instant::now();
        let map: Map<u64, u64> = Options::new().open(path)?;
        open.push(from.elapsed());
        let found = map.get(&self.key(0))?;
        first_get.push(from.elapsed());
        // It was acknowledged before the kill.
        if found != Some(value(0)) {
            let what = format!("{}, after kill -9: the first lookup found {found:?}", self.design);
            return Err(Error::Wrong { what });
        }
        Ok(map)
    }

    /// Opens what a child left that had acknowledged these numbers, and looks up every key.
    fn recover(&self, path: &Path, told: &[u64], to: &mut Recovered) -> Result<()> {
        let map = self.timed_open(path, &mut to.open, &mut to.first_get)?;
        let repairs = || map.stats().map(|stats| stats.index.esh.map_or(0, |esh| esh.repairs));
        to.repaired_by_first_get = repairs()?;
        let acknowledged = told.iter().copied().filter(|i| *i != LOADED);
        let (mut found, mut lost) = (0, 0);
        for i in (0..self.loaded).chain(acknowledged) {
            match map.get(&self.key(i))? {
                Some(v) if v == value(i) => found += 1,
                _ => lost += 1,
            }
        }
        let keys = map.len()?;
        let design = self.design;
        let wrong =
            |what: String| Error::Wrong { what: format!("{design}, after kill -9: {what}") };
        if lost > 0 {
            return Err(wrong(format!("{lost} acknowledged keys are lost")));
        }
        let unacknowledged = keys.saturating_sub(found);
        if keys < found || unacknowledged > self.threads {
            return Err(wrong(format!("{keys} keys, but {found} were acknowledged")));
        }
        to.repaired = repairs()?;
        let mut finding = None;
        map.check(&mut |first| {
            finding.get_or_insert(first);
        })?;
        if let Some(finding) = finding {
            return Err(wrong(format!("{finding:?}")));
        }
        map.close()?;
        (to.keys, to.acknowledged, to.lost, to.unacknowledged) =
            (keys, found, lost, unacknowledged);
        let from = Instant::now();
        let map: Map<u64, u64> = Options::new().open(path)?;
        to.open_closed.push(from.elapsed());
        Ok(map.close()?)
    }

    /// The `i`-th key.
    fn key(&self, i: u64) -> u64 {
        Random::new(self.seed ^ i.rotate_left(32)).word()
    }
}

/// The value of the `i`-th key.
fn value(i: u64) -> u64 {
    !i
}

/// One write of eight bytes, so that those of several threads do not mix.
fn tell(mut pipe: &File, number: u64) -> Result<()> {
    pipe.write_all(&number.to_le_bytes()).map_err(|e| Error::io("writing to the pipe", None, e))
}

/// Lets a child insert about `keys` keys into a new pool at `path`, kills it, and opens the pool: as often as the
/// run repeats, as an open ends what a kill left, and a copy of a pool is what was just written, or is refused. The counts are
/// of the last time.
pub(crate) fn kill_and_recover(
    config: &Config,
    design: Design,
    path: &Path,
    keys: u64,
) -> Result<Recovered> {
    let threads = config.threads.iter().copied().max().unwrap_or(1);
    let mut random = Random::new(config.seed ^ keys);
    // Most are loaded quickly; the rest one by one, each acknowledged, until an arbitrary moment.
    let one_by_one = keys / 32 + random.below(keys / 32 + 1);
    let task = Task {
        path: path.to_owned(),
        design,
        threads: threads as u64,
        seed: config.seed,
        loaded: keys - one_by_one,
        sync_mode: config.sync_mode,
        live_image: config.live_image,
    };
    let mut recovered = Recovered { threads, ..Recovered::default() };
    for _ in 0..config.repeats {
        let Told { words, written } =
            told_by(task.command(config.child.as_deref())?, one_by_one + 1)?;
        recovered.written += written;
        task.recover(path, &words, &mut recovered)?;
        // A long live image outlives a close.
        let dir = path.parent().unwrap_or(Path::new("."));
        let left = std::fs::read_dir(dir).map_err(|e| Error::io("reading", Some(dir), e))?;
        left.flatten().try_for_each(|entry| remove(&entry.path()))?;
    }
    Ok(recovered)
}

/// The output of a child until it was killed.
pub struct Told {
    /// The numbers that it wrote to its output, of eight bytes each.
    pub words: Vec<u64>,
    /// Bytes that it had written to files.
    pub written: u64,
}

/// Starts a child, kills it (`kill -9`) when it has written at least so many numbers of eight bytes to its output, and
/// returns all that it wrote. No child is left behind, whatever fails.
///
/// # Errors
/// [`Error::Io`]; [`Error::Wrong`] where the child ended by itself.
pub fn told_by(mut command: Command, wanted: u64) -> Result<Told> {
    let error = |doing| move |e| Error::io(doing, None, e);
    let program = Path::new(command.get_program()).to_owned();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|e| Error::io("starting", Some(&program), e))?;
    let pipe = child.stdout.as_mut().expect("the child was started with a pipe");
    let mut told = Vec::with_capacity(wanted as usize * 8);
    let listened = pipe.take(wanted * 8).read_to_end(&mut told);
    let written = written_bytes(&child.id().to_string());
    let killed = child.kill();
    let rest = child.wait_with_output().map_err(error("waiting for the child"))?;
    listened.map_err(error("listening to the child"))?;
    if (told.len() as u64) < wanted * 8 {
        let what = "the child process ended before it was killed".into();
        return Err(Error::Wrong { what });
    }
    killed.map_err(error("killing the child"))?;
    told.extend_from_slice(&rest.stdout);
    let (told, _torn) = told.as_chunks::<8>();
    Ok(Told { words: told.iter().map(|word| u64::from_le_bytes(*word)).collect(), written })
}

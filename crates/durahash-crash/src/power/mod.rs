//! A pool on a real file system that loses power: ext4 on a loop device, over a disk that writes down every
//! write and flush (`fuse.rs`).
//!
//! A child process makes a pool there, runs operations on it in some threads, and tells what must survive: in `Strict` each
//! operation that has returned, in `Interval` those before a sync that has. Then the power is cut, at random between two
//! steps of the disk: of the sectors that were written since the last flush any version is there. The disk is mounted,
//! which lets ext4 recover, and opened in another boot of the machine, which lets the pool recover; it must hold a
//! consistent cut of all threads with what was told. A pool with a live image is also opened in the same boot, where nothing
//! can tell what became of that: it may be refused only for it. Needs root, FUSE and loop devices.

mod fuse;
mod index;
mod record;

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use durahash::{Design, ErrorKind, Options, SyncMode};
use durahash_media::Geometry;
use durahash_media::sim::set_boot;

use crate::block::Pick;
use crate::logged::{Kind, Table};
use crate::script::Rng;
use index::THREADS;
use record::{Recorder, Step, Walk};

const DISK_BYTES: u64 = 96 << 20;
/// In `Interval` a thread syncs after so many operations.
const SYNCS_EVERY: u64 = 64;
/// One cut of so many is also looked at in the same boot.
const SAME_BOOT_EVERY: usize = 8;
/// So long that it is written past the page cache.
const LOG_BYTES: u64 = 10 << 20;
/// So short that the ring is gone round.
const SHORT_LOG_BYTES: u64 = 256 << 10;
/// The subcommand of the child.
pub const CHILD: &str = "power-child";

/// Where a live image lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// Beside the pool, on the disk that loses power.
    Beside,
    /// In another directory, which a loss of power leaves as it was, or empties.
    Elsewhere,
}

/// A plan of cuts.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The design.
    pub design: Design,
    /// The contents.
    pub kind: Kind,
    /// The mode.
    pub mode: SyncMode,
    /// A live image in place of a log of lines.
    pub live: Option<Live>,
    /// Operations of each of the child's threads.
    pub ops: u64,
    /// The number of cuts.
    pub cuts: usize,
    /// The seed of operations and cuts.
    pub seed: u64,
    /// The log is so short that it is written through the page cache, and gone round.
    pub short: bool,
    /// The disk forgets to flush, which must be found.
    pub lying: bool,
}

impl Plan {
    fn options(self, dir: &Path) -> Options {
        let log_bytes = if self.short { SHORT_LOG_BYTES } else { LOG_BYTES };
        let options = Options::new().design(self.design).log_bytes(log_bytes).max_bytes(1 << 30);
        // Small extents, so that a pool grows now and then.
        let options = options
            .geometry(Geometry { extent_shift: 14, ..Geometry::default() })
            .sync_mode(self.mode);
        match self.live {
            None => options.live_image(false),
            Some(Live::Beside) => options.live_image(true),
            Some(Live::Elsewhere) => options.live_image(true).live_dir(elsewhere(dir)),
        }
    }

    /// The pool in `dir`, on the disk.
    fn table(self, dir: &Path, is_new: bool) -> durahash::Result<Table> {
        let (options, path) = (self.options(dir), dir.join("pool"));
        Ok(match (self.kind, is_new) {
            (Kind::Words, true) => Table::Words(options.create(path)?),
            (Kind::Words, false) => Table::Words(options.open(path)?),
            (Kind::Strings, true) => Table::Strings(options.create(path)?),
            (Kind::Strings, false) => Table::Strings(options.open(path)?),
            (Kind::Lists, true) => Table::Lists(options.create(path)?),
            (Kind::Lists, false) => Table::Lists(options.open(path)?),
        })
    }
}

/// The directory beside the disk for live images.
fn elsewhere(mounted: &Path) -> PathBuf {
    mounted.with_file_name("elsewhere")
}

/// Counts of the work done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looked {
    /// Steps that the disk took: writes and flushes.
    pub steps: usize,
    /// Bytes that were written to it.
    pub bytes: u64,
    /// Flushes.
    pub flushes: usize,
    /// Cuts that left a pool.
    pub pools: usize,
    /// Cuts before there was one.
    pub before: usize,
    /// Opens in the same boot that were refused.
    pub refused: usize,
}

/// The child's part: operations on the pool in `dir`, and what of them survives. It ends as if it were killed.
///
/// # Errors
/// Those of the pool.
pub fn child(dir: &Path, plan: Plan) -> durahash::Result<()> {
    let told = Mutex::new(std::io::stdout());
    let tell = |thread: usize, count: u64| {
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        // The parent has failed, and says so.
        let _ = writeln!(told, "{thread} {count}").and_then(|()| told.flush());
    };
    let table = plan.table(dir, true)?;
    tell(0, 0);
    let returned = [const { AtomicU64::new(0) }; THREADS];
    let run = |thread| {
        index::run(plan, &table, thread, &returned, |i| {
            if plan.mode == SyncMode::Strict {
                tell(thread, i);
            } else if i.is_multiple_of(SYNCS_EVERY) {
                let before = returned.each_ref().map(|count| count.load(Ordering::Acquire));
                table.sync()?;
                before.into_iter().enumerate().for_each(|(thread, count)| tell(thread, count));
            }
            Ok(())
        })
    };
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a thread has panicked"))
    })?;
    std::process::exit(0);
}

/// Steps that are undone in any case, last first.
struct Undo(Vec<(&'static str, PathBuf)>);

impl Undo {
    fn now(&mut self) -> Result<(), String> {
        let mut first = Ok(());
        while let Some((command, path)) = self.0.pop() {
            let done = match command {
                "rm" => fs::remove_dir_all(&path).map_err(|e| format!("{}: {e}", path.display())),
                "losetup" => run("losetup", &["-d".as_ref(), &path]).map(drop),
                _ => patiently(|| run(command, &[&path]).map(drop)),
            };
            first = first.and(done);
        }
        first
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // The first failure was told.
        let _ = self.now();
    }
}

/// Tries until it succeeds: services that probe a new device keep it busy for a moment.
fn patiently(mut attempt: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    const ATTEMPTS: u32 = 100;
    let mut done = attempt();
    for _ in 1..ATTEMPTS {
        if done.is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        done = attempt();
    }
    done
}

fn run(command: &str, args: &[&Path]) -> Result<String, String> {
    let output = Command::new(command).args(args).output();
    let output = output.map_err(|e| format!("{command}: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().into());
    }
    Err(format!("{command} {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

fn told(what: &str) -> impl Fn(std::io::Error) -> String {
    let what = what.to_string();
    move |e| format!("{what}: {e}")
}

/// Records the child's run, and cuts it.
///
/// # Errors
/// A cut has lost something, or the system lacks something.
pub fn cut(plan: Plan) -> Result<Looked, String> {
    let dir = std::env::temp_dir().join(format!("durahash-power-{}", std::process::id()));
    let (mounted, image) = (dir.join("mounted"), dir.join("image"));
    let made = fs::create_dir_all(&mounted).and_then(|()| fs::create_dir_all(elsewhere(&mounted)));
    made.map_err(told("directories"))?;
    let mut undo = Undo(vec![("rm", dir.clone())]);
    let empty = File::create(&image).and_then(|file| file.set_len(DISK_BYTES));
    empty.map_err(told("an image"))?;
    run("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), &image])?;
    let base = fs::read(&image).map_err(told("an image"))?;
    let steps = record(plan, &dir, base.clone())?;
    let looked = look(plan, base, &steps, &image, &mounted)?;
    undo.now()?;
    Ok(looked)
}

/// Runs the child on a file system on a disk that begins as `base`; returns the steps of the disk.
fn record(plan: Plan, dir: &Path, base: Vec<u8>) -> Result<Vec<Step>, String> {
    let (served, mounted) = (dir.join("served"), dir.join("mounted"));
    fs::create_dir_all(&served).map_err(told("directories"))?;
    let disk = Arc::new(Recorder::new(base));
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let device = device.map_err(told("/dev/fuse"))?;
    let mut mount = Command::new("mount");
    mount.args(["-i", "-t", "fuse", "-o"]);
    mount.arg("fd=0,rootmode=40000,user_id=0,group_id=0").arg("durahash-power").arg(&served);
    let stdin = device.try_clone().map_err(told("/dev/fuse"))?;
    let status = mount.stdin(Stdio::from(stdin)).status().map_err(told("mount"))?;
    if !status.success() {
        return Err(format!("mounting a file system in this process: {status}"));
    }
    let mut undo = Undo(vec![("umount", served.clone())]);
    let server = {
        let disk = Arc::clone(&disk);
        std::thread::spawn(move || fuse::serve(&device, &disk))
    };
    let file = served.join(fuse::DISK);
    let device = run("losetup", &["-f".as_ref(), "--show".as_ref(), &file])?;
    undo.0.push(("losetup", device.clone().into()));
    run("mount", &[device.as_ref(), &mounted])?;
    undo.0.push(("umount", mounted.clone()));

    let exe = std::env::current_exe().map_err(told("this program"))?;
    let mut command = Command::new(exe);
    command.arg(CHILD).arg("--dir").arg(&mounted);
    command.args(["--design", &plan.design.to_string()]);
    command.args(["--seed", &plan.seed.to_string(), "--ops", &plan.ops.to_string()]);
    let kind = match plan.kind {
        Kind::Words => None,
        Kind::Strings => Some("--strings"),
        Kind::Lists => Some("--multi"),
    };
    let live = plan.live.map(|live| match live {
        Live::Beside => "--live",
        Live::Elsewhere => "--live-elsewhere",
    });
    command.args(["--mode", &plan.mode.to_string()]).args(kind).args(live);
    command.args(plan.short.then_some("--short"));
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(told("a child"))?;
    let pipe = child.stdout.take().ok_or("the child has no pipe")?;
    for line in BufReader::new(pipe).lines() {
        let line = line.map_err(told("the child"))?;
        let (thread, count) = line.split_once(' ').ok_or("no two numbers")?;
        let number = |text: &str| text.parse().map_err(|_| format!("no number: {text}"));
        disk.did(Step::Promised { thread: number(thread)? as usize, count: number(count)? });
    }
    let status = child.wait().map_err(told("the child"))?;
    undo.now()?;
    let served = server.join().map_err(|_| "the file system's thread panicked")?;
    served.map_err(told("the file system"))?;
    if !status.success() {
        return Err(format!("the child: {status}"));
    }
    let disk = Arc::into_inner(disk).ok_or("the file system's thread is still there")?;
    Ok(disk.into_steps())
}

/// Cuts the power at random.
fn look(
    plan: Plan,
    base: Vec<u8>,
    steps: &[Step],
    image: &Path,
    mounted: &Path,
) -> Result<Looked, String> {
    let mut looked = Looked::default();
    for step in steps {
        match step {
            Step::Write { bytes, .. } => looked.bytes += bytes.len() as u64,
            Step::Flush => looked.flushes += 1,
            Step::Promised { .. } => continue,
        }
        looked.steps += 1;
    }
    let mut rng = Rng::new(plan.seed ^ 0x0ff);
    // One of eight while the pool is made, which takes most of the writes.
    let is_made = |step: &Step| matches!(step, Step::Promised { .. });
    let made = steps.iter().position(is_made).unwrap_or(0);
    let mut draw = |number| match number % 8 {
        0 => rng.below(made + 1),
        _ => made + rng.below(steps.len() + 1 - made),
    };
    let mut at: Vec<usize> = (0..plan.cuts).map(&mut draw).collect();
    at.sort_unstable();
    let mut walk = Walk::new(base);
    let mut taken = 0;
    for (number, at) in at.into_iter().enumerate() {
        // Flushes from before the child began are not forgotten: else there is no file system.
        let forgets = |i: usize| plan.lying && i > made && matches!(steps[i], Step::Flush);
        (taken..at).filter(|i| !forgets(*i)).for_each(|i| walk.take(&steps[i]));
        taken = at;
        let pick = match number % 4 {
            0 => Pick::Least,
            1 => Pick::Most,
            _ => Pick::Random(rng.number()),
        };
        if number % 2 == 1 && plan.live == Some(Live::Elsewhere) {
            let dir = elsewhere(mounted);
            let emptied = fs::remove_dir_all(&dir).and_then(|()| fs::create_dir(&dir));
            emptied.map_err(told("a directory"))?;
        }
        let bytes = walk.cut(pick);
        let on_it = |work: &mut dyn FnMut() -> Result<bool, String>| {
            write_image(image, &bytes).map_err(told("an image"))?;
            run("mount", &["-o".as_ref(), "loop".as_ref(), image, mounted])?;
            let mut undo = Undo(vec![("umount", mounted.to_path_buf())]);
            let done = work();
            undo.now()?;
            done.map_err(|e| {
                format!(
                    "{plan:?}, cut {number} before step {at}, {pick:?}, {:?}: {e}",
                    walk.promised
                )
            })
        };
        if number % SAME_BOOT_EVERY == 5 && plan.live.is_some() && walk.promised.is_some() {
            looked.refused += usize::from(on_it(&mut || refused(plan, mounted))?);
        }
        set_boot(1 + number as u64);
        let found = on_it(&mut || check(plan, mounted, walk.promised));
        set_boot(0);
        let found = found?;
        *(if found { &mut looked.pools } else { &mut looked.before }) += 1;
    }
    Ok(looked)
}

/// Without what is zero, which a new file has anyway.
fn write_image(path: &Path, image: &[u8]) -> std::io::Result<()> {
    const CHUNK_BYTES: usize = 4096;
    let file = File::create(path)?;
    file.set_len(image.len() as u64)?;
    for (chunk, at) in image.chunks(CHUNK_BYTES).zip((0..).step_by(CHUNK_BYTES)) {
        if chunk.iter().any(|byte| *byte != 0) {
            file.write_all_at(chunk, at)?;
        }
    }
    Ok(())
}

/// True if an open in the boot in which the power was cut is refused, as there is no live image that could be trusted. On the disk
/// there may be one: nothing tells that it has lost pages, but that a boot does not outlive the power.
fn refused(plan: Plan, dir: &Path) -> Result<bool, String> {
    match plan.table(dir, false) {
        Err(e) if matches!(e.kind(), ErrorKind::NoLiveImage { .. }) => Ok(true),
        _ if plan.live == Some(Live::Beside) => Ok(false),
        Err(e) => Err(format!("not refused for its live image: {e}")),
        Ok(_) => Err("opened without its live image".into()),
    }
}

/// True if there is a pool. It must hold the operations that were `promised`, and at most those that were begun.
fn check(plan: Plan, dir: &Path, promised: Option<[u64; THREADS]>) -> Result<bool, String> {
    if !dir.join("pool").exists() {
        return if promised.is_none() { Ok(false) } else { Err("the pool is gone".into()) };
    }
    let told = |e: durahash::Error| e.to_string();
    let table = plan.table(dir, false).map_err(told)?;
    index::check(plan, table.contents()?, promised.unwrap_or_default())?;
    // And it goes on.
    (0..20).try_for_each(|key| table.put(key, key)).map_err(told)?;
    table.close().map_err(told)?;
    Ok(true)
}

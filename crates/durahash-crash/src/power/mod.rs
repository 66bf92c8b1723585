//! A pool on a real file system that loses power: ext4 on a loop device, over a disk that writes down every
//! write and flush (`fuse.rs`).
//!
//! A child process makes a pool there in the mode `Strict`, runs operations, and tells each that has
//! returned. Then the power is cut, at random between two steps of the disk: of the sectors that were
//! written since the last flush any version is there. The disk is mounted, which lets ext4 recover, and
//! opened, which lets the pool recover; it must hold all operations that returned. Needs root, FUSE and loop devices.

mod fuse;
mod index;
mod record;

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use durahash::{Design, Options, SyncMode};

use crate::block::Pick;
use crate::logged::{Contents, Table};
use crate::script::Rng;
use index::Change;
use record::{Recorder, Step, Walk};

const DISK_BYTES: u64 = 96 << 20;
/// So long that it is written past the page cache.
const LOG_BYTES: u64 = 10 << 20;
/// So short that the ring is gone round.
const SHORT_LOG_BYTES: u64 = 256 << 10;
/// The subcommand of the child.
pub const CHILD: &str = "power-child";

/// A plan of cuts.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The design.
    pub design: Design,
    /// True for a multimap.
    pub multi: bool,
    /// Operations of the child.
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
    fn options(self) -> Options {
        let log_bytes = if self.short { SHORT_LOG_BYTES } else { LOG_BYTES };
        let options = Options::new().design(self.design).log_bytes(log_bytes);
        options.sync_mode(SyncMode::Strict).max_bytes(1 << 30)
    }

    fn table(self, path: &Path, is_new: bool) -> durahash::Result<Table> {
        let options = self.options();
        Ok(match (self.multi, is_new) {
            (false, true) => Table::Words(options.create(path)?),
            (false, false) => Table::Words(options.open(path)?),
            (true, true) => Table::Lists(options.create(path)?),
            (true, false) => Table::Lists(options.open(path)?),
        })
    }
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
}

/// The child's part: operations on the pool in `dir`, told one by one. It ends as if it were killed.
///
/// # Errors
/// Those of the pool.
pub fn child(dir: &Path, plan: Plan) -> durahash::Result<()> {
    let mut told = std::io::stdout();
    let mut tell = |i: u64| {
        // The parent has failed, and says so.
        let _ = writeln!(told, "{i}").and_then(|()| told.flush());
    };
    let table = plan.table(&dir.join("pool"), true)?;
    tell(0);
    for i in 1..=plan.ops {
        Change::of(plan, i).apply(&table)?;
        tell(i);
    }
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
    fs::create_dir_all(&mounted).map_err(told("directories"))?;
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
    command.args(plan.short.then_some("--short")).args(plan.multi.then_some("--multi"));
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(told("a child"))?;
    let pipe = child.stdout.take().ok_or("the child has no pipe")?;
    for line in BufReader::new(pipe).lines() {
        let count = line.map_err(told("the child"))?.parse().map_err(|_| "no number")?;
        disk.did(Step::Returned(count));
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
            Step::Returned(_) => continue,
        }
        looked.steps += 1;
    }
    let mut rng = Rng::new(plan.seed ^ 0x0ff);
    // One of eight while the pool is made, which takes most of the writes.
    let is_made = |step: &Step| matches!(step, Step::Returned(_));
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
        write_image(image, &walk.cut(pick)).map_err(told("an image"))?;
        run("mount", &["-o".as_ref(), "loop".as_ref(), image, mounted])?;
        let mut undo = Undo(vec![("umount", mounted.to_path_buf())]);
        let found = check(plan, mounted, walk.returned);
        undo.now()?;
        let found = found.map_err(|e| {
            format!("{plan:?}, cut {number} before step {at}, {pick:?}, {:?}: {e}", walk.returned)
        })?;
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

/// True if there is a pool. It must hold the operations that `returned`, and at most those that were begun.
fn check(plan: Plan, dir: &Path, returned: Option<u64>) -> Result<bool, String> {
    let path = dir.join("pool");
    if !path.exists() {
        return if returned.is_none() { Ok(false) } else { Err("the pool is gone".into()) };
    }
    let told = |e: durahash::Error| e.to_string();
    let table = plan.table(&path, false).map_err(told)?;
    let found = table.contents()?;
    let mut contents = Contents::new();
    let mut is_one = false;
    for i in 0..=plan.ops {
        if i > 0 {
            Change::of(plan, i).model(&mut contents, plan.multi);
        }
        is_one |= i >= returned.unwrap_or(0) && contents == found;
    }
    if !is_one {
        return Err(format!("{} keys, and not as after any operation since", found.len()));
    }
    // And it goes on.
    (0..20).try_for_each(|key| table.put(key, key)).map_err(told)?;
    table.close().map_err(told)?;
    Ok(true)
}

//! The model `block`: what a loss of power leaves of a pool behind a log.
//!
//! [`Walk`] follows the steps that a [`SimDisk`](durahash_media::sim::SimDisk) recorded. Of each sector of
//! 512 bytes it knows what is on the disk for sure, and what else was written since the last sync: any
//! of these versions may be there instead, of each sector another one. Of a write to the log that is
//! under way any sectors are there. When the *process* is killed nothing is lost that was written,
//! but it is not on the disk for that: recovery begins with both. A write or sync that failed leaves any
//! of these versions, too, and no later sync is about them: a sector is known again only once it is written
//! and synced again. A recovery that reads the ring on the drive has the drive's cache emptied.

use std::collections::{BTreeMap, BTreeSet};

use durahash_media::sim::{DiskImage, DiskStep};

use crate::script::Rng;

const SECTOR_BYTES: usize = 512;
const SECTOR_WORDS: usize = SECTOR_BYTES / 8;

durahash_media::listed! {
    /// An order or a sync that is left out, which the tester must notice.
    pub enum Omit {
        /// The program does not wait for a write to the log: it is on the disk only when the next one is.
        LogWait,
        /// Lines are written to the pool before they are in the log.
        LogFirst,
        /// Staged lines are written over before they are in the log.
        StagedKept,
        /// A checkpoint, or a recovery, does not sync the pool.
        DataSync,
        /// It writes the head before it syncs the pool.
        HeadLast,
        /// The log goes on before the head is on the disk.
        HeadWait,
        /// A recovery does not write what it has read of the log again before it relies on it.
        LogAgain,
        /// One that has read the log on the drive, or written a head again, does not have the drive's cache emptied.
        DriveFlush,
        /// A recovery does not write again what the log holds of the pool.
        LinesAgain,
        /// The file grows, but not durably.
        GrowSync,
        /// A spill file is not on the disk when a part names it.
        SpillSync,
        /// Of the parts of a batch, only the write of the final one is waited for.
        PartWait,
    }
}

impl Omit {
    /// True if a pool with a live image has this order or sync; false if it is one without.
    #[must_use]
    pub fn is_of(self, live: bool) -> bool {
        match self {
            Omit::StagedKept => !live,
            Omit::SpillSync | Omit::PartWait => live,
            _ => true,
        }
    }

    /// The steps as they would have been without it.
    #[must_use]
    pub fn from(self, mut steps: Vec<DiskStep>) -> Vec<DiskStep> {
        let is_head = |step: &DiskStep| matches!(step, DiskStep::Log { off, .. } if *off < HEADS);
        match self {
            Omit::DataSync => steps.retain(|step| *step != DiskStep::SyncData),
            Omit::DriveFlush => steps.retain(|step| *step != DiskStep::FlushDrive),
            Omit::LogAgain => {
                steps
                    .retain(|step| !matches!(step, DiskStep::Again { .. } | DiskStep::Soon { .. }));
            }
            Omit::LinesAgain => {
                // A recovery is what comes before the first two heads.
                let mut is_recovery = true;
                steps.retain(|step| {
                    is_recovery &= !matches!(step, DiskStep::Log { .. });
                    !is_recovery || !matches!(step, DiskStep::Line { .. })
                });
            }
            Omit::LogFirst => {
                let mut log = 0;
                for at in 0..steps.len() {
                    match &steps[at] {
                        DiskStep::Line { .. } => {
                            steps[log..=at].rotate_right(1);
                            log += 1;
                        }
                        DiskStep::Log { off, .. } if *off >= HEADS => log = at,
                        // What is noted of it.
                        DiskStep::Live(_) => {}
                        _ => log = at + 1,
                    }
                }
            }
            Omit::StagedKept => {
                let mut staged = None;
                let again = |step: DiskStep| {
                    let before = match &step {
                        DiskStep::Log { off, .. } if *off >= HEADS => staged,
                        _ => None,
                    };
                    if let DiskStep::Staged(bytes) = &step {
                        staged = Some(bytes.len());
                    }
                    before.map(|bytes| DiskStep::Staged(vec![0; bytes])).into_iter().chain([step])
                };
                steps = steps.into_iter().flat_map(again).collect();
            }
            Omit::HeadLast => {
                for at in 1..steps.len() {
                    if steps[at - 1] == DiskStep::SyncData && is_head(&steps[at]) {
                        steps.swap(at - 1, at);
                    }
                }
            }
            Omit::LogWait | Omit::HeadWait | Omit::GrowSync | Omit::SpillSync | Omit::PartWait => {}
        }
        steps
    }
}

/// Bytes of both heads, before everything else in the area.
const HEADS: u64 = 8192;

/// Which of the versions that a sector may have it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// Only what is on the disk for sure.
    Least,
    /// Everything that was written.
    Most,
    /// Of each sector any version; the seed says which.
    Random(u64),
}

/// Versions of sectors that are not on the disk for sure, oldest first.
type Pending<const N: usize, T> = BTreeMap<usize, Versions<N, T>>;

#[derive(Clone)]
struct Versions<const N: usize, T> {
    all: Vec<[T; N]>,
    /// A sync of the last one failed, so the system believes that it is on the disk.
    given_up: bool,
}

impl<const N: usize, T> Versions<N, T> {
    fn push(&mut self, version: [T; N]) {
        self.all.push(version);
        self.given_up = false;
    }
}

impl<const N: usize, T> Default for Versions<N, T> {
    fn default() -> Self {
        Versions { all: Vec::new(), given_up: false }
    }
}

/// Follows steps; see the [module docs](self).
#[derive(Clone)]
pub struct Walk {
    omit: Option<Omit>,
    /// The contents that are on the disk for sure.
    durable: DiskImage,
    /// The contents that the program reads.
    current: DiskImage,
    pool: Pending<SECTOR_WORDS, u64>,
    area: Pending<SECTOR_BYTES, u8>,
    /// Where the ring begins in the area: behind the staged lines.
    ring: usize,
    /// Other bytes of the area that are on the disk when the drive's cache was emptied: where they begin, and how many.
    soon: Vec<(usize, usize)>,
    /// Length of the pool, where it is not on the disk yet.
    resized: Option<usize>,
    /// Spill files that were removed: they may come back.
    removed: BTreeSet<u64>,
}

impl Walk {
    /// A walk that begins at `image`, all of it on the disk.
    #[must_use]
    pub fn new(image: DiskImage, omit: Option<Omit>) -> Self {
        Walk {
            omit,
            durable: image.clone(),
            current: image,
            pool: Pending::new(),
            area: Pending::new(),
            ring: HEADS as usize,
            soon: Vec::new(),
            resized: None,
            removed: BTreeSet::new(),
        }
    }

    /// Does what `step` does.
    pub fn take(&mut self, step: &DiskStep) {
        self.current.apply(step);
        match step {
            DiskStep::Line { off, .. } => {
                let sector = *off as usize / SECTOR_BYTES;
                let words = &self.current.pool[sector * SECTOR_WORDS..][..SECTOR_WORDS];
                let version = words.try_into().expect("a whole sector");
                self.pool.entry(sector).or_default().push(version);
            }
            DiskStep::SyncData => {
                self.end_resize();
                self.pool.retain(|sector, versions| {
                    if !versions.given_up {
                        put(&mut self.durable.pool, *sector, versions.all.last());
                    }
                    versions.given_up
                });
            }
            DiskStep::SyncDataFailed => {
                self.pool.values_mut().for_each(|versions| versions.given_up = true);
            }
            DiskStep::Again { off, bytes } => {
                self.write_area(*off as usize, bytes.len());
                self.settle_area(*off as usize, bytes.len());
            }
            DiskStep::Log { off, bytes } => {
                let waits = match self.omit {
                    Some(Omit::LogWait) => false,
                    Some(Omit::HeadWait) => *off >= HEADS,
                    Some(Omit::PartWait) => step.part().is_none_or(|(_, is_final)| is_final),
                    _ => true,
                };
                if self.omit == Some(Omit::LogWait) {
                    self.sync_area();
                }
                self.write_area(*off as usize, bytes.len());
                if waits {
                    self.settle_area(*off as usize, bytes.len());
                }
            }
            DiskStep::Soon { off, bytes } => {
                self.write_area(*off as usize, bytes.len());
                self.soon.push((*off as usize, bytes.len()));
            }
            DiskStep::LogFailed { off, bytes } => self.write_area(*off as usize, bytes.len()),
            DiskStep::Staged(bytes) => {
                self.ring = HEADS as usize + bytes.len();
                self.write_area(HEADS as usize, bytes.len());
            }
            DiskStep::FlushDrive => {
                let end = self.current.area.len();
                self.settle_area(self.ring, end - self.ring);
                for (off, bytes) in std::mem::take(&mut self.soon) {
                    self.settle_area(off, bytes);
                }
            }
            DiskStep::Resize(bytes) => {
                let words = *bytes as usize / 8;
                if self.omit == Some(Omit::GrowSync) && words > self.durable.pool.len() {
                    self.resized = Some(words);
                } else {
                    self.durable.pool.resize(words, 0);
                    self.pool.retain(|sector, _| (sector + 1) * SECTOR_WORDS <= words);
                }
            }
            DiskStep::Spill { batch, bytes: Some(bytes) } => {
                self.removed.remove(batch);
                if self.omit != Some(Omit::SpillSync) {
                    self.durable.spills.insert(*batch, bytes.clone());
                }
            }
            DiskStep::Spill { batch, bytes: None } => drop(self.removed.insert(*batch)),
            DiskStep::Live(_) | DiskStep::Mark(_) => {}
        }
    }

    /// The contents that the next process reads if this one is killed.
    #[must_use]
    pub fn killed(&self) -> &DiskImage {
        &self.current
    }

    /// The machine starts again, with all that was written.
    pub fn boot(&mut self) {
        self.current.boot += 1;
    }

    fn end_resize(&mut self) {
        if let Some(words) = self.resized.take() {
            self.durable.pool.resize(words, 0);
        }
    }

    fn sync_area(&mut self) {
        for (sector, versions) in std::mem::take(&mut self.area) {
            put(&mut self.durable.area, sector, versions.all.last());
        }
    }

    /// The last version of these sectors is on the disk.
    fn settle_area(&mut self, off: usize, bytes: usize) {
        for sector in sectors(off, bytes) {
            let versions = self.area.remove(&sector).unwrap_or_default();
            put(&mut self.durable.area, sector, versions.all.last());
        }
    }

    /// The current bytes of the area are a version of each sector there, where they are new.
    fn write_area(&mut self, off: usize, bytes: usize) {
        for sector in sectors(off, bytes) {
            let version = &self.current.area[sector * SECTOR_BYTES..][..SECTOR_BYTES];
            let version: [u8; SECTOR_BYTES] = version.try_into().expect("a whole sector");
            let durable = &self.durable.area[sector * SECTOR_BYTES..][..SECTOR_BYTES];
            let versions = self.area.get(&sector).and_then(|versions| versions.all.last());
            if versions.map_or(durable, |last| &last[..]) != version {
                self.area.entry(sector).or_default().push(version);
            }
        }
    }

    /// The disk after a loss of power now, or while `under_way` is done.
    #[must_use]
    pub fn cut(&self, under_way: Option<&DiskStep>, pick: Pick) -> DiskImage {
        let mut walk = self.clone();
        if let Some(
            DiskStep::Log { off, bytes }
            | DiskStep::Again { off, bytes }
            | DiskStep::Soon { off, bytes },
        ) = under_way
        {
            walk.take(&DiskStep::LogFailed { off: *off, bytes: bytes.clone() });
        }
        let mut rng = Rng::new(if let Pick::Random(seed) = pick { seed } else { 0 });
        let mut choose = |count: usize| {
            let chosen = match pick {
                Pick::Least => 0,
                Pick::Most => count,
                Pick::Random(_) => rng.below(count + 1),
            };
            chosen.checked_sub(1)
        };
        let mut image = walk.durable;
        // The live file has whatever the system wrote back, of another boot.
        image.live = walk.current.live;
        image.boot = walk.current.boot + 1;
        if let Some(DiskStep::Spill { batch, bytes: Some(bytes) }) = under_way
            && choose(1).is_some()
        {
            image.spills.insert(*batch, bytes.clone());
        }
        for batch in &walk.removed {
            if choose(1).is_some() {
                image.spills.remove(batch);
            }
        }
        for (sector, versions) in &walk.pool {
            // Where the file did not become longer, there is no such sector.
            if (sector + 1) * SECTOR_WORDS <= image.pool.len() {
                let version = choose(versions.all.len()).map(|i| &versions.all[i]);
                put(&mut image.pool, *sector, version);
            }
        }
        for (sector, versions) in &walk.area {
            let version = choose(versions.all.len()).map(|i| &versions.all[i]);
            put(&mut image.area, *sector, version);
        }
        image
    }
}

fn sectors(off: usize, bytes: usize) -> std::ops::Range<usize> {
    off / SECTOR_BYTES..(off + bytes).div_ceil(SECTOR_BYTES)
}

fn put<T: Copy, const N: usize>(all: &mut [T], sector: usize, version: Option<&[T; N]>) {
    if let Some(version) = version {
        all[sector * N..][..N].copy_from_slice(version);
    }
}

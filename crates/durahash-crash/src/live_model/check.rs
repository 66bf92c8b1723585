//! What must hold in every state.

use std::collections::HashSet;

use super::disk::apply;
use super::process::is_trusted;
use super::{Image, LINES, State, THREADS, World, sum};

/// What is checked already, so that states which differ in memory only are not checked twice.
#[derive(Default)]
pub(super) struct Checked(HashSet<u64>);

impl Checked {
    pub(super) fn check(&mut self, world: &World, state: &State) -> Result<(), String> {
        let State { disk, record, .. } = state;
        if self.0.insert(sum(&(disk, &record.seen, record.promised))) {
            after_power_loss(world, state).map_err(|e| format!("a loss of power: {e}"))?;
        }
        after_kill(world, state).map_err(|e| format!("a kill: {e}"))
    }
}

/// Whatever a loss of power leaves is a cut with all that was promised.
fn after_power_loss(world: &World, state: &State) -> Result<(), String> {
    let images = state.disk.replays_after_power_loss(world).ok_or("no head is left")?;
    if let Some(page) = state.disk.wrong_sum_after_power_loss(world) {
        return Err(format!("page {page} has a wrong check word"));
    }
    let look = |image| is_cut(world, state, image).map_err(|e| format!("{image:?}: {e}"));
    images.iter().try_for_each(look)
}

/// With a store, the image has all that happened before it.
fn is_cut(world: &World, state: &State, image: &Image) -> Result<(), String> {
    let stores = |t: usize| image.iter().map(|line| line[t]).max().unwrap_or(0);
    let stores: [u8; THREADS] = std::array::from_fn(stores);
    if *image != world.image_after(stores) {
        return Err("a thread's store is there, and one before it is not".into());
    }
    for t in 0..THREADS {
        let promised = state.record.promised[t];
        if stores[t] < promised {
            return Err(format!("store {promised} of thread {t} was promised"));
        }
        for (store, seen) in (1..=stores[t]).zip(&state.record.seen[t]) {
            if *seen > stores[1 - t] {
                return Err(format!("store {store} of thread {t} had seen {seen} of the other's"));
            }
        }
    }
    Ok(())
}

/// The next process finds every store in the live image, and all of it a second time.
fn after_kill(world: &World, state: &State) -> Result<(), String> {
    let live = state.live.with_buffers(&state.memory);
    let stores = std::array::from_fn(|t| state.memory.threads[t].stores());
    // A head that was being written is there or not.
    let mut heads = vec![state.disk.durable_head(), state.disk.read_head()];
    heads.dedup();
    for head in heads {
        // Else base and batches count, which is a loss of power.
        if !is_trusted(world, &live, head) {
            continue;
        }
        let image = live.image;
        if image != world.image_after(stores) {
            return Err(format!("{image:?} has not the stores {stores:?} of the threads"));
        }
        let noted = live.noted.batch;
        let (lines, at) = state.disk.batches(world, head.at, noted);
        if at.batch != noted {
            return Err(format!("the log ends at batch {} before {noted}", at.batch));
        }
        // One batch may be durable and not noted.
        let (_, end) = state.disk.batches(world, head.at, usize::MAX);
        if end.batch > noted + 1 {
            return Err(format!("the log goes on to batch {} behind {noted}", end.batch));
        }
        if let Some(page) = state.disk.wrong_sum_after_kill(world, &lines) {
            return Err(format!("page {page} has a wrong check word"));
        }
        for mut base in state.disk.bases_after_kill() {
            apply(&mut base, &lines);
            if head.closed && base != image {
                return Err(format!("closed, and {base:?} is not {image:?}"));
            }
            let marks = live.marks;
            let is_copied = |line: usize| marks[line] != 0 || base[line] == image[line];
            if !(0..LINES).all(is_copied) {
                return Err(format!("{image:?} is not {base:?} with lines of marks {marks:?}"));
            }
        }
    }
    Ok(())
}

//! Opening: splits that a crash has interrupted are ended, and every segment is repaired.

use durahash_media::{Error, Medium, Place, Result};

use super::super::directory::Directory;
use super::layout::State;
use super::{Dash, Keys};

impl<M: Medium> Dash<M> {
    /// The one that is there.
    pub(crate) fn open(place: impl Into<Place<M>>, keys: Keys) -> Result<Self> {
        let place = place.into();
        place.pool().begin()?;
        let mut dash = Self::over(Directory::open(place)?, keys);
        dash.directory.recover()?;
        for (h, entry) in dash.directory.segments()? {
            if dash.head(entry.number())?.state == State::Splitting {
                dash.go_on_splitting(h, entry.number())?;
            }
        }
        let segments = dash.directory.segments()?;
        for (_, entry) in &segments {
            dash.repair(entry.number())?;
        }
        dash.segments = segments.len() as u64;
        dash.directory.release_others()?;
        Ok(dash)
    }

    /// Ends a split that a crash has interrupted.
    fn go_on_splitting(&mut self, h: u64, old: u64) -> Result<()> {
        let link = self.head(old)?.link;
        let new = link.ok_or_else(|| Error::corrupt("link of a segment that splits", 0))?;
        let head = self.head(new)?;
        if head.state == State::New {
            self.clear(new, head)?;
        }
        self.move_keys(h, old, new)
    }

    /// Drops one of two slots of a key that was on its way when the machine died, and makes the overflow words anew.
    fn repair(&self, segment: u64) -> Result<()> {
        let mut of_after = Vec::new();
        self.each_of(segment, |at, key, _| {
            if at.bucket < self.buckets && at.bucket != self.home(key) {
                of_after.push((at, key));
            }
        })?;
        for (at, key) in of_after {
            // The home is looked at first.
            if self.probe(segment, key)?.is_some_and(|(found, _)| found.bucket != at.bucket) {
                self.free(at, true)?;
            }
        }
        self.note_stash(segment)
    }
}

//! Further maps of a pool: their table, and making, renaming and removing them.
//!
//! Map 0 is the one that the superblock describes. The table of the others is a record block of
//! [`MAPS_MAX`] entries. An entry's state word says what the entry is, which of its two name areas counts,
//! and has a check of both: it is stored last. Units and directories belong to one map each, which the
//! extent table says; record blocks belong to nobody, and are found by walking all maps.
//!
//! # Invariants
//! - **MAPS-1** No extent is that of a map whose entry is free.
//! - **MAPS-2** Names of live maps differ.
//!
//! # Steps
//!
//! | Operation | Stores | Then | If it stops after this step |
//! |---|---|---|---|
//! | first map | state words of the table: free | flush, fence | a block that nothing names |
//! | | superblock: maps | flush, drain | a table without maps |
//! | create | entry: description, name, roots | flush, fence | the entry is free |
//! | | state: making | flush, fence | its extents are given back at the next open |
//! | | (the design makes its index) | | the same |
//! | | state: live | flush, drain | there is a map |
//! | rename | the other name area | flush, fence | it has the old name |
//! | | state: area, length, check | flush, drain | it has the new name |
//! | remove | state: removing | flush, drain | removed; its extents are given back at the next open |
//! | | its extents: table bytes | flush, fence, each | the same |
//! | | state: free | flush, drain | the entry may be used again |
//!
//! An open that finds an entry that is neither free nor live does the last two steps
//! ([`Pool::begin`]). Records of such a map are not reached by the sweep, and so found to be free.

use super::Pool;
use super::map_table::{
    ENTRY_BYTES, LIVE, MAKING, MapEntry, MapFacts, NAME_BYTES_MAX, REMOVING, TABLE_BYTES,
    check_name, name_words, refused,
};
use super::superblock::{Format, MAPS_MAX, Saved, State, Superblock, crc_of, store_all};
use crate::error::{Error, ErrorKind, Limit, Result};
use crate::lock::wait_lock;
use crate::medium::Medium;
use crate::word::bits;

impl<M: Medium> Pool<M> {
    fn entry(&self, off: u64, map: u8) -> Result<&MapEntry> {
        self.at(off + (u64::from(map) - 1) * ENTRY_BYTES)
    }

    /// An entry that is about to be stored to.
    fn entry_to_store(&self, off: u64, map: u8) -> Result<&MapEntry> {
        let entry = self.entry(off, map)?;
        self.touch_bytes(off + (u64::from(map) - 1) * ENTRY_BYTES, ENTRY_BYTES);
        Ok(entry)
    }

    /// The state word of an entry.
    fn state_word(&self, map: u8, state: u64, area: usize, name: &str) -> u64 {
        let low = state | (area as u64) << 8 | (name.len() as u64) << 16;
        let words = [self.uuid[0], self.uuid[1], u64::from(map), low];
        low | crc_of(words.into_iter().chain(name_words(name))) << 32
    }

    fn description_crc(&self, map: u8, words: [u64; 4]) -> u64 {
        crc_of([self.uuid[0], self.uuid[1], u64::from(map)].into_iter().chain(words))
    }

    /// Reads the table of a pool that is opened, whose last writer left `before`.
    pub(super) fn read_maps(&self, before: State) -> Result<()> {
        let medium = &self.medium;
        let off = medium.load(&self.at::<Superblock>(0)?.maps);
        let mut maps = wait_lock(&self.maps, medium);
        if off != 0 {
            let is_block = off.is_multiple_of(64)
                && self.block_bytes(off)? >= TABLE_BYTES
                && wait_lock(&self.blocks, medium).mark(off)? == Some(true);
            if !is_block {
                return Err(Error::corrupt("the table of maps is not a record block", off));
            }
            for map in 1..=MAPS_MAX {
                if let Some(facts) = self.read_entry(off, map, before)? {
                    if facts.state == LIVE && maps.has(&facts.name) {
                        let off = off + (u64::from(map) - 1) * ENTRY_BYTES;
                        return Err(Error::corrupt("two maps have one name", off));
                    }
                    maps.by_number.insert(map, facts);
                }
            }
            maps.off = off;
        }
        let extents = wait_lock(&self.extents, medium);
        for (i, kind) in (0..).zip(extents.kinds()) {
            // A pool without a map of its own has no extents of one either.
            if kind.map().is_some_and(|map| !maps.by_number.contains_key(&map)) {
                let off = i << self.format.geometry.extent_shift;
                return Err(Error::corrupt("an extent belongs to a map that does not exist", off));
            }
        }
        Ok(())
    }

    fn read_entry(&self, table: u64, map: u8, before: State) -> Result<Option<MapFacts>> {
        let medium = &self.medium;
        let entry = self.entry(table, map)?;
        let off = table + (u64::from(map) - 1) * ENTRY_BYTES;
        let word = medium.load(&entry.state);
        if word == 0 {
            return Ok(None);
        }
        let (state, area) = (bits(word, 0, 8), bits(word, 8, 1) as usize);
        let mut bytes = [0; NAME_BYTES_MAX];
        medium.copy_out(&entry.names[area], 0, &mut bytes);
        let (name, padding) = bytes.split_at((bits(word, 16, 8) as usize).min(NAME_BYTES_MAX));
        let name = str::from_utf8(name).ok().filter(|_| padding.iter().all(|byte| *byte == 0));
        let name = name
            .filter(|name| check_name(name).is_ok())
            .filter(|name| self.state_word(map, state, area, name) == word)
            .filter(|_| (LIVE..=REMOVING).contains(&state))
            .ok_or_else(|| Error::corrupt("the state of a map", off))?;
        let words = [&entry.contents, &entry.types, &entry.geometry, &entry.seed];
        let words = words.map(|word| medium.load(word));
        if medium.load(&entry.crc) != self.description_crc(map, words) {
            return Err(Error::corrupt("checksum of the description of a map", off));
        }
        let format = Format::from_words(words, self.format.max_bytes)?;
        if format.geometry.extent_shift != self.format.geometry.extent_shift {
            return Err(Error::corrupt("a map with extents of another size", off));
        }
        let loaded = Saved(&entry.saved, &entry.saved_crc).load(medium, before);
        let saved = loaded.unwrap_or_default();
        Ok(Some(MapFacts { name: name.into(), format, state, area, loaded, saved }))
    }

    /// Does away with what is left of maps that were not made or removed to the end.
    pub(super) fn remove_halves(&self) -> Result<()> {
        let maps = wait_lock(&self.maps, &self.medium);
        let halves = maps.by_number.iter().filter(|(_, map)| map.state != LIVE);
        let halves: Vec<u8> = halves.map(|(map, _)| *map).collect();
        drop(maps);
        halves.into_iter().try_for_each(|map| self.finish_removal(map))
    }

    /// Stores the counters of all maps for a clean close that leaves `state`; the caller syncs.
    pub(super) fn save_counters(&self, state: State) -> Result<()> {
        let medium = &self.medium;
        let maps = wait_lock(&self.maps, medium);
        for (map, facts) in maps.live() {
            if map == 0 {
                let superblock = self.at::<Superblock>(0)?;
                superblock.counters().store(medium, facts.saved, state);
                continue;
            }
            let entry = self.entry_to_store(maps.off, map)?;
            Saved(&entry.saved, &entry.saved_crc).store(medium, facts.saved, state);
            if medium.log_stats().is_some() {
                medium.flush(&entry.saved);
            }
        }
        Ok(())
    }

    /// The maps that are there: number, name and format, in the order of their numbers. Map 0 is the one
    /// that the superblock describes, and is called `main`.
    pub fn maps(&self) -> Vec<(u8, String, Format)> {
        let maps = wait_lock(&self.maps, &self.medium);
        maps.live().map(|(i, map)| (i, map.name.clone(), map.format.clone())).collect()
    }

    pub(super) fn map_format(&self, map: u8) -> Result<Format> {
        Ok(wait_lock(&self.maps, &self.medium).get(map)?.format.clone())
    }

    /// Counter `i` of a map as the last clean close saved it.
    pub fn saved(&self, map: u8, i: usize) -> Option<u64> {
        let maps = wait_lock(&self.maps, &self.medium);
        maps.by_number.get(&map)?.loaded.map(|saved| saved[i])
    }

    /// Sets counter `i` of a map for the next clean close to save.
    pub fn save(&self, map: u8, i: usize, v: u64) {
        if let Some(map) = wait_lock(&self.maps, &self.medium).by_number.get_mut(&map) {
            map.saved[i] = v;
        }
    }

    /// The eight root words of a map.
    pub(super) fn roots(&self, map: u8) -> Result<u64> {
        let maps = wait_lock(&self.maps, &self.medium);
        let _ = maps.get(map)?;
        Ok(match map {
            0 => std::mem::offset_of!(Superblock, roots) as u64,
            _ => {
                let entry = maps.off + (u64::from(map) - 1) * ENTRY_BYTES;
                entry + std::mem::offset_of!(MapEntry, roots) as u64
            }
        })
    }

    /// Begins to make a map, whose index is still to be made; its number. Until
    /// [`publish_map`](Pool::publish_map) a crash takes it back; where making the index fails,
    /// [`finish_removal`](Pool::finish_removal) does. The extents of all maps have one size.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) for a name or geometry that cannot be;
    /// [`MapExists`](ErrorKind::MapExists); [`Full`](ErrorKind::Full).
    pub fn begin_map(&self, name: &str, format: &Format) -> Result<u8> {
        self.writable()?;
        check_name(name)?;
        let medium = &self.medium;
        let mut format = format.clone();
        format.geometry.extent_shift = self.format.geometry.extent_shift;
        format.max_bytes = self.format.max_bytes;
        if !format.geometry.is_possible() {
            return Err(refused("the geometry is out of range"));
        }
        let mut maps = wait_lock(&self.maps, medium);
        if maps.by_number.values().any(|map| map.name == name && map.state != REMOVING) {
            return Err(ErrorKind::MapExists { name: name.into() }.into());
        }
        let free = (1..=MAPS_MAX).find(|map| !maps.by_number.contains_key(map));
        let map = free.ok_or_else(|| {
            Error::full(ENTRY_BYTES, Limit::Design("a file has at most 63 maps beside its own"))
        })?;
        if maps.off == 0 {
            maps.off = self.make_table()?;
        }
        let entry = self.entry_to_store(maps.off, map)?;
        let words = format.to_words();
        let [contents, types, geometry, seed] = words;
        medium.store(&entry.contents, contents);
        medium.store(&entry.types, types);
        medium.store(&entry.geometry, geometry);
        medium.store(&entry.seed, seed);
        medium.store(&entry.crc, self.description_crc(map, words));
        store_all(medium, &entry.reserved, [0; 2]);
        store_all(medium, &entry.names[0], name_words(name));
        store_all(medium, &entry.roots, [0; 8]);
        medium.flush(entry);
        medium.fence();
        self.store_map_state(maps.off, map, self.state_word(map, MAKING, 0, name))?;
        medium.fence();
        maps.by_number.insert(
            map,
            MapFacts {
                name: name.into(),
                format,
                state: MAKING,
                area: 0,
                loaded: None,
                saved: [0; 7],
            },
        );
        Ok(map)
    }

    /// Makes the table, without a map in it; its offset.
    fn make_table(&self) -> Result<u64> {
        let medium = &self.medium;
        let off = self
            // A power of two, as the blocks of some other sizes are not aligned to an entry.
            .alloc_block(TABLE_BYTES.next_power_of_two(), true)?
            .ok_or_else(|| Error::corrupt("no block where the pool may grow", 0))?;
        for map in 1..=MAPS_MAX {
            self.store_map_state(off, map, 0)?;
        }
        medium.fence();
        let word = &self.at::<Superblock>(0)?.maps;
        self.touch(0);
        medium.store(word, off);
        medium.flush(word);
        medium.drain();
        Ok(off)
    }

    /// Stores and flushes a state word; the caller fences.
    #[track_caller]
    fn store_map_state(&self, table: u64, map: u8, word: u64) -> Result<()> {
        let state = &self.entry_to_store(table, map)?.state;
        self.medium.store(state, word);
        self.medium.flush(state);
        Ok(())
    }

    /// Changes the state of a further map, durably.
    pub(super) fn set_map_state(&self, map: u8, from: u64, to: u64) -> Result<()> {
        self.writable()?;
        let mut maps = wait_lock(&self.maps, &self.medium);
        let off = maps.off;
        let Some(facts) = maps.by_number.get_mut(&map).filter(|map| map.state == from) else {
            return Err(refused("no map has this number"));
        };
        if map == 0 {
            return Err(refused("the file's own map cannot be renamed or removed"));
        }
        let word = self.state_word(map, to, facts.area, &facts.name);
        facts.state = to;
        self.store_map_state(off, map, word)?;
        self.medium.drain();
        Ok(())
    }

    /// Ends the making of a map: it is there from now on.
    ///
    /// # Errors
    /// [`ReadOnly`](ErrorKind::ReadOnly), [`Poisoned`](ErrorKind::Poisoned).
    pub fn publish_map(&self, map: u8) -> Result<()> {
        self.set_map_state(map, MAKING, LIVE)
    }

    /// Gives a map another name.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) for a name that cannot be, or map 0;
    /// [`MapExists`](ErrorKind::MapExists).
    pub fn rename_map(&self, map: u8, name: &str) -> Result<()> {
        self.writable()?;
        check_name(name)?;
        let medium = &self.medium;
        let mut maps = wait_lock(&self.maps, medium);
        let others =
            maps.by_number.iter().filter(|(i, other)| **i != map && other.state != REMOVING);
        if others.into_iter().any(|(_, other)| other.name == name) {
            return Err(ErrorKind::MapExists { name: name.into() }.into());
        }
        let off = maps.off;
        let Some(facts) = maps.by_number.get_mut(&map).filter(|facts| facts.state == LIVE) else {
            return Err(refused("no map has this number"));
        };
        if map == 0 {
            return Err(refused("the file's own map cannot be renamed or removed"));
        }
        let area = 1 - facts.area;
        let words = &self.entry_to_store(off, map)?.names[area];
        store_all(medium, words, name_words(name));
        medium.flush(words);
        medium.fence();
        self.store_map_state(off, map, self.state_word(map, LIVE, area, name))?;
        medium.drain();
        (facts.name, facts.area) = (name.into(), area);
        Ok(())
    }

    /// Begins to remove a map: once this returns it is gone, whatever crashes. It may only be used to free
    /// its records before [`finish_removal`](Pool::finish_removal).
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) for map 0, or one that is not there.
    pub fn begin_removal(&self, map: u8) -> Result<()> {
        self.set_map_state(map, LIVE, REMOVING)?;
        // Before its space, and its number, go to others.
        if let Some(changes) = self.medium.changes() {
            changes.remove_map();
        }
        Ok(())
    }

    /// Gives back the extents of a map whose removal has begun, or that was not made to the end.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) for one that is live, or not there. The next open ends the removal.
    pub fn finish_removal(&self, map: u8) -> Result<()> {
        let medium = &self.medium;
        let mut maps = wait_lock(&self.maps, medium);
        if maps.by_number.get(&map).is_none_or(|facts| facts.state == LIVE) {
            return Err(refused("no map with this number is being removed"));
        }
        wait_lock(&self.extents, medium).release_of(medium, map)?;
        self.store_map_state(maps.off, map, 0)?;
        medium.drain();
        maps.by_number.remove(&map);
        Ok(())
    }
}

//! The table of further maps, and the maps of a pool as DRAM knows them. See `maps.rs`.

use std::collections::BTreeMap;

use super::superblock::{Format, MAPS_MAX};
use crate::error::{Error, ErrorKind, Result};
use crate::on_media;
use crate::word::PmU64;

on_media! {
    /// A further map's entry in the table of maps.
    pub struct MapEntry: 320, align 64 {
        /// State (bits 0-7), the name area that counts (bit 8), bytes of the name (bits 16-23), CRC-32 of
        /// these, the pool's name, the entry's number and the map's name (bits 32-63); zero is free.
        pub state: PmU64,
        /// Design (bits 0-7) and kind of map (bits 8-15).
        pub contents: PmU64,
        /// Type tags: of the key (bits 0-31), of the value (bits 32-63).
        pub types: PmU64,
        /// As the superblock's.
        pub geometry: PmU64,
        /// Seed of every hash.
        pub seed: PmU64,
        /// CRC-32 of the pool's name, the entry's number and the four words before.
        pub crc: PmU64,
        /// Zero.
        pub reserved: [PmU64; 2],
        /// Two areas for the name, in UTF-8, padded with zeros.
        pub names: [[PmU64; 8]; 2],
        /// Where the design starts from.
        pub roots: [PmU64; 8],
        /// Counters saved by a clean close.
        pub saved: [PmU64; 7],
        /// CRC-32 of the counters and the state word of the close that saved them.
        pub saved_crc: PmU64,
    }
}

pub(super) const ENTRY_BYTES: u64 = size_of::<MapEntry>() as u64;
pub(super) const TABLE_BYTES: u64 = MAPS_MAX as u64 * ENTRY_BYTES;

/// Bytes of the longest name of a map.
pub(super) const NAME_BYTES_MAX: usize = 64;

/// The name of the map that the superblock describes.
const MAIN: &str = "main";

pub(super) const LIVE: u64 = 1;
pub(super) const MAKING: u64 = 2;
pub(super) const REMOVING: u64 = 3;

/// A map, as DRAM knows it.
pub(crate) struct MapFacts {
    pub(super) name: String,
    pub(super) format: Format,
    /// The state in the entry's word; of map 0 always live.
    pub(super) state: u64,
    /// The name area that counts.
    pub(super) area: usize,
    /// Counters of the last clean close, and those for the next.
    pub(super) loaded: Option<[u64; 7]>,
    pub(super) saved: [u64; 7],
}

/// The maps of a pool by number.
#[derive(Default)]
pub(crate) struct Maps {
    /// Offset of the table; zero is none.
    pub(super) off: u64,
    pub(super) by_number: BTreeMap<u8, MapFacts>,
}

impl Maps {
    pub(crate) fn new(format: &Format, loaded: Option<[u64; 7]>) -> Self {
        let mut maps = Maps::default();
        if format.kind != Format::NO_MAP {
            maps.by_number.insert(
                0,
                MapFacts {
                    name: MAIN.into(),
                    format: format.clone(),
                    state: LIVE,
                    area: 0,
                    loaded,
                    saved: loaded.unwrap_or_default(),
                },
            );
        }
        maps
    }

    pub(crate) fn table_off(&self) -> u64 {
        self.off
    }

    pub(super) fn live(&self) -> impl Iterator<Item = (u8, &MapFacts)> {
        self.by_number.iter().map(|(i, map)| (*i, map)).filter(|(_, map)| map.state == LIVE)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.live().any(|(_, map)| map.name == name)
    }

    pub(super) fn get(&self, map: u8) -> Result<&MapFacts> {
        let found = self.by_number.get(&map).filter(|map| map.state != REMOVING);
        found.ok_or_else(|| refused("no map has this number"))
    }
}

pub(super) fn refused(what: &'static str) -> Error {
    ErrorKind::Options { what }.into()
}

/// Refuses a name that no further map can have.
pub(super) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(refused("the name of a map has 1 to 64 bytes"));
    }
    if name.chars().any(char::is_control) {
        return Err(refused("the name of a map has no control characters"));
    }
    if name == MAIN {
        return Err(refused("the name `main` is reserved for the file's own map"));
    }
    Ok(())
}

/// A name in words.
pub(super) fn name_words(name: &str) -> [u64; 8] {
    let mut bytes = [0; NAME_BYTES_MAX];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|i| u64::from_le_bytes(words[i]))
}

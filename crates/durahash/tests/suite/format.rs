//! `docs/format.md` is held to the code: its tables to what `on_media!` emits and to what pools
//! say, its images to the bytes of pools that are made here.

use durahash::layout::RecordHeader;
use durahash::{
    AnyMap, Cache, Data, Dax, Design, Map, MultiMap, Options, Type, esh, pea, reh, rewo,
};
use durahash_media::hash::{ByteHash, WordMix};
use durahash_media::{Dram, Field, Geometry, MapEntry, Memory, PmU64, Superblock};
use durahash_testkit::{new_path, pool_on};

const DOCUMENT: &str = include_str!("../../../../docs/format.md");
const SEED: u64 = 0x5eed;

/// The part of the document under a heading.
fn section(heading: &str) -> &'static str {
    let (_, rest) = DOCUMENT
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("no heading {heading:?}"));
    rest.split("\n## ").next().unwrap()
}

/// The first `N` cells of every row of the section's table whose first column is named so.
fn table<const N: usize>(heading: &str, column: &str) -> Vec<[String; N]> {
    let mut lines = section(heading).lines();
    let head = format!("| {column} |");
    assert!(lines.any(|line| line.starts_with(&head)), "{heading}: {column}");
    let rows = lines.skip(1).map_while(|line| line.strip_prefix('|'));
    rows.map(|row| {
        let mut cells = row.split('|').map(|cell| cell.trim().replace('`', ""));
        std::array::from_fn(|_| cells.next().unwrap())
    })
    .collect()
}

fn number(text: &str) -> u64 {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(&hex.replace('_', ""), 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|e| panic!("{text:?}: {e}"))
}

#[test]
fn structs_are_as_documented() {
    let documented = |heading, fields: &[Field]| {
        let rows = table(heading, "offset");
        let fields =
            fields.iter().map(|f| [f.offset.to_string(), f.bytes.to_string(), f.name.to_owned()]);
        assert_eq!(rows, fields.collect::<Vec<_>>(), "{heading}");
    };
    documented("Superblock", Superblock::FIELDS);
    documented("Further maps", MapEntry::FIELDS);
    documented("REH: bucket", reh::Bucket::FIELDS);
    documented("REH: slot", reh::Slot::FIELDS);
    documented("Pea Hash: bucket", pea::Bucket::FIELDS);
    documented("Pea Hash: slot", pea::Slot::FIELDS);
    documented("Pea Hash: multimaps", pea::BufferHeader::FIELDS);
    documented("ESH: bucket", esh::Bucket::FIELDS);
    documented("ESH: slot", esh::Slot::FIELDS);
    documented("Rewo-Hash: bucket", rewo::Bucket::FIELDS);
    documented("Rewo-Hash: slot", rewo::Slot::FIELDS);
    documented("Rewo-Hash: block of tables", rewo::Tables::FIELDS);
    documented("Record", RecordHeader::FIELDS);
}

#[test]
fn hashes_are_as_documented() {
    let mix = WordMix::new(SEED);
    for [word, h] in table("Hashes", "word") {
        assert_eq!(mix.mix(number(&word)), number(&h), "{word}");
    }
    let hash = ByteHash::new(SEED);
    for [bytes, h] in table("Hashes", "bytes") {
        assert_eq!(hash.hash(bytes.trim_matches('"').as_bytes()), number(&h), "{bytes}");
    }
}

#[test]
fn type_tags_are_as_documented() {
    let types = [
        Type::Bool,
        Type::Char,
        Type::U8,
        Type::U16,
        Type::U32,
        Type::U64,
        Type::U128,
        Type::I8,
        Type::I16,
        Type::I32,
        Type::I64,
        Type::I128,
        Type::Bytes,
        Type::Str,
        Type::F32,
        Type::F64,
        Type::Object,
        Type::Array(5),
        <(u32, [u8; 3])>::TYPE,
    ];
    let dir = tempfile::tempdir().unwrap();
    let mut told = types
        .map(|ty| {
            let path = dir.path().join(ty.to_string());
            let map = tiny().types(ty, Type::U64).create::<AnyMap>(&path).unwrap();
            map.close().unwrap();
            let tag = u32::from_le_bytes(std::fs::read(&path).unwrap()[32..36].try_into().unwrap());
            [tag.to_string(), ty.to_string()]
        })
        .to_vec();
    let path = dir.path().join("cache");
    let cache: Cache<u64, u32> = Options::new().create(&path).unwrap();
    let ty = cache.stats().unwrap().value_type;
    cache.close().unwrap();
    let tag = u32::from_le_bytes(std::fs::read(&path).unwrap()[36..40].try_into().unwrap());
    told.push([tag.to_string(), ty.to_string()]);
    assert_eq!(table("Type tags", "tag"), told);
}

#[test]
fn size_classes_are_as_documented() {
    for (heading, extent_shift) in [("code", 19), ("large code", 16)] {
        let geometry = Geometry { extent_shift, ..Geometry::default() };
        let pool = pool_on(Dram::new(64 << 20).unwrap(), geometry);
        for row in table("Size classes", heading) {
            let [code, bytes] = row.map(|cell: String| number(&cell));
            let off = pool.alloc_block(bytes, true).unwrap().unwrap();
            assert_eq!(pool.block_bytes(off).unwrap(), bytes, "code {code}");
            // In the first extent of its chunk, if it has one: no class has so much yet that its chunks are longer.
            let extent = off / pool.extent_bytes();
            let word = pool.at::<PmU64>(pool.extent_bytes() / 2 + extent / 8 * 8).unwrap();
            let kinds = pool.medium().load(word).to_le_bytes();
            assert_eq!(u64::from(kinds[(extent % 8) as usize]), code, "{bytes} bytes");
        }
    }
}

/// Extents of 1 KiB, at most 8 of them, in the page cache.
fn tiny() -> Options {
    Options::new().seed(SEED).max_bytes(8 << 10).dax(Dax::Off).geometry(Geometry {
        extent_shift: 10,
        slots: 4,
        hash_bits: 4,
        buckets: 0,
    })
}

/// The bytes of an image in the document: lines of an offset and sixteen bytes, `..` for one that
/// differs from pool to pool. Bytes that no line shows are zero.
fn image(heading: &str) -> Vec<Option<u8>> {
    let text = section(heading).split("```").nth(1).unwrap();
    let mut bytes = Vec::new();
    for line in text.lines().skip(1) {
        let (offset, rest) = line.split_once("  ").unwrap();
        bytes.resize(usize::from_str_radix(offset, 16).unwrap(), Some(0));
        let shown = rest.split(';').next().unwrap().split_whitespace();
        bytes.extend(shown.map(|byte| u8::from_str_radix(byte, 16).ok()));
    }
    bytes
}

/// A pool's bytes as the document shows them.
fn shown(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).enumerate();
    let lines = lines.filter(|(_, line)| line.iter().any(|byte| *byte != 0));
    let line = |(i, line): (usize, &[u8])| {
        let bytes: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x}  {}", i * 16, bytes.join(" "))
    };
    lines.map(line).collect::<Vec<_>>().join("\n")
}

fn pool_is_as_documented(heading: &str, fill: impl FnOnce(&std::path::Path)) {
    let (_dir, path) = new_path();
    fill(&path);
    let bytes = std::fs::read(&path).unwrap();
    let mut documented = image(heading);
    assert!(documented.len() <= bytes.len(), "{heading}");
    documented.resize(bytes.len(), Some(0));
    let same =
        documented.iter().zip(&bytes).all(|(want, byte)| want.is_none_or(|want| want == *byte));
    assert!(same, "{heading}: the pool's bytes are\n{}", shown(&bytes));
}

#[test]
fn pools_of_words_are_as_documented() {
    let headings = [
        "Image: a pool of words",
        "Image: a pool of Pea Hash",
        "Image: a pool of ESH",
        "Image: a pool of Rewo-Hash",
    ];
    for (design, heading) in Design::ALL.iter().zip(headings) {
        pool_is_as_documented(heading, |path| {
            let map: Map<u64, u64> = tiny().design(*design).create(path).unwrap();
            for (key, value) in [(1, 10), (2, 20), (3, 30)] {
                map.put(&key, &value).unwrap();
            }
            map.remove(&2).unwrap();
            map.close().unwrap();
        });
    }
}

#[test]
fn a_pool_of_a_multimap_is_as_documented() {
    pool_is_as_documented("Image: a pool of a multimap", |path| {
        let map: MultiMap<u64, u64> = tiny().create(path).unwrap();
        for (key, value) in [(1, 10), (1, 11), (1, 12), (1, 13), (2, 20)] {
            map.add(&key, &value).unwrap();
        }
        map.close().unwrap();
    });
}

#[test]
fn a_pool_of_cells_is_as_documented() {
    pool_is_as_documented("Image: a pool of cells", |path| {
        let geometry = Geometry { extent_shift: 10, slots: 4, hash_bits: 0, buckets: 0 };
        let map: Map<[u8; 20], u64> = tiny().geometry(geometry).create(path).unwrap();
        for (key, value) in [(b"a digest of 20 bytes", 1), (b"another of as many..", 2)] {
            map.put(key, &value).unwrap();
        }
        map.close().unwrap();
    });
}

#[test]
fn a_pool_of_records_is_as_documented() {
    pool_is_as_documented("Image: a pool of records", |path| {
        let map: Map<str, u64> = tiny().create(path).unwrap();
        for (key, value) in [("cherry", 1), ("quince", 2), ("banana", 3)] {
            map.put(key, &value).unwrap();
        }
        map.close().unwrap();
    });
}

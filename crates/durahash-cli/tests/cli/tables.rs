//! Whole tables: what is loaded reads back, and the dump is the input.

use std::collections::BTreeSet;
use std::io::Read;

use durahash::{AnyMap, Options};

use crate::tool::Work;

/// Lines of the made-up table, as many as Debian 12 has packages.
const PACKAGES: usize = 63_666;

/// A sequence of numbers that is the same in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

/// A table of the same shape: names, then version, section, size and a description, some with escapes.
fn stand_in() -> String {
    const PARTS: [&str; 8] = ["lib", "python3", "gir1.2", "golang-github", "net", "a", "doc", "++"];
    const WORDS: [&str; 8] =
        ["for the", "library of", "(docs)", "daemon,", "Größe", r"C:\\dir", r"\n", "and"];
    let mut numbers = Numbers(12);
    let mut names = BTreeSet::new();
    while names.len() < PACKAGES {
        let (one, two) = (numbers.of(&PARTS), numbers.of(&PARTS));
        names.insert(format!("{one}-{two}{}", numbers.below(9000)));
    }
    let mut table = String::from("# name<TAB>version | section | size | description\n");
    for name in names {
        let (version, size) = (numbers.below(20), numbers.below(90_000));
        let words: Vec<_> = (0..3 + numbers.below(8)).map(|_| numbers.of(&WORDS)).collect();
        let words = words.join(" ");
        table.push_str(&format!("{name}\t{version}.0-1 | libs | {size} KiB | {words}\n"));
    }
    table
}

/// The bytes that the escapes in `text` stand for.
fn plain(text: &str) -> Vec<u8> {
    let parts: Vec<_> = text
        .split(r"\\")
        .map(|part| part.replace(r"\t", "\t").replace(r"\n", "\n").replace(r"\r", "\r"))
        .collect();
    parts.join(r"\").into_bytes()
}

/// The text of a file that is packed by gzip.
pub(crate) fn unpacked(path: &str) -> String {
    let file = std::fs::File::open(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

/// Loads the file `name`, whose text is `table`.
fn load(work: &Work, name: &str, table: &str) {
    let lines: BTreeSet<_> = table.lines().filter(|line| !line.starts_with('#')).collect();
    let (count, comments) = (lines.len(), table.lines().count() - lines.len());
    let said = work.run_args(["load", "t.pool", name]).ok();
    let wanted =
        format!("entries loaded: {count}, comments skipped: {comments}, bad lines left out: 0 (");
    assert!(said.starts_with(&wanted), "{said}");

    let map = Options::new().read_only(true).open::<AnyMap>(work.path("t.pool")).unwrap();
    assert_eq!(map.len().unwrap(), count as u64);
    for line in &lines {
        let (key, value) = line.split_once('\t').unwrap();
        assert_eq!(map.get(&plain(key)).unwrap(), Some(plain(value)), "{key}");
    }
    drop(map);
    let (key, value) = lines.first().unwrap().split_once('\t').unwrap();
    let got = work.run_args(["get", "t.pool", key]).ok();
    assert_eq!(got.as_bytes(), [&plain(value)[..], b"\n"].concat());

    let dump = work.run("dump t.pool").ok();
    assert_eq!(dump.lines().count(), count);
    assert_eq!(dump.lines().collect::<BTreeSet<_>>(), lines);
    assert_eq!(work.run("check t.pool").ok(), format!("t.pool: ok, {count} keys\n"));
}

#[test]
fn a_table_like_the_packages_of_debian() {
    let work = Work::new();
    let table = stand_in();
    work.write("table.tsv", &table);
    load(&work, "table.tsv", &table);
    // The table itself, where it is at hand.
    if let Ok(path) = std::env::var("DURAHASH_PACKAGES") {
        load(&Work::new(), &path, &unpacked(&path));
    }
}

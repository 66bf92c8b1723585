//! Keys and values that are byte strings: the names of Debian's packages, each twenty times, with
//! values of 16 to 200 bytes.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use durahash_bench::workload::Random;
use durahash_bench::{Error, Result};
use flate2::read::GzDecoder;

/// How many keys each package has.
const COPIES: usize = 20;
/// Packages of the stand-in, and lengths of their names, as in Debian 12.
const PACKAGES: usize = 63_666;
const NAME_BYTES: [usize; 2] = [3, 31];
const VALUE_BYTES: [usize; 2] = [16, 200];

/// Byte strings one after the other.
#[derive(Default)]
struct Arena {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Arena {
    fn push(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.bytes.extend(*part));
        self.ends.push(self.bytes.len());
    }

    #[inline]
    fn get(&self, i: usize) -> &[u8] {
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[i]]
    }
}

/// Keys and values by number, in no order: the first half of the keys is loaded, the second is
/// looked up in vain.
pub(crate) struct Strings {
    keys: Arena,
    values: Arena,
}

impl Strings {
    /// Of the packages in `file`, lines of name, tab, text; of made-up ones where there is none.
    pub(crate) fn new(file: Option<&Path>, seed: u64) -> Result<Self> {
        let mut random = Random::new(seed);
        let names = match file {
            Some(file) => read(file)?,
            None => make_up(&mut random),
        };
        let text: Vec<u8> = names.iter().flatten().copied().collect();
        let mut strings = Strings { keys: Arena::default(), values: Arena::default() };
        for copies in [0..COPIES, COPIES..2 * COPIES] {
            let mut order: Vec<(usize, usize)> = copies
                .flat_map(|copy| (0..names.len()).map(move |package| (package, copy)))
                .collect();
            for i in (1..order.len()).rev() {
                order.swap(i, random.below(i as u64 + 1) as usize);
            }
            for (package, copy) in order {
                let copy = format!("/{copy:02}");
                strings.keys.push(&[&names[package], copy.as_bytes()]);
            }
        }
        let [shortest, longest] = VALUE_BYTES;
        for _ in 0..names.len() * COPIES {
            let bytes = shortest + random.below((longest - shortest + 1) as u64) as usize - 8;
            let from = random.below((text.len() - bytes) as u64) as usize;
            let word = random.word().to_le_bytes();
            strings.values.push(&[&word, &text[from..from + bytes]]);
        }
        Ok(strings)
    }

    /// How many keys are loaded.
    pub(crate) fn len(&self) -> u64 {
        self.values.ends.len() as u64
    }

    #[inline]
    pub(crate) fn key(&self, number: u64) -> &[u8] {
        self.keys.get(number as usize)
    }

    /// The value of a key that is loaded.
    #[inline]
    pub(crate) fn value(&self, number: u64) -> &[u8] {
        self.values.get(number as usize)
    }
}

fn read(file: &Path) -> Result<Vec<Vec<u8>>> {
    let error = |source| Error::Io { doing: "reading", path: Some(file.to_owned()), source };
    let lines = BufReader::new(GzDecoder::new(File::open(file).map_err(error)?)).split(b'\n');
    let name = |line: Vec<u8>| line.split(|byte| *byte == b'\t').next().map(<[u8]>::to_vec);
    let mut names = Vec::new();
    for line in lines {
        let line = line.map_err(error)?;
        if !line.starts_with(b"#") {
            names.extend(name(line).filter(|name| !name.is_empty()));
        }
    }
    Ok(names)
}

/// Names of letters and hyphens that end in a number of their own.
fn make_up(random: &mut Random) -> Vec<Vec<u8>> {
    const LETTERS: &[u8] = b"etaoinsrlpdcgmubfkvhywxzjq-";
    let [shortest, longest] = NAME_BYTES;
    let name = |i: usize| {
        let number = i.to_string().into_bytes();
        let bytes = shortest + random.below((longest - shortest + 1) as u64) as usize;
        let letters = bytes.saturating_sub(number.len()).max(1);
        let mut name: Vec<u8> =
            (0..letters).map(|_| LETTERS[random.below(LETTERS.len() as u64) as usize]).collect();
        // No letter is a digit, so no two names are equal.
        name.extend(number);
        name
    };
    (0..PACKAGES).map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_differ_and_values_have_the_lengths_that_are_claimed() {
        let strings = Strings::new(None, 1).unwrap();
        assert_eq!(strings.len(), 1_273_320);
        let keys: HashSet<&[u8]> = (0..2 * strings.len()).map(|n| strings.key(n)).collect();
        assert_eq!(keys.len() as u64, 2 * strings.len());
        let lengths: HashSet<usize> = (0..strings.len()).map(|n| strings.value(n).len()).collect();
        assert_eq!(lengths, (16..=200).collect());
    }
}

//! Edges of graphs, from a file or made up.

use std::path::Path;

use crate::error::{Error, Result};
use crate::text::lines;
use crate::workload::{Random, Zipfian};

/// Edges for each source, and the exponent of how many a source has: about those of soc-Slashdot0902
/// (12.1 edges for each of 78,441 sources, of which the first has 0.26 % of all).
const DEGREE: u64 = 12;
const EXPONENT: f64 = 0.55;

/// An edge: source and target.
pub(crate) type Edge = (u64, u64);

/// The edges in a file of lines SOURCE, tab, TARGET, two numbers; it may be compressed. Empty lines,
/// and those that begin with `#`, do not count.
pub(crate) fn read(path: &Path) -> Result<Vec<Edge>> {
    let mut edges = Vec::new();
    lines(path, |line, number| {
        let numbers = line.split_once('\t');
        let edge = numbers.and_then(|(s, t)| Some((s.parse().ok()?, t.parse().ok()?)));
        edges.push(edge.ok_or_else(|| {
            let what = format!("{} has no edge in line {number}", path.display());
            Error::Config { what }
        })?);
        Ok(())
    })?;
    if edges.is_empty() {
        return Err(Error::Config { what: format!("{} has no edges", path.display()) });
    }
    Ok(edges)
}

/// A graph of `count` edges, at least one, from a seed: few sources have many.
pub(crate) fn made_up(count: u64, seed: u64) -> Vec<Edge> {
    let sources = count.div_ceil(DEGREE);
    let zipfian = Zipfian::with_exponent(sources, EXPONENT);
    let mut random = Random::new(seed);
    let mut draw = || (zipfian.draw(&mut random), random.below(sources));
    (0..count).map(|_| draw()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs::File;
    use std::io::Write;

    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn files_are_read_as_text_and_compressed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("edges.tsv");
        let text = "# comment\n1\t2\n\n1\t3\r\n2\t1\n";
        std::fs::write(&path, text).unwrap();
        assert_eq!(read(&path).unwrap(), [(1, 2), (1, 3), (2, 1)]);
        let mut gzip = GzEncoder::new(File::create(&path).unwrap(), flate2::Compression::default());
        gzip.write_all(text.as_bytes()).unwrap();
        gzip.finish().unwrap();
        assert_eq!(read(&path).unwrap(), [(1, 2), (1, 3), (2, 1)]);
    }

    #[test]
    fn bad_lines_are_refused_with_their_number() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("edges.tsv");
        for (text, reason) in [
            ("1\t2\n1 3\n", "line 2"),
            ("1\t-2\n", "line 1"),
            ("1\t2\t3\n", "line 1"),
            ("# nothing\n", "no edges"),
        ] {
            std::fs::write(&path, text).unwrap();
            let e = read(&path).unwrap_err().to_string();
            assert!(e.contains(reason), "{e}");
        }
        assert!(read(dir.path()).is_err());
    }

    /// Within a third of the shape of the graph that it stands for.
    #[test]
    fn a_made_up_graph_has_the_shape_of_a_real_one() {
        const EDGES: u64 = 948_464;
        let edges = made_up(EDGES, 42);
        assert_eq!(edges.len() as u64, EDGES);
        assert_eq!(edges, made_up(EDGES, 42));
        let mut degrees: HashMap<u64, u64> = HashMap::new();
        for (source, _) in &edges {
            *degrees.entry(*source).or_default() += 1;
        }
        let longest = degrees.values().max().unwrap();
        assert!((1700..3300).contains(longest), "{longest}");
        assert!((60_000..100_000).contains(&degrees.len()), "{}", degrees.len());
        assert_eq!(made_up(1, 0).len(), 1);
    }
}

//! The figures and tables of the papers' evaluations, as data: `reh.txt` and the others, a paragraph for each.
//!
//! ```text
//! figure ID                            7, or table 3; 8, 9, where these come of one run
//! title TEXT
//! axes X; Y                            as the paper has them
//! among TEXT                           what the paper compares with
//! claim TEXT                           what the paper says of it
//! on optane, file or dram              where times are taken; dram unless it stands here
//! threads 1,2                          1 unless it stands here; several are those of `--threads`, if that is given
//! run RUN                              any number, `runs.rs`; a figure without one is not repeated
//! limit TEXT                           what is not repeated here, and why
//! says TEXT | PAPER | HERE | RANGE     a number that the paper states, and which one of ours stands beside it
//! draw SPEC / TITLE / SUBTITLE         a figure, as `figures/specs.txt` of durahash-bench; the claim is its caption
//! list SPEC / COLUMNS / TITLE          a table, as `tables/specs.txt` there
//! ```
//!
//! HERE is TABLE:DESIGN:CASE:METRIC of a row, with `@N` for other threads than one, and `#N`, or `#last`, where only one number
//! of keys is meant; or the ratio of two, ` / ` between them. RANGE, FROM..TO, may be left out: it is what ours has to lie in, and a test holds it, of the miniature too.

use durahash_bench::{Error, Report, Result, Row};

/// The papers, with the text of each.
pub(super) const PAPERS: [(&str, &str); 5] = [
    ("reh", include_str!("reh.txt")),
    ("esh", include_str!("esh.txt")),
    ("rewo", include_str!("rewo.txt")),
    ("pea", include_str!("pea.txt")),
    ("sephash", include_str!("sephash.txt")),
];

/// A figure or a table of a paper.
#[derive(Default)]
pub(super) struct Figure {
    pub(super) paper: &'static str,
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) axes: &'static str,
    pub(super) among: &'static str,
    pub(super) claim: &'static str,
    pub(super) on: &'static str,
    pub(super) threads: Vec<usize>,
    pub(super) runs: Vec<&'static str>,
    pub(super) limits: Vec<&'static str>,
    pub(super) says: Vec<Stated>,
    pub(super) draws: Vec<[&'static str; 4]>,
    pub(super) lists: Vec<[&'static str; 4]>,
}

/// A number of a paper beside ours.
pub(super) struct Stated {
    pub(super) what: &'static str,
    pub(super) paper: &'static str,
    here: &'static str,
    /// From the least to the most that ours may be.
    pub(super) range: Option<[f64; 2]>,
}

fn wrong(line: &str) -> Error {
    Error::Config { what: format!("the catalogue cannot be read at: {line}") }
}

/// The figures of a paper, in its order.
///
/// # Errors
/// [`Error::Config`] where there is no such paper.
pub(super) fn figures(paper: &str) -> Result<Vec<Figure>> {
    let known = PAPERS.into_iter().find(|(name, _)| *name == paper);
    let (name, text) =
        known.ok_or_else(|| Error::Config { what: format!("no paper is called {paper}") })?;
    let mut figures: Vec<Figure> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (word, rest) = line.split_once(' ').ok_or_else(|| wrong(line))?;
        if word == "figure" {
            figures.push(Figure {
                paper: name,
                id: rest,
                on: "dram",
                threads: vec![1],
                ..Figure::default()
            });
        }
        figures.last_mut().ok_or_else(|| wrong(line))?.add(word, rest, line)?;
    }
    Ok(figures)
}

impl Figure {
    fn add(&mut self, word: &str, rest: &'static str, line: &str) -> Result<()> {
        match word {
            "figure" => {}
            "title" => self.title = rest,
            "axes" => self.axes = rest,
            "among" => self.among = rest,
            "claim" => self.claim = rest,
            "on" => self.on = rest,
            "threads" => {
                let threads = rest.split(',').map(|n| n.parse().map_err(|_| wrong(line)));
                self.threads = threads.collect::<Result<_>>()?;
            }
            "run" => self.runs.push(rest),
            "limit" => self.limits.push(rest),
            "says" => self.says.push(Stated::parse(rest).ok_or_else(|| wrong(line))?),
            "draw" | "list" => {
                let mut parts = rest.split(" / ");
                let mut part = || parts.next().ok_or_else(|| wrong(line));
                let (spec, second, third) = (part()?, part()?, part()?);
                if word == "draw" {
                    self.draws.push([spec, second, third, self.claim]);
                } else {
                    self.lists.push([spec, second, third, ""]);
                }
            }
            _ => return Err(wrong(line)),
        }
        Ok(())
    }

    /// The beginning of the names of its files.
    pub(super) fn file_name(&self) -> String {
        format!("{}-{}", self.paper, self.id.replace(", ", "-").replace(' ', "-"))
    }

    /// `Figure 7`, `Table 3`, or `Figure 8, 9`.
    pub(super) fn name(&self) -> String {
        let word = if self.id.starts_with(|c: char| c.is_ascii_digit()) { "Figure " } else { "" };
        format!("{word}{}", self.id)
    }

    /// True if it is, or has, the figure of a number, or the table of one.
    pub(super) fn is(&self, id: &str) -> bool {
        self.id == id || self.id.split(", ").any(|known| known == id)
    }
}

impl Stated {
    fn parse(text: &'static str) -> Option<Self> {
        let mut fields = text.split(" | ");
        let [what, paper, here] = [fields.next()?, fields.next()?, fields.next()?];
        let range = match fields.next().map(|range| range.split_once("..")) {
            None => None,
            Some(ends) => {
                let (from, to) = ends?;
                Some([from.parse().ok()?, to.parse().ok()?])
            }
        };
        Some(Stated { what, paper, here, range })
    }

    /// Our number; none where it was not measured.
    pub(super) fn here(&self, report: &Report) -> Option<f64> {
        let mut parts = self.here.split(" / ").map(|row| value(report, row));
        let first = parts.next()??;
        parts.try_fold(first, |value, next| Some(value / next?))
    }
}

/// The number of a row.
fn value(report: &Report, row: &str) -> Option<f64> {
    let (row, keys) = row.split_once('#').unwrap_or((row, ""));
    let (row, threads) = row.split_once('@').unwrap_or((row, "1"));
    let (threads, is_last, keys) = (threads.parse().ok()?, keys == "last", keys.parse().ok());
    let fields: Vec<&str> = row.split(':').collect();
    let [table, design, case, metric] = fields[..] else { return None };
    let is_it = |row: &&Row| {
        (&*row.design, &*row.case, &*row.metric, row.threads) == (design, case, metric, threads)
            && keys.is_none_or(|keys: u64| row.keys == keys)
    };
    let mut rows = report.table(table).filter(is_it);
    let found = if is_last { rows.last() } else { rows.next() };
    Some(found?.value)
}

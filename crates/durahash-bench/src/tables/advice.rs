//! Which design to choose, in words: from the rows of a report and nothing else, and only where they differ
//! by more than they spread.

use super::{Table, grouped};
use crate::report::{Report, Row, threads_text};
use crate::svg::{duration, three_digits};

/// A need of a user, and the rows that tell which design meets it.
struct Need {
    words: &'static str,
    table: &'static str,
    case: &'static str,
    metric: &'static str,
    kind: Kind,
}

/// The kind of the numbers.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Operations per second: more is better.
    Rate,
    /// Milliseconds, of an open: less is better. It is of the largest table.
    Open,
    /// Nanoseconds that were measured once: less is better. They spread as the throughput does.
    Tail,
    /// Counted, so the same on every machine: less is better.
    Count(&'static str),
    /// A part of a whole, counted: more is better.
    Part,
}

/// A count is as good as the best if it differs by no more than that part.
const NO_MATTER: f64 = 0.05;

const fn need(words: &'static str, [table, case, metric]: [&'static str; 3], kind: Kind) -> Need {
    Need { words, table, case, metric, kind }
}

const fn rate(words: &'static str, table: &'static str, case: &'static str) -> Need {
    need(words, [table, case, "ops_per_s"], Kind::Rate)
}

/// All needs, in the order in which they are told.
const NEEDS: [Need; 24] = [
    rate("inserts", "throughput", "load"),
    rate("inserts in batches", "throughput", "put_many"),
    rate("lookups, uniform", "throughput", "hit"),
    rate("lookups of what is not there", "throughput", "miss"),
    rate("lookups in batches", "throughput", "get_many"),
    rate("updates, uniform", "throughput", "update"),
    rate("removals", "throughput", "delete"),
    rate("reads that favour some keys (YCSB C)", "throughput", "YCSB C"),
    rate("the same, 5 % updates (YCSB B)", "throughput", "YCSB B"),
    rate("the same, half updates (YCSB A)", "throughput", "YCSB A"),
    rate("reads of few hot keys", "ycsb", "C, zipf 0.99"),
    rate("the same, 5 % updates", "ycsb", "B, zipf 0.99"),
    rate("the same, half updates", "ycsb", "A, zipf 0.99"),
    need("no insert takes long (p99.99)", ["latency", "load", "p99.99_ns"], Kind::Tail),
    need("no lookup takes long (p99.99)", ["latency", "hit", "p99.99_ns"], Kind::Tail),
    need("a soon restart after kill -9", ["recovery", "kill -9", "open_ms"], Kind::Open),
    need(
        "the first lookup soon after kill -9",
        ["recovery", "kill -9", "first_get_ms"],
        Kind::Open,
    ),
    need("little space on the medium", ["space", "load", "medium_bytes_per_key"], BYTES),
    need("little DRAM", ["space", "load", "dram_bytes_per_key"], BYTES),
    need("slots full at all times", ["space", "load", "load_factor_min"], Kind::Part),
    need("few reads of the medium: lookups", ["cost", "hit", "blocks_read"], BLOCKS),
    need("the same, of what is not there", ["cost", "miss", "blocks_read"], BLOCKS),
    need("few writes to the medium: inserts", ["cost", "insert", "lines_written"], LINES),
    need("few waits for the medium: inserts", ["cost", "insert", "waits"], Kind::Count("fences")),
];
const BYTES: Kind = Kind::Count("bytes an entry");
const BLOCKS: Kind = Kind::Count("blocks");
const LINES: Kind = Kind::Count("lines");

/// A number of a design, and how far it spread.
struct Figure<'a> {
    design: &'a str,
    value: f64,
    min: f64,
    max: f64,
}

impl Need {
    /// The numbers of every design, the best first; `None` where it was not measured of all, or only
    /// once, so that how it spreads is not known.
    fn figures<'a>(&self, report: &'a Report, threads: u64) -> Option<Vec<Figure<'a>>> {
        let is_timed = !matches!(self.kind, Kind::Count(_) | Kind::Part);
        if report.setup.designs.len() < 2 || (is_timed && report.setup.repeats < 2) {
            return None;
        }
        let of_design = |design: &'a String| {
            let mut figure = self.row(report, design, threads).map(|row| Figure {
                design,
                value: row.value,
                min: row.min,
                max: row.max,
            })?;
            match self.kind {
                Kind::Rate | Kind::Open => {}
                Kind::Tail => {
                    let rate =
                        report.find("throughput", design, self.case, threads, "ops_per_s")?;
                    figure.min = figure.value * rate.min / rate.value;
                    figure.max = figure.value * rate.max / rate.value;
                }
                Kind::Count(_) | Kind::Part => {
                    figure.min = figure.value * (1.0 - NO_MATTER / 2.0);
                    figure.max = figure.value * (1.0 + NO_MATTER / 2.0);
                }
            }
            Some(figure)
        };
        let figures: Option<Vec<Figure<'_>>> = report.setup.designs.iter().map(of_design).collect();
        let mut figures = figures?;
        figures.sort_by(|one, other| one.value.total_cmp(&other.value));
        if self.is_more_better() {
            figures.reverse();
        }
        Some(figures)
    }

    fn row<'a>(&self, report: &'a Report, design: &str, threads: u64) -> Option<&'a Row> {
        if self.kind != Kind::Open {
            return report.find(self.table, design, self.case, threads, self.metric);
        }
        let rows = report.table(self.table);
        rows.filter(|row| row.design == *design && row.metric == self.metric)
            .max_by_key(|row| row.keys)
    }

    fn is_more_better(&self) -> bool {
        matches!(self.kind, Kind::Rate | Kind::Part)
    }

    /// How many of the figures, from the first on, are not worse than it by more than they spread.
    fn chosen(&self, figures: &[Figure<'_>]) -> usize {
        let best = &figures[0];
        let is_as_good = |figure: &&Figure<'_>| {
            if self.is_more_better() { figure.max >= best.min } else { figure.min <= best.max }
        };
        figures.iter().take_while(is_as_good).count()
    }

    fn show(&self, value: f64) -> String {
        match self.kind {
            Kind::Rate => three_digits(value / 1e6),
            Kind::Open => duration(value * 1e6),
            Kind::Tail => duration(value),
            Kind::Count(_) | Kind::Part => format!("{value:.2}"),
        }
    }

    fn unit(&self) -> &'static str {
        match self.kind {
            Kind::Rate => "million/s",
            Kind::Open | Kind::Tail => "",
            Kind::Count(unit) => unit,
            Kind::Part => "of the slots",
        }
    }

    /// True if each number of threads has rows of its own.
    fn is_by_threads(&self) -> bool {
        matches!(self.kind, Kind::Rate | Kind::Tail)
    }
}

pub(super) fn table(report: &Report) -> Table {
    let mut rows = Vec::new();
    for need in &NEEDS {
        let threads = if need.is_by_threads() { &report.setup.threads[..] } else { &[1] };
        for n in threads {
            let Some(figures) = need.figures(report, *n) else { continue };
            let chosen = need.chosen(&figures);
            if chosen == figures.len() {
                continue;
            }
            let words = match need.is_by_threads() {
                true => format!("{}, {}", need.words, threads_text(*n)),
                false => need.words.to_owned(),
            };
            let names: Vec<&str> = figures[..chosen].iter().map(|figure| figure.design).collect();
            let mut because: Vec<String> = figures
                .iter()
                .map(|figure| format!("{} {}", figure.design, need.show(figure.value)))
                .collect();
            if let Some(last) = because.last_mut() {
                *last = format!("{last} {}", need.unit()).trim_end().to_owned();
            }
            rows.push(vec![words, names.join(" or "), because.join(", ")]);
        }
    }
    let emulated = match &report.setup.emulates {
        Some(name) => format!(
            " Times are those of an emulated {name}, but for opens: nothing is emulated there."
        ),
        None => String::new(),
    };
    Table {
        title: "Which design, by what matters most".into(),
        note: format!(
            "Drawn from the figures of this run, of {} keys, and of no other. Designs beside one another \
             with \"or\" differ by less than their repeats do; where all do, nothing is said. Of what is \
             counted, a difference of {:.0} % is none.{emulated}",
            grouped(report.setup.keys),
            NO_MATTER * 100.0
        ),
        header: ["where it matters", "choose", "because"].map(str::to_owned).into(),
        names: 3,
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rows: &[(&str, &str, &str, &str, [f64; 3])]) -> Report {
        let mut report = Report::default();
        report.setup.designs = vec!["reh".into(), "esh".into(), "rewo".into()];
        report.setup.threads = vec![1];
        report.setup.repeats = 3;
        for (table, design, case, metric, [min, value, max]) in rows {
            let [table, design, case, metric] = [table, design, case, metric].map(|s| (*s).into());
            let (value, min, max) = (*value, *min, *max);
            let row = Row { table, design, case, threads: 1, keys: 1000, metric, value, min, max };
            report.rows.push(row);
        }
        report
    }

    fn rows(report: &Report) -> Vec<String> {
        table(report).rows.iter().map(|row| row.join(" | ")).collect()
    }

    fn hits(spreads: [[f64; 3]; 3]) -> Report {
        let names = ["reh", "esh", "rewo"];
        let row = |(design, spread): (&'static str, [f64; 3])| {
            ("throughput", design, "hit", "ops_per_s", spread.map(|v| v * 1e6))
        };
        report(&names.into_iter().zip(spreads).map(row).collect::<Vec<_>>())
    }

    #[test]
    fn the_best_is_chosen_where_it_stands_out() {
        let report = hits([[9.0, 10.0, 11.0], [7.0, 8.0, 8.9], [2.0, 2.5, 3.0]]);
        let line = "lookups, uniform, 1 thread | reh | reh 10.0, esh 8.00, rewo 2.50 million/s";
        assert_eq!(rows(&report), [line]);
    }

    #[test]
    fn values_that_spread_more_than_they_differ_are_not_told_apart() {
        let report = hits([[9.0, 10.0, 11.0], [7.0, 8.0, 9.1], [2.0, 2.5, 3.0]]);
        assert!(rows(&report)[0].contains("| reh or esh |"));
        let all = hits([[9.0, 10.0, 11.0], [7.0, 8.0, 9.1], [2.0, 2.5, 9.0]]);
        assert!(rows(&all).is_empty());
    }

    #[test]
    fn one_repeat_and_one_design_tell_nothing() {
        let mut once = hits([[9.0, 10.0, 11.0], [7.0, 8.0, 8.9], [2.0, 2.5, 3.0]]);
        once.setup.repeats = 1;
        assert!(rows(&once).is_empty());
        let mut missing = hits([[9.0, 10.0, 11.0], [7.0, 8.0, 8.9], [2.0, 2.5, 3.0]]);
        missing.rows.pop();
        assert!(rows(&missing).is_empty());
        assert!(table(&Report::default()).rows.is_empty());
    }

    #[test]
    fn less_is_better_of_times_space_and_costs() {
        let mut report = report(&[
            ("recovery", "reh", "kill -9", "open_ms", [20.0, 27.0, 30.0]),
            ("recovery", "esh", "kill -9", "open_ms", [2.0, 2.3, 2.5]),
            ("recovery", "rewo", "kill -9", "open_ms", [2.4, 4.3, 4.5]),
            ("cost", "reh", "hit", "blocks_read", [1.0; 3]),
            ("cost", "esh", "hit", "blocks_read", [1.07; 3]),
            ("cost", "rewo", "hit", "blocks_read", [1.01; 3]),
            ("space", "reh", "load", "load_factor_min", [0.68; 3]),
            ("space", "esh", "load", "load_factor_min", [0.63; 3]),
            ("space", "rewo", "load", "load_factor_min", [0.46; 3]),
        ]);
        report.setup.emulates = Some("cxl".into());
        assert_eq!(
            rows(&report),
            [
                "a soon restart after kill -9 | esh or rewo | esh 2.3 ms, rewo 4.3 ms, reh 27 ms",
                "slots full at all times | reh | reh 0.68, esh 0.63, rewo 0.46 of the slots",
                "few reads of the medium: lookups | reh or rewo | reh 1.00, rewo 1.01, esh 1.07 blocks",
            ]
        );
        assert!(table(&report).note.contains("emulated cxl"));
    }

    #[test]
    fn the_longest_spread_as_throughput_does() {
        let tails = |of_esh| {
            report(&[
                ("latency", "reh", "load", "p99.99_ns", [6000.0; 3]),
                ("latency", "esh", "load", "p99.99_ns", [of_esh; 3]),
                ("latency", "rewo", "load", "p99.99_ns", [90_000.0; 3]),
                ("throughput", "reh", "load", "ops_per_s", [8e5, 1e6, 12e5]),
                ("throughput", "esh", "load", "ops_per_s", [8e5, 1e6, 12e5]),
                ("throughput", "rewo", "load", "ops_per_s", [8e5, 1e6, 12e5]),
            ])
        };
        assert!(rows(&tails(20_000.0))[0].contains("| reh | reh 6 µs, esh 20 µs, rewo 90 µs"));
        assert!(rows(&tails(7000.0))[0].contains("| reh or esh |"));
    }
}

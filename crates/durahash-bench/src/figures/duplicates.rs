//! Figures of the suite of many values for each key.

use super::Figure;
use crate::charts::{Bar, Bars, Line, Lines, Style, highest};
use crate::report::{Report, Row, threads_text};
use crate::suites::duplicates::Operation;
use crate::svg::{Axis, number, three_digits};

const TABLE: &str = "duplicates";

/// What a case of skew and one of a graph begin with.
const SKEW: &str = "zipf ";
const GRAPH: &str = "graph ";

/// What the figures over skew show: file name, title, operation, caption.
const CURVES: [(&str, &str, Operation, &str); 5] = [
    (
        "duplicates-add",
        "Add an entry",
        Operation::Add,
        "More is better. The keys are drawn by a zipfian distribution: the further to the right, \
         the more values has a key that has many.",
    ),
    (
        "duplicates-get-by-entry",
        "Get all values, by entry",
        Operation::GetByEntry,
        "More is better. The keys of random entries, so those with many values most often: the \
         table has how many values that is a second.",
    ),
    (
        "duplicates-get-by-key",
        "Get all values, by key",
        Operation::GetByKey,
        "More is better. Each key once; most have few values.",
    ),
    (
        "duplicates-remove-one",
        "Remove one value",
        Operation::RemoveOne,
        "More is better. The value is looked for among all of its key.",
    ),
    (
        "duplicates-remove-all",
        "Remove all values, by key",
        Operation::RemoveAll,
        "More is better. Each key once; most have few values.",
    ),
];

/// The operations of the graph's figure, and what the paper calls them.
const OF_GRAPH: [(Operation, &str); 6] = [
    (Operation::Add, "SI: add edges"),
    (Operation::GetByEntry, "SS: get, by edge"),
    (Operation::GetByKey, "US: get, by source"),
    (Operation::Update, "update an edge"),
    (Operation::RemoveOne, "remove an edge"),
    (Operation::RemoveAll, "UD: remove sources"),
];

pub(super) fn all(report: &Report) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (name, title, operation, caption) in CURVES {
        let axis = "million operations per second";
        let series = over_skew(report, &operation.per_s(), 1e6);
        figures.extend(curve(report, title, axis, series).map(|svg| Figure {
            name: name.into(),
            caption,
            svg,
        }));
    }
    let series = over_skew(report, "medium_bytes_per_entry", 1.0);
    let title = "Bytes per entry, many values for each key";
    figures.extend(curve(report, title, "bytes per entry on the medium", series).map(|svg| {
        Figure {
            name: "duplicates-bytes-per-entry".into(),
            caption: "Less is better; 16 bytes are a key and a value. Equal keys share a list, so \
                      fewer bytes than that are possible.",
            svg,
        }
    }));
    figures.extend(graph(report));
    figures
}

/// The tables that were measured, with numbers of threads, in the order of a metric's rows.
fn contenders<'a>(report: &'a Report, metric: &str) -> Vec<(&'a str, u64)> {
    let mut found = Vec::new();
    for row in report.table(TABLE).filter(|row| row.metric == metric) {
        let contender = (row.design.as_str(), row.threads);
        if !found.contains(&contender) {
            found.push(contender);
        }
    }
    found
}

/// What a contender is called: with its threads, where there are several numbers of them.
fn names(contenders: &[(&str, u64)]) -> Vec<String> {
    let one = contenders.iter().all(|(_, threads)| *threads == contenders[0].1);
    let name = |(design, threads): &(&str, u64)| {
        if one { (*design).to_owned() } else { format!("{design}, {}", threads_text(*threads)) }
    };
    contenders.iter().map(name).collect()
}

/// The position of each in the order of their first mention: colours, or dashes.
fn numbered<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<usize> {
    let mut seen = Vec::new();
    let number = |item: T| {
        let found = seen.iter().position(|other| *other == item);
        found.unwrap_or_else(|| {
            seen.push(item);
            seen.len() - 1
        })
    };
    items.map(number).collect()
}

fn over_skew(report: &Report, metric: &str, unit: f64) -> Vec<Line> {
    let contenders = contenders(report, metric);
    let colours = numbered(contenders.iter().map(|(design, _)| *design));
    let dashes = numbered(contenders.iter().map(|(_, threads)| *threads));
    let lines = contenders.iter().zip(names(&contenders)).enumerate();
    let lines = lines.map(|(i, ((design, threads), name))| {
        let rows = report
            .table(TABLE)
            .filter(|row| row.design == *design && row.threads == *threads && row.metric == metric);
        let point = |row: &Row| {
            let skew = row.case.strip_prefix(SKEW)?.parse().ok()?;
            Some((skew, row.value / unit))
        };
        let style = Style { colour: colours[i], dash: dashes[i] };
        Line { name, style, points: rows.filter_map(point).collect() }
    });
    lines.filter(|line| !line.points.is_empty()).collect()
}

fn curve(report: &Report, title: &str, axis: &str, series: Vec<Line>) -> Option<String> {
    if series.is_empty() {
        return None;
    }
    let points = series.iter().flat_map(|line| &line.points);
    let most_skewed = points.map(|(skew, _)| *skew).fold(0.1, f64::max);
    let chart = Lines {
        title,
        subtitle: &format!("{}{}", report.place(), report.emulated()),
        x: ("exponent of the zipfian distribution", Axis::linear(0.0, most_skewed, number)),
        y: (axis, Axis::linear(0.0, highest(&series), number)),
        series,
        marks: 1,
    };
    Some(chart.svg())
}

fn graph(report: &Report) -> Option<Figure> {
    let case = report.cases(TABLE).into_iter().find(|case| case.starts_with(GRAPH))?;
    let contenders = contenders(report, &Operation::Add.per_s());
    let bar = |row: &Row| Bar { value: row.value / 1e6, min: row.min / 1e6, max: row.max / 1e6 };
    let groups = OF_GRAPH.map(|(operation, name)| {
        let bars = contenders.iter().map(|(design, threads)| {
            report.find(TABLE, design, case, *threads, &operation.per_s()).map(bar)
        });
        (name.to_owned(), bars.collect())
    });
    let chart = Bars {
        title: "Edges of a graph",
        subtitle: &format!(
            "{}, {}{}",
            case.trim_start_matches(GRAPH),
            report.place(),
            report.emulated()
        ),
        axis: "million operations per second",
        show: three_digits,
        series: names(&contenders),
        groups: groups.into(),
    };
    Some(Figure {
        name: "graph".into(),
        caption: "More is better. Sources are keys, targets their values. Bars are medians of the \
                  repeats, whiskers reach from the slowest to the fastest of them.",
        svg: chart.svg(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::draw;
    use crate::figures::tests::well_formed;
    use crate::report::tests::samples;

    #[test]
    fn curves_have_a_line_for_each_table_and_number_of_threads() {
        let mut report = Report::default();
        for case in ["zipf 0.0", "zipf 0.8", "graph <g>"] {
            for design in ["pea", "pea, lists"] {
                let space = [("medium_bytes_per_entry", 27.5)];
                report.rows.extend(samples(TABLE, design, case, 1, 1000, &space));
                for threads in [1, 2] {
                    for operation in Operation::ALL {
                        let per_s = operation.per_s();
                        let values = operation.values_per_s();
                        let metrics = [(per_s.as_str(), 3e6), (values.as_str(), 2e7)];
                        report.rows.extend(samples(TABLE, design, case, threads, 1000, &metrics));
                    }
                }
            }
        }
        let figures = draw(&report);
        assert_eq!(figures.len(), CURVES.len() + 2);
        for figure in &figures {
            well_formed(&figure.file());
            let of_threads = figure.svg.contains(">pea, lists, 2 threads<");
            assert_eq!(of_threads, figure.name != "duplicates-bytes-per-entry", "{}", figure.name);
            assert!(figure.svg.contains(">pea"));
        }
        let graph = figures.iter().find(|figure| figure.name == "graph").unwrap();
        assert!(graph.svg.contains("SI: add edges") && graph.svg.contains("&lt;g&gt;"));
    }
}

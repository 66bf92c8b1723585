//! Figures of a report: rows as charts.

mod caches;
mod duplicates;
mod durability;
mod loads;
pub(crate) mod remote;
mod resizing;
mod sizes;
mod ycsb;

use crate::charts::{Bar, Bars, Line, Lines, Ranges, Style, highest};
use crate::report::{Report, Row, threads_text};
use crate::svg::{Axis, duration, number, stand_alone, three_digits};

/// A figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What its file is called, without `.svg`.
    pub name: String,
    /// What it shows, in a sentence or two.
    pub caption: &'static str,
    svg: String,
}

impl Figure {
    /// The figure as an SVG file, on white.
    #[must_use]
    pub fn file(&self) -> String {
        stand_alone(&self.svg)
    }

    /// The figure for a page that brings the styles.
    pub(crate) fn inline(&self) -> &str {
        &self.svg
    }
}

/// All figures of a report that its rows suffice for.
#[must_use]
pub fn draw(report: &Report) -> Vec<Figure> {
    let mut figures = Vec::new();
    for view in View::all(report) {
        figures.extend(throughput(report, &view));
    }
    figures.extend(scaling(report));
    for view in View::all(report) {
        figures.extend(latency(report, &view));
    }
    figures.extend(growth(report));
    figures.extend(resizes(report));
    figures.extend(costs(report));
    figures.extend(recovery(report));
    figures.extend(duplicates::all(report));
    figures.extend(sizes::all(report));
    figures.extend(loads::all(report));
    figures.extend(ycsb::all(report));
    figures.extend(caches::all(report));
    figures.extend(resizing::all(report));
    figures.extend(durability::all(report));
    figures.extend(remote::all(report));
    figures
}

/// What a figure tells apart by colour, and what it holds still: designs at one number of threads;
/// or, where there is one design only, its numbers of threads.
struct View {
    suffix: String,
    subtitle: String,
    /// Name, design, threads.
    series: Vec<(String, String, u64)>,
}

impl View {
    fn all(report: &Report) -> Vec<View> {
        let setup = &report.setup;
        let emulated = report.emulated();
        if let [design] = &setup.designs[..] {
            let series = setup.threads.iter().map(|t| (threads_text(*t), design.clone(), *t));
            return vec![View {
                suffix: String::new(),
                subtitle: format!("{design}, {}{emulated}", report.place()),
                series: series.collect(),
            }];
        }
        let views = setup.threads.iter().map(|t| View {
            suffix: format!("-{t}"),
            subtitle: format!("{}, {}{emulated}", threads_text(*t), report.place()),
            series: setup
                .designs
                .iter()
                .map(|design| (design.clone(), design.clone(), *t))
                .collect(),
        });
        views.collect()
    }

    fn names(&self) -> Vec<String> {
        self.series.iter().map(|(name, ..)| name.clone()).collect()
    }

    /// For every case of a table, what `f` makes of it and each series.
    fn groups<T>(
        &self,
        report: &Report,
        table: &str,
        f: impl Fn(&str, &str, u64) -> Option<T>,
    ) -> Vec<(String, Vec<Option<T>>)> {
        let groups = report.cases(table).into_iter().map(|case| {
            let series = self.series.iter().map(|(_, design, threads)| f(design, case, *threads));
            (case.to_owned(), series.collect())
        });
        groups.collect()
    }
}

/// A figure of what is timed in operations per second: the cases of `table`, all designs.
fn rates(
    report: &Report,
    view: &View,
    table: &'static str,
    title: &'static str,
    caption: &'static str,
) -> Option<Figure> {
    report.table(table).next()?;
    let chart = Bars {
        title,
        subtitle: &view.subtitle,
        axis: "million operations per second",
        show: three_digits,
        series: view.names(),
        groups: view.groups(report, table, |design, case, threads| {
            let row = report.find(table, design, case, threads, "ops_per_s")?;
            Some(Bar { value: row.value / 1e6, min: row.min / 1e6, max: row.max / 1e6 })
        }),
    };
    Some(Figure { name: format!("{table}{}", view.suffix), caption, svg: chart.svg() })
}

fn throughput(report: &Report, view: &View) -> Option<Figure> {
    let caption = "More is better. Bars are medians of the repeats, whiskers reach from the slowest \
                   to the fastest of them.";
    rates(report, view, "throughput", "Throughput", caption)
}

/// Throughput over threads; two points make no curve.
fn scaling(report: &Report) -> Vec<Figure> {
    let threads = &report.setup.threads;
    if threads.len() < 3 {
        return Vec::new();
    }
    let shown = ["load", "hit", "update", "YCSB A"];
    let cases = report.cases("throughput").into_iter();
    let figures = cases.filter(|case| shown.contains(case)).map(|case| {
        let point = |design: &str, t: u64| {
            let row = report.find("throughput", design, case, t, "ops_per_s")?;
            Some((t as f64, row.value / 1e6))
        };
        let series =
            lines(report, 0, |design| threads.iter().filter_map(|t| point(design, *t)).collect());
        let most = threads.iter().max().map_or(1.0, |t| *t as f64);
        let chart = Lines {
            title: &format!("Throughput over threads: {case}"),
            subtitle: &format!("{}{}", report.place(), report.emulated()),
            x: ("threads", Axis::linear(0.0, most, number)),
            y: ("million operations per second", Axis::linear(0.0, highest(&series), number)),
            series,
            marks: 1,
        };
        Figure {
            name: format!("scaling-{}", case.replace(' ', "-").to_lowercase()),
            caption: "More is better; a straight line through zero scales perfectly.",
            svg: chart.svg(),
        }
    });
    figures.collect()
}

/// A line for each design that has points.
fn lines(report: &Report, dash: usize, points: impl Fn(&str) -> Vec<(f64, f64)>) -> Vec<Line> {
    let designs = report.setup.designs.iter().enumerate();
    let lines = designs.map(|(colour, design)| Line {
        name: design.clone(),
        style: Style { colour, dash },
        points: points(design),
    });
    lines.filter(|line| !line.points.is_empty()).collect()
}

/// The same lines with more to their names.
fn named(mut lines: Vec<Line>, suffix: &str) -> Vec<Line> {
    for line in &mut lines {
        line.name = format!("{}, {suffix}", line.name);
    }
    lines
}

/// The percentiles of the latency figures: names and metrics.
const PERCENTILES: [(&str, &str); 3] =
    [("p50", "p50_ns"), ("p99", "p99_ns"), ("p99.99", "p99.99_ns")];

fn latency(report: &Report, view: &View) -> Option<Figure> {
    report.table("latency").next()?;
    let chart = Ranges {
        title: "Latency",
        subtitle: &view.subtitle,
        axis: "time of one operation (of 64, where batched), logarithmic",
        percentiles: &PERCENTILES.map(|(name, _)| name),
        series: view.names(),
        groups: view.groups(report, "latency", |design, case, threads| {
            let find = |metric| report.find("latency", design, case, threads, metric);
            // Those that there were samples enough for, which are the first of them.
            let values = PERCENTILES.iter().map_while(|(_, metric)| Some(find(metric)?.value));
            let values: Vec<f64> = values.collect();
            (!values.is_empty()).then_some(values)
        }),
    };
    Some(Figure {
        name: format!("latency{}", view.suffix),
        caption: "Less is better. Every operation was timed by itself, in runs of their own; the \
                  clock's own time is included.",
        svg: chart.svg(),
    })
}

/// A metric over the number of keys, for each design.
fn over_keys(report: &Report, dash: usize, table: &str, metric: &str) -> Vec<Line> {
    lines(report, dash, |design| {
        let rows = report.table(table);
        let rows = rows.filter(|row| row.design == *design && row.metric == metric);
        rows.map(|row| (row.keys as f64, row.value)).collect()
    })
}

fn growth(report: &Report) -> Vec<Figure> {
    let load_factor = over_keys(report, 0, "growth", "load_factor");
    let Some(marks) = load_factor.first().map(|line| line.points.len() / 8) else {
        return Vec::new();
    };
    let keys = report.setup.keys as f64;
    let x = || ("keys in the table", Axis::linear(0.0, keys, number));
    let first = Lines {
        title: "Load factor over growth",
        subtitle: "slots in use, as a part of all slots",
        x: x(),
        y: ("load factor", Axis::linear(0.0, 1.0, number)),
        series: load_factor,
        marks,
    };
    let medium = over_keys(report, 0, "growth", "medium_bytes_per_key");
    let dram = over_keys(report, 1, "growth", "dram_bytes_per_key");
    let mut bytes = named(medium, "medium");
    bytes.extend(named(dram, "DRAM"));
    // An almost empty table costs any number of bytes for each of its keys.
    let points = bytes.iter().flat_map(|line| &line.points);
    let grown = points.filter(|(x, _)| *x >= keys / 16.0);
    let most = grown.map(|(_, y)| *y).fold(16.0, f64::max);
    let second = Lines {
        title: "Bytes per entry over growth",
        subtitle: "in use for keys and values of 8 bytes each",
        x: x(),
        y: ("bytes per entry", Axis::linear(0.0, most * 1.1, number)),
        series: bytes,
        marks,
    };
    vec![
        Figure {
            name: "load-factor".into(),
            caption: "More is better, and steadier is better: the lowest point decides how much \
                      memory must be there.",
            svg: first.svg(),
        },
        Figure {
            name: "bytes-per-entry".into(),
            caption: "Less is better; 16 bytes are the key and the value themselves. Larger at the \
                      very beginning, where it leaves the figure.",
            svg: second.svg(),
        },
    ]
}

/// The percentiles of inserts, as a curve: the one in how many that takes longer, and the metric.
const RESIZE_PERCENTILES: [(f64, &str); 5] = [
    (2.0, "p50_ns"),
    (10.0, "p90_ns"),
    (100.0, "p99_ns"),
    (1000.0, "p99.9_ns"),
    (10_000.0, "p99.99_ns"),
];

fn resizes(report: &Report) -> Option<Figure> {
    let curves = |dash, case: &str| {
        let curves = lines(report, dash, |design| {
            let find = |metric| report.find("resize", design, case, 1, metric);
            let points = RESIZE_PERCENTILES
                .iter()
                .filter_map(|(one_in, metric)| Some((*one_in, find(metric)?.value)));
            points.collect()
        });
        named(curves, case)
    };
    let mut series = curves(0, "insert");
    series.extend(curves(1, "insert that splits"));
    let points = series.iter().flat_map(|line| &line.points);
    let lo = points.map(|(_, ns)| *ns).fold(f64::MAX, f64::min);
    if series.is_empty() {
        return None;
    }
    let subtitle = format!("1 thread, {}{}", report.place(), report.emulated());
    let chart = Lines {
        title: "Latency of inserts that split, and of others",
        subtitle: &subtitle,
        x: (
            "percentile, logarithmic towards 100 %",
            Axis::log_at(RESIZE_PERCENTILES.map(|(one_in, _)| one_in).into(), percentile),
        ),
        y: (
            "time of one insert, logarithmic",
            Axis::log(lo.max(1.0), highest(&series).max(1.0), duration),
        ),
        series,
        marks: 1,
    };
    Some(Figure {
        name: "resize-latency".into(),
        caption: "Less is better: what growth costs the inserts that it falls upon. A doubling of \
                  the directory shows at the right end.",
        svg: chart.svg(),
    })
}

/// The percentile that leaves out one in `n`.
fn percentile(n: f64) -> String {
    let percent = 100.0 - 100.0 / n;
    format!("p{}", (percent * 1000.0).round() / 1000.0)
}

/// The operations of cost figures. Splits and merges, which the table has, are as rare as a unit is
/// large, and would leave no room for the others.
const USUAL: [&str; 5] = ["hit", "miss", "insert", "update", "remove"];

/// What a cost figure shows: file name, title, axis, metric, caption.
const COSTS: [(&str, &str, &str, &str, &str); 3] = [
    (
        "blocks-read",
        "Blocks read for each operation",
        "blocks of 256 bytes of the medium",
        "blocks_read",
        "Less is better: on persistent memory, reads of blocks decide what a lookup costs. \
         Splits and merges are in the table.",
    ),
    (
        "flushes",
        "Lines written back for each operation",
        "flushes of 64-byte lines",
        "flushes",
        "Less is better: what an operation must write back before it is durable. \
         Splits and merges are in the table.",
    ),
    (
        "fences",
        "Waits for durability of each operation",
        "fences and drains",
        "waits",
        "Less is better: how often an operation waits for what it wrote back. \
         Splits and merges are in the table.",
    ),
];

fn costs(report: &Report) -> Vec<Figure> {
    if report.table("cost").next().is_none() {
        return Vec::new();
    }
    let figures = COSTS.map(|(name, title, axis, metric, caption)| {
        let find = |design: &str, case: &str| report.find("cost", design, case, 1, metric);
        let bar = |row: &Row| Bar { value: row.value, min: row.value, max: row.value };
        let designs = &report.setup.designs;
        let usual = report.cases("cost").into_iter().filter(|case| USUAL.contains(case));
        let groups = usual.map(|case| {
            let bars = designs.iter().map(|design| find(design, case).map(bar));
            (case.to_owned(), bars.collect())
        });
        let chart = Bars {
            title,
            subtitle: "counted, not timed: the same on every machine",
            axis,
            show: number,
            series: designs.clone(),
            groups: groups.collect(),
        };
        Figure { name: name.into(), caption, svg: chart.svg() }
    });
    figures.into()
}

fn recovery(report: &Report) -> Option<Figure> {
    let series = over_keys(report, 0, "recovery", "open_ms");
    if series.is_empty() {
        return None;
    }
    let points = series.iter().flat_map(|line| &line.points);
    let keys = points.map(|(keys, _)| *keys).fold(0.0, f64::max);
    let chart = Lines {
        title: "Time to open after kill -9",
        subtitle: &format!("{}{}", report.place(), report.not_emulated()),
        x: ("keys in the table", Axis::linear(0.0, keys, number)),
        y: ("milliseconds", Axis::linear(0.0, highest(&series), number)),
        series,
        marks: 1,
    };
    Some(Figure {
        name: "recovery".into(),
        caption: "Less is better: from the open to the first operation, after a process was killed \
                  in the middle of its inserts. Every acknowledged key was looked up afterwards.",
        svg: chart.svg(),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::report::tests::sample;

    /// Enough of a parser to see that elements nest and that numbers are numbers.
    pub(crate) fn well_formed(xml: &str) {
        let mut open = Vec::new();
        for tag in xml.split('<').skip(1) {
            let (tag, text) = tag.split_once('>').expect("a tag ends");
            assert!(!text.contains('>') || text.contains("--"), "{text}");
            let name = tag.split([' ', '/']).find(|part| !part.is_empty());
            let name = name.expect("a tag has a name").to_owned();
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') && !tag.starts_with(['!', '?']) {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{open:?}");
        for bad in ["NaN", "inf"] {
            assert!(!xml.contains(bad), "{bad}");
        }
    }

    #[test]
    fn figures_are_well_formed_and_labelled() {
        for (designs, threads, count) in [
            (vec!["reh"], vec![1, 2], 2 + 2 + 1 + 3 + 1),
            (vec!["reh", "esh", "rewo", "pea"], vec![1, 2], 4 + 2 + 1 + 3 + 1),
            (vec!["reh", "esh"], vec![1, 2, 4], 6 + 3 + 2 + 1 + 3 + 1),
        ] {
            let figures = draw(&sample(&designs, &threads));
            assert_eq!(figures.len(), count);
            for figure in &figures {
                well_formed(&figure.file());
                assert!(figure.file().contains("<style>"));
                assert!(!figure.inline().contains("<style>"));
                for design in designs.iter().filter(|_| designs.len() > 1) {
                    assert!(figure.svg.contains(&format!(">{design}")), "{}", figure.name);
                }
            }
            let named = |name: &str| {
                let found = figures.iter().find(|figure| figure.name.starts_with(name));
                &found.unwrap_or_else(|| panic!("no {name}")).svg
            };
            for (name, label) in [
                ("throughput", "million operations per second"),
                ("throughput", "emulated optane"),
                ("throughput", "YCSB A"),
                ("latency", "time of one operation"),
                ("latency", "p99.99"),
                ("latency", "100 ns"),
                ("load-factor", "load factor"),
                ("bytes-per-entry", "bytes per entry"),
                ("resize-latency", "p99.9<"),
                ("blocks-read", "blocks of 256 bytes"),
                ("recovery", "nothing emulated"),
                ("flushes", "64-byte lines"),
                ("recovery", "milliseconds"),
            ] {
                assert!(named(name).contains(label), "{name} lacks {label}");
            }
        }
    }

    #[test]
    fn what_was_not_measured_is_not_drawn() {
        assert!(draw(&Report::default()).is_empty());
        let mut report = sample(&["reh"], &[1]);
        report.rows.retain(|row| row.table == "recovery");
        assert_eq!(draw(&report).len(), 1);
    }

    #[test]
    fn names_of_others_do_no_harm() {
        let figures = draw(&sample(&["<b>&\"x\""], &[1]));
        figures.iter().for_each(|figure| well_formed(&figure.file()));
    }
}

//! Figures of a report: `SPECS` says which, and this draws any of them.

mod specs;

use crate::charts::{Bar, Bars, Line, Lines, Ranges, Style};
use crate::report::{Report, Row, threads_text};
use crate::svg::{Axis, Show, duration, number, stand_alone};

/// A figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The name of its file, without `.svg`.
    pub name: String,
    /// A sentence or two about it.
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

/// All figures that the rows of a report suffice for.
#[must_use]
pub fn draw(report: &Report) -> Vec<Figure> {
    specs::SPECS.iter().flat_map(|spec| spec.draw(report)).collect()
}

/// The specification of figures that look alike: their rows, the chart, and the words. `{each}` in a text is
/// the case or the number of threads that a figure is about; `{place}`, `{emulated}` and `{not emulated}` are
/// about the medium; `{on}` is all of what a [`Each::View`] holds still.
struct Spec {
    table: &'static str,
    /// Labels and names of the metrics, and the dashes of their lines.
    metrics: &'static [(&'static str, &'static str, usize)],
    /// Values are divided by it.
    unit: f64,
    keep: fn(&Report, &Row) -> bool,
    each: Each,
    series: Series,
    chart: Chart,
    name: &'static str,
    title: &'static str,
    subtitle: &'static str,
    caption: &'static str,
}

/// The figures of a specification.
#[derive(Clone, Copy)]
enum Each {
    /// One.
    All,
    /// One for each case.
    Case,
    /// One for each way in which keys are drawn: the case up to its second comma.
    Drawn,
    /// One for each number of threads, of all designs; of one design, one of all numbers of threads.
    View,
}

/// The property that has a colour of its own.
#[derive(Clone, Copy, PartialEq)]
enum Series {
    /// The run's designs; lines are dashed by the metric.
    Design,
    /// The names in the rows, in the order of the rows; as above.
    Named,
    /// These, dashed by the number of threads.
    Contender,
    /// Designs, dashed by the case.
    Case,
    /// Rewo-Hash, and the other designs dashed.
    Cache,
    /// Ways in which keys are drawn.
    Drawn,
}

/// The kinds of charts.
#[derive(Clone, Copy)]
enum Chart {
    /// The label of the axis, how a number is shown, and whether groups are metrics and not cases.
    Bars(&'static str, Show, bool),
    /// The label of the axis, and whether marks are the fastest, the median and the slowest time by a rate; else
    /// they are metrics.
    Ranges(&'static str, bool),
    /// The axis below, and the label and kind of the other one.
    Lines(X, &'static str, Y),
}

/// Where a point lies, and the axis.
#[derive(Clone, Copy, PartialEq)]
enum X {
    Threads,
    /// Threads of simulated nodes, logarithmic.
    Clients,
    Keys,
    KeysLog,
    PartOfKeys,
    /// The exponent in the case.
    Skew,
    /// The size of the cached table in the case; other designs have a line from none to all.
    Cache,
    /// The metric: one in how many takes longer.
    Percentile,
    /// Slices of time, from the begin of a resize.
    Slice,
}

impl X {
    fn label(self) -> &'static str {
        match self {
            X::Threads => "threads",
            X::Clients => "clients, logarithmic",
            X::Keys => "keys in the table",
            X::KeysLog => "keys in the table, logarithmic",
            X::PartOfKeys => "keys in the table, as a part of all",
            X::Skew => "exponent of the zipfian distribution",
            X::Cache => "copies in DRAM, as a part of the tables, logarithmic",
            X::Percentile => "percentile, logarithmic towards 100 %",
            X::Slice => "milliseconds from its begin",
        }
    }
}

#[derive(Clone, Copy)]
enum Y {
    /// From zero.
    Linear(Show),
    /// Times, logarithmic.
    Log,
    /// Parts of a whole.
    Part,
    /// Bytes of an entry, without those of an almost empty table.
    Grown,
}

/// Numbers of clients that are simulated.
const CLIENTS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
/// The percentiles of inserts: one in so many takes longer.
const PERCENTILES: [f64; 5] = [2.0, 10.0, 100.0, 1000.0, 10_000.0];
/// Sizes of the cached table, as parts; none has no logarithm, so it lies here.
const NO_CACHE: f64 = 1.0 / 128.0;
const CACHES: [f64; 8] =
    [NO_CACHE, 1.0 / 64.0, 1.0 / 32.0, 1.0 / 16.0, 1.0 / 8.0, 1.0 / 4.0, 1.0 / 2.0, 1.0];
/// The design that has it.
const CACHING: &str = "rewo";

/// A series of a figure.
#[derive(Clone, PartialEq)]
struct Key {
    order: (usize, usize),
    style: Style,
    name: String,
}

/// The position of an item among those seen, to which it is added.
fn numbered<T: PartialEq>(seen: &mut Vec<T>, item: T) -> usize {
    seen.iter().position(|other| *other == item).unwrap_or_else(|| {
        seen.push(item);
        seen.len() - 1
    })
}

/// How the keys of a case are drawn, and the rest: `zipf 0.99` and `1/64`.
fn drawn(case: &str) -> (&str, Option<&str>) {
    case.split_once(", ").map_or((case, None), |(drawn, part)| (drawn, Some(part)))
}

impl Spec {
    fn draw(&self, report: &Report) -> Vec<Figure> {
        let rows = report.table(self.table).filter(|row| (self.keep)(report, row));
        let rows = rows.filter_map(|row| {
            let metric = self.metrics.iter().position(|(_, metric, _)| *metric == row.metric)?;
            Some((row, metric))
        });
        let mut figures: Vec<(String, Vec<(&Row, usize)>)> = Vec::new();
        for (row, metric) in rows {
            let key = match self.each {
                Each::Case => row.case.clone(),
                Each::Drawn => drawn(&row.case).0.to_owned(),
                Each::View if report.setup.designs.len() > 1 => row.threads.to_string(),
                Each::All | Each::View => String::new(),
            };
            match figures.iter_mut().find(|(known, _)| *known == key) {
                Some((_, rows)) => rows.push((row, metric)),
                None => figures.push((key, vec![(row, metric)])),
            }
        }
        figures.iter().map(|(each, rows)| self.figure(report, each, rows)).collect()
    }

    fn figure(&self, report: &Report, each: &str, rows: &[(&Row, usize)]) -> Figure {
        let on = match (self.each, &report.setup.designs[..]) {
            (Each::View, [design]) => design.clone(),
            (Each::View, _) => threads_text(each.parse().unwrap_or(1)),
            _ => threads_text(report.setup.threads.first().copied().unwrap_or(1)),
        };
        let text = |text: &str| {
            text.replace("{each}", each)
                .replace("{on}", &format!("{on}, {{place}}{{emulated}}"))
                .replace("{place}", &report.place())
                .replace("{emulated}", &report.emulated())
                .replace("{not emulated}", report.not_emulated())
                .replace("{graph}", rows[0].0.case.trim_start_matches("graph "))
        };
        let keys = self.keys(report, rows);
        let mut series: Vec<Key> = Vec::new();
        for key in &keys {
            if !series.contains(key) {
                series.push(key.clone());
            }
        }
        series.sort_by_key(|key| key.order);
        let rows: Vec<(&Row, usize, usize)> = rows
            .iter()
            .zip(&keys)
            .map(|((row, metric), key)| {
                let at = series.iter().position(|other| other == key);
                (*row, *metric, at.unwrap_or(0))
            })
            .collect();
        let (title, subtitle) = (text(self.title), text(self.subtitle));
        let words = (title.as_str(), subtitle.as_str());
        let svg = match self.chart {
            Chart::Bars(axis, show, by_metric) => {
                let bar = |row: &Row, _: usize| {
                    let [value, min, max] = [row.value, row.min, row.max].map(|v| v / self.unit);
                    Bar { value, min, max }
                };
                let groups = self.groups(&rows, series.len(), by_metric, bar, |_, _| {});
                let series = series.into_iter().map(|key| key.name).collect();
                Bars { title: words.0, subtitle: words.1, axis, show, series, groups }.svg()
            }
            Chart::Ranges(axis, of_rate) => {
                let labels: Vec<&str> = match of_rate {
                    true => vec!["fastest", "median", "slowest"],
                    false => self.metrics.iter().map(|(label, ..)| *label).collect(),
                };
                let first = |row: &Row, metric: usize| match (of_rate, metric) {
                    (true, _) => [row.max, row.value, row.min].map(|rate| 1e9 / rate).into(),
                    (false, 0) => vec![row.value],
                    // Without the first percentiles the others would have their marks.
                    (false, _) => Vec::new(),
                };
                let more = |values: &mut Vec<f64>, (row, metric): (&Row, usize)| {
                    if values.len() == metric {
                        values.push(row.value);
                    }
                };
                let groups = self.groups(&rows, series.len(), false, first, more);
                let series = series.into_iter().map(|key| key.name).collect();
                let (title, subtitle) = words;
                Ranges { title, subtitle, axis, percentiles: &labels, series, groups }.svg()
            }
            Chart::Lines(x, label, y) => self.lines(report, words, series, &rows, (x, label, y)),
        };
        let name = text(self.name).replace([' ', '.'], "-").to_lowercase();
        let name = name.trim_end_matches('-').to_owned();
        Figure { name, caption: self.caption, svg }
    }

    /// The series of each row.
    fn keys(&self, report: &Report, rows: &[(&Row, usize)]) -> Vec<Key> {
        let is_line = matches!(self.chart, Chart::Lines(..));
        let (mut names, mut threads, mut cases) = (Vec::new(), Vec::new(), Vec::new());
        let one = rows.iter().all(|(row, _)| row.threads == rows[0].0.threads);
        if matches!(self.series, Series::Design | Series::Case | Series::Cache) {
            names.extend(report.setup.designs.iter().map(String::as_str));
        }
        let keys = rows.iter().map(|(row, metric)| {
            let design = row.design.as_str();
            let (label, _, dash) = if is_line { self.metrics[*metric] } else { ("", "", 0) };
            let one_design = matches!(self.each, Each::View) && report.setup.designs.len() == 1;
            let (colour, dash, order, name) = match self.series {
                _ if one_design => {
                    let at = report.setup.threads.iter().position(|n| *n == row.threads);
                    (at.unwrap_or(0), 0, 0, threads_text(row.threads))
                }
                Series::Design | Series::Named if label.is_empty() => (
                    numbered(&mut names, design),
                    dash,
                    *metric * usize::from(is_line),
                    design.into(),
                ),
                Series::Design | Series::Named => {
                    (numbered(&mut names, design), dash, *metric, format!("{design}, {label}"))
                }
                Series::Contender => {
                    let dash = numbered(&mut threads, row.threads);
                    let name = format!("{design}, {}", threads_text(row.threads));
                    let name = if one { design.to_owned() } else { name };
                    (numbered(&mut names, design), dash, dash, name)
                }
                Series::Case => {
                    let case = numbered(&mut cases, row.case.as_str());
                    (numbered(&mut names, design), case, case, format!("{design}, {}", row.case))
                }
                Series::Cache => {
                    (numbered(&mut names, design), usize::from(design != CACHING), 0, design.into())
                }
                Series::Drawn => {
                    let (drawn, _) = drawn(&row.case);
                    (numbered(&mut cases, drawn), 0, 0, drawn.to_owned())
                }
            };
            Key { order: (order, colour), style: Style { colour, dash }, name }
        });
        keys.collect()
    }

    /// Groups with a cell for each series: of the first row, and of each more.
    fn groups<T: Clone>(
        &self,
        rows: &[(&Row, usize, usize)],
        series: usize,
        by_metric: bool,
        first: impl Fn(&Row, usize) -> T,
        more: impl Fn(&mut T, (&Row, usize)),
    ) -> Vec<(String, Vec<Option<T>>)> {
        let mut groups: Vec<(String, Vec<Option<T>>)> = Vec::new();
        let labels = self.metrics.iter().filter(|_| by_metric);
        groups.extend(labels.map(|(label, ..)| ((*label).to_owned(), vec![None; series])));
        for (row, metric, at) in rows {
            let name = if by_metric { self.metrics[*metric].0 } else { &row.case };
            let known = groups.iter().position(|(known, _)| known == name);
            let known = known.unwrap_or_else(|| {
                groups.push((name.to_owned(), vec![None; series]));
                groups.len() - 1
            });
            match &mut groups[known].1[*at] {
                Some(cell) => more(cell, (row, *metric)),
                cell => *cell = Some(first(row, *metric)),
            }
        }
        groups
    }

    fn lines(
        &self,
        report: &Report,
        (title, subtitle): (&str, &str),
        series: Vec<Key>,
        rows: &[(&Row, usize, usize)],
        (x, y_label, y): (X, &str, Y),
    ) -> String {
        let line = |key: Key| Line { name: key.name, style: key.style, points: Vec::new() };
        let mut series: Vec<Line> = series.into_iter().map(line).collect();
        let keys = report.setup.keys as f64;
        for (row, metric, at) in rows {
            let ends = match x {
                X::Threads | X::Clients => [Some(row.threads as f64), None],
                X::Keys | X::KeysLog => [Some(row.keys as f64), None],
                X::PartOfKeys => [Some(row.keys as f64 / keys), None],
                X::Skew => [row.case.strip_prefix("zipf ").and_then(|s| s.parse().ok()), None],
                X::Percentile => [PERCENTILES.get(*metric).copied(), None],
                X::Cache => match drawn(&row.case).1 {
                    None => [Some(NO_CACHE), Some(1.0)],
                    Some("0") => [Some(NO_CACHE), None],
                    Some(part) => {
                        [part.strip_prefix("1/").and_then(|n| n.parse().ok()).map(f64::recip), None]
                    }
                },
                X::Slice => {
                    let of_side = rows.iter().filter(|(other, ..)| other.design == row.design);
                    let before = of_side.clone().filter(|(_, metric, _)| *metric == 0).count();
                    let at = of_side.clone().position(|(other, ..)| std::ptr::eq(*other, *row));
                    let at = at.unwrap_or(0) as f64 - before as f64;
                    [Some(at * crate::suites::resizing::SLICE_MS as f64), None]
                }
            };
            let points = ends.into_iter().flatten().map(|x| (x, row.value / self.unit));
            series[*at].points.extend(points);
        }
        series.retain(|line| !line.points.is_empty());
        let xs = || series.iter().flat_map(|line| &line.points).map(|(x, _)| *x);
        let ys = || series.iter().flat_map(|line| &line.points).map(|(_, y)| *y);
        let (left, right) = (xs().fold(f64::MAX, f64::min), xs().fold(0.0, f64::max));
        let (least, most) = (ys().fold(f64::MAX, f64::min), ys().fold(0.0, f64::max));
        let x_axis = match x {
            X::Threads | X::Keys | X::Skew | X::Slice => Axis::linear(left.min(0.0), right, number),
            X::Clients => Axis::log_at(CLIENTS.into(), number),
            X::KeysLog => Axis::log(left, right, number),
            X::PartOfKeys => Axis::linear(0.0, 1.0, number),
            X::Cache => Axis::log_at(CACHES.into(), |part| match part {
                part if part <= NO_CACHE => "0".into(),
                part if part >= 1.0 => "1".into(),
                part => format!("1/{}", part.recip().round()),
            }),
            X::Percentile => Axis::log_at(PERCENTILES.into(), |one_in| {
                let percent = 100.0 - 100.0 / one_in;
                format!("p{}", (percent * 1000.0).round() / 1000.0)
            }),
        };
        let y_axis = match y {
            Y::Linear(show) => Axis::linear(0.0, most, show),
            Y::Log => Axis::log(least.max(1.0), most.max(1.0), duration),
            Y::Part => Axis::linear(0.0, 1.0, number),
            Y::Grown => {
                let points = series.iter().flat_map(|line| &line.points);
                let grown = points.filter(|(x, _)| *x >= keys / 16.0).map(|(_, y)| *y);
                Axis::linear(0.0, grown.fold(16.0, f64::max) * 1.1, number)
            }
        };
        let longest = series.iter().map(|line| line.points.len()).max().unwrap_or(0);
        let marks = if longest > 32 { longest / 8 } else { 1 };
        let (x, y) = ((x.label(), x_axis), (y_label, y_axis));
        Lines { title, subtitle, x, y, series, marks }.svg()
    }
}

//! Figures of a report: `figures/specs.txt` says which, and this draws any of them.

use crate::charts::{Group, Groups, Head, Lines, Series, Style};
use crate::report::{Report, Row, paragraphs, threads_text};
use crate::svg::{Axis, duration, number, stand_alone, three_digits};

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
    let specs = paragraphs(include_str!("figures/specs.txt")).map(Spec::parse);
    specs.flat_map(|spec| spec.draw(report)).collect()
}

/// The figures of one specification, a paragraph in the format of `figures/specs.txt`, that the rows suffice for.
#[must_use]
pub fn draw_one(report: &Report, spec: [&'static str; 4]) -> Vec<Figure> {
    Spec::parse(spec).draw(report)
}

/// The specification of figures that look alike: a paragraph of `specs.txt`, which tells the format.
struct Spec {
    name: &'static str,
    table: &'static str,
    metrics: Vec<Metric>,
    rows: &'static str,
    each: &'static str,
    series: &'static str,
    chart: Vec<&'static str>,
    axis: &'static str,
    title: &'static str,
    subtitle: &'static str,
    caption: &'static str,
}

struct Metric {
    label: &'static str,
    name: &'static str,
    dash: usize,
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
    fn parse([head, title, subtitle, caption]: [&'static str; 4]) -> Self {
        let mut fields = head.split(" | ");
        let mut field = || fields.next().unwrap_or_default();
        let metric = |text: &'static str| {
            let (label, name) = text.split_once('=').unwrap_or(("", text));
            let dashed = label.strip_prefix('~');
            Metric { label: dashed.unwrap_or(label), name, dash: dashed.is_some().into() }
        };
        Spec {
            name: field(),
            table: field(),
            metrics: field().split("; ").map(metric).collect(),
            rows: field(),
            each: field(),
            series: field(),
            chart: field().split(' ').collect(),
            axis: field(),
            title,
            subtitle,
            caption,
        }
    }

    /// True if a row is the figure's by its case, where `*` is any end, and its threads; the rule `scaling` wants at
    /// least three numbers of threads.
    fn keeps(&self, report: &Report, row: &Row) -> bool {
        let threads = &report.setup.threads;
        let is_case = |case: &str| match case.strip_suffix('*') {
            Some(start) => row.case.starts_with(start),
            None => row.case == case,
        };
        self.rows.trim().split("; ").all(|rule| match rule.split_once('=') {
            Some(("case", cases)) => cases.split(',').any(is_case),
            Some((_, "first")) => threads.first() == Some(&row.threads),
            Some((_, n)) => n.parse() == Ok(row.threads),
            None => rule.is_empty() || threads.len() >= 3,
        })
    }

    fn draw(&self, report: &Report) -> Vec<Figure> {
        let rows = report.table(self.table).filter(|row| self.keeps(report, row));
        let rows = rows.filter_map(|row| {
            Some((row, self.metrics.iter().position(|metric| metric.name == row.metric)?))
        });
        let mut figures: Vec<(String, Vec<(&Row, usize)>)> = Vec::new();
        for (row, metric) in rows {
            let key = match self.each {
                "case" => row.case.clone(),
                "drawn" => drawn(&row.case).0.to_owned(),
                "view" if report.setup.designs.len() > 1 => row.threads.to_string(),
                _ => String::new(),
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
            ("view", [design]) => design.clone(),
            ("view", _) => threads_text(each.parse().unwrap_or(1)),
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
        let of_row = self.series(report, rows);
        let mut series: Vec<Series> = Vec::new();
        for one in &of_row {
            numbered(&mut series, one.clone());
        }
        series.sort_by_key(|one| one.order);
        let at = |of_row| series.iter().position(|one| one == of_row).unwrap_or(0);
        let rows = rows.iter().zip(&of_row);
        let rows: Vec<_> = rows.map(|((row, metric), one)| (*row, *metric, at(one))).collect();
        let (title, subtitle) = (text(self.title), text(self.subtitle));
        let head = Head { title: &title, subtitle: &subtitle, series };
        let svg = match self.chart[..] {
            ["lines", x, y] => self.lines(report, head, &rows, (x, y)),
            ["ranges"] => {
                let marks: Vec<&str> = self.metrics.iter().map(|metric| metric.label).collect();
                self.groups(head, &rows, &marks)
            }
            ["ranges", ..] => self.groups(head, &rows, &["fastest", "median", "slowest"]),
            _ => self.groups(head, &rows, &[]),
        };
        let name = text(self.name).replace([' ', '.'], "-").to_lowercase();
        let name = name.trim_end_matches('-').to_owned();
        Figure { name, caption: self.caption, svg }
    }

    /// The series of each row.
    fn series(&self, report: &Report, rows: &[(&Row, usize)]) -> Vec<Series> {
        let is_line = self.chart[0] == "lines";
        let (mut names, mut threads, mut cases) = (Vec::new(), Vec::new(), Vec::new());
        let one = rows.iter().all(|(row, _)| row.threads == rows[0].0.threads);
        if ["design", "case", "cache"].contains(&self.series) {
            names.extend(report.setup.designs.iter().map(String::as_str));
        }
        let one_design = self.each == "view" && report.setup.designs.len() == 1;
        let series = rows.iter().map(|(row, metric)| {
            let design = row.design.as_str();
            let of_threads = threads_text(row.threads);
            let Metric { label, dash, .. } = self.metrics[*metric];
            let mut colour = numbered(&mut names, design);
            let (dash, order, name) = match self.series {
                _ if one_design => {
                    let at = report.setup.threads.iter().position(|n| *n == row.threads);
                    colour = at.unwrap_or(0);
                    (0, 0, of_threads)
                }
                "contender" => {
                    let dash = numbered(&mut threads, row.threads);
                    let name = format!("{design}, {of_threads}");
                    (dash, dash, if one { design.to_owned() } else { name })
                }
                "case" => {
                    let case = numbered(&mut cases, row.case.as_str());
                    (case, case, format!("{design}, {}", row.case))
                }
                "cache" => (usize::from(design != CACHING), 0, design.to_owned()),
                "drawn" => {
                    let (drawn, _) = drawn(&row.case);
                    colour = numbered(&mut cases, drawn);
                    (0, 0, drawn.to_owned())
                }
                _ if is_line && !label.is_empty() => (dash, *metric, format!("{design}, {label}")),
                _ => (dash, 0, design.to_owned()),
            };
            Series { order: (order, colour), style: Style { colour, dash }, name }
        });
        series.collect()
    }

    /// The divisor of values.
    fn unit(&self) -> f64 {
        if self.axis.starts_with("million") { 1e6 } else { 1.0 }
    }

    /// Groups of bars, or of these marks.
    fn groups(&self, head: Head<'_>, rows: &[(&Row, usize, usize)], marks: &[&str]) -> String {
        let by_metric = self.chart[..] == ["bars", "by", "metric"];
        let of_rate = self.chart[..] == ["ranges", "of", "rate"];
        let empty = || vec![None; head.series.len()];
        let labels = self.metrics.iter().filter(|_| by_metric);
        let mut groups: Vec<Group> =
            labels.map(|metric| (metric.label.to_owned(), empty())).collect();
        for (row, metric, at) in rows {
            let name = if by_metric { self.metrics[*metric].label } else { &row.case };
            let known = groups.iter().position(|(known, _)| known == name);
            let known = known.unwrap_or_else(|| {
                groups.push((name.to_owned(), empty()));
                groups.len() - 1
            });
            let cell = groups[known].1[*at].get_or_insert_default();
            if of_rate {
                *cell = [row.max, row.value, row.min].map(|rate| 1e9 / rate).into();
            } else if marks.is_empty() {
                *cell = [row.value, row.min, row.max].map(|value| value / self.unit()).into();
            } else if cell.len() == *metric {
                // Without the first percentiles the others would have their marks.
                cell.push(row.value);
            }
        }
        let show = if self.unit() > 1.0 { three_digits } else { number };
        Groups { head, axis: self.axis, show, marks, groups }.svg()
    }

    /// Lines over an axis `x`: threads, clients, keys, keys-log, load (hundredths, in place of keys), part-of-keys, skew (the exponent in the case), cache
    /// (the size of the cached table in the case; other designs have a line from none to all), percentile (the
    /// metric), or slice (of time, from the begin of a resize). The axis `y` is one of numbers or durations from zero;
    /// log, of durations; part, of a whole; or grown, without the bytes of an almost empty table.
    fn lines(
        &self,
        report: &Report,
        mut head: Head<'_>,
        rows: &[(&Row, usize, usize)],
        (x, y): (&str, &str),
    ) -> String {
        let mut lines = vec![Vec::new(); head.series.len()];
        let keys = report.setup.keys as f64;
        for (row, metric, at) in rows {
            let xs = match x {
                "threads" | "clients" => Some(row.threads as f64),
                "keys" | "keys-log" => Some(row.keys as f64),
                "load" => Some(row.keys as f64 / 100.0),
                "part-of-keys" => Some(row.keys as f64 / keys),
                "skew" => row.case.strip_prefix("zipf ").and_then(|s| s.parse().ok()),
                "percentile" => PERCENTILES.get(*metric).copied(),
                "cache" => match drawn(&row.case).1 {
                    None | Some("0") => Some(NO_CACHE),
                    Some(part) => {
                        part.strip_prefix("1/").and_then(|n| n.parse().ok()).map(f64::recip)
                    }
                },
                _ => {
                    let of_side = || rows.iter().filter(|(other, ..)| other.design == row.design);
                    let before = of_side().filter(|(_, metric, _)| *metric == 0).count();
                    let at = of_side().position(|(other, ..)| std::ptr::eq(*other, *row));
                    let at = at.unwrap_or(0) as f64 - before as f64;
                    Some(at * crate::suites::resizing::SLICE_MS as f64)
                }
            };
            let other_end = (x == "cache" && drawn(&row.case).1.is_none()).then_some(1.0);
            let points = xs.into_iter().chain(other_end).map(|x| (x, row.value / self.unit()));
            lines[*at].extend(points);
        }
        let mut has_points = lines.iter().map(|points| !points.is_empty());
        head.series.retain(|_| has_points.next().unwrap_or(false));
        lines.retain(|points| !points.is_empty());
        let points = || lines.iter().flatten().copied();
        let ends = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::MAX, 0.0_f64), |(least, most), v| (least.min(v), most.max(v)))
        };
        let (left, right) = ends(&mut points().map(|(x, _)| x));
        let (least, most) = ends(&mut points().map(|(_, y)| y));
        let linear = || Axis::linear(left.min(0.0), right, number);
        let x = match x {
            "threads" => ("threads", linear()),
            "clients" => ("clients, logarithmic", Axis::log_at(CLIENTS.into(), number)),
            "keys" => ("keys in the table", linear()),
            "keys-log" => ("keys in the table, logarithmic", Axis::log(left, right, number)),
            "load" => ("load factor", Axis::linear(0.0, 1.0, number)),
            "part-of-keys" => {
                ("keys in the table, as a part of all", Axis::linear(0.0, 1.0, number))
            }
            "skew" => ("exponent of the zipfian distribution", linear()),
            "percentile" => {
                let axis = Axis::log_at(PERCENTILES.into(), |one_in| {
                    let percent = 100.0 - 100.0 / one_in;
                    format!("p{}", (percent * 1000.0).round() / 1000.0)
                });
                ("percentile, logarithmic towards 100 %", axis)
            }
            "cache" => {
                let axis = Axis::log_at(CACHES.into(), |part| match part {
                    part if part <= NO_CACHE => "0".into(),
                    part if part >= 1.0 => "1".into(),
                    part => format!("1/{}", part.recip().round()),
                });
                ("copies in DRAM, as a part of the tables, logarithmic", axis)
            }
            _ => ("milliseconds from its begin", linear()),
        };
        let y = match y {
            "duration" => Axis::linear(0.0, most, duration),
            "log" => Axis::log(least.max(1.0), most.max(1.0), duration),
            "part" => Axis::linear(0.0, 1.0, number),
            "grown" => {
                let grown = points().filter(|(x, _)| *x >= keys / 16.0).map(|(_, y)| y);
                Axis::linear(0.0, grown.fold(16.0, f64::max) * 1.1, number)
            }
            _ => Axis::linear(0.0, most, number),
        };
        Lines { head, x, y: (self.axis, y), points: lines }.svg()
    }
}

//! Figures of the suite of simulated nodes. Each title says that they are.

use super::Figure;
use crate::charts::{Bar, Bars, Line, Lines, Style, highest};
use crate::report::Report;
use crate::svg::{Axis, duration, number, three_digits};

/// Numbers of clients, and the indexes, as `compare/baselines` measures them.
const CLIENTS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
pub(crate) const SEP: &str = "sephash";
const RACE: &str = "race";
const BATCHED: &str = "race, batched moves";
const INDEXES: [&str; 3] = [SEP, RACE, BATCHED];
const SUBTITLE: &str = "virtual time, NICs as assumed: no measurement";

pub(super) fn all(report: &Report) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (table, case) in
        [("simulated", "insert"), ("simulated", "search"), ("simulated many", "insert")]
    {
        figures.extend(throughput(report, table, case));
        figures.extend(latency(report, table, case));
    }
    figures.extend(rates(report, "simulated mix", "Mixes at 128 clients, simulated"));
    figures.extend(rates(report, "simulated ycsb", "YCSB at 128 clients, simulated"));
    figures.extend(utilization(report));
    figures
}

/// A metric over the number of clients, for each index.
fn over_clients(
    report: &Report,
    (table, case): (&str, &str),
    metric: &str,
    dash: usize,
    scale: f64,
) -> Vec<Line> {
    let lines = INDEXES.iter().enumerate().map(|(colour, index)| {
        let points = CLIENTS.iter().filter_map(|clients| {
            let row = report.find(table, index, case, *clients as u64, metric)?;
            Some((*clients as f64, row.value / scale))
        });
        Line { name: (*index).to_owned(), style: Style { colour, dash }, points: points.collect() }
    });
    lines.filter(|line| !line.points.is_empty()).collect()
}

/// What a table is about, in a title.
fn subject(table: &str) -> &'static str {
    if table == "simulated many" { "simulated, many small segments" } else { "simulated" }
}

fn clients() -> (&'static str, Axis) {
    ("clients, logarithmic", Axis::log_at(CLIENTS.map(|n| n as f64).into(), number))
}

fn throughput(report: &Report, table: &str, case: &str) -> Option<Figure> {
    let series = over_clients(report, (table, case), "ops_per_s", 0, 1e6);
    series.first()?;
    let chart = Lines {
        title: &format!("Throughput over clients, {}: {case}", subject(table)),
        subtitle: SUBTITLE,
        x: clients(),
        y: ("million operations per second", Axis::linear(0.0, highest(&series), number)),
        series,
        marks: 1,
    };
    Some(Figure {
        name: format!("{}-throughput-{case}", table.replace(' ', "-")),
        caption: "More is better. Simulated nodes and NICs in virtual time.",
        svg: chart.svg(),
    })
}

fn latency(report: &Report, table: &str, case: &str) -> Option<Figure> {
    let mut series = Vec::new();
    for (name, metric, dash) in [("p50", "p50_ns", 0), ("p99", "p99_ns", 1)] {
        series.extend(super::named(over_clients(report, (table, case), metric, dash, 1.0), name));
    }
    let all = || series.iter().flat_map(|line| &line.points).map(|(_, ns)| *ns);
    let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(1.0, f64::max));
    series.first()?;
    let chart = Lines {
        title: &format!("Latency over clients, {}: {case}", subject(table)),
        subtitle: SUBTITLE,
        x: clients(),
        y: ("time of one operation, logarithmic", Axis::log(least, most, duration)),
        series,
        marks: 1,
    };
    Some(Figure {
        name: format!("{}-latency-{case}", table.replace(' ', "-")),
        caption: "Less is better. Simulated nodes and NICs in virtual time.",
        svg: chart.svg(),
    })
}

fn rates(report: &Report, table: &'static str, title: &str) -> Option<Figure> {
    report.table(table).next()?;
    let clients = CLIENTS[CLIENTS.len() - 1] as u64;
    let groups = report.cases(table).into_iter().map(|case| {
        let bars = [SEP, RACE].map(|index| {
            let value = report.find(table, index, case, clients, "ops_per_s")?.value / 1e6;
            Some(Bar { value, min: value, max: value })
        });
        (case.to_owned(), bars.into())
    });
    let chart = Bars {
        title,
        subtitle: SUBTITLE,
        axis: "million operations per second",
        show: three_digits,
        series: [SEP, RACE].map(str::to_owned).into(),
        groups: groups.collect(),
    };
    Some(Figure {
        name: table.replace(' ', "-"),
        caption: "More is better. Simulated nodes and NICs in virtual time.",
        svg: chart.svg(),
    })
}

fn utilization(report: &Report) -> Option<Figure> {
    let mut series = Vec::new();
    for (name, metric, dash) in
        [("entries", "entry_utilization", 0), ("bytes", "space_utilization", 1)]
    {
        let lines = [SEP, RACE].iter().enumerate().map(|(colour, index)| {
            let rows = report.table("simulated space").filter(|row| {
                row.case == "growth" && row.design == **index && row.metric == metric
            });
            Line {
                name: (*index).to_owned(),
                style: Style { colour, dash },
                points: rows.map(|row| (row.keys as f64, row.value)).collect(),
            }
        });
        let lines: Vec<Line> = lines.filter(|line| !line.points.is_empty()).collect();
        series.extend(super::named(lines, name));
    }
    let keys = series.first()?.points.last()?.0;
    let chart = Lines {
        title: "Utilization while an index grows",
        subtitle: "one client on a simulated node; counted",
        x: ("keys", Axis::linear(0.0, keys, number)),
        y: ("part that holds entries of keys", Axis::linear(0.0, 1.0, number)),
        series,
        marks: 8,
    };
    Some(Figure {
        name: "simulated-utilization".into(),
        caption: "More is better: entries of keys of all that there is room for, and their bytes of all \
                  bytes of the index.",
        svg: chart.svg(),
    })
}

#[cfg(test)]
mod tests {
    use crate::figures::draw;
    use crate::figures::tests::well_formed;
    use crate::report::Report;
    use crate::report::tests::samples;

    #[test]
    fn every_figure_says_that_it_is_simulated() {
        let mut report = Report::default();
        for index in ["sephash", "race"] {
            for clients in [1, 128] {
                let metrics = [("ops_per_s", 2e6), ("p50_ns", 4e3), ("p99_ns", 4e6)];
                for (table, case) in [
                    ("simulated", "insert"),
                    ("simulated", "search"),
                    ("simulated many", "insert"),
                    ("simulated mix", "25 % inserts"),
                    ("simulated ycsb", "YCSB A"),
                ] {
                    report.rows.extend(samples(table, index, case, clients, 1000, &metrics));
                }
            }
            for keys in [1000, 2000] {
                let metrics = [("entry_utilization", 0.9), ("space_utilization", 0.8)];
                report.rows.extend(samples("simulated space", index, "growth", 1, keys, &metrics));
            }
        }
        let figures = draw(&report);
        assert_eq!(figures.len(), 9);
        for figure in &figures {
            well_formed(&figure.file());
            assert!(figure.svg.contains("simulated"), "{}", figure.name);
            assert!(figure.name.starts_with("simulated-") && figure.svg.contains("sephash"));
        }
    }
}

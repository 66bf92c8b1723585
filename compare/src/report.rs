//! Tables and ratios of what was measured.

use durahash_bench::{About, Row, Table};

use crate::catalog::{DISK, DRAM, PEA_DISK, PEA_DRAM, PEA_SHARED, SHARED};
use crate::survive::Tried;

/// Millions with three digits that mean something.
fn millions(per_s: f64) -> String {
    let m = per_s / 1e6;
    match m {
        _ if m >= 100.0 => format!("{m:.0}"),
        _ if m >= 10.0 => format!("{m:.1}"),
        _ => format!("{m:.2}"),
    }
}

/// A table whose first column is text; the others are numbers.
fn columns(title: &str, header: &[&str], rows: Vec<Vec<String>>) -> String {
    let header = header.iter().map(|name| (*name).to_owned()).collect();
    let table = Table { title: title.into(), note: String::new(), header, names: 1, rows };
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = table.write_text(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The table of the kills.
pub(crate) fn survival(tried: &[Tried]) -> String {
    let mut rows = Vec::new();
    for this in tried {
        let mut row = vec![format!("{}: {}", this.store.name, this.mode.name)];
        match &this.left {
            Ok(left) => {
                let sum = |f: fn(&crate::survive::Left) -> u64| left.iter().map(f).sum::<u64>();
                row.push(sum(|left| left.acknowledged).to_string());
                row.push(sum(|left| left.lost).to_string());
                let open = left.iter().map(|left| left.open).max().unwrap_or_default();
                row.push(format!("{:.1} ms", open.as_secs_f64() * 1e3));
                row.push(if this.survives() { "yes" } else { "NO" }.to_owned());
            }
            Err(e) => row.extend([String::new(), String::new(), String::new(), format!("NO: {e}")]),
        }
        rows.push(row);
    }
    let header = ["store and mode", "acknowledged", "lost", "open", "survives a kill"];
    columns("Killed with kill -9 while it inserts", &header, rows)
}

/// The same as rows of the report.
pub(crate) fn survival_rows(tried: &[Tried]) -> Vec<Row> {
    let mut rows = Vec::new();
    for this in tried {
        let left = this.left.as_deref().unwrap_or_default();
        let survives = f64::from(u8::from(this.survives()));
        let mut add = |metric: &str, values: Vec<f64>| {
            let sum: f64 = values.iter().sum();
            rows.push(Row {
                table: "survives".into(),
                design: this.store.name.into(),
                case: this.mode.name.into(),
                threads: 1,
                keys: left.iter().map(|left| left.acknowledged).sum(),
                metric: metric.into(),
                value: sum / values.len().max(1) as f64,
                min: values.iter().copied().reduce(f64::min).unwrap_or(0.0),
                max: values.iter().copied().reduce(f64::max).unwrap_or(0.0),
            });
        };
        add("survives", vec![survives]);
        add("lost", left.iter().map(|left| left.lost as f64).collect());
        add("open_ms", left.iter().map(|left| left.open.as_secs_f64() * 1e3).collect());
    }
    rows
}

/// Throughput: a line for each table, a column for each workload.
pub(crate) fn throughput(rows: &[Row], threads: u64, title: &str) -> String {
    const CASES: [&str; 5] = ["insert", "bulk insert", "hit", "miss", "get_many"];
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.design.as_str()) {
            names.push(&row.design);
        }
    }
    let mut lines = Vec::new();
    for name in names {
        let mut line = vec![name.to_owned()];
        line.extend(CASES.map(|case| {
            find(rows, name, case, threads).map_or_else(|| "-".into(), |row| millions(row.value))
        }));
        lines.push(line);
    }
    let s = if threads == 1 { "" } else { "s" };
    let title = format!("{title}, {threads} thread{s}: millions of operations per second, medians");
    columns(&title, &[&["table"], &CASES[..]].concat(), lines)
}

/// The table of the costs of opening.
pub(crate) fn opening(rows: &[Row]) -> String {
    let mut lines = Vec::new();
    for row in rows {
        let mut line = vec![format!("{}: {}", row.design, row.case)];
        line.extend([row.value, row.min, row.max].map(|ms| format!("{ms:.2}")));
        lines.push(line);
    }
    let header = ["milliseconds", "median", "smallest", "largest"];
    columns("Opening and growing, 1 thread", &header, lines)
}

fn find<'a>(rows: &'a [Row], name: &str, case: &str, threads: u64) -> Option<&'a Row> {
    let mut rows = rows.iter();
    rows.find(|row| row.design == name && row.case == case && row.threads == threads)
}

/// The best of some tables in a workload.
fn best<'a>(rows: &'a [Row], names: &[&str], case: &str, threads: u64) -> Option<&'a Row> {
    let found = names.iter().filter_map(|name| find(rows, name, case, threads));
    found.max_by(|a, b| a.value.total_cmp(&b.value))
}

/// A target and what came of it.
pub(crate) struct Target {
    own: &'static str,
    what: String,
    threads: u64,
    against: String,
    reached: f64,
    wanted: f64,
    unit: &'static str,
}

impl Target {
    fn is_reached(&self) -> bool {
        match self.unit {
            " s" => self.reached < self.wanted,
            _ => self.reached >= self.wanted,
        }
    }

    /// The ratio, the target, and 1 if it is reached, else 0.
    pub(crate) fn to_rows(&self, keys: u64) -> [Row; 3] {
        let metric = if self.unit == " s" { "seconds" } else { "ratio" };
        let is_reached = f64::from(u8::from(self.is_reached()));
        let (case, threads) = (&self.case(), self.threads as usize);
        let about = About { table: "targets", design: self.own, case, threads, keys };
        [(metric, self.reached), ("wanted", self.wanted), ("reached", is_reached)]
            .map(|(metric, value)| about.row(metric, &[value]))
    }

    /// The workload, and whose it is compared with.
    fn case(&self) -> String {
        match self.against.as_str() {
            "" => self.what.clone(),
            against => format!("{} / {against}", self.what),
        }
    }
}

/// The targets: ratios of medians of this run.
pub(crate) fn targets(words: &[Row], opening: &[Row], threads: &[usize]) -> Vec<Target> {
    const MAPS: [&str; 4] = ["hashbrown, sharded", "dashmap", "papaya", "scc"];
    const STORES: [&str; 4] = ["LMDB", "redb", "fjall", "candystore"];
    let mut all = Vec::new();
    for &threads in threads {
        let threads = threads as u64;
        let mut ratio = |own: &'static str, case: &str, other: Option<&Row>, wanted: f64| {
            let Some((row, other)) = find(words, own, case, threads).zip(other) else {
                return;
            };
            let against = if other.design == own { &other.case } else { &other.design };
            all.push(Target {
                own,
                what: case.to_owned(),
                threads,
                against: against.clone(),
                reached: row.value / other.value,
                wanted,
                unit: " x",
            });
        };
        ratio(DRAM, "hit", best(words, &MAPS, "hit", threads), 1.0);
        ratio(DRAM, "miss", best(words, &MAPS, "miss", threads), 0.9);
        ratio(PEA_DRAM, "hit", best(words, &MAPS, "hit", threads), 1.3);
        for case in ["miss", "insert"] {
            ratio(PEA_DRAM, case, best(words, &MAPS, case, threads), 1.0);
        }
        for own in [DRAM, SHARED, DISK, PEA_DRAM] {
            ratio(own, "get_many", find(words, own, "hit", threads), 2.5);
        }
        for own in [SHARED, DISK] {
            ratio(own, "hit", best(words, &STORES, "hit", threads), 5.0);
            let bulk = best(words, &STORES, "bulk insert", threads);
            ratio(own, "bulk insert", bulk, 5.0);
        }
    }
    for (own, wanted) in [(SHARED, 0.3), (DISK, 0.3), (PEA_SHARED, 0.01), (PEA_DISK, 0.01)] {
        if let Some(row) = find(opening, own, "open after kill -9", 1) {
            all.push(Target {
                own,
                what: format!("{} keys recovered after kill -9", row.keys),
                threads: 1,
                against: String::new(),
                reached: row.value / 1e3,
                wanted,
                unit: " s",
            });
        }
    }
    all
}

/// Ratios against what is wanted.
pub(crate) fn ratios(targets: &[Target]) -> String {
    let mut lines = Vec::new();
    for target in targets {
        let unit = target.unit;
        let sign = if unit == " s" { "<" } else { ">=" };
        lines.push(vec![
            target.own.to_owned(),
            target.threads.to_string(),
            target.what.clone(),
            target.against.clone(),
            format!("{:.3}{unit}", target.reached),
            format!("{sign} {}{unit}", target.wanted),
            if target.is_reached() { "reached" } else { "NOT REACHED" }.to_owned(),
        ]);
    }
    let header = ["table", "threads", "target", "against", "is", "wanted", ""];
    columns("Targets: ratios of medians of this run", &header, lines)
}

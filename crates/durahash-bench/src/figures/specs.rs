//! The figures: which rows, as which chart, in which words.

use super::{Chart, Each, Series, Spec, X, Y};
use crate::report::{Report, Row};
use crate::svg::{duration, number, three_digits};

const MILLION: &str = "million operations per second";
const RATE: &[(&str, &str, usize)] = &[("", "ops_per_s", 0)];
const INSERT_PERCENTILES: [(&str, &str, usize); 5] = [
    ("", "p50_ns", 0),
    ("", "p90_ns", 0),
    ("", "p99_ns", 0),
    ("", "p99.9_ns", 0),
    ("", "p99.99_ns", 0),
];
const ALL: fn(&Report, &Row) -> bool = |_, _| true;
const RATES: Chart = Chart::Bars(MILLION, three_digits, false);
const COUNTS: &str = "counted, not timed: the same on every machine";
const VIRTUAL: &str = "virtual time, NICs as assumed: no measurement";

/// Rates of the cases of a table, as bars.
const BARS: Spec = Spec {
    table: "throughput",
    metrics: RATE,
    unit: 1e6,
    keep: ALL,
    each: Each::View,
    series: Series::Design,
    chart: RATES,
    name: "throughput-{each}",
    title: "Throughput",
    subtitle: "{on}",
    caption: "More is better. Bars are medians of the repeats, whiskers reach from the slowest to the fastest of \
              them.",
};

/// One figure of numbers as they are.
const ONE: Spec = Spec { unit: 1.0, each: Each::All, ..BARS };

/// Operations counted on the medium. Splits and merges, which the table has, are as rare as a unit is large, and
/// would leave no room for the others.
const COSTS: Spec = Spec {
    table: "cost",
    keep: |_, row| ["hit", "miss", "insert", "update", "remove"].contains(&row.case.as_str()),
    subtitle: COUNTS,
    ..ONE
};

/// A multimap's rate over the skew of its keys.
const SKEW: Spec = Spec {
    table: "duplicates",
    keep: |_, row| row.case.starts_with("zipf "),
    each: Each::All,
    series: Series::Contender,
    chart: Chart::Lines(X::Skew, MILLION, Y::Linear(number)),
    subtitle: "{place}{emulated}",
    caption: "More is better. Each key once; most have few values.",
    ..BARS
};

/// A rate of simulated nodes over the number of clients.
const SIMULATED: Spec = Spec {
    table: "simulated",
    keep: |_, row| ["insert", "search"].contains(&row.case.as_str()),
    each: Each::Case,
    series: Series::Named,
    chart: Chart::Lines(X::Clients, MILLION, Y::Linear(number)),
    name: "simulated-throughput-{each}",
    title: "Throughput over clients, simulated: {each}",
    subtitle: VIRTUAL,
    caption: "More is better. Simulated nodes and NICs in virtual time.",
    ..BARS
};

/// The same of latency.
const SIMULATED_LATENCY: Spec = Spec {
    metrics: &[("p50", "p50_ns", 0), ("p99", "p99_ns", 1)],
    unit: 1.0,
    chart: Chart::Lines(X::Clients, "time of one operation, logarithmic", Y::Log),
    name: "simulated-latency-{each}",
    title: "Latency over clients, simulated: {each}",
    caption: "Less is better. Simulated nodes and NICs in virtual time.",
    ..SIMULATED
};

/// The figures, in the order of a page.
pub(super) const SPECS: [Spec; 33] = [
    // Stores side by side: `durahash-compare synced` measures them.
    Spec {
        table: "stores",
        unit: 1.0,
        keep: |_, row| {
            row.threads == 1 && ["durable inserts", "lookups"].contains(&row.case.as_str())
        },
        each: Each::All,
        series: Series::Named,
        chart: Chart::Bars("operations per second", number, false),
        name: "front",
        title: "Durable inserts and lookups per second",
        subtitle: "one thread, {place}; inserts survive kill -9",
        caption: "More is better. Inserts one by one, each of which survives kill -9 of the process when it has \
                  returned. Bars are medians of the repeats, whiskers reach from the slowest to the fastest of them.",
        ..BARS
    },
    BARS,
    Spec {
        keep: |report, row| {
            report.setup.threads.len() >= 3
                && ["load", "hit", "update", "YCSB A"].contains(&row.case.as_str())
        },
        each: Each::Case,
        chart: Chart::Lines(X::Threads, MILLION, Y::Linear(number)),
        name: "scaling-{each}",
        title: "Throughput over threads: {each}",
        subtitle: "{place}{emulated}",
        caption: "More is better; a straight line through zero scales perfectly.",
        ..BARS
    },
    Spec {
        table: "latency",
        metrics: &[("p50", "p50_ns", 0), ("p99", "p99_ns", 0), ("p99.99", "p99.99_ns", 0)],
        unit: 1.0,
        chart: Chart::Ranges("time of one operation (of 64, where batched), logarithmic", false),
        name: "latency-{each}",
        title: "Latency",
        caption: "Less is better. Every operation was timed by itself, in runs of their own; the clock's own \
                  time is included.",
        ..BARS
    },
    Spec {
        table: "growth",
        metrics: &[("", "load_factor", 0)],
        chart: Chart::Lines(X::Keys, "load factor", Y::Part),
        name: "load-factor",
        title: "Load factor over growth",
        subtitle: "slots in use, as a part of all slots",
        caption: "More is better, and steadier is better: the lowest point decides how much memory must be \
                  there.",
        ..ONE
    },
    Spec {
        table: "growth",
        metrics: &[("medium", "medium_bytes_per_key", 0), ("DRAM", "dram_bytes_per_key", 1)],
        chart: Chart::Lines(X::Keys, "bytes per entry", Y::Grown),
        name: "bytes-per-entry",
        title: "Bytes per entry over growth",
        subtitle: "in use for keys and values of 8 bytes each",
        caption: "Less is better; 16 bytes are the key and the value themselves. Larger at the very beginning, \
                  where it leaves the figure.",
        ..ONE
    },
    Spec {
        table: "resize",
        metrics: &INSERT_PERCENTILES,
        series: Series::Case,
        chart: Chart::Lines(X::Percentile, "time of one insert, logarithmic", Y::Log),
        name: "resize-latency",
        title: "Latency of inserts that split, and of others",
        subtitle: "1 thread, {place}{emulated}",
        caption: "Less is better: the cost of growth for the inserts that it falls upon. A doubling of the \
                  directory shows at the right end.",
        ..ONE
    },
    Spec {
        metrics: &[("", "blocks_read", 0)],
        chart: Chart::Bars("blocks of 256 bytes of the medium", number, false),
        name: "blocks-read",
        title: "Blocks read for each operation",
        caption: "Less is better: on persistent memory, reads of blocks decide the cost of a lookup. Splits and \
                  merges are in the table.",
        ..COSTS
    },
    Spec {
        metrics: &[("", "flushes", 0)],
        chart: Chart::Bars("flushes of 64-byte lines", number, false),
        name: "flushes",
        title: "Lines written back for each operation",
        caption: "Less is better: the lines that an operation must write back before it is durable. Splits and \
                  merges are in the table.",
        ..COSTS
    },
    Spec {
        metrics: &[("", "waits", 0)],
        chart: Chart::Bars("fences and drains", number, false),
        name: "fences",
        title: "Waits for durability of each operation",
        caption: "Less is better: how often an operation waits for its write-backs. Splits and merges are in the \
                  table.",
        ..COSTS
    },
    Spec {
        table: "recovery",
        metrics: &[("", "open_ms", 0)],
        chart: Chart::Lines(X::Keys, "milliseconds", Y::Linear(number)),
        name: "recovery",
        title: "Time to open after kill -9",
        subtitle: "{place}{not emulated}",
        caption: "Less is better: from the open to the first operation, after a process was killed in the middle \
                  of its inserts. Every acknowledged key was looked up afterwards.",
        ..ONE
    },
    Spec {
        metrics: &[("", "add per_s", 0)],
        name: "duplicates-add",
        title: "Add an entry",
        caption: "More is better. The keys are drawn by a zipfian distribution: further to the right, the keys \
                  that have many values have more of them.",
        ..SKEW
    },
    Spec {
        metrics: &[("", "get by entry per_s", 0)],
        name: "duplicates-get-by-entry",
        title: "Get all values, by entry",
        caption: "More is better. The keys of random entries, so those with many values most often: the table \
                  has how many values that is a second.",
        ..SKEW
    },
    Spec {
        metrics: &[("", "get by key per_s", 0)],
        name: "duplicates-get-by-key",
        title: "Get all values, by key",
        ..SKEW
    },
    Spec {
        metrics: &[("", "remove one per_s", 0)],
        name: "duplicates-remove-one",
        title: "Remove one value",
        caption: "More is better. The value is looked for among all of its key.",
        ..SKEW
    },
    Spec {
        metrics: &[("", "remove all per_s", 0)],
        name: "duplicates-remove-all",
        title: "Remove all values, by key",
        ..SKEW
    },
    Spec {
        metrics: &[("", "medium_bytes_per_entry", 0)],
        unit: 1.0,
        chart: Chart::Lines(X::Skew, "bytes per entry on the medium", Y::Linear(number)),
        name: "duplicates-bytes-per-entry",
        title: "Bytes per entry, many values for each key",
        caption: "Less is better; 16 bytes are a key and a value. Equal keys share a list, so fewer bytes than \
                  that are possible.",
        ..SKEW
    },
    Spec {
        table: "duplicates",
        // The operations, and the paper's names for them.
        metrics: &[
            ("SI: add edges", "add per_s", 0),
            ("SS: get, by edge", "get by entry per_s", 0),
            ("US: get, by source", "get by key per_s", 0),
            ("update an edge", "update per_s", 0),
            ("remove an edge", "remove one per_s", 0),
            ("UD: remove sources", "remove all per_s", 0),
        ],
        keep: |_, row| row.case.starts_with("graph "),
        each: Each::All,
        series: Series::Contender,
        chart: Chart::Bars(MILLION, three_digits, true),
        name: "graph",
        title: "Edges of a graph",
        subtitle: "{graph}, {place}{emulated}",
        caption: "More is better. Sources are keys, targets their values. Bars are medians of the repeats, \
                  whiskers reach from the slowest to the fastest of them.",
        ..BARS
    },
    Spec {
        table: "size",
        metrics: &[("p50", "p50_ns", 0), ("p99", "p99_ns", 1)],
        unit: 1.0,
        each: Each::Case,
        chart: Chart::Lines(X::KeysLog, "time of one operation", Y::Linear(duration)),
        name: "size-{each}",
        title: "Latency over size: {each}",
        subtitle: "1 thread, {place}{emulated}",
        caption: "Less is better. Every operation was timed by itself; the clock's own time is included.",
        ..BARS
    },
    Spec {
        table: "stall",
        metrics: &[
            ("p50", "p50_ns", 0),
            ("p99.9", "p99.9_ns", 0),
            ("p99.99", "p99.99_ns", 0),
            ("longest", "max_ns", 0),
        ],
        chart: Chart::Ranges("time of one lookup, logarithmic", false),
        name: "stall",
        title: "Lookups beside inserts, and alone",
        subtitle: "{place}{emulated}",
        caption: "Less is better: how long a reader can be kept while another thread inserts, and by the system. \
                  Every lookup was timed by itself; the clock's own time is included.",
        ..ONE
    },
    Spec {
        table: "load",
        metrics: &[("mean", "mean_ns", 0), ("p99.99", "p99.99_ns", 1)],
        unit: 1.0,
        each: Each::Case,
        chart: Chart::Lines(X::PartOfKeys, "time of one operation, logarithmic", Y::Log),
        name: "load-{each}",
        title: "Latency while the table fills: {each}",
        subtitle: "1 thread, {place}{emulated}",
        caption: "Less is better. Every operation was timed by itself; the clock's own time is included.",
        ..BARS
    },
    Spec {
        table: "ycsb",
        name: "ycsb-{each}",
        title: "YCSB over the keys that there are",
        caption: "More is better. A: half reads, half updates; B: 95 % reads; C: reads. Bars are medians of the \
                  repeats, whiskers reach from the slowest to the fastest of them.",
        ..BARS
    },
    Spec {
        table: "cache",
        keep: |report, row| Some(&row.threads) == report.setup.threads.first(),
        each: Each::Drawn,
        series: Series::Cache,
        chart: Chart::Lines(X::Cache, "million lookups per second", Y::Linear(number)),
        name: "cache-{each}",
        title: "Lookups by the size of the table of copies: {each}",
        caption: "More is better. The other designs have no such table: dashed, for comparison.",
        ..BARS
    },
    Spec {
        table: "cache",
        metrics: &[("", "hits", 0)],
        series: Series::Drawn,
        chart: Chart::Lines(X::Cache, "part of all lookups", Y::Part),
        name: "cache-hits",
        title: "Lookups that copies answer",
        subtitle: "counted, not timed: lookups that read nothing of the medium",
        caption: "More is better: these lookups cost as much as DRAM does, however slow the medium is.",
        ..ONE
    },
    Spec {
        table: "slice",
        metrics: &[
            ("before", "before ops_per_s", 1),
            ("during", "during ops_per_s", 0),
            ("after", "after ops_per_s", 1),
        ],
        each: Each::Case,
        series: Series::Named,
        chart: Chart::Lines(X::Slice, MILLION, Y::Linear(number)),
        name: "resize-{each}",
        title: "Beside a resize: {each}",
        subtitle: "1 thread, {place}{emulated}",
        caption: "More is better, and as much during the resize as before and after it is best. Inserts do the \
                  resize themselves; beside lookups another thread does it.",
        ..BARS
    },
    // Times, as the rates are too far apart for bars: a wait for the disk takes as long as some hundred inserts.
    Spec {
        table: "durability",
        chart: Chart::Ranges("time of one operation, over all threads, logarithmic", true),
        name: "durability-{each}",
        title: "Modes of durability",
        caption: "Less is better. process survives kill -9; interval also a system crash and a power cut, but \
                  for the last moments; strict both. put_many is of 1000 at a time, by one thread. Marks are the \
                  fastest of the repeats, their median, and the slowest.",
        ..BARS
    },
    SIMULATED,
    SIMULATED_LATENCY,
    Spec {
        table: "simulated many",
        name: "simulated-many-throughput-{each}",
        title: "Throughput over clients, simulated, many small segments: {each}",
        ..SIMULATED
    },
    Spec {
        table: "simulated many",
        name: "simulated-many-latency-{each}",
        title: "Latency over clients, simulated, many small segments: {each}",
        ..SIMULATED_LATENCY
    },
    Spec {
        table: "simulated mix",
        keep: |_, row| row.threads == 128,
        each: Each::All,
        chart: RATES,
        name: "simulated-mix",
        title: "Mixes at 128 clients, simulated",
        ..SIMULATED
    },
    Spec {
        table: "simulated ycsb",
        keep: |_, row| row.threads == 128,
        each: Each::All,
        chart: RATES,
        name: "simulated-ycsb",
        title: "YCSB at 128 clients, simulated",
        ..SIMULATED
    },
    Spec {
        table: "simulated space",
        metrics: &[("entries", "entry_utilization", 0), ("bytes", "space_utilization", 1)],
        unit: 1.0,
        keep: |_, row| row.case == "growth",
        each: Each::All,
        chart: Chart::Lines(X::Keys, "part that holds entries of keys", Y::Part),
        name: "simulated-utilization",
        title: "Utilization while an index grows",
        subtitle: "one client on a simulated node; counted",
        caption: "More is better: entries of keys of all that there is room for, and their bytes of all bytes of \
                  the index.",
        ..SIMULATED
    },
];

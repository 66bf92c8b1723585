//! The tables whose lines are rows with the same design, case, threads and keys, and whose columns are metrics.

use super::Field::{Case, Design, Keys, Threads};
use super::Show::{
    Count, Duration, Fixed, Least, Mib, Million, MillisAsDuration, Ms, PerKey, Simulated, Thousand,
    Whole,
};
use super::Spec;
use crate::report::REAL;

/// One operation of many clients, on simulated nodes.
const SIMULATED: Spec = Spec {
    table: "simulated",
    lead: "ops_per_s",
    sorted: true,
    names: &[("operation", Case), ("index", Design), ("clients", Threads)],
    columns: &[
        ("million/s", "ops_per_s", Million(3)),
        ("p50", "p50_ns", Duration),
        ("p99", "p99_ns", Duration),
        ("trips", "round_trips", Fixed(2)),
        ("verbs", "verbs", Fixed(2)),
        ("bytes", "bytes", Fixed(0)),
        ("splits", "splits", Fixed(0)),
        ("merges", "merges", Fixed(0)),
    ],
    title: "Operations, simulated",
    note: "Virtual time, no measurement. {first keys} keys lie in the index before. A client is a thread, 16 share a \
           NIC. Trips, verbs and bytes are of one operation, with those that splits and merges add.",
};

pub(super) const SPECS: [Spec; 19] = [
    Spec {
        table: "latency",
        lead: "max_ns",
        sorted: false,
        names: &[("workload", Case), ("design", Design)],
        columns: &[
            ("p50", "p50_ns", Duration),
            ("p99", "p99_ns", Duration),
            ("p99.99", "p99.99_ns", Duration),
            ("max", "max_ns", Duration),
        ],
        title: "Latency, {threads}{emulated}",
        note: "Each operation timed; get_many and put_many by batches of 64, which are fewer. -: too few for this \
               percentile.",
    },
    Spec {
        table: "space",
        lead: "load_factor_mean",
        sorted: false,
        names: &[("design", Design)],
        columns: &[
            ("load factor", "load_factor_mean", Fixed(3)),
            ("least", "load_factor_min", Fixed(3)),
            ("most", "load_factor_max", Fixed(3)),
            ("utility", "utility_medium", Fixed(3)),
            ("with DRAM", "utility", Fixed(3)),
            ("bytes/entry", "medium_bytes_per_key", Fixed(1)),
            ("in DRAM", "dram_bytes_per_key", Fixed(1)),
            ("pool", "file_bytes", Mib),
        ],
        title: "Space",
        note: "Load factor: mean, least and most while the last half was inserted. Utility: bytes of entries over \
               bytes in use on the medium, over all inserts (with DRAM: over both). The pool grows ahead of use.",
    },
    Spec {
        table: "resize",
        lead: "count",
        sorted: false,
        names: &[("design", Design), ("operation", Case)],
        columns: &[
            ("count", "count", Count),
            ("p50", "p50_ns", Duration),
            ("p99", "p99_ns", Duration),
            ("p99.99", "p99.99_ns", Duration),
            ("max", "max_ns", Duration),
        ],
        title: "Growth, 1 thread{emulated}",
        note: "{growth}.",
    },
    Spec {
        table: "cost",
        lead: "blocks_read",
        sorted: false,
        names: &[("design", Design), ("operation", Case)],
        columns: &[
            ("blocks read", "blocks_read", Fixed(3)),
            ("written", "blocks_written", Fixed(3)),
            ("lines read", "lines_read", Fixed(3)),
            ("written", "lines_written", Fixed(3)),
            ("flushes", "flushes", Fixed(3)),
            ("fences", "waits", Fixed(3)),
        ],
        title: "Cost of one operation, counted on the medium",
        note: "Blocks of 256 bytes and lines of 64, distinct ones; flushes of lines; fences and drains.",
    },
    Spec {
        table: "recovery",
        lead: "open_ms",
        sorted: false,
        names: &[("design", Design), ("keys", Keys), ("threads", Threads)],
        columns: &[
            ("acknowledged", "acknowledged", Count),
            ("lost", "lost", Count),
            ("open", "open_ms", Ms),
            ("first get", "first_get_ms", Ms),
            ("open if closed", "open_closed_ms", Ms),
            ("repaired first", "repaired_by_first_get", Count),
            ("repaired", "repaired", Count),
        ],
        title: "Recovery after kill -9 of a process that inserts{not emulated}",
        note: "Times are medians of {repeats} opens of the same state; the first get is answered so long after the \
               open began. Repaired are units that the kill may have left half changed, by the first get and in \
               all. Every acknowledged key was looked up, and every invariant checked.",
    },
    Spec {
        table: "duplicates",
        lead: "add per_s",
        sorted: false,
        names: &[("entries", Case), ("table", Design), ("threads", Threads)],
        columns: &[
            ("add", "add per_s", Million(2)),
            ("get by entry", "get by entry per_s", Million(2)),
            ("get by key", "get by key per_s", Million(2)),
            ("count", "count per_s", Million(2)),
            ("update", "update per_s", Million(2)),
            ("remove one", "remove one per_s", Million(2)),
            ("remove all", "remove all per_s", Million(2)),
        ],
        title: "Many values for each key, million operations per second{emulated}",
        note: "Medians of {repeats}. Zipf: keys drawn from as many as there are entries; graph: sources are keys. \
               Get copies all values of the key of a random entry, or of each key once; count, and remove all, of \
               each key. Update: one value goes, another comes. Lists: a map from the key to a list of its values.",
    },
    Spec {
        table: "duplicates",
        lead: "get by entry values_per_s",
        sorted: false,
        names: &[("entries", Case), ("table", Design), ("threads", Threads)],
        columns: &[
            ("get by entry", "get by entry values_per_s", Million(2)),
            ("get by key", "get by key values_per_s", Million(2)),
            ("remove all", "remove all values_per_s", Million(2)),
        ],
        title: "The same, million values per second{emulated}",
        note: "The values that these operations read or remove, many at once.",
    },
    Spec {
        table: "duplicates",
        lead: "medium_bytes_per_entry",
        sorted: false,
        names: &[("entries", Case), ("table", Design), ("count", Keys)],
        columns: &[
            ("keys", "keys", Count),
            ("longest", "longest", Count),
            ("in lists", "lists", Count),
            ("bytes/entry", "medium_bytes_per_entry", Fixed(1)),
            ("utility", "utility_medium", Fixed(3)),
        ],
        title: "Many values for each key, space",
        note: "Longest: values of the key that has the most. In lists: keys whose values lie outside of their \
               buckets. Utility: 16 bytes for each entry over bytes in use on the medium, over all adds.",
    },
    Spec {
        table: "resizing",
        lead: "count",
        sorted: false,
        names: &[("design", Design), ("operation", Case)],
        columns: &[
            ("count", "count", Count),
            ("min", "min_ns", Duration),
            ("p50", "p50_ns", Duration),
            ("p90", "p90_ns", Duration),
            ("p99", "p99_ns", Duration),
            ("p99.99", "p99.99_ns", Duration),
            ("max", "max_ns", Duration),
            ("in all", "total_ms", MillisAsDuration),
        ],
        title: "Inserts on the way there, 1 thread{emulated}",
        note: "The inserts that the table grew by. An insert that doubles the directory splits as well, and counts \
               for both. -: too few for this percentile.",
    },
    Spec {
        table: "stall",
        lead: "count",
        sorted: false,
        names: &[("design", Design), ("lookups", Case)],
        columns: &[
            ("count", "count", Count),
            ("p50", "p50_ns", Duration),
            ("p99", "p99_ns", Duration),
            ("p99.9", "p99.9_ns", Duration),
            ("p99.99", "p99.99_ns", Duration),
            ("longest", "max_ns", Duration),
        ],
        title: "Lookups while another thread inserts, and alone{emulated}",
        note: "One thread looks up keys that are there, each lookup timed, until another has inserted all keys; then \
               as often without it. {clock} ns of every time are the clock's; the longest are those of the system \
               where it runs something else.",
    },
    Spec {
        table: "slices",
        lead: "ratio",
        sorted: false,
        names: &[("design", Design), ("one does", Case)],
        columns: &[
            ("usual", "usual_per_s", Million(2)),
            ("during", "during_per_s", Million(2)),
            ("smallest", "during_per_s", Least),
            ("ratio", "ratio", Fixed(2)),
            ("before", "before_ms", Whole),
            ("resize", "during_ms", Whole),
            ("after", "after_ms", Whole),
        ],
        title: "One thread beside a resize, million operations per second{emulated}",
        note: "Medians of slices of 10 ms: usual are those before the resize and after it; the smallest is that of a \
               slice of the resize. Inserts do the resize themselves; beside lookups and updates another thread \
               does it, by steps.",
    },
    SIMULATED,
    Spec {
        table: "simulated many",
        title: "Inserts where each client has many segments, simulated",
        note: "Virtual time, no measurement. {first keys} keys lie in the index before. CurSegments, MainSegments \
               and subtables have a 16th of their usual entries, so that there are as many as an index of 16 times \
               the keys has; each client has looked up 4,096 keys before. Trips, verbs and bytes are of one \
               operation, with those that splits and merges add.",
        ..SIMULATED
    },
    Spec {
        table: "simulated techniques",
        title: "Without one technique each, simulated",
        note: "Virtual time, no measurement. {first keys} keys lie in the index before. As operations, with SepHash \
               as it is, and without the technique that the case names. Trips, verbs and bytes are of one operation, \
               with those that splits and merges add.",
        ..SIMULATED
    },
    Spec {
        table: "simulated mix",
        title: "Mixes of inserts and searches, simulated",
        note: "Virtual time, no measurement. {first keys} keys lie in the index before. Searches are of keys drawn \
               uniformly from those that were there before. Trips, verbs and bytes are of one operation, with those \
               that splits and merges add.",
        ..SIMULATED
    },
    Spec {
        table: "simulated ycsb",
        title: "YCSB by Zipf's law, 0.99, simulated",
        note: "Virtual time, no measurement. {first keys} keys lie in the index before. A: half reads, half updates; \
               B: 95 % reads; C: reads; D: 95 % reads of the client's latest keys, 5 % inserts. Trips, verbs and \
               bytes are of one operation, with those that splits and merges add.",
        ..SIMULATED
    },
    Spec {
        table: "simulated sizes",
        title: "Sizes of segments, memory nodes, sizes of keys and values, simulated",
        note: "Virtual time, no measurement. Each from an empty index of its own, which has a quarter of the keys when \
               inserts are measured. Trips, verbs and bytes are of one operation, with those that splits and merges \
               add.",
        ..SIMULATED
    },
    Spec {
        table: "simulated space",
        lead: "segments",
        sorted: false,
        names: &[("size", Case), ("index", Design), ("keys", Keys)],
        columns: &[
            ("segments", "segments", Fixed(0)),
            ("depth", "depth", Fixed(0)),
            ("entries", "entries", Count),
            ("used", "entry_utilization", Fixed(3)),
            ("used bytes", "space_utilization", Fixed(3)),
            ("bytes/key", "index_bytes", PerKey(2)),
            ("cache/key", "cache_bytes", PerKey(3)),
            ("FPTables", "table_bytes", PerKey(3)),
            ("plain", "plain_table_bytes", PerKey(3)),
        ],
        title: "Space of the index and of a client's cache, simulated",
        note: "Bytes for each key. The cache: directory, and FPTables of SepHash, with and without record points.",
    },
    Spec {
        table: REAL,
        lead: "ops_per_s",
        sorted: true,
        names: &[("operation", Case), ("fabric", Design), ("threads", Threads)],
        columns: &[
            ("thousand/s", "ops_per_s", Thousand),
            ("p50", "p50_ns", Duration),
            ("p99", "p99_ns", Duration),
            ("p50 simulated", "ops_per_s", Simulated),
        ],
        title: "SepHash on nodes of this machine, real",
        note: "Measured, by the clock, with {first keys} keys and values of 8 bytes: a node in a process of its own, \
               threads of one client that wait for each operation; nodes and clients share the processors. Medians \
               of 3. The last column is of the simulated operation with as many clients, for comparison.",
    },
];

//! The tables whose lines are rows with the same design, case, threads and keys, and whose columns are metrics.

use super::Spec;
use crate::report::REAL;

const TRIPS: &str = "Virtual time, no measurement. {first keys} keys lie in the index before. ";
const TRIPS_END: &str =
    "Trips, verbs and bytes are of one operation, with those that splits and merges add.";

/// Lines in the order of measurement.
const LINES: Spec = Spec {
    table: "",
    lead: "count",
    sorted: false,
    names: "design; operation=case",
    columns: "",
    title: "",
    note: &[],
};

/// One operation of many clients, on simulated nodes.
const SIMULATED: Spec = Spec {
    table: "simulated",
    lead: "ops_per_s",
    sorted: true,
    names: "operation=case; index=design; clients=threads",
    columns: "million/s=ops_per_s:M3; p50=p50_ns; p99=p99_ns; trips=round_trips:2; verbs:2; bytes:0; splits:0; \
              merges:0",
    title: "Operations, simulated",
    note: &[TRIPS, "A client is a thread, 16 share a NIC. ", TRIPS_END],
};

pub(super) const SPECS: [Spec; 19] = [
    Spec {
        table: "latency",
        lead: "max_ns",
        names: "workload=case; design",
        columns: "p50=p50_ns; p99=p99_ns; p99.99=p99.99_ns; max=max_ns",
        title: "Latency, {threads}{emulated}",
        note: &[
            "Each operation timed; get_many and put_many by batches of 64, which are fewer. -: too few for this \
                 percentile.",
        ],
        ..LINES
    },
    Spec {
        table: "space",
        lead: "load_factor_mean",
        names: "design",
        columns: "load factor=load_factor_mean:3; least=load_factor_min:3; most=load_factor_max:3; \
                  utility=utility_medium:3; with DRAM=utility:3; bytes/entry=medium_bytes_per_key:1; \
                  in DRAM=dram_bytes_per_key:1; pool=file_bytes:MiB",
        title: "Space",
        note: &[
            "Load factor: mean, least and most while the last half was inserted. Utility: bytes of entries over \
                 bytes in use on the medium, over all inserts (with DRAM: over both). The pool grows ahead of use.",
        ],
        ..LINES
    },
    Spec {
        table: "resize",
        columns: "count; p50=p50_ns; p99=p99_ns; p99.99=p99.99_ns; max=max_ns",
        title: "Growth, 1 thread{emulated}",
        note: &["{growth}."],
        ..LINES
    },
    Spec {
        table: "cost",
        lead: "blocks_read",
        columns: "blocks read=blocks_read:3; written=blocks_written:3; lines read=lines_read:3; \
                  written=lines_written:3; flushes:3; fences=waits:3",
        title: "Cost of one operation, counted on the medium",
        note: &[
            "Blocks of 256 bytes and lines of 64, distinct ones; flushes of lines; fences and drains.",
        ],
        ..LINES
    },
    Spec {
        table: "recovery",
        lead: "open_ms",
        names: "design; keys; threads",
        columns: "acknowledged; lost; open=open_ms; first get=first_get_ms; open if closed=open_closed_ms; \
                  repaired first=repaired_by_first_get; repaired",
        title: "Recovery after kill -9 of a process that inserts{not emulated}",
        note: &[
            "Times are medians of {repeats} opens of the same state; the first get is answered so long after the \
                 open began. Repaired are units that the kill may have left half changed, by the first get and in \
                 all. Every acknowledged key was looked up, and every invariant checked.",
        ],
        ..LINES
    },
    Spec {
        table: "duplicates",
        lead: "add per_s",
        names: "entries=case; table=design; threads",
        columns: "add=add per_s; get by entry=get by entry per_s; get by key=get by key per_s; count=count per_s; \
                  update=update per_s; remove one=remove one per_s; remove all=remove all per_s",
        title: "Many values for each key, million operations per second{emulated}",
        note: &[
            "Medians of {repeats}. Zipf: keys drawn from as many as there are entries; graph: sources are keys. \
                 Get copies all values of the key of a random entry, or of each key once; count, and remove all, of \
                 each key. Update: one value goes, another comes. Lists: a map from the key to a list of its values.",
        ],
        ..LINES
    },
    Spec {
        table: "duplicates",
        lead: "get by entry values_per_s",
        names: "entries=case; table=design; threads",
        columns: "get by entry=get by entry values_per_s; get by key=get by key values_per_s; \
                  remove all=remove all values_per_s",
        title: "The same, million values per second{emulated}",
        note: &["The values that these operations read or remove, many at once."],
        ..LINES
    },
    Spec {
        table: "duplicates",
        lead: "medium_bytes_per_entry",
        names: "entries=case; table=design; count=keys",
        columns: "keys; longest; in lists=lists; bytes/entry=medium_bytes_per_entry:1; utility=utility_medium:3",
        title: "Many values for each key, space",
        note: &[
            "Longest: values of the key that has the most. In lists: keys whose values lie outside of their \
                 buckets. Utility: 16 bytes for each entry over bytes in use on the medium, over all adds.",
        ],
        ..LINES
    },
    Spec {
        table: "resizing",
        columns: "count; min=min_ns; p50=p50_ns; p90=p90_ns; p99=p99_ns; p99.99=p99.99_ns; max=max_ns; \
                  in all=total_ms:time",
        title: "Inserts on the way there, 1 thread{emulated}",
        note: &[
            "The inserts that the table grew by. An insert that doubles the directory splits as well, and counts \
                 for both. -: too few for this percentile.",
        ],
        ..LINES
    },
    Spec {
        table: "stall",
        names: "design; lookups=case",
        columns: "count; p50=p50_ns; p99=p99_ns; p99.9=p99.9_ns; p99.99=p99.99_ns; longest=max_ns",
        title: "Lookups while another thread inserts, and alone{emulated}",
        note: &[
            "One thread looks up keys that are there, each lookup timed, until another has inserted all keys; then \
                 as often without it. {clock} ns of every time are the clock's; the longest are those of the system \
                 where it runs something else.",
        ],
        ..LINES
    },
    Spec {
        table: "slices",
        lead: "ratio",
        names: "design; one does=case",
        columns: "usual=usual_per_s; during=during_per_s; smallest=during_per_s:least; ratio:2; before=before_ms:0 ms; \
                  resize=during_ms:0 ms; after=after_ms:0 ms",
        title: "One thread beside a resize, million operations per second{emulated}",
        note: &[
            "Medians of slices of 10 ms: usual are those before the resize and after it; the smallest is that of a \
                 slice of the resize. Inserts do the resize themselves; beside lookups and updates another thread \
                 does it, by steps.",
        ],
        ..LINES
    },
    SIMULATED,
    Spec {
        table: "simulated many",
        title: "Inserts where each client has many segments, simulated",
        note: &[
            TRIPS,
            "CurSegments, MainSegments and subtables have a 16th of their usual entries, so that there are as many as \
             an index of 16 times the keys has; each client has looked up 4,096 keys before. ",
            TRIPS_END,
        ],
        ..SIMULATED
    },
    Spec {
        table: "simulated techniques",
        title: "Without one technique each, simulated",
        note: &[
            TRIPS,
            "As operations, with SepHash as it is, and without the technique that the case names. ",
            TRIPS_END,
        ],
        ..SIMULATED
    },
    Spec {
        table: "simulated mix",
        title: "Mixes of inserts and searches, simulated",
        note: &[
            TRIPS,
            "Searches are of keys drawn uniformly from those that were there before. ",
            TRIPS_END,
        ],
        ..SIMULATED
    },
    Spec {
        table: "simulated ycsb",
        title: "YCSB by Zipf's law, 0.99, simulated",
        note: &[
            TRIPS,
            "A: half reads, half updates; B: 95 % reads; C: reads; D: 95 % reads of the client's latest keys, 5 % \
             inserts. ",
            TRIPS_END,
        ],
        ..SIMULATED
    },
    Spec {
        table: "simulated sizes",
        title: "Sizes of segments, memory nodes, sizes of keys and values, simulated",
        note: &[
            "Virtual time, no measurement. Each from an empty index of its own, which has a quarter of the keys when \
             inserts are measured. ",
            TRIPS_END,
        ],
        ..SIMULATED
    },
    Spec {
        table: "simulated space",
        lead: "segments",
        names: "size=case; index=design; keys",
        columns: "segments:0; depth:0; entries; used=entry_utilization:3; used bytes=space_utilization:3; \
                  bytes/key=index_bytes:/2; cache/key=cache_bytes:/3; FPTables=table_bytes:/3; \
                  plain=plain_table_bytes:/3",
        title: "Space of the index and of a client's cache, simulated",
        note: &[
            "Bytes for each key. The cache: directory, and FPTables of SepHash, with and without record points.",
        ],
        ..LINES
    },
    Spec {
        table: REAL,
        lead: "ops_per_s",
        sorted: true,
        names: "operation=case; fabric=design; threads",
        columns: "thousand/s=ops_per_s:k; p50=p50_ns; p99=p99_ns; p50 simulated=ops_per_s:simulated",
        title: "SepHash on nodes of this machine, real",
        note: &[
            "Measured, by the clock, with {first keys} keys and values of 8 bytes: a node in a process of its own, \
                 threads of one client that wait for each operation; nodes and clients share the processors. Medians \
                 of 3. The last column is of the simulated operation with as many clients, for comparison.",
        ],
    },
];

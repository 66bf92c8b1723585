//! The command line: commands, options and their help.

pub(crate) mod remote;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use durahash::cache::Policy;
use durahash::{Design, SyncMode, Type};
use durahash_bench::{Medium, Profile};

use crate::lifetime::{Expiry, parse_lifetime, parse_time};
use crate::size::parse_size;

const EXIT_CODES: &str = "\
Exit codes:
  0 found, or done                  3 corrupt: not a sound pool
  1 not found                       4 I/O error, or full
  2 wrong usage, or bad lines       5 locked: open or changed elsewhere
  130 a load that a signal ended
Of a node: 2 where it refuses the token, 3 where something else answers, 4 where it does not answer,
or is gone, 5 where it has as many clients as it takes.

Examples:
  durahash load packages.pool packages.tsv.gz
  durahash get packages.pool bash
  durahash stats packages.pool";

/// Durable hash indexes in files. A change that a command has made survives kill -9, and loss of power
/// too; in the memory of nodes it lasts as long as the nodes do, or their files.
#[derive(Debug, Parser)]
#[command(name = "durahash", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create an empty pool
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  durahash create packages.pool --durability strict
  durahash create edges.pool --kind multimap --codec u64 --max-size 10GiB
  durahash create shop.pool --map users
  durahash create sessions.pool --expiry --max-entries 100000"
    )]
    Create(Create),

    /// Store VALUE under KEY, replacing what was there; in a multimap, beside what is there
    ///
    /// Both are taken as they are, without escapes. Without VALUE, the standard input is the value, all of it.
    /// When the command returns, the entry is stored. In a cache it expires after --ttl or at --until, and
    /// where it has no room another goes.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  durahash put ages.pool Ada 36
  durahash put sessions.pool 4711 Ada --ttl 30m
  durahash put photos.pool Ada < ada.jpeg
  durahash put ages.pool -- -key -value"
    )]
    Put {
        /// The pool's file
        pool: PathBuf,
        /// The key
        key: OsString,
        /// The value [default: the standard input]
        value: Option<OsString>,
        /// How long the entry lives, in a cache: as 500ms, 90s, 10m, 2h or 7d [default: for ever]
        #[arg(long, value_name = "DURATION", value_parser = parse_lifetime)]
        ttl: Option<Expiry>,
        /// When the entry expires, in a cache, in seconds since 1970: as $(date -d tomorrow +%s)
        #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "ttl")]
        until: Option<Expiry>,
        #[command(flatten)]
        write: Write,
    },

    /// Print the value of KEY, as it is, and a line feed; of a multimap all values, in no order
    ///
    /// Of several keys, prints lines KEY<TAB>VALUE, as dump does. Exit code 1 where a key is not there, or
    /// its entry has expired, of which nothing is printed.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  durahash get ages.pool Ada
  durahash get ages.pool Ada Grace"
    )]
    Get {
        #[command(flatten)]
        read: Read,
        /// The keys
        #[arg(value_name = "KEY", required = true)]
        keys: Vec<OsString>,
    },

    /// Remove KEY, from a multimap with all its values or with one VALUE
    ///
    /// Exit code 1 where the key, or the value, is not there.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  durahash del ages.pool Ada
  durahash del edges.pool 1 2"
    )]
    Del {
        /// The pool's file
        pool: PathBuf,
        /// The key
        key: OsString,
        /// Remove one entry with this value (multimap only)
        value: Option<OsString>,
        #[command(flatten)]
        write: Write,
    },

    /// Store every line KEY<TAB>VALUE of a file; the pool is created if it is missing
    ///
    /// The first tab ends the key. \t, \n, \r, \\ and \# stand for tab, line feed, carriage return,
    /// backslash and #; a carriage return before the line feed belongs to the line's end. Lines that
    /// start with # are skipped. A bad line is named on the standard error as FILE:LINE: REASON and
    /// left out, those beyond the first 20 without being named; the rest is loaded, and the exit code
    /// is 2. A key that comes again replaces the
    /// value it had, so a load that was cut short can be repeated. Into a multimap every line is
    /// added, so there it cannot. In a line for a cache a second tab may follow, and how long the entry lives, as
    /// 10m. Ctrl-C ends the load, stores what was read, and tells how much that is;
    /// a second one ends it at once.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  durahash load packages.pool packages.tsv.gz
  durahash load edges.pool edges.tsv --codec u64 --kind multimap
  durahash dump old.pool | durahash load new.pool"
    )]
    Load {
        /// The pool's file
        pool: PathBuf,
        /// The file to read, decompressed if it is gzip data; - is the standard input
        #[arg(default_value = "-")]
        file: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        new: New,
    },

    /// Print all entries as lines KEY<TAB>VALUE that load reads
    ///
    /// Tab, line feed, carriage return and backslash are written \t, \n, \r and \\, and a # that
    /// begins a key is written \#; all other bytes are as they are. The order has no meaning. An
    /// entry that is damaged is named on the standard error; the rest is printed, and the exit
    /// code is 3. Of a cache it has what has not expired, without the time at which that will.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  durahash dump packages.pool --limit 10
  durahash dump packages.pool | gzip > packages.tsv.gz"
    )]
    Dump {
        #[command(flatten)]
        read: Read,
        /// Stop after N entries
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },

    /// Print figures: keys, load factor, depths, space, durability, recovery; of a cache what has expired, and bounds
    #[command(verbatim_doc_comment, after_help = "Example:\n  durahash stats packages.pool --json")]
    Stats {
        #[command(flatten)]
        read: Read,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },

    /// Verify every invariant of all maps and change nothing
    ///
    /// Prints what is wrong and where. Exit code 3 if anything is.
    #[command(verbatim_doc_comment, after_help = "Example:\n  durahash check packages.pool")]
    Check {
        #[command(flatten)]
        read: File,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },

    /// List the maps of a pool, or rename or remove one
    ///
    /// A pool has a map called main, unless it was made with --map, and up to 63 others, each with a name:
    /// create and load make them. Other commands work on main, or on the one that --map names; check,
    /// backup and compact on all of them. A cache takes two: NAME.cache beside it belongs to it, and is not listed.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  durahash create shop.pool --map users
  durahash load shop.pool edges.tsv --map edges --kind multimap --codec u64
  durahash get shop.pool Ada --map users
  durahash maps shop.pool
  durahash maps shop.pool rename users people
  durahash maps shop.pool remove edges"
    )]
    Maps(Maps),

    /// Copy a pool to a new file, which has its name when the copy is whole
    ///
    /// The pool is only read. A process may write to it meanwhile, if it lets others read (Options::readers); else it
    /// backs the pool up itself: Map::backup. The copy opens in any mode, on any machine.
    #[command(
        verbatim_doc_comment,
        after_help = "Example:\n  durahash backup packages.pool backup.pool"
    )]
    Backup {
        /// The pool's file
        pool: PathBuf,
        /// The new file
        to: PathBuf,
        /// Directory of the live image [default: the pool's]
        #[arg(long, value_name = "DIR")]
        live_dir: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },

    /// Write the pool anew without gaps, and print its size before and after
    ///
    /// Needs space for the new file beside the old one, which is replaced when the new one is whole. With --to
    /// the old one stays, and is only read: a backup without gaps.
    #[command(
        verbatim_doc_comment,
        after_help = "Examples:\n  durahash compact packages.pool\n  durahash compact packages.pool --to backup.pool"
    )]
    Compact {
        /// The pool's file
        pool: PathBuf,
        /// Write to this new file, and leave the pool as it is
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
        /// Directory of the live image of a pool that was killed [default: the pool's]
        #[arg(long, value_name = "DIR")]
        live_dir: Option<PathBuf>,
    },

    /// Measure designs on this machine
    ///
    /// Without options, the default design, in at most 45 s: durable inserts and lookups a second,
    /// latencies, bytes for each entry, and the time to open after kill -9, with every acknowledged key
    /// verified. It writes at most 2 GB to files, which are removed.
    ///
    /// With --all, all designs, for some minutes, and tens of GB: load, hits, misses, updates, deletes and
    /// mixed work by threads; load factor and bytes per entry; lines, blocks, flushes and fences of each
    /// operation; recovery. This is the suite standard.
    ///
    /// Other suites measure many values for each key, latency against size and fill, lookups while
    /// another thread inserts, skewed keys and copies in DRAM, recovery alone, the modes of durability
    /// side by side, emulated media, and SepHash on real nodes of this machine, with 1,000 to 5,000 keys, over UCX as well if
    /// it was built so. RACE hashing and lists behind a map are measured by a program of their own:
    /// cargo run --release -p durahash-baselines -- help
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  durahash bench
  durahash bench --all
  durahash bench --keys 10000000 --threads 1,2,4 --pool /mnt/pmem --report report
  durahash bench --medium dram --emulate optane-100 --json optane.json
  durahash bench --suite duplicates --graph edges.tsv.gz
  durahash bench --suite sizes,stall --keys 10000000
  durahash bench --suite loads,ycsb,caches,resizing --medium dram --emulate optane-100
  durahash bench --suite media --json media.json
  durahash bench --suite cache --trace requests.txt.gz
  durahash bench --suite nodes
  durahash bench --suite recovery --design esh --keys 40000000
  durahash bench --suite durability --design reh,pea --pool /mnt/disk"
    )]
    Bench(Box<BenchArgs>),

    /// Lend memory to clients, which keep an index in it
    ///
    /// Prints the address that it listens on, and serves until a signal ends it. The memory and its contents
    /// go with the node; a process of its own removes them. With --file they stay: after a kill of the node, all that
    /// clients have stored is there for the next one, and SIGINT or SIGTERM closes the file, so that it
    /// survives a restart of the machine. Everyone who can write to the memory is fully
    /// trusted. Over TCP that takes the token, which must be random, and all traffic is encrypted; over
    /// other fabrics listen beyond the loopback address only where everyone on the network is trusted.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  durahash node --size 4GiB
  durahash node --file memory.node
  durahash node --size 4GiB --listen 0.0.0.0:7410 --token-file token
  durahash node --listen 127.0.0.1:7411 --token-file token --fabric local:/dev/shm/node"
    )]
    Node(remote::Node),

    /// Work on an index in the memory of nodes
    ///
    /// Up to 64 clients may do so at once (over TCP as many as `durahash node --clients` says), and any of
    /// them may die at any moment: an acknowledged change stays as long as the nodes do. Exit code 4 where a node does not answer, or ends in the middle.
    #[command(
        verbatim_doc_comment,
        after_help = "\
Examples:
  durahash remote --node 127.0.0.1:7410 load packages.tsv.gz
  durahash remote --node 127.0.0.1:7410 get bash
  durahash remote --node 127.0.0.1:7410 stats

Exit code 4 also where the nodes have no index: load makes one. An index over several nodes is named by all
of them, in the same order from the first load on."
    )]
    Remote(remote::Remote),

    /// Print a script that completes this command in a shell
    #[command(
        verbatim_doc_comment,
        after_help = "\
Example:
  durahash completions bash > ~/.local/share/bash-completion/completions/durahash"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Maps {
    #[command(flatten)]
    pub(crate) read: File,
    /// Print one JSON array
    #[arg(long)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) change: Option<MapsChange>,
}

/// A change of the maps of a pool.
#[derive(Debug, Subcommand)]
pub(crate) enum MapsChange {
    /// Give a map another name
    Rename {
        /// Its name
        name: String,
        /// Its new name
        new: String,
    },
    /// Remove a map with all of its entries
    Remove {
        /// Its name
        name: String,
    },
}

/// Options of all reading commands.
#[derive(Debug, Args)]
pub(crate) struct Read {
    #[command(flatten)]
    pub(crate) file: File,
    /// The map, of a pool that has several [default: main]
    #[arg(long, value_name = "NAME")]
    pub(crate) map: Option<String>,
}

/// A pool that is read.
#[derive(Debug, Args)]
pub(crate) struct File {
    /// The pool's file
    pub(crate) pool: PathBuf,
    /// Read a pool that was open when the machine went down, though pages of it may be missing
    #[arg(long)]
    pub(crate) accept_suspect: bool,
    /// Read the whole pool first, and refuse it if a block does not have its check word
    #[arg(long)]
    pub(crate) verify: bool,
    /// Directory of the live image of a pool that was killed [default: the pool's]
    #[arg(long, value_name = "DIR")]
    pub(crate) live_dir: Option<PathBuf>,
}

/// Options of all writing commands.
#[derive(Debug, Args)]
pub(crate) struct Write {
    /// The map, of a pool that has several [default: main]
    #[arg(long, value_name = "NAME")]
    pub(crate) map: Option<String>,
    /// process: survives kill -9, not power loss; interval[:MS]: written every MS ms; strict: written
    /// before the command returns [default: the pool's, and of a new pool interval; process if it
    /// lies in memory or on DAX, or may not grow to 512 MiB]
    #[arg(long, value_name = "MODE", value_parser = str::parse::<SyncMode>)]
    pub(crate) durability: Option<SyncMode>,
    /// Keep a live image in place of a log of lines, in the modes interval and strict: true or false [default: as the
    /// pool had it, and of a new pool or one without a log true on ext4 and XFS]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) live_image: Option<bool>,
    /// Directory of the live image [default: the pool's]
    #[arg(long, value_name = "DIR")]
    pub(crate) live_dir: Option<PathBuf>,
    /// Memory for copies of what is looked up often, for design rewo (a cache whose entries expire is --expiry): as 64MiB, 0 for none [default: an
    /// eighth of its tables]
    #[arg(long, value_name = "SIZE", value_parser = parse_max_size)]
    pub(crate) cache: Option<u64>,
    /// Read an existing pool whole first, and refuse it if a block does not have its check word
    #[arg(long)]
    pub(crate) verify: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The pool's file
    pub(crate) pool: PathBuf,
    #[command(flatten)]
    pub(crate) new: New,
}

/// Options of a new pool.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// Design of a new pool: reh, pea, esh or rewo [default: reh, and pea for a multimap]
    #[arg(long, value_parser = parse_design)]
    pub(crate) design: Option<Design>,
    /// Values of a key in a new pool: one, or any number of them [default: map]
    #[arg(long, value_enum)]
    pub(crate) kind: Option<Kind>,
    /// Keys and values of a new pool: any bytes, or integers below 2^64 [default: bytes]
    #[arg(long, value_enum)]
    pub(crate) codec: Option<Codec>,
    /// Bytes beyond which a new pool never grows, as 10GiB [default: none]
    #[arg(long, value_name = "SIZE", value_parser = parse_max_size)]
    pub(crate) max_size: Option<u64>,
    /// Make a cache: a map whose entries may expire, and go where it has a bound
    #[arg(long, conflicts_with = "kind")]
    pub(crate) expiry: bool,
    /// Entries beyond which a new cache evicts [default: no bound]
    #[arg(long, value_name = "N", requires = "expiry", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_entries: Option<u64>,
    /// Bytes of entries beyond which a new cache evicts, as 1GiB [default: no bound]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "expiry")]
    pub(crate) max_bytes_used: Option<u64>,
    /// What a new cache evicts: none (a put into a full cache fails), tinylfu, lru, s3fifo, sieve, random or soonest (of eight entries the one that expires first) [default: tinylfu]
    #[arg(long, value_name = "POLICY", value_parser = parse_policy, requires = "expiry")]
    pub(crate) eviction: Option<Policy>,
    #[command(flatten)]
    pub(crate) write: Write,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Suites, separated by commas
    #[arg(
        long,
        value_parser = parse_suite(),
        value_delimiter = ',',
        default_value = "summary",
        default_value_if("all", clap::builder::ArgPredicate::IsPresent, "standard")
    )]
    pub(crate) suite: Vec<Suite>,
    /// Measure all designs by the suite standard
    #[arg(long, conflicts_with_all = ["suite", "design"])]
    pub(crate) all: bool,
    /// Graph for the suite duplicates: a file of lines SOURCE<TAB>TARGET, numbers, or such a file
    /// compressed by gzip [default: a made-up graph]
    #[arg(long, value_name = "FILE")]
    pub(crate) graph: Option<PathBuf>,
    /// Trace for the suite cache: a file of a key a line, any text, or such a file compressed by gzip; may be
    /// repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Vec<PathBuf>,
    /// Exponents of Zipf's law for the suite cache, separated by commas [default: without traces 0.7, 0.99 and 1.2, and
    /// scans and a loop]
    #[arg(long, value_name = "S,...", value_delimiter = ',')]
    pub(crate) zipf: Vec<f64>,
    /// Designs to measure, separated by commas [default: all; reh in the suite summary]
    #[arg(long, value_parser = parse_design, value_delimiter = ',')]
    pub(crate) design: Option<Vec<Design>>,
    /// Keys to load, at least 1000 [default: 1000000; 400000 in the suite summary, 100000 in the suite cache]
    #[arg(long, value_name = "N")]
    pub(crate) keys: Option<u64>,
    /// Numbers of threads, separated by commas, at most 256 and one for each 100 keys
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2")]
    pub(crate) threads: Vec<usize>,
    /// Where pools are made
    #[arg(long, value_parser = parse_medium(), default_value_t = Medium::File)]
    pub(crate) medium: Medium,
    /// Directory for pool files, which are removed afterwards; a signal in the last part, recovery,
    /// may leave a directory durahash-bench-* [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) pool: Option<PathBuf>,
    /// When operations on files survive loss of power: process, interval, interval:MS or strict
    #[arg(long, value_name = "MODE", value_parser = str::parse::<SyncMode>)]
    pub(crate) durability: Option<SyncMode>,
    /// Memory for copies of what is looked up often, for design rewo [default: an eighth of its tables]
    #[arg(long, value_name = "SIZE", value_parser = parse_max_size)]
    pub(crate) cache: Option<u64>,
    /// Threads that change these copies while writers wait for the medium
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=64))]
    pub(crate) sync_threads: u32,
    /// Emulate a medium, as docs/media.md says; every figure says so
    #[arg(long, value_name = "MEDIUM", value_parser = parse_profile())]
    pub(crate) emulate: Option<Profile>,
    /// Threads that share what the emulated machine has in common: with 1 a thread has its caches whole [default: as
    /// many as it has cores]
    #[arg(long, value_name = "N", requires = "emulate", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) sharers: Option<u32>,
    #[command(flatten)]
    pub(crate) saved: Saved,
}

/// Where a report is saved.
#[derive(Debug, Args)]
pub(crate) struct Saved {
    /// Write all results to FILE as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with figures to DIR
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

/// A set of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    /// One of the library.
    Measured(durahash_bench::Suite),
    /// Of real nodes, which this command measures.
    Nodes,
}

/// One of these, by its name; the help has their descriptions.
fn one_of<T: Copy + Send + Sync + 'static>(
    known: impl IntoIterator<Item = (&'static str, &'static str, T)>,
) -> impl TypedValueParser<Value = T> {
    let known: Vec<_> = known.into_iter().collect();
    let values = known.iter().map(|(name, help, _)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(values.collect::<Vec<_>>()).try_map(move |name| {
        let found = known.iter().find(|(known, ..)| *known == name);
        found.map(|(.., value)| *value).ok_or("no such value")
    })
}

fn parse_suite() -> impl TypedValueParser<Value = Suite> {
    let all = durahash_bench::Suite::ALL.into_iter();
    let measured = all.map(|suite| (suite.name(), suite.description(), Suite::Measured(suite)));
    one_of(measured.chain([("nodes", "SepHash on real nodes of this machine", Suite::Nodes)]))
}

fn parse_medium() -> impl TypedValueParser<Value = Medium> {
    one_of(Medium::ALL.map(|medium| (medium.name(), medium.description(), medium)))
}

fn parse_profile() -> impl TypedValueParser<Value = Profile> {
    one_of(Profile::ALL.map(|profile| (profile.name, profile.description, profile)))
}

/// Types of keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Codec {
    #[default]
    Bytes,
    U64,
}

impl Codec {
    /// The type of keys and values in the pool.
    pub(crate) fn data(self) -> Type {
        match self {
            Codec::Bytes => Type::Bytes,
            Codec::U64 => Type::U64,
        }
    }
}

/// Kinds of map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Map,
    Multimap,
    /// Made by `--expiry`.
    #[value(skip)]
    Cache,
}

impl Kind {
    /// The name, and what its entries are called.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Kind::Map => ("map", "keys"),
            Kind::Multimap => ("multimap", "entries"),
            Kind::Cache => ("cache", "entries"),
        }
    }

    /// The option that makes one.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Kind::Map => "--kind map",
            Kind::Multimap => "--kind multimap",
            Kind::Cache => "--expiry",
        }
    }
}

fn parse_policy(name: &str) -> Result<Policy, String> {
    name.parse().map_err(|_| {
        let known: Vec<_> = Policy::ALL.iter().map(Policy::to_string).collect();
        format!("the policies are {}", known.join(", "))
    })
}

fn parse_design(name: &str) -> Result<Design, String> {
    name.parse().map_err(|_| {
        let known: Vec<_> = Design::ALL.iter().map(Design::to_string).collect();
        format!("the designs are {}", known.join(", "))
    })
}

/// The most that an offset in a pool can reach.
const POOL_BYTES_MAX: u64 = 1 << 48;

fn parse_max_size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes > POOL_BYTES_MAX {
        return Err("no pool can have more than 256TiB".into());
    }
    Ok(bytes)
}

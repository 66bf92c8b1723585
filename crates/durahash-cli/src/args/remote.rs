//! The command line of nodes, and of what is in their memory.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::Saved;
use crate::lifetime::parse_duration;
use crate::size::parse_size;

/// Where a node listens unless it is told otherwise, and the address where only a port is told.
const LOOPBACK: &str = "127.0.0.1";
const PORT: u16 = 7410;
/// Bytes of memory that a node lends unless it is told otherwise.
pub(crate) const SIZE: u64 = 1 << 30;

#[derive(Debug, Args)]
pub(crate) struct Node {
    /// Where to listen for clients: ADDR:PORT, or a port of the loopback address; port 0 is one that is
    /// free
    #[arg(long, value_name = "ADDR:PORT", default_value_t = format!("{LOOPBACK}:{PORT}"), value_parser = parse_listen)]
    pub(crate) listen: String,
    /// Memory to lend, a multiple of 4096 bytes [default: 1GiB, or what the file has]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) size: Option<u64>,
    /// File for the memory, which is made if it is not there, and stays: a node on it goes on with what
    /// clients of the last one have stored
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// Serve a file that was not closed when the machine went down, or was copied while it was not:
    /// to save what is there
    #[arg(long, requires = "file")]
    pub(crate) accept_suspect: bool,
    /// File with a token that clients must show [default: they must show none]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// How clients reach the memory: tcp, over an encrypted connection; local:PATH, in a new directory
    /// PATH that processes of this host share; local, in one in /dev/shm or else where temporary files
    /// are; ucx, over a network or between processes of this host, as UCX's environment variables say,
    /// if it was built so [default: local at a loopback address, else tcp]
    #[arg(long, value_name = "FABRIC")]
    pub(crate) fabric: Option<FabricName>,
    /// Clients at once over tcp, at most 4096; an index has as many as the first of its nodes had when
    /// it was made [default: 64]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) clients: Option<u32>,
    /// Where to tell figures about the node by HTTP, as plain text that Prometheus reads: ADDR:PORT, or a
    /// port of the loopback address; who reaches it needs no token
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_listen)]
    pub(crate) metrics: Option<String>,
    /// End when the standard input does, as with the process that has started this one
    #[arg(long)]
    pub(crate) until_eof: bool,
}

/// How clients reach the memory of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FabricName {
    Local(Option<PathBuf>),
    Tcp,
    Ucx,
}

impl FromStr for FabricName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "local" => Ok(FabricName::Local(None)),
            None if text == "tcp" => Ok(FabricName::Tcp),
            None if text == "ucx" => Ok(FabricName::Ucx),
            Some(("local", path)) if !path.is_empty() => Ok(FabricName::Local(Some(path.into()))),
            _ => Err("the fabrics are tcp, local, local:PATH and ucx".into()),
        }
    }
}

fn parse_listen(text: &str) -> Result<String, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if port.parse::<u16>().is_ok() {
        return Ok(format!("{LOOPBACK}:{port}"));
    }
    parse_address(text)
}

fn parse_address(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.into()),
        _ => Err(format!("an address and a port, as {LOOPBACK}:{PORT}")),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Remote {
    #[command(flatten)]
    pub(crate) nodes: NodesArgs,
    #[command(subcommand)]
    pub(crate) command: RemoteCommand,
}

/// Where the index is.
#[derive(Debug, Args)]
pub(crate) struct NodesArgs {
    /// A node of the index; again for each further one, in the same order every time
    #[arg(long = "node", value_name = "ADDR:PORT", required = true, value_parser = parse_address)]
    pub(crate) addresses: Vec<String>,
    /// File with the token that the nodes want
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RemoteCommand {
    /// Store VALUE under KEY, replacing what was there
    Put {
        /// The key
        key: OsString,
        /// The value [default: the standard input]
        value: Option<OsString>,
    },

    /// Print the value of KEY, as it is, and a line feed
    ///
    /// Of several keys, prints lines KEY<TAB>VALUE. Exit code 1 where a key is not there.
    Get {
        /// The keys
        #[arg(value_name = "KEY", required = true)]
        keys: Vec<OsString>,
    },

    /// Remove KEY
    ///
    /// Exit code 1 where the key is not there.
    Del {
        /// The key
        key: OsString,
    },

    /// Store every line KEY<TAB>VALUE of a file; the index is made if the nodes have none
    ///
    /// The format is that of `durahash load`, and so is what is said of bad lines. A load that was cut short
    /// can be repeated.
    #[command(verbatim_doc_comment)]
    Load {
        /// The file to read, decompressed if it is gzip data; - is the standard input
        #[arg(default_value = "-")]
        file: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },

    /// Print all entries as lines KEY<TAB>VALUE that load reads
    ///
    /// The format is that of `durahash dump`. Keys that others change meanwhile are printed as they were at
    /// some moment.
    #[command(verbatim_doc_comment)]
    Dump {
        /// Stop after N entries
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },

    /// Print figures: keys, load factor, depths, memory, clients
    ///
    /// Looks at all of the index. Exit code 5 where others change too much of it meanwhile.
    #[command(verbatim_doc_comment)]
    Stats {
        /// Look at a few segments only, which tell about how many keys there are
        #[arg(long)]
        quick: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },

    /// Measure an index in the memory of the nodes
    ///
    /// Load, hits, misses, updates, YCSB's mixes and deletes by threads that share a client and wait for
    /// each operation; every lookup must find what it has to. Prints tables. The index must be
    /// empty, and is so again afterwards; it is made if the nodes have none.
    #[command(verbatim_doc_comment)]
    Bench(RemoteBench),

    /// List the clients of the first node: rows, addresses, and how long each was silent
    ///
    /// Over tcp. A client that lives shows so each second.
    #[command(verbatim_doc_comment)]
    Clients {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },

    /// Shut clients out that were stopped, or hang, and hold up others
    ///
    /// Over tcp. What an evicted client has under way takes effect or not, and what it does later fails.
    /// Prints a line for each. Exit code 1 where CLIENT is not there.
    #[command(verbatim_doc_comment)]
    Evict {
        /// The client: its row or its address, as `clients` lists them
        #[arg(
            value_name = "CLIENT",
            required_unless_present = "silent",
            conflicts_with = "silent"
        )]
        client: Option<Whom>,
        /// All clients that the first node has not heard of for so long, such as 10s
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        silent: Option<Duration>,
    },

    /// Verify every invariant and change nothing
    ///
    /// Ends at the first thing that is wrong, with exit code 3, or with 5 where that may be what others change
    /// meanwhile.
    #[command(verbatim_doc_comment)]
    Check {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// A client, as people name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Row(u32),
    Address(SocketAddr),
}

impl FromStr for Whom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let row = text.parse().map(Whom::Row);
        let whom = row.or_else(|_| text.parse().map(Whom::Address));
        whom.map_err(|_| "a client is a row, or an address and a port".into())
    }
}

#[derive(Debug, Args)]
pub(crate) struct RemoteBench {
    /// Keys to load, at least 1000
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) keys: u64,
    /// Numbers of threads, separated by commas, at most 256 and one for each 100 keys
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2")]
    pub(crate) threads: Vec<usize>,
    #[command(flatten)]
    pub(crate) saved: Saved,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port_and_a_port_alone_is_of_the_loopback() {
        assert_eq!(parse_listen("7000").unwrap(), "127.0.0.1:7000");
        assert_eq!(parse_listen(":0").unwrap(), "127.0.0.1:0");
        assert_eq!(parse_listen("0.0.0.0:7000").unwrap(), "0.0.0.0:7000");
        assert_eq!(parse_address("[::1]:7000").unwrap(), "[::1]:7000");
        for bad in ["", ":", "host", "host:", "host:x", "host:65536", ":7000"] {
            assert!(parse_address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn clients_are_named_by_row_or_address() {
        assert_eq!("7".parse(), Ok(Whom::Row(7)));
        assert_eq!("[::1]:9".parse(), Ok(Whom::Address("[::1]:9".parse().unwrap())));
        for bad in ["", "-1", "::1", "localhost:9"] {
            assert!(bad.parse::<Whom>().is_err(), "{bad}");
        }
    }

    #[test]
    fn fabrics_are_these() {
        assert_eq!("local".parse(), Ok(FabricName::Local(None)));
        assert_eq!("local:/a:b".parse(), Ok(FabricName::Local(Some("/a:b".into()))));
        assert_eq!("tcp".parse(), Ok(FabricName::Tcp));
        assert_eq!("ucx".parse(), Ok(FabricName::Ucx));
        for bad in ["", "local:", "ucx:", "tcp:", "Local"] {
            assert!(bad.parse::<FabricName>().is_err(), "{bad}");
        }
    }
}

//! An index in the memory of nodes, as the commands open it.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use durahash::{Error, ErrorKind, Result};
use durahash_remote::executor::block_on;
use durahash_remote::fabric::{Addr, Batch, Fabric};
use durahash_remote::{BlockingMap, BlockingPages, LIMIT_BYTES, Options, Report};

use super::memory::Memory;
use crate::args::Kind;
use crate::exit::{Exit, Failure};
use crate::lifetime::Expiry;
use crate::output::complain;
use crate::store::{Pair, Store, Watch};

/// Limit of a wait for an index that another client is making.
const BEING_MADE: Duration = Duration::from_secs(5);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(5);
/// Time between two looks for other clients.
const LOOK_FOR_OTHERS: Duration = Duration::from_millis(500);
/// Deepest directory of a new index, unless the memory is small: then an eighth of it at most.
const DEPTH_MAX: u32 = 20;
/// Bytes that a client takes from a node at once. The rest goes to other clients when it ends.
const LITTLE_BYTES: u64 = 4 << 10;
const MUCH_BYTES: u64 = 256 << 10;

/// How much memory a client takes at once.
#[derive(Clone, Copy, Debug)]
pub(super) enum Share {
    /// For a single key.
    Little,
    /// For many.
    Much,
}

/// An index that is open.
pub(super) struct Index<M: Memory> {
    map: BlockingMap<M::Client>,
    // After the map, which says through it that it leaves.
    memory: M,
    bytes: u64,
    addresses: Vec<String>,
}

/// An index, and the bytes of the memory that it is in.
type Opened<M> = (BlockingMap<<M as Memory>::Client>, u64);

impl<M: Memory> Index<M> {
    /// Opens the index; without one this fails as for a pool that is not there.
    pub(super) fn open(memory: M, addresses: &[String], share: Share) -> Result<Self, Failure> {
        let found = look(&memory, share).map_err(|e| explained(addresses, &e))?;
        if let Some((map, bytes)) = found {
            return Ok(Index { map, memory, bytes, addresses: addresses.to_vec() });
        }
        let command = addresses.join(" --node ");
        let message = format!(
            "{}: there is no index in the memory; `durahash remote --node {command} load` \
             makes one",
            named(addresses)
        );
        Err(Failure::new(Exit::Io, message))
    }

    /// The same, where an index is made if there is none.
    pub(super) fn open_or_create(memory: M, addresses: &[String]) -> Result<Self, Failure> {
        let (map, bytes) = find_or_create(&memory).map_err(|e| explained(addresses, &e))?;
        Ok(Index { map, memory, bytes, addresses: addresses.to_vec() })
    }

    /// The addresses of the nodes.
    pub(super) fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Bytes of the nodes' memory.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many clients there are, this one too.
    pub(super) fn clients(&self) -> Result<u32> {
        self.memory.clients()
    }

    /// Looks at all of the index. Others' changes meanwhile may look like damage: if they stay, this is
    /// `Locked`.
    pub(super) fn survey(&self) -> Result<Report> {
        match self.map.check() {
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt { .. }) => {
                self.outstay("what looks like damage may be what they change", || {
                    if self.clients()? > 1 { Err(ErrorKind::Locked.into()) } else { Ok(()) }
                })?;
                // Another client may have come and gone. Damage is there the second time, too.
                self.map.check()
            }
            report => report,
        }
    }

    /// The client that all threads may use.
    pub(super) fn map(&self) -> &BlockingMap<M::Client> {
        &self.map
    }

    /// Does `f` until no other clients keep from it, where they may be dead and nobody knows yet: only a client
    /// that stays finds that out, for which it needs a lease and a half (`sep/epoch.rs`, and the fabric's `evict`).
    fn outstay<T>(&self, why: &str, f: impl Fn() -> Result<T>) -> Result<T> {
        let Some(lease) = self.memory.lease() else { return f() };
        let (start, longest) = (Instant::now(), 2 * lease);
        let mut told = false;
        loop {
            match f() {
                Err(e) if matches!(e.kind(), ErrorKind::Locked) && start.elapsed() < longest => {
                    if !std::mem::replace(&mut told, true) {
                        complain(&format!(
                            "durahash: {}: {why}: waiting for other clients to leave, or to be found dead, \
                             for {} s at most",
                            self.name(),
                            longest.as_secs()
                        ));
                    }
                    thread::sleep(LOOK_FOR_OTHERS);
                }
                done => return done,
            }
        }
    }

    /// Does `f`, and once more where memory was short and a sweep has found some.
    fn with_space<T>(&self, f: impl Fn() -> Result<T>) -> Result<T> {
        let full = match f() {
            Err(e) if matches!(e.kind(), ErrorKind::Full { .. }) => e,
            done => return done,
        };
        match self.map.sweep()? {
            0 => Err(full),
            _ => f(),
        }
    }
}

/// Opens the index, if there is one, and waits for one that is being made.
fn look<M: Memory>(memory: &M, share: Share) -> Result<Option<Opened<M>>> {
    let start = Instant::now();
    loop {
        let client = memory.client()?;
        let words = first_words(&client)?;
        if words.iter().all(|word| *word == 0) {
            return Ok(None);
        }
        let (bytes, options) = (node_bytes(&client), options(&client, share));
        let opened = BlockingMap::open(client, options);
        match opened {
            Err(e)
                if matches!(e.kind(), ErrorKind::NotAPool { .. })
                    && start.elapsed() < BEING_MADE =>
            {
                thread::sleep(LOOK);
            }
            opened => return opened.map(|map| Some((map, bytes))),
        }
    }
}

fn find_or_create<M: Memory>(memory: &M) -> Result<Opened<M>> {
    loop {
        if let Some(opened) = look(memory, Share::Much)? {
            return Ok(opened);
        }
        let client = memory.client()?;
        let (bytes, options) = (node_bytes(&client), options(&client, Share::Much));
        match BlockingMap::create(client, options) {
            // Another process was quicker.
            Err(e) if matches!(e.kind(), ErrorKind::Exists) => {}
            made => return made.map(|map| (map, bytes)),
        }
    }
}

/// Bytes of all nodes' memory.
fn node_bytes(client: &impl Fabric) -> u64 {
    (0..client.nodes()).map(|node| client.node_bytes(node)).sum()
}

/// The first word of each node: 0 where nobody has begun to make an index.
fn first_words(client: &impl Fabric) -> Result<Vec<u64>> {
    let mut batch = Batch::new();
    for node in 0..client.nodes() {
        batch.read(Addr::new(node, 0), 8);
    }
    let done = block_on(client.post(batch))?;
    Ok((0..usize::from(client.nodes())).map(|node| done.word(node)).collect())
}

/// How an index is made, and how this client goes about it.
fn options(client: &impl Fabric, share: Share) -> Options {
    let mut options = Options::default();
    // A cell of the directory has eight bytes, so these are an eighth of the memory.
    options.max_depth = (client.node_bytes(0) / 64).max(2).ilog2().min(DEPTH_MAX);
    options.max_clients = client.max_clients();
    options.seed = RandomState::new().hash_one("the seed of an index");
    options.chunk_bytes = match share {
        Share::Little => LITTLE_BYTES,
        Share::Much => (client.node_bytes(0) / 64).clamp(LITTLE_BYTES, MUCH_BYTES),
    };
    options
}

/// The nodes as messages name them.
pub(super) fn named(addresses: &[String]) -> String {
    addresses.join(",")
}

/// The failure where the memory of the nodes cannot be reached.
pub(super) fn not_attached(addresses: &[String], e: &Error) -> Failure {
    let nodes = named(addresses);
    let message = match e.kind() {
        ErrorKind::Region { what, found, expected } => format!(
            "{nodes}: the memory was not lent by a node of this build: {what} is {found}, not {expected}"
        ),
        ErrorKind::Truncated { found_bytes, expected_bytes } => format!(
            "{nodes}: the file of the memory has {found_bytes} bytes, not {expected_bytes}: it was cut"
        ),
        ErrorKind::Io { source, .. }
            if e.path().is_some() && source.kind() == io::ErrorKind::NotFound =>
        {
            format!(
                "{nodes}: {e}; this memory is files of the node's host, and reached there only \
                 (`--fabric tcp` crosses a network)"
            )
        }
        _ => return explained(addresses, e),
    };
    Failure::new(Failure::node(e).exit, message)
}

/// The message and exit code of a failure.
pub(super) fn explained(addresses: &[String], e: &Error) -> Failure {
    let nodes = named(addresses);
    let address = |node: u8| addresses.get(usize::from(node)).map_or("?", String::as_str);
    let message = match e.kind() {
        ErrorKind::NodeLost { node } => format!(
            "node {} does not answer; operations under way may or may not have taken effect",
            address(*node)
        ),
        ErrorKind::Full { wanted_bytes, limit } => {
            format!("{nodes}: no space for {wanted_bytes} more bytes: {limit}")
        }
        ErrorKind::Locked => {
            format!("{nodes}: other clients are changing the index; try again when they have left")
        }
        ErrorKind::NotAPool { why } => format!(
            "{nodes}: there is no sound index in the memory: {why}; are these its nodes, in their \
             order? If one was being made by a client that died, end the nodes, remove the files of those that have \
             --file, and start them anew"
        ),
        ErrorKind::Version { found, expected } => {
            format!("{nodes}: the index has version {found}, this build knows version {expected}")
        }
        ErrorKind::Corrupt { what, off } => {
            format!("{nodes}: the index is damaged: {what} (at offset {off:#x})")
        }
        ErrorKind::Truncated { found_bytes, expected_bytes } => format!(
            "{nodes}: the memory has {found_bytes} bytes, but the index in it needs {expected_bytes}"
        ),
        ErrorKind::Io { source, .. } if source.kind() == io::ErrorKind::TimedOut => format!(
            "{nodes}: {e}; that client was stopped, as by Ctrl-Z, or hangs: let it go on, or end it, and try again"
        ),
        ErrorKind::Io { .. } => format!("{nodes}: {e}"),
        _ => return Failure::node(e),
    };
    Failure::new(Failure::node(e).exit, message)
}

impl<M: Memory> Store for Index<M> {
    fn name(&self) -> String {
        named(&self.addresses)
    }

    fn kind(&self) -> Kind {
        Kind::Map
    }

    fn put(&self, key: &[u8], value: &[u8], _: Option<Expiry>) -> Result<()> {
        self.with_space(|| self.map.put(key, value))
    }

    fn put_many(&self, pairs: &[Pair]) -> Result<()> {
        self.with_space(|| self.map.put_many(pairs))
    }

    fn value_bytes_max(&self) -> usize {
        LIMIT_BYTES
    }

    fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>> {
        Ok(self.map.get(key)?.into_iter().collect())
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        self.with_space(|| Ok(self.map.take(key)?.is_some()))
    }

    fn entries(&self) -> Box<dyn Iterator<Item = Result<Pair>> + '_> {
        Box::new(Entries { pages: Some(self.map.pages()), page: Vec::new().into_iter() })
    }

    fn len(&self) -> Option<u64> {
        None
    }

    fn check_command(&self) -> String {
        format!("durahash remote --node {} check", self.addresses.join(" --node "))
    }

    fn failed(&self, e: &Error) -> Failure {
        explained(&self.addresses, e)
    }

    fn watch(&self) -> Option<Watch> {
        Some(self.memory.watch())
    }

    fn close(self) -> Result<(), Failure> {
        let Index { map, memory, addresses, .. } = self;
        let closed = map.close().map_err(|e| explained(&addresses, &e));
        drop(memory);
        closed
    }
}

/// Keys and values, page by page. The first failure is the last item.
struct Entries<F: Fabric + Send> {
    pages: Option<BlockingPages<F>>,
    page: std::vec::IntoIter<Pair>,
}

impl<F: Fabric + Send> Iterator for Entries<F> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Result<Pair>> {
        loop {
            if let Some(pair) = self.page.next() {
                return Some(Ok(pair));
            }
            match self.pages.as_mut()?.next() {
                Ok(Some(page)) => self.page = page.into_iter(),
                Ok(None) => self.pages = None,
                Err(e) => {
                    self.pages = None;
                    return Some(Err(e));
                }
            }
        }
    }
}

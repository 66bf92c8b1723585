//! Clients of a simulated fabric, in virtual time: what their operations take there.
//!
//! Nothing is random but the operations, and these are drawn from a seed, so that all numbers come out again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use durahash_bench::driver::histogram;
use durahash_bench::{Error, Result};
use durahash_media::Result as MediaResult;
use durahash_media::hash::WordMix;
use durahash_remote::fabric::{Addr, Batch, Counts, Fabric, Nic, Sim, SimClient, SimOptions};
use hdrhistogram::Histogram;

use crate::assumed::Assumed;
use crate::index::{Done, Index, Kind, Op, Space};
use crate::stepwise::{Awaited, Stepwise};

/// Clients that share a NIC: threads of one machine, as in SepHash's evaluation.
const CLIENTS_OF_NIC: usize = 16;
/// How often an idle client shows that it has nothing under way.
const TICK_NS: u64 = 1_000_000;
/// Pieces in which memory is copied.
const PIECE: usize = 1 << 20;

/// The setting of a simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) kind: Kind,
    pub(crate) clients: usize,
    pub(crate) nodes: usize,
    /// Of all nodes together. Untouched memory takes nothing.
    pub(crate) bytes: u64,
    /// At least 8.
    pub(crate) value_bytes: usize,
    /// The completions that clients of SepHash await.
    pub(crate) awaited: Awaited,
    pub(crate) assumed: Assumed,
    pub(crate) seed: u64,
}

/// The costs of operations.
pub(crate) struct Phase {
    pub(crate) ops: u64,
    /// From the first one's start to the last one's end.
    pub(crate) ns: u64,
    pub(crate) latency: Histogram<u64>,
    pub(crate) counts: Counts,
    pub(crate) done: Done,
}

impl Phase {
    pub(crate) fn new() -> Self {
        let (counts, done) = (Counts::default(), Done::default());
        Phase { ops: 0, ns: 0, latency: histogram(), counts, done }
    }

    pub(crate) fn ops_per_s(&self) -> f64 {
        self.ops as f64 * 1e9 / self.ns.max(1) as f64
    }
}

/// The memory of all nodes, where it is not zero: what a run goes on from.
pub(crate) struct Image(Vec<(Addr, Vec<u8>)>);

/// A fabric, with clients that have opened an index on it.
pub(crate) struct Bed {
    sim: Sim,
    setting: Setting,
    clients: Vec<(SimClient, Index<SimClient>)>,
    mix: WordMix,
}

impl Bed {
    /// A fabric with an empty index.
    pub(crate) fn new(setting: Setting) -> Result<Self> {
        Bed::with(setting, None)
    }

    /// A fabric with an index that another one has had.
    pub(crate) fn from_image(setting: Setting, image: &Image) -> Result<Self> {
        Bed::with(setting, Some(image))
    }

    fn with(setting: Setting, image: Option<&Image>) -> Result<Self> {
        let mut options = SimOptions::default();
        (options.seed, options.nic) = (setting.seed, setting.assumed.nic());
        options.node_bytes = vec![setting.bytes / setting.nodes as u64; setting.nodes];
        options.max_clients = setting.clients as u32;
        options.client_nics = setting.clients.div_ceil(CLIENTS_OF_NIC) as u32;
        let sim = Sim::new(options);
        for (at, bytes) in image.into_iter().flat_map(|image| &image.0) {
            sim.poke(*at, bytes)?;
        }
        let mut bed = Bed { sim, setting, clients: Vec::new(), mix: WordMix::new(setting.seed) };
        for number in 0..setting.clients {
            let client = bed.sim.client()?;
            let kind = setting.kind;
            let computing = kind.computing().percent(setting.assumed.computing);
            let of_task = Stepwise::new(client.clone(), setting.awaited, computing);
            let makes = number == 0 && image.is_none();
            let index = bed.alone(&client, Index::new(kind, of_task, makes))?;
            bed.clients.push((client, index));
        }
        Ok(bed)
    }

    /// Runs one task until nothing is under way.
    fn alone<T: 'static>(
        &self,
        client: &SimClient,
        future: impl Future<Output = MediaResult<T>> + 'static,
    ) -> Result<T> {
        let task = self.sim.spawn(client, future);
        self.sim.run();
        let ended =
            task.take().ok_or_else(|| Error::Wrong { what: "an operation hangs".into() })?;
        Ok(ended?)
    }

    /// Runs operations: a stream for each coroutine, as many of each client. With `leaves`, each client
    /// leaves when its own have ended, which is not counted: the others go on.
    pub(crate) fn run(&self, streams: Vec<Vec<Op>>, leaves: bool) -> Result<Phase> {
        let coroutines = streams.len() / self.clients.len();
        let sums = Rc::new(RefCell::new(Phase::new()));
        let streams_left = Rc::new(Cell::new(streams.len()));
        let start_ns = self.sim.now_ns();
        let mut streams = streams.into_iter();
        let mut tasks = Vec::new();
        for (client, index) in &self.clients {
            let left = Rc::new(Cell::new(coroutines));
            let (counts, done) = (client.counts(), index.done());
            for stream in streams.by_ref().take(coroutines) {
                let (of_task, index) = (client.clone(), index.clone());
                let (sums, left) = (Rc::clone(&sums), Rc::clone(&left));
                let streams_left = Rc::clone(&streams_left);
                let (mix, value_bytes) = (self.mix, self.setting.value_bytes);
                tasks.push(self.sim.spawn(client, async move {
                    for op in &stream {
                        let from = of_task.now_ns();
                        index.run(&mix, value_bytes, *op).await?;
                        sums.borrow_mut().latency.saturating_record(of_task.now_ns() - from);
                    }
                    left.set(left.get() - 1);
                    streams_left.set(streams_left.get() - 1);
                    let is_last = left.get() == 0;
                    {
                        let mut all = sums.borrow_mut();
                        all.ops += stream.len() as u64;
                        all.ns = of_task.now_ns() - start_ns;
                        if is_last {
                            all.counts = all.counts + (of_task.counts() - counts);
                            all.done = all.done.with(index.done().since(done));
                        }
                    }
                    if is_last {
                        if leaves {
                            index.close().await?;
                            return Ok(());
                        }
                        // One that is idle and says nothing holds the others up.
                        while streams_left.get() > 0 {
                            of_task.sleep_ns(TICK_NS).await;
                            index.tick().await?;
                        }
                    }
                    Ok::<(), Error>(())
                }));
            }
        }
        self.sim.run();
        for task in tasks {
            task.take().ok_or_else(|| Error::Wrong { what: "an operation hangs".into() })??;
        }
        Ok(sums.replace(Phase::new()))
    }

    /// The space of the index, as the first client sees it.
    pub(crate) fn space(&self) -> Result<Space> {
        let (client, index) = &self.clients[0];
        let index = index.clone();
        self.alone(client, async move { index.space().await })
    }

    /// The memory of the nodes, after all clients have left.
    pub(crate) fn into_image(self) -> Result<Image> {
        for (client, index) in &self.clients {
            let index = index.clone();
            self.alone(client, async move { index.close().await })?;
        }
        let mut pieces = Vec::new();
        let bytes = self.setting.bytes / self.setting.nodes as u64;
        for node in 0..self.setting.nodes {
            for off in (0..bytes).step_by(PIECE) {
                let at = Addr::new(node as u8, off);
                let piece = self.sim.peek(at, PIECE.min((bytes - off) as usize))?;
                if piece.iter().any(|byte| *byte != 0) {
                    pieces.push((at, piece));
                }
            }
        }
        Ok(Image(pieces))
    }
}

/// Reads, or writes, of so many bytes by clients, one after the other by each.
pub(crate) fn accesses(
    nic: Nic,
    bytes: usize,
    clients: usize,
    writes: bool,
    seed: u64,
) -> Result<Phase> {
    const EACH: u64 = 500;
    let mut options = SimOptions::default();
    options.nic = nic;
    (options.seed, options.node_bytes) = (seed, vec![PIECE as u64]);
    options.max_clients = clients as u32;
    options.client_nics = clients.div_ceil(CLIENTS_OF_NIC) as u32;
    let sim = Sim::new(options);
    let latency = Rc::new(RefCell::new(histogram()));
    let mut tasks = Vec::new();
    for number in 0..clients {
        let (client, latency) = (sim.client()?, Rc::clone(&latency));
        let of_task = client.clone();
        tasks.push(sim.spawn(&client, async move {
            let at = Addr::new(0, (number * bytes) as u64);
            for _ in 0..EACH {
                let (mut batch, from) = (Batch::new(), of_task.now_ns());
                if writes {
                    batch.write(at, &vec![1; bytes]);
                } else {
                    batch.read(at, bytes);
                }
                of_task.post(batch).await?;
                latency.borrow_mut().saturating_record(of_task.now_ns() - from);
            }
            Ok::<(), durahash_media::Error>(())
        }));
    }
    sim.run();
    for task in tasks {
        task.take().ok_or_else(|| Error::Wrong { what: "an access hangs".into() })??;
    }
    let (ops, ns) = (EACH * clients as u64, sim.now_ns());
    Ok(Phase { ops, ns, latency: latency.replace(histogram()), ..Phase::new() })
}

#[cfg(test)]
mod tests {
    use durahash_remote::Technique;

    use super::*;
    use crate::race;

    fn setting(kind: Kind, clients: usize) -> Setting {
        let (bytes, awaited) = (64 << 20, Awaited::Nothing);
        let assumed = Assumed::default();
        Setting { kind, clients, nodes: 1, bytes, value_bytes: 32, awaited, assumed, seed: 1 }
    }

    /// As in the paper, where a client remembers no MainSegment.
    fn sep() -> durahash_remote::Options {
        let mut options = durahash_remote::Options::default();
        options.kept_entries = 0;
        options
    }

    fn streams(count: u64, from: u64, keys: u64, op: fn(u64) -> Op) -> Vec<Vec<Op>> {
        (0..count)
            .map(|i| (from + i..from + keys).step_by(count as usize).map(op).collect())
            .collect()
    }

    /// The same operations twice, with the same times; and about the round trips that each index takes, with
    /// swaps that were lost and with splits.
    #[test]
    fn runs_repeat_and_go_on_from_an_image() {
        for (kind, trips) in
            [(Kind::Sep(sep()), 2.0..5.0), (Kind::Race(race::Options::default()), 3.0..6.0)]
        {
            let mut ends = Vec::new();
            for _ in 0..2 {
                let bed = Bed::new(setting(kind, 2)).unwrap();
                bed.run(streams(4, 0, 3000, Op::Put), false).unwrap();
                let image = bed.into_image().unwrap();
                let bed = Bed::from_image(setting(kind, 3), &image).unwrap();
                let put = bed.run(streams(3, 3000, 3000, Op::Put), false).unwrap();
                let get = bed.run(streams(3, 0, 6000, Op::Get), true).unwrap();
                assert_eq!((put.ops, get.ops), (3000, 6000));
                assert_eq!((put.latency.len(), get.latency.len()), (3000, 6000));
                let each = put.counts.round_trips as f64 / 3000.0;
                assert!(trips.contains(&each), "{each}");
                let each = get.counts.round_trips as f64 / 6000.0;
                assert!((2.0..3.0).contains(&each), "{each}");
                ends.push((put.ns, get.ns, put.counts, get.counts));
            }
            assert_eq!(ends[0], ends[1]);
        }
    }

    /// Each makes an insert, or a search, dearer by what it saves.
    #[test]
    fn a_technique_left_out_costs_round_trips() {
        let trips = |without, awaited| {
            let mut options = sep();
            options.without = without;
            let bed = Bed::new(Setting { awaited, ..setting(Kind::Sep(options), 1) }).unwrap();
            bed.run(streams(1, 0, 500, Op::Put), false).unwrap();
            let put = bed.run(streams(1, 500, 100, Op::Put), false).unwrap();
            let get = bed.run(streams(1, 0, 600, Op::Get), true).unwrap();
            let each = |phase: &Phase| phase.counts.round_trips as f64 / phase.ops as f64;
            (each(&put).round() as u64, each(&get).round() as u64)
        };
        assert_eq!(trips(None, Awaited::Nothing), (2, 2));
        assert_eq!(trips(None, Awaited::Hints), (3, 2));
        assert_eq!(trips(None, Awaited::Blocks), (3, 2));
        assert_eq!(trips(Some(Technique::Tables), Awaited::Nothing), (2, 3));
        assert_eq!(trips(Some(Technique::Segments), Awaited::Nothing), (2, 4));
    }

    /// The clock is that of the network, and of each client's processor for what it posts: coroutines wait for one another there.
    #[test]
    fn processors_are_charged() {
        let phase = |coroutines, computing| {
            let kind = Kind::Race(race::Options::default());
            let assumed = Assumed { computing, ..Assumed::default() };
            let bed = Bed::new(Setting { assumed, ..setting(kind, 1) }).unwrap();
            bed.run(streams(1, 0, 100, Op::Put), false).unwrap();
            bed.run(streams(coroutines, 0, 100, Op::Get), true).unwrap()
        };
        let [none, usual] = [phase(1, 0), phase(1, 100)];
        assert_eq!(none.counts, usual.counts);
        let charged = usual.ns - none.ns;
        assert!((100 * 500..100 * 5000).contains(&charged), "{charged}");
        // Twice as much, but for what was rounded down of each batch.
        assert!((phase(1, 200).ns - none.ns).abs_diff(2 * charged) <= usual.counts.round_trips);
        // A hundred times as much: the processor is all that a hundred coroutines wait for.
        let crowded = phase(100, 10_000).ns;
        assert!(crowded >= 100 * charged && crowded < 110 * charged, "{crowded} {charged}");
    }

    #[test]
    fn a_key_that_is_not_there_is_told() {
        let bed = Bed::new(setting(Kind::Race(race::Options::default()), 1)).unwrap();
        let wrong = bed.run(vec![vec![Op::Put(1), Op::Get(2)]], true).map(drop).unwrap_err();
        assert!(wrong.to_string().contains("key 2"), "{wrong}");
    }
}

//! SepHash and RACE by the clock, on memory of this machine: shared, over TCP, and over UCX with the feature `ucx`.
//!
//! A client is a thread that does one operation after the other, on the index that the simulations go on from; nodes
//! are threads of this process. What a client's processor takes for an operation on shared memory is what simulated clients
//! are charged (`assumed.rs`). UCX is measured where the environment names its transports, as `UCX_TLS=posix,self` does; with
//! `tcp` a node of the same process sleeps up to 20 ms before it answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use durahash_bench::workload::Random;
use durahash_bench::{About, Recorder, Result, Samples};
use durahash_media::Result as MediaResult;
use durahash_media::hash::WordMix;
use durahash_remote::executor::Executor;
use durahash_remote::fabric::{Fabric, Local, LocalOptions};
use durahash_remote::node::{Limits, Listening, Offers, Service, Token};
use durahash_remote::tcp::{Tcp, TcpMemory};
use rustix::time::{ClockId, clock_gettime};

use crate::assumed::Computing;
use crate::bed::Phase;
use crate::index::{Index, Kind, Op};
use crate::remote::{base, kinds, numbers};
use crate::stepwise::{Awaited, Stepwise};

const CLIENTS: [usize; 2] = [1, 2];
/// Over TCP and UCX an operation takes up to a hundred times as long, so there are so many times fewer keys.
const FEWER: u64 = 16;
/// Clients that a node has room for.
const ROWS: u32 = 64;
const VALUE_BYTES: usize = 32;
/// How often a client that waits for others shows that it has nothing under way.
const TICK_NS: u64 = 100_000;
/// Of so many operations one is timed by itself.
const TIMED: usize = 16;
/// A client's operations, in this order: each of the keys that the index begins with once, but for lookups and
/// inserts, of which there are as many.
const CASES: [&str; 4] = ["insert", "search", "update", "delete"];

/// Of one client in one phase: when it began and ended, its processor's time, and its phase.
struct Took {
    from: Instant,
    to: Instant,
    processor_ns: u64,
    phase: Phase,
}

/// Both indexes over shared memory, over TCP, and over UCX if the build has it and the environment its transports: one after
/// the other, and again, as often as the run repeats, so that a disturbance meets both. Medians count.
pub(crate) fn measure(recorder: &mut Recorder<'_>) -> Result<()> {
    let keys = base(recorder.config().keys);
    let mut samples = Samples::default();
    for _ in 0..recorder.config().repeats {
        for (clients, (name, kind)) in
            CLIENTS.into_iter().flat_map(|n| kinds().map(|kind| (n, kind)))
        {
            let run = Run { name, kind, keys, clients, seed: recorder.config().seed };
            let mut options = LocalOptions::default();
            options.node_bytes = vec![bytes(keys)];
            let local = Local::anonymous(&options)?;
            run.add(recorder, &mut samples, "shared memory", &|| Ok(local.client()?))?;

            let run = Run { keys: (keys / FEWER).max(1), ..run };
            let memory = TcpMemory::anonymous(bytes(run.keys), ROWS)?;
            run.lent(recorder, &mut samples, "tcp", &memory, Tcp::attach)?;
            #[cfg(feature = "ucx")]
            if let Ok(transports) = std::env::var("UCX_TLS") {
                use durahash_ucx::{Trusted, Ucx, UcxNode, UcxNodeOptions};
                durahash_ucx::quiet();
                let mut options = UcxNodeOptions::default();
                (options.bytes, options.max_clients) = (bytes(run.keys), ROWS);
                options.loopback = true;
                let memory = UcxNode::start(&options)?;
                run.lent(
                    recorder,
                    &mut samples,
                    &format!("ucx {transports}"),
                    memory.offer(),
                    |offers| Ucx::attach(Trusted::as_told(offers), Limits::default().silence),
                )?;
            }
        }
    }
    recorder.add_medians(samples);
    Ok(())
}

/// More than an index of so many keys takes, and what is not used again; untouched memory takes nothing.
fn bytes(keys: u64) -> u64 {
    (64 << 20) + (keys * 2048).next_multiple_of(4096)
}

/// The processor's time of this thread.
fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[derive(Clone, Copy)]
struct Run {
    name: &'static str,
    kind: Kind,
    keys: u64,
    clients: usize,
    seed: u64,
}

impl Run {
    /// Runs all on memory that a node of this process lends.
    fn lent<F: Fabric>(
        self,
        recorder: &mut Recorder<'_>,
        samples: &mut Samples,
        fabric: &str,
        memory: impl Into<Service>,
        attach: impl Fn(Offers) -> MediaResult<F> + Sync,
    ) -> Result<()> {
        let (token, limits) = (Token::new(b"of a node for this process only")?, Limits::default());
        let node = Listening::bind("127.0.0.1:0", memory, Some(token.clone()), limits.clone())?;
        let address = [node.address().to_string()];
        self.add(recorder, samples, fabric, &|| {
            Ok(attach(Offers::gather(&address, Some(&token), &limits)?)?)
        })
    }

    /// Fills an index, runs all phases, and adds a row for each.
    fn add<F: Fabric>(
        self,
        recorder: &mut Recorder<'_>,
        samples: &mut Samples,
        fabric: &str,
        client: &(dyn Fn() -> Result<F> + Sync),
    ) -> Result<()> {
        let Run { name, clients, .. } = self;
        recorder.next(1, &format!("real: {name}, {fabric}, {clients} clients"));
        let load = |i| Op::Put(i);
        self.client(client()?, true, &[(0..self.keys).map(load).collect()], &Meeting::of(1))?;
        let meeting = Meeting::of(self.clients);
        let run = |number| {
            let phases = CASES.map(|case| self.ops(case, number));
            let took = client().and_then(|client| self.client(client, false, &phases, &meeting));
            // Others do not wait for one that failed.
            took.inspect_err(|_| meeting.ends())
        };
        let run = &run;
        let took = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.clients).map(|number| scope.spawn(move || run(number))).collect();
            let joined = threads.into_iter().map(|thread| thread.join().expect("it ends"));
            joined.collect::<Result<Vec<_>>>()
        })?;
        for (i, case) in CASES.into_iter().enumerate() {
            let (mut all, mut processor_ns) = (Phase::new(), 0);
            for took in &took {
                let Took { phase, .. } = &took[i];
                all.ops += phase.ops;
                processor_ns += took[i].processor_ns;
                let _ = all.latency.add(&phase.latency);
                all.counts = all.counts + phase.counts;
                all.done = all.done.with(phase.done);
            }
            let from = took.iter().map(|took| took[i].from).min();
            let to = took.iter().map(|took| took[i].to).max();
            if let (Some(from), Some(to)) = (from, to) {
                all.ns = (to - from).as_nanos() as u64;
            }
            let case = &format!("{fabric}, {case}");
            let (table, threads) = ("real indexes", clients);
            let about = About { table, design: name, case, threads, keys: self.keys };
            for (metric, n) in numbers(&all, name) {
                samples.add(&about, metric, n);
            }
            samples.add(&about, "processor_ns", processor_ns as f64 / all.ops.max(1) as f64);
        }
        Ok(())
    }

    /// What one of the clients does.
    fn ops(self, case: &str, number: usize) -> Vec<Op> {
        let keys = self.keys;
        let own = (number as u64..keys).step_by(self.clients);
        let mut random = Random::new(self.seed + number as u64);
        match case {
            "insert" => own.map(|i| Op::Put(keys + i)).collect(),
            "search" => own.map(|_| Op::Get(random.below(keys))).collect(),
            "update" => own.map(Op::Put).collect(),
            _ => own.map(Op::Delete).collect(),
        }
    }

    /// A client, and its phases: each begins when all clients have ended the one before.
    fn client<F: Fabric>(
        self,
        client: F,
        makes: bool,
        phases: &[Vec<Op>],
        meeting: &Meeting,
    ) -> Result<Vec<Took>> {
        let mix = WordMix::new(self.seed);
        let own = Stepwise::new(client.clone(), Awaited::Nothing, Computing::NONE);
        Executor::new().block_on(async {
            let index = Index::new(self.kind, own, makes).await?;
            let mut all = Vec::new();
            for (number, ops) in phases.iter().enumerate() {
                meeting.wait(&client, &index, number).await?;
                let (counts, done) = (client.counts(), index.done());
                let mut phase = Phase::new();
                let (from, processor) = (Instant::now(), processor_ns());
                for (i, op) in ops.iter().enumerate() {
                    let started = (i % TIMED == 0).then(Instant::now);
                    index.run(&mix, VALUE_BYTES, *op).await?;
                    if let Some(started) = started {
                        phase.latency.saturating_record(started.elapsed().as_nanos() as u64);
                    }
                }
                let (to, processor_ns) = (Instant::now(), processor_ns() - processor);
                phase.ops = ops.len() as u64;
                phase.counts = client.counts() - counts;
                phase.done = index.done().since(done);
                all.push(Took { from, to, processor_ns, phase });
            }
            meeting.wait(&client, &index, phases.len()).await?;
            index.close().await?;
            Ok(all)
        })
    }
}

/// Where clients meet before each phase.
struct Meeting {
    clients: usize,
    arrived: AtomicUsize,
}

impl Meeting {
    fn of(clients: usize) -> Self {
        Meeting { clients, arrived: AtomicUsize::new(0) }
    }

    /// Waits until all are at the phase, and shows meanwhile that this client has nothing under way, as others may wait for that.
    async fn wait<F: Fabric>(&self, client: &F, index: &Index<F>, phase: usize) -> Result<()> {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        while self.arrived.load(Ordering::SeqCst) < (phase + 1) * self.clients {
            index.tick().await?;
            client.sleep_ns(TICK_NS).await;
        }
        Ok(())
    }

    /// Nobody waits any more.
    fn ends(&self) {
        self.arrived.store(usize::MAX / 2, Ordering::SeqCst);
    }
}

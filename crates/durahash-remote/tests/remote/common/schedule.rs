//! One schedule: many clients over disordered verbs, and what must hold of it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use durahash_media::hash::WordMix;
use durahash_remote::fabric::{Chaos, Choice, Fabric, Sim, SimClient, SimOptions, Stage};
use durahash_remote::{Compared, ErrorKind, Options, RemoteMap, Result, Stats};

use crate::common::{Effect, History, Response, counts};

/// Numbers drawn from a seed.
#[derive(Clone)]
struct Rng(Rc<Cell<u64>>, WordMix);

impl Rng {
    fn new(seed: u64) -> Self {
        Rng(Rc::default(), WordMix::new(seed))
    }

    fn below(&self, n: u64) -> u64 {
        self.0.set(self.0.get() + 1);
        ((u128::from(self.1.mix(self.0.get())) * u128::from(n)) >> 64) as u64
    }

    fn pick<T: Copy>(&self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

fn key(key: u32) -> Vec<u8> {
    let mut bytes = format!("key {key}").into_bytes();
    // Some do not fit the first read of a merge, few not that of a lookup.
    match key % 8 {
        6 => bytes.resize(100, b'.'),
        7 => bytes.resize(500, b'.'),
        _ => {}
    }
    bytes
}

fn value(id: u32) -> Vec<u8> {
    let mut bytes = id.to_le_bytes().to_vec();
    let len = match id % 16 {
        0 => 1000,
        1 => 300,
        n => 4 + n as usize,
    };
    bytes.resize(len, id as u8);
    bytes
}

fn id(value: &[u8]) -> u32 {
    let id = u32::from_le_bytes(*value.first_chunk().unwrap());
    assert_eq!(value, self::value(id), "a value in pieces");
    id
}

/// The verbs by which a client opens an index, or those and a few more.
const JOINING: u64 = 8;

/// The parameters of a schedule.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) clients: u64,
    /// Tasks of each client that do `ops` operations each.
    pub(crate) tasks: u64,
    pub(crate) ops: u64,
    /// Tasks of each client that read until those have ended.
    pub(crate) readers: u64,
    /// Clients of which a task sweeps until those have ended.
    pub(crate) sweepers: u64,
    /// Nanoseconds after which a client comes at most.
    pub(crate) coming_ns_max: u64,
    pub(crate) keys: u64,
    pub(crate) nodes: u64,
    pub(crate) death_one_in: u64,
    pub(crate) lease_ns: Option<u64>,
    /// Nanoseconds that a client which opens the index stands still at most, at one of its first verbs in two.
    pub(crate) joining_ns_max: u64,
    /// Nanoseconds that a task does nothing at most, after one operation in eight; its client moves on.
    pub(crate) pause_ns_max: u64,
    /// Of its operations, one in so many is one after which a client rests.
    pub(crate) rest_one_in: u64,
    /// Puts of several keys at once: one in so many of its operations.
    pub(crate) many_one_in: u64,
    /// How many of them at most.
    pub(crate) many_max: u64,
    pub(crate) chaos: Chaos,
    pub(crate) options: Options,
    /// Nanoseconds until all operations have ended.
    pub(crate) until_ns: u64,
}

impl Plan {
    /// Any of those that are to be met.
    fn drawn(rng: &Rng, seed: u64) -> Self {
        let cur_entries = rng.pick(&[4, 4, 5, 8]);
        let mut options = Options::default();
        options.cur_entries = cur_entries;
        options.main_entries = cur_entries * rng.pick(&[1, 2, 3, 5]);
        options.max_depth = rng.pick(&[1, 3, 6]);
        options.first_depth = rng.below(2) as u32;
        options.seed = seed;
        options.chunk_bytes = rng.pick(&[1024, 4096]);
        options.wait_ns = rng.pick(&[2_000, 20_000]);
        options.tick_ns = rng.pick(&[20_000, 100_000]);
        options.max_clients = 96;
        options.kept_entries = if seed.is_multiple_of(2) { 0 } else { 4 * cur_entries };
        let large = rng.below(40) == 0;
        let clients = if large { 64 } else { 1 + rng.below(6) };
        let tasks = if large { 1 } else { 1 + rng.below(3) };
        Plan {
            clients,
            tasks,
            ops: if large { 8 } else { rng.pick(&[10, 20, 60]) },
            readers: 0,
            // With more at once, the checker does not come to an end.
            keys: rng.pick(&[2, 8, 24, 60]).max(clients * tasks / 4),
            death_one_in: rng.pick(&[0, 0, 100, 400, 1500]),
            lease_ns: (rng.below(3) == 0).then_some(2_000_000),
            joining_ns_max: 0,
            pause_ns_max: 0,
            rest_one_in: 0,
            many_one_in: 0,
            many_max: 5,
            nodes: 1 + rng.below(3),
            chaos: {
                let mut chaos = Chaos::default();
                chaos.stall_one_in = rng.pick(&[0, 50, 200]);
                chaos.stall_ns_max = rng.pick(&[100_000, 1_000_000, 5_000_000]);
                chaos.tear_parts_max = rng.pick(&[1, 4, 16]);
                chaos.unsignaled_ns_max = rng.pick(&[1_000, 200_000, 2_000_000]);
                chaos
            },
            options,
            // Far beyond what the slowest takes.
            until_ns: 2_000_000_000,
            sweepers: rng.pick(&[0, 0, 1, 2]),
            coming_ns_max: rng.pick(&[0, 0, 3_000_000]),
        }
    }
}

struct Run {
    sim: Sim,
    plan: Plan,
    rng: Rng,
    history: RefCell<History>,
    values: Cell<u32>,
    /// Bytes that each client held after its last operation.
    held: RefCell<Vec<u64>>,
    totals: RefCell<Totals>,
}

counts! {
    /// Counts of a schedule, or sums over all.
    Totals {
        schedules,
        ops,
        deaths,
        merges,
        splits,
        lost,
        doublings,
        hops,
        waits,
        evictions,
        sweeps,
        batches,
        batches_parted,
        batches_full,
        /// Puts of more keys at once than go together.
        grouped,
        /// Lookups of several keys that took fewer round trips than keys.
        looks_together,
        /// Clients that were evicted.
        evicted,
        /// Clients that had no room.
        full,
        leaked_bytes,
        /// Keys of which the checker gave up.
        undecided,
    }
}

impl Run {
    fn begin(&self, key: u32, effect: Effect) -> usize {
        self.history.borrow_mut().begin(key, effect)
    }

    fn end(&self, i: usize, found: Response) {
        self.history.borrow_mut().end(i, found);
    }

    /// Each key's last value counts; those before it are put before it, in their order, and may be read meanwhile.
    async fn many(&self, map: &RemoteMap<SimClient>) -> Result<()> {
        let (mut pairs, mut begun) = (Vec::new(), Vec::new());
        let mut last = HashMap::new();
        let count = 2 + self.rng.below(self.plan.many_max - 1);
        for k in (0..count).map(|_| self.rng.below(self.plan.keys) as u32) {
            let new = self.values.get() + 1;
            self.values.set(new);
            pairs.push((key(k), value(new)));
            let (set, after) = (Effect::Set(Some(new)), last.get(&k).copied());
            let i = self.history.borrow_mut().begin_after(k, set, after);
            last.insert(k, i);
            begun.push(i);
        }
        let orders = self.plan.chaos.orders_swaps && self.plan.lease_ns.is_none();
        self.totals.borrow_mut().grouped += u64::from(orders && last.len() > 64);
        map.put_many(&pairs).await?;
        begun.into_iter().for_each(|i| self.end(i, Response::Untold));
        Ok(())
    }

    /// Lookups that run at once.
    async fn read_many(&self, map: &RemoteMap<SimClient>) -> Result<()> {
        let count = 2 + self.rng.below(self.plan.many_max - 1);
        let keys: Vec<_> = (0..count).map(|_| self.rng.below(self.plan.keys) as u32).collect();
        let begun: Vec<_> = keys.iter().map(|&k| self.begin(k, Effect::Read)).collect();
        let names: Vec<_> = keys.iter().map(|&k| key(k)).collect();
        let before = map.counts().round_trips;
        let found = map.get_many(&names).await?;
        self.totals.borrow_mut().looks_together +=
            u64::from(map.counts().round_trips - before < count);
        for (i, value) in begun.into_iter().zip(found) {
            self.end(i, Response::Is(value.map(|value| id(&value))));
        }
        Ok(())
    }

    async fn one(&self, map: &RemoteMap<SimClient>) -> Result<()> {
        if self.plan.many_one_in > 0 && self.rng.below(self.plan.many_one_in) == 0 {
            if self.rng.below(3) == 0 {
                return self.read_many(map).await;
            }
            return self.many(map).await;
        }
        let k = self.rng.below(self.plan.keys) as u32;
        let name = key(k);
        let new = self.values.get() + 1;
        self.values.set(new);
        let bytes = value(new);
        let found = |value: Option<Vec<u8>>| Response::Is(value.map(|value| id(&value)));
        match self.rng.below(12) {
            0..4 => {
                let i = self.begin(k, Effect::Set(Some(new)));
                map.put(&name, &bytes).await?;
                self.end(i, Response::Untold);
            }
            4..8 => {
                let i = self.begin(k, Effect::Read);
                let got = map.get(&name).await?;
                self.end(i, found(got));
            }
            8 => {
                let i = self.begin(k, Effect::Set(None));
                map.delete(&name).await?;
                self.end(i, Response::Untold);
            }
            9 => {
                let i = self.begin(k, Effect::SetIf(None, Some(new)));
                let was = map.insert_new(&name, &bytes).await?;
                self.end(i, if was { Response::Is(None) } else { Response::Not(None) });
            }
            10 => {
                let i = self.begin(k, Effect::Set(Some(new)));
                let was = map.replace(&name, &bytes).await?;
                self.end(i, found(was));
            }
            _ => {
                let i = self.begin(k, Effect::Read);
                let got = map.get(&name).await?;
                self.end(i, found(got.clone()));
                let expected = got.as_deref().map(id);
                let i = self.begin(k, Effect::SetIf(expected, Some(new)));
                match map.compare_set(&name, got.as_deref(), Some(&bytes)).await? {
                    Compared::Set => self.end(i, Response::Is(expected)),
                    Compared::Differs(was) => self.end(i, found(was)),
                }
            }
        }
        Ok(())
    }
}

/// Runs one schedule, with the plan that `shape` makes of the one drawn.
fn schedule(seed: u64, shape: impl Fn(&mut Plan)) -> std::result::Result<Totals, String> {
    let rng = Rng::new(seed);
    let mut plan = Plan::drawn(&rng, seed);
    shape(&mut plan);
    let mut options = SimOptions::default();
    (options.seed, options.node_bytes) = (seed, vec![8 << 20; plan.nodes as usize]);
    (options.max_clients, options.lease_ns) = (plan.options.max_clients, plan.lease_ns);
    options.chaos = Some(plan.chaos);
    let sim = Sim::new(options);
    let dying = Rc::new(Cell::new(false));
    sim.set_hook(Box::new({
        let (rng, dying) = (Rng::new(!seed), Rc::clone(&dying));
        let (one_in, joining_ns_max) = (plan.death_one_in, plan.joining_ns_max);
        move |moment| match moment.stage {
            Stage::Posted if !dying.get() => Choice::Go,
            Stage::Posted if one_in > 0 && rng.below(one_in) == 0 => Choice::Kill,
            Stage::Posted if joining_ns_max > 0 && moment.number < JOINING && rng.below(2) == 0 => {
                Choice::Stall { ns: rng.below(joining_ns_max) }
            }
            _ => Choice::Go,
        }
    }));
    let first = sim.client().map_err(|e| e.to_string())?;
    let made = sim.spawn(&first, {
        let (first, options) = (first.clone(), plan.options);
        async move { RemoteMap::create(first, options).await?.close().await }
    });
    sim.run();
    made.take().ok_or("not made")?.map_err(|e| format!("create: {e}"))?;
    drop((made, first));
    dying.set(true);
    let run = Rc::new(Run {
        sim: sim.clone(),
        held: RefCell::new(vec![0; plan.clients as usize]),
        plan,
        rng,
        history: RefCell::default(),
        values: Cell::new(0),
        totals: RefCell::default(),
    });
    let plan = &run.plan;
    let failures: Rc<RefCell<Vec<String>>> = Rc::default();
    let mut clients = Vec::new();
    for number in 0..plan.clients {
        let client = run.sim.client().map_err(|e| e.to_string())?;
        clients.push(client.clone());
        let (run, failures) = (Rc::clone(&run), Rc::clone(&failures));
        sim.spawn(&client.clone(), async move {
            let Err(e) = one_client(&run, number as usize, client).await else { return };
            match e.kind() {
                ErrorKind::Evicted if run.plan.lease_ns.is_some() => {
                    run.totals.borrow_mut().evicted += 1;
                }
                ErrorKind::Full { .. } => run.totals.borrow_mut().full += 1,
                _ => failures.borrow_mut().push(e.to_string()),
            }
        });
    }
    sim.run_until(plan.until_ns);
    if let Some(failure) = failures.borrow().first() {
        return Err(failure.clone());
    }
    if sim.live_tasks() > 0 {
        let open: Vec<_> =
            run.history.borrow().ops.iter().filter(|op| op.end.is_none()).copied().collect();
        return Err(format!("{} tasks do not end: {plan:?} {open:#?}", sim.live_tasks()));
    }
    let deaths = clients.iter().filter(|client| !sim.lives(client)).count() as u64;
    drop(clients);
    dying.set(false);
    // A new client reads everything, checks, and sweeps.
    let last = sim.client().map_err(|e| e.to_string())?;
    let judged = sim.spawn(&last, {
        let (last, run) = (last.clone(), Rc::clone(&run));
        async move { judge(last, &run).await }
    });
    sim.run_until(2 * plan.until_ns);
    let (leaked, pages) = judged
        .take()
        .ok_or("the last client waits for ever")?
        .map_err(|e| format!("{e} {plan:?}"))?;
    let undecided = run.history.borrow().check()?;
    for pair in pages {
        run.history
            .borrow()
            .ops
            .iter()
            .rfind(|op| op.key == pair.0)
            .filter(|op| op.found == Response::Is(Some(pair.1)))
            .ok_or_else(|| format!("iteration gave {pair:?}"))?;
    }
    let held: u64 = run.held.borrow().iter().sum();
    let Totals { evicted, full, sweeps, .. } = *run.totals.borrow();
    if deaths == 0 && evicted == 0 && full == 0 && sweeps == 0 && leaked != 0 {
        return Err(format!("{leaked} bytes are unaccounted for, and all clients have left"));
    }
    // A death in the middle of an operation leaves what that took or unlinked: its block, a merge's
    // new segments, the blocks that it dropped.
    let entries = 6 * u64::from(plan.options.main_entries + plan.options.cur_entries) + 200;
    let each =
        plan.tasks * (2 * plan.options.chunk_bytes + 3 * (2048 + 9 * entries) + entries * 1600);
    let bound = held + (deaths + evicted) * each;
    if sweeps == 0 && leaked > bound {
        return Err(format!("{leaked} bytes are lost, and the bound is {bound}"));
    }
    let ops = run.history.borrow().ops.len() as u64;
    let totals = *run.totals.borrow();
    Ok(Totals { schedules: 1, undecided, ops, deaths, leaked_bytes: leaked, ..totals })
}

async fn one_client(run: &Rc<Run>, number: usize, client: SimClient) -> Result<()> {
    if run.plan.coming_ns_max > 0 {
        client.sleep_ns(run.rng.below(run.plan.coming_ns_max)).await;
    }
    let map = RemoteMap::open(client.clone(), run.plan.options).await?;
    let busy = Rc::new(Cell::new(run.plan.tasks));
    let mut tasks = Vec::new();
    for _ in 0..run.plan.tasks {
        let (run, map, busy) = (Rc::clone(run), map.clone(), Rc::clone(&busy));
        let client = client.clone();
        tasks.push(run.sim.clone().spawn(&client.clone(), async move {
            let mut result = Ok(());
            for _ in 0..run.plan.ops {
                result = run.one(&map).await;
                if result.is_err() {
                    break;
                }
                run.held.borrow_mut()[number] = map.stats().held_bytes.iter().sum();
                if run.plan.rest_one_in > 0 && run.rng.below(run.plan.rest_one_in) == 0 {
                    map.rest().await?;
                }
                if run.plan.pause_ns_max > 0 && run.rng.below(8) == 0 {
                    client.sleep_ns(run.rng.below(run.plan.pause_ns_max)).await;
                }
            }
            busy.set(busy.get() - 1);
            result
        }));
    }
    for _ in 0..run.plan.readers {
        let (run, map, busy) = (Rc::clone(run), map.clone(), Rc::clone(&busy));
        tasks.push(run.sim.clone().spawn(&client, async move {
            while busy.get() > 0 {
                let got = map.get(&key(run.rng.below(run.plan.keys) as u32)).await?;
                got.as_deref().map(id);
            }
            Ok(())
        }));
    }
    if (number as u64) < run.plan.sweepers {
        let (map, busy) = (map.clone(), Rc::clone(&busy));
        tasks.push(run.sim.clone().spawn(&client, async move {
            while busy.get() > 0 {
                map.sweep().await?;
            }
            Ok(())
        }));
    }
    let service = run.sim.spawn(&client, map.clone().service());
    let mut result = Ok(());
    for task in tasks {
        let ended: Result<()> = task.await.expect("tasks die together");
        result = result.and(ended);
    }
    let stats = map.stats();
    run.held.borrow_mut()[number] = stats.held_bytes.iter().sum();
    let Stats { merges, splits, lost, doublings, hops, waits, evictions, sweeps, .. } = stats;
    let Stats { batches, batches_parted, batches_full, .. } = stats;
    *run.totals.borrow_mut() += Totals {
        merges,
        splits,
        lost,
        doublings,
        hops,
        waits,
        evictions,
        sweeps,
        batches,
        batches_parted,
        batches_full,
        ..Totals::default()
    };
    result?;
    map.close().await?;
    run.held.borrow_mut()[number] = 0;
    service.await.unwrap_or(Ok(()))
}

/// The leaked bytes, and the pairs of an iteration.
async fn judge(client: SimClient, run: &Run) -> Result<(u64, Vec<(u32, u32)>)> {
    let map = RemoteMap::open(client, run.plan.options).await?;
    let before = map.check().await?;
    let mut keys = 0;
    for k in 0..run.plan.keys as u32 {
        let i = run.begin(k, Effect::Read);
        let got = map.get(&key(k)).await?;
        keys += u64::from(got.is_some());
        run.end(i, Response::Is(got.map(|value| id(&value))));
    }
    assert_eq!(before.keys, keys);
    let mut pairs = Vec::new();
    let mut pages = map.pages();
    while let Some(page) = pages.next().await? {
        for (name, value) in page {
            let k = (0..run.plan.keys as u32).find(|&k| key(k) == name).expect("a key of ours");
            pairs.push((k, id(&value)));
        }
    }
    assert_eq!(pairs.len() as u64, keys);
    let found = map.sweep().await?;
    assert!(found >= before.unaccounted_bytes);
    let after = map.check().await?;
    assert_eq!(after.unaccounted_bytes, 0);
    for k in 0..run.plan.keys as u32 {
        map.put(&key(k), &value(k)).await?;
    }
    map.check().await?;
    map.close().await?;
    Ok((before.unaccounted_bytes, pairs))
}

/// Runs the schedules of these seeds, each with the plan that `shape` makes of the one drawn: the first
/// that goes wrong, and how.
pub(crate) fn first_wrong(
    seeds: impl IntoIterator<Item = u64>,
    shape: impl Fn(&mut Plan),
    totals: &mut Totals,
) -> Option<(u64, String)> {
    seeds.into_iter().find_map(|seed| {
        let wrong = match catch_unwind(AssertUnwindSafe(|| schedule(seed, &shape))) {
            Ok(Ok(counts)) => {
                *totals += counts;
                return None;
            }
            Ok(Err(wrong)) => wrong,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text =
                    text.or_else(|| panic.downcast_ref().map(|&text: &&str| text.to_owned()));
                format!("it panicked: {}", text.unwrap_or_default())
            }
        };
        Some((seed, wrong))
    })
}

//! Many clients over disordered verbs, with deaths at any of them: what was acknowledged is there, each key is
//! linearizable, survivors finish, leaks are within their bound.
//!
//! `DURAHASH_SEP_SCHEDULES` sets how many schedules are run, `DURAHASH_SEP_SEED` the first seed.

mod common;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use common::{Effect, Found, History};
use durahash_media::hash::WordMix;
use durahash_remote::fabric::{Chaos, Choice, Sim, SimClient, SimOptions, What};
use durahash_remote::{Compared, ErrorKind, Options, RemoteMap, Result};

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

/// What a schedule is made of.
#[derive(Clone, Copy, Debug)]
struct Plan {
    clients: u64,
    tasks: u64,
    ops: u64,
    keys: u64,
    death_one_in: u64,
    lease: bool,
}

struct Run {
    sim: Sim,
    plan: Plan,
    options: Options,
    rng: Rng,
    history: RefCell<History>,
    values: Cell<u32>,
    /// What clients held when they were last asked.
    held: RefCell<Vec<u64>>,
}

#[derive(Debug, Default)]
struct Totals {
    schedules: u64,
    ops: u64,
    deaths: u64,
    merges: u64,
    splits: u64,
    lost: u64,
    doublings: u64,
    hops: u64,
    evictions: u64,
    evicted: u64,
    full: u64,
    leaked_bytes: u64,
    /// Keys of which the checker gave up.
    undecided: u64,
}

impl Run {
    fn begin(&self, key: u32, effect: Effect) -> usize {
        self.history.borrow_mut().begin(key, effect)
    }

    fn end(&self, i: usize, found: Found) {
        self.history.borrow_mut().end(i, found);
    }

    async fn one(&self, map: &RemoteMap<SimClient>) -> Result<()> {
        let k = self.rng.below(self.plan.keys) as u32;
        let name = key(k);
        let new = self.values.get() + 1;
        self.values.set(new);
        let bytes = value(new);
        let found = |value: Option<Vec<u8>>| Found::Is(value.map(|value| id(&value)));
        match self.rng.below(12) {
            0..4 => {
                let i = self.begin(k, Effect::Set(Some(new)));
                map.put(&name, &bytes).await?;
                self.end(i, Found::Untold);
            }
            4..8 => {
                let i = self.begin(k, Effect::Read);
                let got = map.get(&name).await?;
                self.end(i, found(got));
            }
            8 => {
                let i = self.begin(k, Effect::Set(None));
                map.delete(&name).await?;
                self.end(i, Found::Untold);
            }
            9 => {
                let i = self.begin(k, Effect::SetIf(None, Some(new)));
                let was = map.insert_new(&name, &bytes).await?;
                self.end(i, if was { Found::Is(None) } else { Found::Something });
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
                    Compared::Set => self.end(i, Found::Is(expected)),
                    Compared::Differs(was) => self.end(i, found(was)),
                }
            }
        }
        Ok(())
    }
}

fn schedule(seed: u64, totals: &mut Totals) -> std::result::Result<(), String> {
    let rng = Rng::new(seed);
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
    let large = rng.below(40) == 0;
    let clients = if large { 64 } else { 1 + rng.below(6) };
    let tasks = if large { 1 } else { 1 + rng.below(3) };
    let plan = Plan {
        clients,
        tasks,
        ops: if large { 8 } else { rng.pick(&[10, 20, 60]) },
        // With more at once, the checker does not come to an end.
        keys: rng.pick(&[2, 8, 24, 60]).max(clients * tasks / 4),
        death_one_in: rng.pick(&[0, 0, 100, 400, 1500]),
        lease: rng.below(3) == 0,
    };
    let nodes = 1 + rng.below(3);
    let sim = Sim::new(SimOptions {
        seed,
        node_bytes: vec![8 << 20; nodes as usize],
        rows: 96,
        lease_ns: plan.lease.then_some(2_000_000),
        chaos: Some(Chaos {
            stall_one_in: rng.pick(&[0, 50, 200]),
            stall_ns_max: rng.pick(&[100_000, 1_000_000, 5_000_000]),
            tear_parts_max: rng.pick(&[1, 4, 16]),
            unsignaled_ns_max: rng.pick(&[1_000, 200_000, 2_000_000]),
            ..Chaos::default()
        }),
        ..SimOptions::default()
    });
    options.rows = 96;
    let dying = Rc::new(Cell::new(false));
    sim.set_hook(Box::new({
        let (rng, dying) = (Rng::new(!seed), Rc::clone(&dying));
        move |moment| {
            let at = dying.get() && plan.death_one_in > 0 && moment.what == What::Posted;
            if at && rng.below(plan.death_one_in) == 0 { Choice::Kill } else { Choice::Go }
        }
    }));
    let first = sim.client().map_err(|e| e.to_string())?;
    let made = sim.spawn(&first, {
        let first = first.clone();
        async move { RemoteMap::create(first, options).await?.close().await }
    });
    sim.run();
    made.take().ok_or("not made")?.map_err(|e| format!("create: {e}"))?;
    drop((made, first));
    dying.set(true);
    let run = Rc::new(Run {
        sim: sim.clone(),
        plan,
        options,
        rng,
        history: RefCell::default(),
        values: Cell::new(0),
        held: RefCell::new(vec![0; plan.clients as usize]),
    });
    let failures: Rc<RefCell<Vec<String>>> = Rc::default();
    let stats = Rc::new(RefCell::new(Totals::default()));
    let mut clients = Vec::new();
    for number in 0..plan.clients {
        let client = run.sim.client().map_err(|e| e.to_string())?;
        clients.push(client.clone());
        let (run, failures, stats) = (Rc::clone(&run), Rc::clone(&failures), Rc::clone(&stats));
        sim.spawn(&client.clone(), async move {
            let result = one_client(&run, number as usize, client, &stats).await;
            match result {
                Err(e) if matches!(e.kind(), ErrorKind::Evicted) && run.plan.lease => {
                    stats.borrow_mut().evicted += 1;
                }
                Err(e) if matches!(e.kind(), ErrorKind::Full { .. }) => {
                    stats.borrow_mut().full += 1;
                }
                Err(e) => failures.borrow_mut().push(e.to_string()),
                Ok(()) => {}
            }
        });
    }
    // Far beyond what the slowest takes.
    sim.run_until(2_000_000_000);
    if let Some(failure) = failures.borrow().first() {
        return Err(failure.clone());
    }
    if sim.live_tasks() > 0 {
        let open: Vec<_> =
            run.history.borrow().ops.iter().filter(|op| op.end.is_none()).copied().collect();
        return Err(format!(
            "{} tasks do not end: {plan:?} {options:?} {open:#?}",
            sim.live_tasks()
        ));
    }
    let deaths = clients.iter().filter(|client| !sim.lives(client)).count() as u64;
    let evicted = stats.borrow().evicted;
    drop(clients);
    dying.set(false);
    // Somebody new reads everything, checks, and sweeps.
    let last = sim.client().map_err(|e| e.to_string())?;
    let judged = sim.spawn(&last, {
        let (last, run) = (last.clone(), Rc::clone(&run));
        async move { judge(last, &run).await }
    });
    sim.run_until(4_000_000_000);
    let (leaked, pages) = judged
        .take()
        .ok_or("the last client waits for ever")?
        .map_err(|e| format!("{e} {plan:?} {options:?}"))?;
    let undecided = run.history.borrow().check()?;
    for pair in pages {
        run.history
            .borrow()
            .ops
            .iter()
            .rfind(|op| op.key == pair.0)
            .filter(|op| op.found == Found::Is(Some(pair.1)))
            .ok_or_else(|| format!("iteration gave {pair:?}"))?;
    }
    let held: u64 = run.held.borrow().iter().sum();
    if deaths == 0 && evicted == 0 && stats.borrow().full == 0 && leaked != held {
        return Err(format!("{leaked} bytes are unaccounted for, and clients had {held}"));
    }
    // A death in the middle of an operation leaves what that took or unlinked: its block, a merge's
    // new segments, the blocks that it dropped.
    let entries = 6 * u64::from(options.main_entries + options.cur_entries) + 200;
    let each = plan.tasks * (2 * options.chunk_bytes + 3 * (2048 + 9 * entries) + entries * 1600);
    let bound = held + (deaths + evicted) * each;
    if leaked > bound {
        return Err(format!("{leaked} bytes are lost, and the bound is {bound}"));
    }
    let stats = stats.borrow();
    totals.schedules += 1;
    totals.undecided += undecided;
    totals.ops += run.history.borrow().ops.len() as u64;
    totals.deaths += deaths;
    totals.evicted += evicted;
    totals.merges += stats.merges;
    totals.splits += stats.splits;
    totals.lost += stats.lost;
    totals.doublings += stats.doublings;
    totals.hops += stats.hops;
    totals.evictions += stats.evictions;
    totals.full += stats.full;
    totals.leaked_bytes += leaked;
    Ok(())
}

async fn one_client(
    run: &Rc<Run>,
    number: usize,
    client: SimClient,
    totals: &Rc<RefCell<Totals>>,
) -> Result<()> {
    let map = RemoteMap::open(client.clone(), run.options).await?;
    let mut tasks = Vec::new();
    for _ in 0..run.plan.tasks {
        let (run, map) = (Rc::clone(run), map.clone());
        tasks.push(run.sim.clone().spawn(&client, async move {
            for _ in 0..run.plan.ops {
                run.one(&map).await?;
                run.held.borrow_mut()[number] = map.stats().held_bytes.iter().sum();
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
    {
        let mut totals = totals.borrow_mut();
        totals.merges += stats.merges;
        totals.splits += stats.splits;
        totals.lost += stats.lost;
        totals.doublings += stats.doublings;
        totals.hops += stats.hops;
        totals.evictions += stats.evictions;
    }
    result?;
    let closing = map.clone();
    drop(map);
    closing.close().await?;
    match service.await {
        Some(ended) => ended,
        None => Ok(()),
    }
}

/// What is lost, and the pairs of an iteration.
async fn judge(client: SimClient, run: &Run) -> Result<(u64, Vec<(u32, u32)>)> {
    let map = RemoteMap::open(client, run.options).await?;
    let before = map.check().await?;
    let mut keys = 0;
    for k in 0..run.plan.keys as u32 {
        let i = run.begin(k, Effect::Read);
        let got = map.get(&key(k)).await?;
        keys += u64::from(got.is_some());
        run.end(i, Found::Is(got.map(|value| id(&value))));
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
    // The dead have their rows until somebody looks.
    for _ in 0..8 {
        map.tick().await?;
    }
    let lost = match map.sweep().await {
        Ok(lost) => lost,
        // Under leases, a row may belong to a client that nobody has evicted yet.
        Err(e) if matches!(e.kind(), ErrorKind::Locked) => {
            return Ok((before.unaccounted_bytes, pairs));
        }
        Err(e) => return Err(e),
    };
    assert_eq!(lost, before.unaccounted_bytes);
    let after = map.check().await?;
    assert_eq!(after.unaccounted_bytes, 0);
    for k in 0..run.plan.keys as u32 {
        map.put(&key(k), &value(k)).await?;
    }
    map.check().await?;
    map.close().await?;
    Ok((lost, pairs))
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |n| n.parse().expect("a number"))
}

#[test]
fn schedules_are_linearizable_and_lose_nothing() {
    let count = number("DURAHASH_SEP_SCHEDULES", 3000);
    let first = number("DURAHASH_SEP_SEED", 1);
    let mut totals = Totals::default();
    for seed in first..first + count {
        let caught =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| schedule(seed, &mut totals)));
        match caught {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => panic!(
                "seed {seed}: {failure}\nagain: DURAHASH_SEP_SEED={seed} DURAHASH_SEP_SCHEDULES=1"
            ),
            Err(_) => {
                panic!("seed {seed} panicked: DURAHASH_SEP_SEED={seed} DURAHASH_SEP_SCHEDULES=1")
            }
        }
    }
    println!("{totals:#?}");
    if count >= 1000 {
        let Totals { merges, splits, lost, doublings, hops, deaths, .. } = totals;
        assert!(
            [merges, splits, lost, doublings, hops, deaths].iter().all(|&n| n > 0),
            "{totals:?}"
        );
    }
}

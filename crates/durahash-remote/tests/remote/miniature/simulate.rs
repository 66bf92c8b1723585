//! One run: a seed decides the geometry, what clients do, and when everything takes effect.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use crate::common::{Effect, Response, counts};

use super::client::{Client, Coroutine, Run};
use super::layout::{A, BUMP, CUR_HEAD, Class, DIRECTORY, EPOCH, MAIN_HEAD};
use super::operations::Kind;
use super::random::Random;
use super::rules::{Focus, Rules, Setup};
use super::world::{Closed, Endpoint, Event, Life, Shared, World};

counts! {
    /// Counts of a run, so that a test can assert that it did enough.
    Counts {
        operations,
        unknown,
        merges,
        splits,
        epochs,
        sweeps,
        takeovers,
        rests,
        popped,
        replaced,
        reclaimed,
        taken,
        events,
    }
}

type Task = Pin<Box<dyn Future<Output = Result<(), Closed>>>>;

struct Simulation {
    world: Shared,
    setup: Rc<Setup>,
    run: Rc<RefCell<Run>>,
    tasks: Vec<Option<Task>>,
    /// `true` for a task that does operations; the others beat.
    works: Vec<bool>,
}

/// No run that ends takes a tenth of this.
const MOST_EVENTS: u64 = 400_000;

/// Runs one seed. An error is a violation: what the run should not have done.
pub(crate) fn simulate(rules: Rules, focus: Focus, seed: u64) -> Result<Counts, String> {
    let mut random = Random::new(seed);
    let setup = Rc::new(Setup::random(rules, focus, &mut random));
    let mut world = World::new((*setup).clone(), random);
    first_segment(&mut world);
    let world = Rc::new(RefCell::new(world));
    let run = Rc::new(RefCell::new(Run::default()));
    let mut simulation = Simulation { world, setup, run, tasks: vec![], works: vec![] };
    simulation.start();
    let mut counts = Counts::default();
    simulation.until_done(&mut counts)?;
    // A new client reads the final state.
    simulation.verify();
    simulation.until_done(&mut counts)?;
    simulation.judge(&mut counts)?;
    Ok(counts)
}

/// One empty segment of depth 0, in generation 1 with zeroed entries.
fn first_segment(world: &mut World) {
    let entries = world.setup.entries;
    let client = world.add_client();
    let main = world.allocate(client, Class::Main, None);
    let cur = world.allocate(client, Class::Cur, None);
    *world.word(EPOCH) = 1;
    *world.word(BUMP) = world.end() as u64;
    *world.word(main + MAIN_HEAD - 1) = 1;
    *world.word(cur) = A::new(main, 1, 0).0;
    *world.word(DIRECTORY) = cur as u64;
    debug_assert_eq!(Class::Cur.words(entries), CUR_HEAD + 2 * entries);
}

impl Simulation {
    fn start(&mut self) {
        let (clients, coroutines) = (self.setup.clients, self.setup.coroutines);
        for i in 0..clients {
            let after = if i == 0 { 0 } else { self.draw(|r| r.below(self.setup.joining_max)) };
            let most = self.setup.operations as u64;
            let few = self.setup.sweeps && self.draw(|r| r.one_in(3));
            let operations = if few { 1 + self.draw(|r| r.below(most)) } else { most } as usize;
            self.add_client(after, coroutines, |coroutine| Box::pin(work(coroutine, operations)));
        }
        // A death, a client that is taken for dead, some that stand still.
        for _ in 0..self.draw(|r| r.pick(&[0, 0, 1, 2])) {
            let client = 1 + self.draw(|r| r.below(clients as u64)) as u32;
            let after = self.draw(|r| r.below(800));
            let evicted = after + self.draw(|r| r.below(900));
            let mut world = self.world.borrow_mut();
            if world.random.one_in(3) {
                world.schedule(after, Event::Stall(client));
            } else {
                world.schedule(after, Event::Kill(client));
            }
            world.schedule(evicted, Event::Evict(client));
        }
        for _ in 0..self.draw(|r| r.below(5)) {
            let client = 1 + self.draw(|r| r.below(clients as u64)) as u32;
            let after = self.draw(|r| r.below(1500));
            self.world.borrow_mut().schedule(after, Event::Stall(client));
        }
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.world.borrow_mut().random)
    }

    fn add_client(&mut self, after: u64, coroutines: usize, work: impl Fn(Coroutine) -> Task) {
        let id = self.world.borrow_mut().add_client();
        let client = Rc::new(RefCell::new(Client::default()));
        client.borrow_mut().working = coroutines;
        self.run.borrow_mut().clients.push((id, client.clone()));
        let leaves = self.setup.sweeps && self.draw(|r| r.one_in(2));
        for slot in 0..=coroutines {
            let task = self.world.borrow_mut().add_task(id, after);
            let endpoint = Endpoint { world: self.world.clone(), client: id, task };
            let mut coroutine = Coroutine::new(
                endpoint,
                self.setup.clone(),
                client.clone(),
                self.run.clone(),
                slot,
            );
            coroutine.leaves = leaves;
            // The one that beats registers first, and the others wait for that.
            let task: Task = if slot == coroutines {
                Box::pin(async move {
                    coroutine.register().await?;
                    coroutine.beat().await
                })
            } else {
                self.run.borrow_mut().unfinished += 1;
                work(coroutine)
            };
            self.tasks.push(Some(task));
            self.works.push(slot < coroutines);
        }
    }

    fn verify(&mut self) {
        self.add_client(0, 1, |coroutine| Box::pin(read_all(coroutine)));
    }

    fn until_done(&mut self, counts: &mut Counts) -> Result<(), String> {
        let mut context = Context::from_waker(Waker::noop());
        while self.run.borrow().unfinished > 0 {
            let event = self.world.borrow_mut().step();
            counts.events += 1;
            self.check_fault()?;
            match event {
                None => return Err("operations do not end".into()),
                Some(_) if counts.events > MOST_EVENTS => {
                    return Err("operations do not end".into());
                }
                Some(Event::Resume(task)) if self.world.borrow().runs(task) => {
                    let polled = &mut self.tasks[task as usize];
                    if let Some(future) = polled
                        && future.as_mut().poll(&mut context).is_ready()
                    {
                        self.end(task as usize);
                    }
                }
                Some(Event::Kill(client) | Event::MarkDead(client)) => self.bury(client as usize),
                Some(_) => {}
            }
            self.check_fault()?;
        }
        Ok(())
    }

    /// Fails if an address or a value was followed that none may follow.
    fn check_fault(&self) -> Result<(), String> {
        self.world.borrow().fault.map_or(Ok(()), |fault| Err(fault.into()))
    }

    /// A task has ended, done or cut off.
    fn end(&mut self, task: usize) {
        self.tasks[task] = None;
        if self.works[task] {
            self.run.borrow_mut().unfinished -= 1;
        }
    }

    /// Drops the tasks of a client that was killed.
    fn bury(&mut self, client: usize) {
        if self.world.borrow().life(client) != Life::Killed {
            return;
        }
        for task in 0..self.tasks.len() {
            if self.tasks[task].is_some() && self.world.borrow().client_of(task) == client {
                self.end(task);
            }
        }
    }

    fn judge(&self, counts: &mut Counts) -> Result<(), String> {
        let run = self.run.borrow();
        counts.operations += run.history.ops.len() as u64;
        counts.unknown += run.history.ops.iter().filter(|op| op.end.is_none()).count() as u64;
        counts.merges += run.merges;
        counts.splits += run.splits;
        counts.sweeps += run.sweeps;
        counts.takeovers += run.takeovers;
        counts.rests += run.rests;
        counts.popped += run.popped;
        counts.replaced += run.replaced;
        counts.reclaimed += run.reclaimed;
        counts.taken += *self.world.borrow_mut().word(BUMP);
        counts.epochs += *self.world.borrow_mut().word(EPOCH);
        assert_eq!(run.history.check()?, 0, "every history can be decided");
        Ok(())
    }
}

/// A coroutine of a client: so many operations, with pauses.
async fn work(coroutine: Coroutine, operations: usize) -> Result<(), Closed> {
    coroutine.registered().await?;
    let keys = coroutine.setup.keys.len() as u64;
    let mut last = vec![0; keys as usize];
    for _ in 0..operations {
        let most = coroutine.setup.pause_max;
        let pause = coroutine.random(|r| if r.one_in(15) { r.below(most) } else { r.below(12) });
        coroutine.sleep(pause).await?;
        coroutine.registered().await?;
        coroutine.client.borrow_mut().busy += 1;
        if coroutine.setup.sweeps {
            coroutine.pass_on().await?;
        }
        let key = coroutine.random(|r| r.below(keys)) as usize;
        let value = {
            let mut run = coroutine.run.borrow_mut();
            run.next_value += 1;
            run.next_value
        };
        let kind = match coroutine.random(|r| r.below(16)) {
            0..=4 => Kind::Get,
            5..=9 => Kind::Put(value),
            10..=11 => Kind::Delete,
            12 => Kind::InsertIfAbsent(value),
            13..=14 => Kind::CompareAndSet(last[key], value),
            _ => Kind::GetAndPut(value),
        };
        let answer = recorded(&coroutine, key, kind).await?;
        coroutine.client.borrow_mut().busy -= 1;
        last[key] = match kind {
            Kind::Get => answer,
            Kind::Put(value) | Kind::GetAndPut(value) => value,
            Kind::CompareAndSet(_, value) | Kind::InsertIfAbsent(value) if answer == 1 => value,
            _ => 0,
        };
    }
    coroutine.client.borrow_mut().working -= 1;
    Ok(())
}

async fn read_all(coroutine: Coroutine) -> Result<(), Closed> {
    coroutine.registered().await?;
    coroutine.client.borrow_mut().busy += 1;
    for key in 0..coroutine.setup.keys.len() {
        recorded(&coroutine, key, Kind::Get).await?;
    }
    Ok(())
}

async fn recorded(coroutine: &Coroutine, key: usize, kind: Kind) -> Result<u64, Closed> {
    let state = |value| (value != 0).then(|| u32::try_from(value).unwrap_or(u32::MAX));
    let effect = match kind {
        Kind::Get => Effect::Read,
        Kind::Put(new) | Kind::GetAndPut(new) => Effect::Set(state(new)),
        Kind::Delete => Effect::Set(None),
        Kind::InsertIfAbsent(new) => Effect::SetIf(None, state(new)),
        Kind::CompareAndSet(old, new) => Effect::SetIf(state(old), state(new)),
    };
    let at = coroutine.run.borrow_mut().history.begin(key as u32, effect);
    let answer = coroutine.operate(key, kind).await?;
    let found = match effect {
        Effect::SetIf(old, _) if answer == 1 => Response::Is(old),
        Effect::SetIf(old, _) => Response::Not(old),
        _ if matches!(kind, Kind::Get | Kind::GetAndPut(_)) => Response::Is(state(answer)),
        _ => Response::Untold,
    };
    coroutine.run.borrow_mut().history.end(at, found);
    Ok(answer)
}

//! The guarantees of every fabric, for the simulated one, for shared memory and for TCP.

use durahash_remote::executor::Executor;
use durahash_remote::fabric::{
    Chaos, Local, LocalClient, LocalOptions, Sim, SimClient, SimOptions,
};

use durahash_remote::tcp::Tcp;

use crate::tcp::Nodes;
use crate::verbs::{self, NODE_BYTES};

/// Runs `test` with two clients of each fabric; `sims` simulated ones with chaos, by seed.
fn each<T, U, V>(
    sims: u64,
    of_sim: impl Fn(SimClient, SimClient) -> T,
    of_local: impl Fn(LocalClient, LocalClient) -> U,
    of_tcp: impl Fn(Tcp, Tcp) -> V,
) where
    T: Future<Output = ()> + 'static,
    U: Future<Output = ()> + 'static,
    V: Future<Output = ()> + 'static,
{
    for seed in 0..=sims {
        let mut options = SimOptions::default();
        (options.seed, options.node_bytes) = (seed, NODE_BYTES.to_vec());
        options.chaos = (seed > 0).then(Chaos::default);
        let sim = Sim::new(options);
        let clients = [sim.client().unwrap(), sim.client().unwrap()];
        let task = sim.spawn(&clients[0], of_sim(clients[0].clone(), clients[1].clone()));
        sim.run();
        assert_eq!(task.take(), Some(()), "seed {seed}");
        assert_eq!(sim.live_tasks(), 0, "seed {seed}");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut options = LocalOptions::default();
    options.node_bytes = NODE_BYTES.to_vec();
    let locals = [
        Local::anonymous(&options).unwrap(),
        Local::create(&dir.path().join("fabric"), &options).unwrap(),
    ];
    for local in locals {
        let clients = (local.client().unwrap(), local.client().unwrap());
        Executor::new().block_on(of_local(clients.0, clients.1));
    }
    let nodes = Nodes::start(&NODE_BYTES, 4);
    Executor::new().block_on(of_tcp(nodes.client(), nodes.client()));
}

macro_rules! each {
    ($sims:literal, $test:ident) => {
        each($sims, verbs::$test::<SimClient>, verbs::$test::<LocalClient>, verbs::$test::<Tcp>)
    };
}

#[test]
fn verbs_do_what_they_say() {
    each!(50, what_verbs_do);
}

#[test]
fn costs_are_counted_exactly() {
    each!(5, counted);
}

#[test]
fn wrong_verbs_are_refused_before_anything_is_posted() {
    each!(1, wrong);
}

#[test]
fn awaited_and_flushed_writes_are_seen() {
    each!(100, awaited);
}

#[test]
fn a_future_that_is_dropped_harms_nothing() {
    each!(20, dropped);
}

#[test]
fn sleep_takes_its_time() {
    each!(5, slept);
}

use super::*;

fn add(sim: &Sim, client: &SimClient, n: u64) -> Task<Result<u64>> {
    let own = client.clone();
    sim.spawn(client, async move {
        let mut batch = Batch::new();
        batch.fetch_add(Addr::new(0, 64), n);
        own.post(batch).await.map(|done| done.word(0))
    })
}

#[test]
fn adds_are_exact() {
    let sim = Sim::new(SimOptions { chaos: Some(Chaos::default()), ..SimOptions::default() });
    let clients: Vec<_> = (0..300).map(|_| sim.client().unwrap()).collect();
    let tasks: Vec<_> = clients.iter().map(|client| add(&sim, client, 1)).collect();
    sim.run();
    let mut seen: Vec<_> = tasks.iter().map(|task| task.take().unwrap().unwrap()).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..300).collect::<Vec<_>>());
}

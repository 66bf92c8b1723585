//! Random runs with all that can go wrong, of which every verb is accounted for: completed verbs have
//! taken effect whole, between post and completion; failed ones, in part; none after an eviction.

use std::cell::RefCell;
use std::collections::HashMap;

use durahash_media::ErrorKind;

use super::rng::Rng;
use super::*;

/// The events of one verb.
struct VerbRecord {
    posted_ns: u64,
    /// Bytes that took effect, and that never will.
    applied: u32,
    dropped: u32,
    last_ns: u64,
}

#[derive(Default)]
struct Book {
    verbs: HashMap<(u32, u64), VerbRecord>,
    /// Clients of which nothing may take effect any more.
    fenced: Vec<u32>,
    after_fence: u64,
}

#[derive(Default)]
struct Totals {
    completed: u64,
    lost: u64,
    evicted: u64,
    died: u64,
    fenced: u64,
}

fn verb(rng: &mut Rng, batch: &mut Batch) -> u32 {
    let node = rng.below(2) as u8;
    let word = Addr::new(node, 8 * rng.below(32));
    let len = rng.below(50) as u32;
    let bytes = word.add(rng.below(8));
    let (_, len) = match rng.below(4) {
        0 => (batch.read(bytes, len as usize), len),
        1 => (batch.write(bytes, &vec![rng.next() as u8; len as usize]), len),
        2 => (batch.compare_swap(word, rng.below(3), rng.below(3)), 8),
        _ => (batch.fetch_add(word, 1), 8),
    };
    len
}

/// The verbs of a client, until it is evicted.
async fn live(own: SimClient, seed: u64, book: Rc<RefCell<Book>>, totals: Rc<RefCell<Totals>>) {
    let mut rng = Rng::new(seed);
    let mut unflushed = Vec::new();
    for _ in 0..20 {
        let failed = match rng.below(8) {
            0 => {
                let node = rng.below(2) as u8;
                unflushed.push((node, own.counts().verbs()));
                own.write_unsignaled(Addr::new(node, rng.below(400)), &[1; 30]).err()
            }
            1 => {
                let node = rng.below(2) as u8;
                let result = own.flush(node).await;
                unflushed.retain(|&(of, number)| {
                    let applied = book.borrow().verbs[&(own.number(), number)].applied;
                    assert!(of != node || result.is_err() || applied == 30);
                    of != node
                });
                result.err()
            }
            2 => {
                own.sleep_ns(rng.below(5_000)).await;
                None
            }
            3 if rng.below(4) == 0 => own.evict(rng.below(6) as u32).await.err(),
            _ => {
                let mut batch = Batch::new();
                let lens: Vec<_> = (0..rng.below(5)).map(|_| verb(&mut rng, &mut batch)).collect();
                // No other task of this client posts, so these are the numbers of its verbs.
                let first = own.counts().verbs();
                let result = own.post(batch).await;
                if let Ok(done) = &result {
                    assert_eq!(done.verbs_count(), lens.len());
                    totals.borrow_mut().completed += 1;
                }
                let now_ns = own.0.world.borrow().now_ns();
                for (number, len) in (first..).zip(lens) {
                    let book = book.borrow();
                    let seen = &book.verbs[&(own.number(), number)];
                    assert!(seen.posted_ns <= seen.last_ns && seen.last_ns <= now_ns);
                    assert!(seen.applied + seen.dropped <= len);
                    assert!(result.is_err() || seen.applied == len);
                }
                result.err()
            }
        };
        let Some(error) = failed else { continue };
        match error.kind() {
            ErrorKind::NodeLost { node: 1 } => totals.borrow_mut().lost += 1,
            ErrorKind::Evicted => {
                totals.borrow_mut().evicted += 1;
                return;
            }
            other => panic!("{other:?}"),
        }
    }
}

fn run(seed: u64, totals: &Rc<RefCell<Totals>>) {
    let mut rng = Rng::new(!seed);
    let leased = rng.below(2) == 0;
    let chaos = Chaos {
        death_one_in: [0, 40][rng.below(2) as usize],
        stall_one_in: 20,
        stall_ns_max: 50_000,
        unsignaled_ns_max: 20_000,
        ..Chaos::default()
    };
    let sim = Sim::new(SimOptions {
        seed,
        max_clients: 6,
        node_bytes: vec![4096; 2],
        lease_ns: leased.then_some(10_000),
        chaos: (rng.below(5) != 0).then_some(chaos),
        deadline_ns: 10_000,
        ..SimOptions::default()
    });
    let book = Rc::new(RefCell::new(Book::default()));
    let own = Rc::clone(&book);
    sim.set_hook(Box::new(move |moment| {
        let book = &mut *own.borrow_mut();
        let key = (moment.client, moment.number);
        match moment.stage {
            Stage::Posted => {
                let posted_ns = moment.now_ns;
                let seen = VerbRecord { posted_ns, applied: 0, dropped: 0, last_ns: posted_ns };
                assert!(book.verbs.insert(key, seen).is_none(), "a number comes twice");
            }
            Stage::Effect { applies } => {
                let seen = book.verbs.get_mut(&key).expect("what was posted");
                seen.last_ns = moment.now_ns;
                let bytes = if applies { &mut seen.applied } else { &mut seen.dropped };
                *bytes += moment.len;
                book.after_fence += u64::from(book.fenced.contains(&moment.client));
            }
        }
        Choice::Go
    }));
    let mut clients = Vec::new();
    for round in 0..rng.below(8) + 1 {
        if let Ok(client) = sim.client() {
            let (book, totals) = (Rc::clone(&book), Rc::clone(totals));
            sim.spawn(&client, live(client.clone(), rng.next(), book, totals));
            clients.push(client);
        }
        sim.run_until(round * rng.below(20_000));
        match rng.below(8) {
            0 => sim.lose_node(1),
            1 if !clients.is_empty() => drop(clients.remove(0)),
            2 if !clients.is_empty() => sim.kill(&clients[0]),
            3 if !clients.is_empty() => sim.stall(&clients[0], 30_000),
            _ => {}
        }
        for client in &clients {
            if sim.world.borrow().clients[client.number() as usize].evicted {
                book.borrow_mut().fenced.push(client.number());
                totals.borrow_mut().fenced += 1;
            }
        }
    }
    sim.run();
    assert_eq!(sim.live_tasks(), 0, "everybody ends");
    totals.borrow_mut().died += clients.iter().filter(|client| !sim.lives(client)).count() as u64;
    drop(clients);
    assert_eq!(book.borrow().after_fence, 0);
    assert_eq!(sim.world.borrow().posts_in_use(), 0, "nothing is left under way");
}

#[test]
fn every_verb_is_accounted_for() {
    let totals = Rc::default();
    for seed in 0..3_000 {
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed, &totals)));
        if let Err(panic) = told {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
    let Totals { completed, lost, evicted, died, fenced } = *totals.borrow();
    let all = [completed, lost, evicted, died, fenced];
    assert!(all.iter().all(|&count| count > 100), "too little happens: {all:?}");
}

//! Several threads transfer money between accounts of one durable map, while another one reads.
//! Every transfer takes from one account and gives to another by an update that no other comes between.
//!
//!     cargo run --release -p durahash --example concurrent_writers -- accounts.pool 4

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use durahash::{Change, Map, Options, Result};

const ACCOUNTS: u64 = 10_000;
const TRANSFERS: u64 = 200_000;

/// Adds `by` to the balance of `account`, unless it would become negative.
fn change(balances: &Map<u64, i64>, account: u64, by: i64) -> Result<bool> {
    let mut changed = false;
    balances.update(&account, |balance| {
        let balance = balance.unwrap_or(0) + by;
        changed = balance >= 0;
        if changed { Change::Set(balance) } else { Change::Keep }
    })?;
    Ok(changed)
}

fn transfers(balances: &Map<u64, i64>, thread: u64) -> Result<()> {
    let mut random = thread + 1;
    for _ in 0..TRANSFERS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (from, to) = (random % ACCOUNTS, random / ACCOUNTS % ACCOUNTS);
        if change(balances, from, -1)? {
            change(balances, to, 1)?;
        }
    }
    Ok(())
}

fn sum(balances: &Map<u64, i64>) -> Result<i64> {
    balances.iter().try_fold(0, |sum, pair| Ok(sum + pair?.1))
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let pool = args.next().unwrap_or_else(|| "accounts.pool".into());
    let threads: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(2);
    let balances: Map<u64, i64> = Options::new().open_or_create(pool)?;
    for account in 0..ACCOUNTS {
        // What is there from an earlier run stays.
        let _ = balances.try_insert(&account, &100)?;
    }
    println!("what a transfer survives: {}", balances.durability());

    let (before, start, done) = (sum(&balances)?, Instant::now(), AtomicBool::new(false));
    let (balances, done) = (&balances, &done);
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|t| scope.spawn(move || transfers(balances, t))).collect();
        scope.spawn(move || {
            let mut walks = 0;
            while !done.load(Ordering::Relaxed) {
                walks += u32::from(sum(balances).is_ok());
            }
            println!("{walks} walks over all accounts meanwhile");
        });
        let ended = workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"));
        done.store(true, Ordering::Relaxed);
        ended
    })?;
    let rate = (threads * TRANSFERS) as f64 / start.elapsed().as_secs_f64();
    println!("{rate:.0} transfers a second by {threads} threads");
    assert_eq!(sum(balances)?, before, "money is neither lost nor made");
    println!("the balances add up to {before}, as before");
    Ok(())
}

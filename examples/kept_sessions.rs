//! Sessions that expire, in a cache with a bound, of a process that is killed: those that had not expired are there, and
//! the bound is kept.
//!
//!     cargo run -p durahash-examples --bin kept_sessions

#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, thread};

use durahash::cache::Policy;
use durahash::{Cache, Options, Result};

/// Sessions that are kept; the one that was used least recently goes for another.
const MOST: u64 = 100;
const HOUR: Duration = Duration::from_secs(3600);

/// The program that is killed: makes sessions, of which each is on record once `put_for` returns, and waits for the end.
fn serve(path: &Path) -> Result<()> {
    let options = Options::new().max_entries(MOST).eviction(Policy::Lru);
    let sessions: Cache<u64, str> = options.create(path)?;
    for number in 0..3 * MOST {
        sessions.put_for(&number, "ada", HOUR)?;
    }
    sessions.put_for(&u64::MAX, "guest", Duration::from_millis(1))?;
    println!("ready");
    loop {
        thread::park();
    }
}

fn main() -> Result<()> {
    if let (Some("serve"), Some(path)) = (env::args().nth(1).as_deref(), env::args_os().nth(2)) {
        return serve(Path::new(&path));
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("sessions.pool");
    let this = env::current_exe().expect("the path of this program");
    let mut server = Command::new(this);
    let mut server =
        server.arg("serve").arg(&path).stdout(Stdio::piped()).spawn().expect("a process");
    let mut said = String::new();
    let output = server.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut said).expect("its output");
    assert_eq!(said, "ready\n");
    server.kill().and_then(|()| server.wait()).expect("its end");

    // The pool has kept the bound and the policy.
    let sessions: Cache<u64, str> = Options::new().open(&path)?;
    while sessions.contains_key(&u64::MAX)? {
        thread::yield_now();
    }
    let live = sessions.count()?;
    assert_eq!(live, MOST - 1, "all but the guest's, which has expired");
    for number in 0..MOST {
        // Each use prolongs a session.
        let next = 3 * MOST + number;
        sessions.put_for(&next, "grace", HOUR)?;
        assert!(sessions.touch(&next, 2 * HOUR)?);
        assert!(sessions.len()? <= MOST);
    }
    println!("{live} sessions outlived the process, and {} are there now", sessions.count()?);
    sessions.close()
}

//! The `durahash` command: pools created, filled, read, checked and measured from a shell.

#![forbid(unsafe_code)]

mod args;
mod backup;
mod bench;
mod check;
mod compact;
mod dump;
mod escape;
mod exit;
mod input;
mod lifetime;
mod load;
mod maps;
mod node;
mod opened;
mod output;
mod point;
mod pool;
mod progress;
mod remote;
mod size;
mod stats;
mod store;
mod token;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};
use exit::{Exit, Failure};

fn main() -> ExitCode {
    // A benchmark starts this program again, to kill it.
    if let Some(code) = durahash_bench::child_main() {
        return code;
    }
    // So does a node, to have its memory removed.
    if let Some(code) = node::guard_main() {
        return code;
    }
    match run(Cli::parse().command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if let Some(message) = failure.message {
                output::complain(&format!("durahash: {message}"));
            }
            failure.exit.into()
        }
    }
}

fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Create(args) => pool::create(&args),
        Command::Put { pool, key, value, ttl, until, write } => {
            point::put(&pool, &key, value.as_deref(), ttl.or(until), &write)
        }
        Command::Get { read, keys } => point::get(&read, &keys),
        Command::Del { pool, key, value, write } => {
            point::del(&pool, &key, value.as_deref(), &write)
        }
        Command::Load { pool, file, json, new } => load::load(&pool, &file, json, &new),
        Command::Dump { read, limit } => dump::dump(&read, limit),
        Command::Stats { read, json } => stats::stats(&read, json),
        Command::Check { read, json } => check::check(&read, json),
        Command::Maps(args) => maps::maps(&args),
        Command::Backup { pool, to, live_dir, json } => {
            backup::backup(&pool, &to, live_dir.as_ref(), json)
        }
        Command::Compact { pool, to, live_dir } => {
            compact::compact(&pool, to.as_deref(), live_dir.as_ref())
        }
        Command::Bench(args) => bench::bench(&args),
        Command::Node(args) => node::node(&args),
        Command::Remote(args) => remote::remote(&args),
        Command::Completions { shell } => completions(shell),
    }
}

fn completions(shell: clap_complete::Shell) -> Result<Exit, Failure> {
    // Into memory first: the generator panics where its output is closed.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "durahash", &mut script);
    output::print(&script)?;
    Ok(Exit::Ok)
}

//! Each program runs, and its assertions hold.

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::process::Command;

fn run(program: &str, argument: impl AsRef<OsStr>) {
    let output = Command::new(program).arg(argument).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!output.stdout.is_empty());
}

macro_rules! run {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            run(env!(concat!("CARGO_BIN_EXE_", stringify!($name))), "200");
        }
    )*};
}

run!(batches blobs copies counters dedup errors from_redb kept_sessions latency many_pools reopen service);

/// A limit of the system that is met is no panic, and the message names the limit.
#[test]
fn too_many_pools_are_an_error_that_names_the_limit() {
    let script = format!("ulimit -n 100; exec {} 200", env!("CARGO_BIN_EXE_many_pools"));
    let output = Command::new("sh").arg("-c").arg(script).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && message.contains("RLIMIT_NOFILE"), "{message}");
    assert!(!message.contains("panicked"), "{message}");
}

#[test]
fn shared() {
    let dir = tempfile::tempdir().unwrap();
    for _ in ["a run that creates", "one that attaches"] {
        run(env!("CARGO_BIN_EXE_shared"), dir.path().join("fabric"));
    }
}

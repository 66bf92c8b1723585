//! Each program runs, and its assertions hold.

#![forbid(unsafe_code)]

use std::process::Command;

macro_rules! run {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            let mut program = Command::new(env!(concat!("CARGO_BIN_EXE_", stringify!($name))));
            let output = program.arg("200").output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert!(!output.stdout.is_empty());
        }
    )*};
}

run!(batches blobs copies counters dedup errors from_redb latency service sessions);

//! The program of the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    durahash_baselines::main()
}

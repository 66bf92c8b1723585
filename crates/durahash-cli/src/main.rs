//! The durahash command.
#![forbid(unsafe_code)]
fn main() {}

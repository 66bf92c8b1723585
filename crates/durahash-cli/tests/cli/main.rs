//! The `durahash` command as its users meet it: real processes, real files.

#![forbid(unsafe_code)]

mod commands;
mod faults;
mod multimaps;
mod remote;
mod tables;
mod tool;

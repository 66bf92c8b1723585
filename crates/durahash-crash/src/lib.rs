//! Crash tester: every state that a crash may leave, opened by the real recovery and compared.
#![forbid(unsafe_code)]

pub mod designs;
pub mod mutate;
pub mod oracle;
mod quiet;
pub mod run;
pub mod script;
pub mod shrink;
pub mod states;
pub mod subject;

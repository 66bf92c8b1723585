//! Crash tester: every state that a crash may leave, opened by the real recovery and compared.
//!
//! # How a design is tested
//!
//! A [`script`] of operations runs on a [simulated medium](durahash_media::sim::Sim), which writes
//! down every store, flush and fence with its place in the source. From that trace a
//! [model](states::Model) of persistence says what a crash at any step may leave: of each cache line
//! a prefix of the stores that were not fenced, say. [Each such state](states::Explorer) is opened by
//! the design's own recovery, and the [`oracle`] compares: acknowledged operations are there, those in flight
//! are there whole or not at all, and the design's `check` finds nothing. An operation counts as
//! acknowledged as soon as it has released its last lock, because from then on others may rely on it.
//!
//! Scripts are all sequences of a few operations from several prefilled tables, and random ones. From
//! crash states whose recovery does something new, scripts go on, so that the next crash shows a repair that
//! was not made durable. Crashes happen inside recoveries, too.
//!
//! # How the tester is tested
//!
//! [Mutants](mutate) of the same traces leave out one flush or fence, flush only a first line, swap
//! stores, or release a lock too early and stop the thread there. Each must lead to a state that
//! recovery gets wrong; if not, a test is missing, or the flush is not needed.
//!
//! # How to add a design
//!
//! Describe it as a [`Case`](case::Case): how to make and open it in tiny geometry, its key space, and the
//! prefilled tables. [`cases`] has those that there are. Then
//!
//! ```
//! use durahash_crash::cases::named;
//! use durahash_crash::run::Tester;
//! use durahash_crash::states::Model;
//!
//! let reh = named("reh");
//! let mut tester = Tester::new(&reh, Model::X86);
//! if let Err(failure) = tester.random(1, 50) {
//!     panic!("{failure}"); // with the command that repeats it
//! }
//! assert!(tester.counts().unique > 0);
//! ```
//!
//! # The command
//!
//! ```text
//! cargo run -p durahash-crash -- repeat --design reh --model x86 --prefill full --script 'put 3 1'
//! cargo run --release -p durahash-crash -- soak --design reh --states 100000000 --threads 2 --json
//! cargo run --release -p durahash-crash -- mutants --design reh --model word
//! ```

#![forbid(unsafe_code)]

pub mod block;
pub mod case;
pub mod cases;
pub mod linear;
pub mod live_model;
pub mod logged;
pub mod mutate;
pub mod oracle;
pub mod power;
pub mod quiet;
pub mod run;
pub mod script;
mod segment;
pub mod shrink;
pub mod states;

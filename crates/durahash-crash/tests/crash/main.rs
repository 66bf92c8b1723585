//! The designs under the crash tester, and the tester itself on what is wrong: one program, so that all of it
//! is compiled and linked once. How much is done: `durahash_crash::budget`.

mod blocks;
mod breaks;
mod designs;
mod locks;
mod logged;
mod planted_esh;
mod planted_rewo;
mod preempt;
mod schedules;
mod threads;
mod toy;
mod toy_table;

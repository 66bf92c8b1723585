//! The designs, each an [`Index`](crate::index::Index) over a pool. None uses another.

/// The value of a result; where that is an error, releases the locks that are held and returns it.
macro_rules! or_release {
    ($held:ident, $done:expr) => {
        match $done {
            Ok(done) => done,
            Err(e) => {
                $held.release_unchanged();
                return Err(e);
            }
        }
    };
}

pub mod esh;
pub mod pea;
pub mod reh;
pub mod rewo;

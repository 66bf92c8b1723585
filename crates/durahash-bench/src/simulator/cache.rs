//! A cache that is simulated.

pub(super) trait Cache {
    /// Looks up a key of the trace, by its number, and inserts it if it is not there; true if it was.
    fn access(&mut self, key: u32) -> bool;
}

//! Faults of what readers in other processes rely on, that tests plant.

use crate::util::planted::faults;

faults! {
    /// Changes of one entry are not counted.
    EntryUncounted,
    /// An entry that comes home is not counted before it leaves its other bucket.
    HomeUncounted,
}

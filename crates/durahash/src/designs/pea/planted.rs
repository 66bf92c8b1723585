//! Faults of what readers in other processes rely on, that tests plant.

use crate::util::planted::faults;

faults! {
    /// Changes of one entry are not counted.
    EntryUncounted,
    /// Entries that an insert of another one moves in their bucket are not.
    MoveUncounted,
    /// Other segments and strategies are not.
    SegmentUncounted,
    /// A walk does not ask if its segment was replaced meanwhile.
    SegmentOnce,
}

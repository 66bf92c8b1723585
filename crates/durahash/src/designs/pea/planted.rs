//! Faults of what readers in other processes rely on, that tests plant.

use crate::util::planted::faults;

faults! {
    /// Changes of one entry are not counted.
    EntryUncounted,
    /// Entries that an insert of another one moves in their bucket are not.
    MoveUncounted,
    /// Other segments and strategies are not.
    SegmentUncounted,
    /// Changes of the values of a key of a multimap are not noted.
    ValuesUnnoted,
    /// A lookup in a multimap does not ask if the head of a bucket was changed while it read the slots.
    HeadOnce,
    /// A walk does not ask if its segment was replaced meanwhile.
    SegmentOnce,
}

//! The rules of the protocol, each a switch, and the geometry of one run.

use super::layout::HEAP;
use super::random::Random;

/// Declares the switches, a constructor with all of them on, and a table of their names.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The rules of the protocol. A run obeys every rule that is `true`.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Rules { $($(#[$doc])* pub(crate) $name: bool,)* }

        impl Rules {
            pub(crate) const ALL: Self = Self { $($name: true,)* };

            /// The names of all rules.
            pub(crate) const NAMES: &'static [&'static str] = &[$(stringify!($name),)*];

            /// All rules but the one of this name.
            pub(crate) fn without(name: &str) -> Self {
                let mut rules = Self::ALL;
                match name {
                    $(stringify!($name) => rules.$name = false,)*
                    _ => panic!("no rule is called {name}"),
                }
                rules
            }
        }
    };
}

rules! {
    /// An append offset is good for the word A that it was learnt under. *Without:* for any.
    offset_belongs_to_a,
    /// Cached state is good while all of word A is as it was. *Without:* while the address of the
    /// MainSegment is.
    cache_key_is_whole_a,
    /// Word A is compared with what the cache held when the batch was posted. *Without:* with what
    /// it holds when the batch completes, which another coroutine may have put there.
    snapshot_when_posted,
    /// Word A alone decides whether to split. *Without:* the number of entries that this client
    /// would keep, counted like the paper by those hints that have arrived.
    split_by_a_alone,
    /// A merge compares keys if a hint is unknown. *Without:* it takes the keys for different.
    merge_compares_keys,
    /// A tombstone is a bit of the entry. *Without:* of the hint.
    tombstone_in_entry,
    /// The loser of the commit of a split frees only what it never published. *Without:* all it wrote.
    losers_keep_published,
    /// A zero buddy below the depth is a torn read, and read again. *Without:* it means "not split".
    zero_buddy_read_again,
    /// A zero cell of the directory means the cell without the top bit. *Without:* it is followed.
    zero_cell_without_top_bit,
    /// Every wrap / 4 generations a commit waits until all have moved past the previous such one.
    generation_waits_for_epoch,
    /// A client is cut off before its row is marked dead and its memory taken. *Without:* after its
    /// death or silence its verbs may still arrive.
    eviction_fences_before_reuse,
    /// A block that was unlinked in epoch e is reused from e + 3 on. *Without:* from e + 2 on.
    reuse_from_e_plus_3,
    /// A row shows the minimum over the operations of its client. *Without:* the epoch last read.
    row_is_minimum,
    /// An operation holds the epoch that its client has read last. *Without:* the one that the row
    /// shows.
    epoch_held_is_last_read,
    /// An epoch is announced after the unsignaled writes of before were flushed. *Without:* at once.
    epoch_after_flush,
    /// A client that has registered reads the epoch once more and announces that before its first
    /// operation. *Without:* it begins in the epoch that it read before it registered.
    registration_reads_epoch_again,
    /// Cached state that was not compared for some epochs is dropped. *Without:* kept for ever.
    cache_dropped_when_old,
    /// Entries behind the first free one are neither used nor cached. *Without:* both.
    nothing_behind_first_free,
    /// A read is complete only with a free or the last entry. *Without:* with its window.
    read_ends_at_free_or_last,
    /// A range of the MainSegment is extended until both its ends show that it is whole. *Without:*
    /// it is what was predicted.
    range_checked_at_both_ends,
    /// A hint of another generation is unknown. *Without:* it is believed.
    hint_carries_generation,
    /// An entry of any other generation means that word A was stale. *Without:* it counts as free.
    other_generation_read_again,
    /// The KV block is complete before the swap is posted. *Without:* they are posted together.
    block_before_swap,
    /// The MainSegment is complete before the commit is posted. *Without:* they are posted together.
    main_before_commit,
    /// A conditional operation whose swap fails decides again. *Without:* it appends what it had
    /// decided.
    conditional_starts_over,
    /// Depth bits are computed from the keys again when a split has used the last. *Without:* never.
    depth_bits_read_again,
    /// An operation that waits holds no epoch. *Without:* it holds the one that it began in.
    waiting_holds_nothing,
    /// Any client that finds a segment full for long enough merges it. *Without:* only the one that filled it.
    anyone_merges,
    /// A client that learns of a claim drops what it owns in the window. *Without:* it keeps that.
    learner_forgets,
    /// What an operation unlinks in the window of a claim is dropped. *Without:* kept.
    retired_is_filtered,
    /// What was allocated before the claim was known, and is not used, is dropped. *Without:* kept.
    freed_is_filtered,
    /// A chunk that was asked for before the claim was known is cut. *Without:* kept whole.
    chunk_is_filtered,
    /// A bag that was on the shelf is cut. *Without:* its extent is kept whole.
    bag_is_filtered,
    /// A tick reads the epoch before the claim. *Without:* both at once, in any order.
    claim_read_after_epoch,
    /// A client begins operations in an epoch once it knows the claim that it read afterwards. *Without:* at once.
    claim_known_with_epoch,
    /// The window is read after the claim. *Without:* together with it.
    window_read_after_claim,
    /// The claim is read again after the window, until it is the same. *Without:* not.
    claim_read_again,
    /// A client that has registered learns of the claim before it allocates. *Without:* when it ticks.
    joins_with_claim,
    /// An operation that waits owns no block. *Without:* it keeps its KV block.
    waiting_owns_no_block,
    /// Bags are moved under an epoch that is held. *Without:* none is.
    moves_hold_epoch,
    /// The block of a bag that was taken is reused three epochs later. *Without:* at once.
    popped_bag_waits,
    /// A bag says from which epoch on its extent is free. *Without:* it is free at once.
    bag_has_epoch,
    /// A client that leaves frees its row after its last bag. *Without:* before the first.
    row_freed_last,
    /// The walk begins three epochs after the claim. *Without:* at once.
    claim_waits,
    /// A sweep takes what its window has of bags off the shelf before its walk. *Without:* none.
    sweep_empties_shelf,
    /// The walk marks the upper half of a split that was not committed. *Without:* not.
    walk_marks_pending,
    /// A sweep ends three epochs after its walk. *Without:* at once.
    walk_waits,
    /// A client that rests gives its memory away. *Without:* it keeps that.
    rest_gives_memory,
    /// A client that wakes registers before operations begin. *Without:* they begin at once.
    wakes_registered,
    /// A claim is taken over when its client is dead. *Without:* at any time.
    takes_over_from_dead,
}

/// A key: nothing but the bits of its hash that the protocol looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// The suffix: picks the segment.
    pub(crate) hash: u64,
    pub(crate) fp: u64,
    pub(crate) fp2: u64,
}

/// Splits stop here; the directory has `1 << MAX_DEPTH` cells.
pub(crate) const MAX_DEPTH: u64 = 3;
/// Bits of depth information in an entry.
pub(crate) const DEPTH_BITS: u64 = 2;

/// Rules, geometry and pace of one run.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) rules: Rules,
    /// Entries of a CurSegment.
    pub(crate) entries: usize,
    /// A segment splits when its MainSegment has more entries than this: limit - `entries`.
    pub(crate) spare: u64,
    /// Generations of an entry, and of word A (a multiple).
    pub(crate) wrap: u64,
    pub(crate) wrap_a: u64,
    pub(crate) keys: Vec<Key>,
    /// Memory is claimed, swept and passed on, as in `reclaim.rs`.
    pub(crate) sweeps: bool,
    /// Clients without operations rest.
    pub(crate) rests: bool,
    /// The end of memory, beyond which operations go when they have waited.
    pub(crate) memory: usize,
    /// `true` if memory is reused.
    pub(crate) reuse: bool,
    /// One verb in so many is held up, and for how long at most.
    pub(crate) late_one_in: u64,
    pub(crate) late_max: u64,
    /// In one run in some, unsignaled writes take this long at most.
    pub(crate) unsignaled_max: u64,
    /// One step of a client in so many is held up.
    pub(crate) stall_one_in: u64,
    /// One batch in so many is torn widely.
    pub(crate) torn_one_in: u64,
    /// The longest pause between two operations of a client.
    pub(crate) pause_max: u64,
    /// All clients but the first begin within this time, and may take as long to register.
    pub(crate) joining_max: u64,
    /// Mean time between looks at the epoch.
    pub(crate) beat: u64,
    pub(crate) clients: usize,
    pub(crate) coroutines: usize,
    pub(crate) operations: usize,
}

/// The runs in which a violation is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Focus {
    Any,
    /// Those with so many generations.
    Wrap(u64),
    /// Those that reuse memory soon, and where commits seldom wait for epochs.
    Reuse,
    /// Those with sweeps.
    Sweep,
    /// The same, where clients rest.
    Rest,
    /// Those that reuse memory, where clients take long to join and look at the epoch seldom.
    Joining,
}

impl Setup {
    pub(crate) fn random(rules: Rules, focus: Focus, random: &mut Random) -> Self {
        let mut setup = Self::any(rules, focus, random);
        if matches!(focus, Focus::Reuse | Focus::Joining) {
            setup.reuse = true;
            setup.late_one_in = random.pick(&[4, 8, 16]);
            setup.late_max = random.pick(&[100, 300]);
            setup.beat = random.pick(&[8, 15]);
            setup.stall_one_in = 100;
        }
        if focus == Focus::Joining {
            setup.beat = 60;
            setup.joining_max = 2500;
        }
        if matches!(focus, Focus::Sweep | Focus::Rest) {
            (setup.sweeps, setup.rests) = (true, focus == Focus::Rest);
            setup.reuse = false;
            setup.memory = HEAP + random.pick(&[100, 150, 250]);
            setup.beat = random.pick(&[4, 8, 12]);
            setup.joining_max = random.pick(&[20, 600, 1500]);
            setup.stall_one_in = random.pick(&[8, 20, 100]);
            setup.clients = random.pick(&[2, 3, 4, 5]);
            setup.operations = 100 / (setup.clients * setup.coroutines);
        }
        setup
    }

    fn any(rules: Rules, focus: Focus, random: &mut Random) -> Self {
        // Half the runs hurry through generations: a small CurSegment and no splits.
        let hurry = random.one_in(2) || matches!(focus, Focus::Reuse | Focus::Joining);
        let wrap = random.pick(&[4, 4, 8, 16]);
        let wrap = match focus {
            Focus::Any | Focus::Sweep | Focus::Rest => wrap,
            Focus::Wrap(wrap) => wrap,
            Focus::Reuse | Focus::Joining => 16,
        };
        let clients = random.pick(&[2, 2, 3, 3, 4]);
        let coroutines = random.pick(&[1, 1, 2]);
        let keys = random.pick(&[1, 2, 2, 3, 3]);
        let most = if keys == 1 { 50 } else { 70 };
        Self {
            rules,
            entries: if hurry { 2 } else { random.pick(&[2, 2, 3, 4]) },
            spare: if hurry { 3 } else { random.below(3) },
            wrap,
            wrap_a: wrap * random.pick(&[1, 1, 2, 16]),
            keys: (0..keys)
                .map(|_| Key {
                    hash: random.below(1 << MAX_DEPTH),
                    fp: random.below(2),
                    fp2: random.below(2),
                })
                .collect(),
            sweeps: false,
            rests: false,
            memory: 0,
            reuse: !random.one_in(4),
            late_one_in: random.pick(&[8, 30, 100, 400]),
            late_max: random.pick(&[60, 300, 1500]),
            unsignaled_max: random.pick(&[1, 1, 3000]),
            pause_max: random.pick(&[400, 400, 4000]),
            joining_max: random.pick(&[20, 20, 600, 2500]),
            torn_one_in: random.pick(&[3, 8, 30]),
            stall_one_in: random.pick(&[20, 100, 400]),
            beat: random.pick(&[15, 30, 60]),
            clients,
            coroutines,
            operations: most / (clients * coroutines),
        }
    }

    /// Every so many generations a commit waits for epochs: 32 where generations have seven bits.
    pub(crate) fn mark(&self) -> u64 {
        (self.wrap / 4).max(1)
    }

    /// Cached state is dropped when it was not compared for so many epochs: a quarter of the least
    /// number of marks, which is that of epochs, in which word A can wrap around.
    pub(crate) fn kept_epochs(&self) -> u64 {
        (self.wrap_a / self.mark() / 4).max(1)
    }
}

//! The media that can be emulated. `docs/media.md` has the sources of all numbers, and shows what the model makes of them.

/// A medium to be emulated, and the processor in front of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Its name: the label of every figure.
    pub name: &'static str,
    /// What it is, in a few words.
    pub description: &'static str,
    pub(super) cost: Cost,
}

/// What makes an access take longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cost {
    /// Nothing.
    Nothing,
    /// A fixed time for each block of an operation, whatever was read or written before.
    Flat {
        /// Nanoseconds added when an operation loads from a block for the first time.
        read_ns: u64,
        /// Nanoseconds added when a block is flushed, or stored to past the cache, for the first time since the last fence.
        write_ns: u64,
    },
    /// What a machine would have to do for it.
    Machine(Machine),
}

/// A processor and a medium. Times are whole ones, from the instruction to its result, not added to what this machine takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Machine {
    /// Threads that share the caches, the buffer and nothing else: each has its part.
    pub(super) sharers: u32,
    /// Bytes and ways of the cache that a core has of its own.
    pub(super) core: (u64, usize),
    /// Bytes and ways of the cache that all share, which holds what the others evict.
    pub(super) shared: (u64, usize),
    /// True if a write-back of a line also evicts it.
    pub(super) flush_evicts: bool,
    /// Lines that a core can wait for at the same time.
    pub(super) outstanding: usize,
    /// Blocks of 256 bytes that the medium has in its buffer.
    pub(super) buffer_blocks: u64,
    /// True if the medium behind the buffer reads and writes whole blocks, else lines.
    pub(super) whole_blocks: bool,
    /// Nanoseconds until a line is there: from the medium, and from its buffer.
    pub(super) far_ns: u64,
    pub(super) near_ns: u64,
    /// Nanoseconds from a flush to the end of the fence behind it, and from one flush of a thread to the next.
    pub(super) flush_ns: (u64, u64),
    /// The same of a line that was stored to past the cache.
    pub(super) past_ns: (u64, u64),
    /// Nanoseconds for which a line that is durable cannot be read again.
    pub(super) settle_ns: u64,
    /// Megabytes a second that the medium reads and writes, for all threads.
    pub(super) read_mb_s: u64,
    pub(super) write_mb_s: u64,
}

/// The second generation of Intel's server processors, of which each core has 1 MiB, and 1.375 MiB of what is shared.
const OPTANE_100: Machine = Machine {
    sharers: 18,
    core: (1 << 20, 16),
    shared: (18 * (1408 << 10), 11),
    flush_evicts: true,
    outstanding: 14,
    buffer_blocks: 6 * 64,
    whole_blocks: true,
    far_ns: 305,
    near_ns: 124,
    flush_ns: (62, 36),
    past_ns: (90, 15),
    settle_ns: 713,
    read_mb_s: 37_600,
    write_mb_s: 12_600,
};

impl Profile {
    /// Every medium.
    pub const ALL: [Profile; 6] = [
        Self::OPTANE_100,
        Self::OPTANE_200,
        Self::CXL,
        Self::DRAM,
        Self::OPTANE_FLAT,
        Self::CXL_FLAT,
    ];

    /// Nothing is emulated.
    pub(super) const NONE: Profile =
        Profile { name: "none", description: "nothing", cost: Cost::Nothing };

    /// Six modules of Optane of the series 100.
    pub const OPTANE_100: Profile = Profile {
        name: "optane-100",
        description: "Optane, series 100, behind the caches of its processor",
        cost: Cost::Machine(OPTANE_100),
    };

    /// Eight modules of the series 200. The times are those of the series 100: only bandwidths and caches differ, and a
    /// flushed line stays.
    pub const OPTANE_200: Profile = Profile {
        name: "optane-200",
        description: "Optane, series 200, the same",
        cost: Cost::Machine(Machine {
            sharers: 40,
            core: (5 << 18, 20),
            shared: (40 * (3 << 19), 12),
            flush_evicts: false,
            buffer_blocks: 8 * 64,
            read_mb_s: 8 * 7_450,
            write_mb_s: 8 * 2_250,
            ..OPTANE_100
        }),
    };

    /// DRAM in a device behind CXL.
    pub const CXL: Profile = Profile {
        name: "cxl",
        description: "DRAM in a device behind CXL, the same",
        cost: Cost::Machine(Machine {
            sharers: 32,
            core: (2 << 20, 16),
            shared: (32 * (15 << 17), 15),
            flush_evicts: false,
            outstanding: 16,
            whole_blocks: false,
            far_ns: 259,
            near_ns: 259,
            flush_ns: (130, 36),
            past_ns: (130, 15),
            settle_ns: 0,
            read_mb_s: 31_800,
            write_mb_s: 31_800,
            ..OPTANE_100
        }),
    };

    /// Six channels of DDR4 on the machine of the series 100. A row that is open counts as a block in a buffer.
    pub const DRAM: Profile = Profile {
        name: "dram",
        description: "DRAM of the same machine as optane-100",
        cost: Cost::Machine(Machine {
            outstanding: 12,
            whole_blocks: false,
            far_ns: 101,
            near_ns: 75,
            flush_ns: (57, 36),
            past_ns: (87, 15),
            settle_ns: 0,
            read_mb_s: 105_000,
            write_mb_s: 76_800,
            ..OPTANE_100
        }),
    };

    /// The numbers of Rewo-Hash, Table 3, for Optane: each block of an operation costs them, as if no processor had a cache.
    /// A write costs its part of the bandwidth, 256 bytes at 6 GB/s.
    pub const OPTANE_FLAT: Profile = Profile {
        name: "optane-flat",
        description: "300 ns added for each block of an operation, 43 for each flushed",
        cost: Cost::Flat { read_ns: 300, write_ns: 43 },
    };

    /// The same table, for NVM behind CXL, 256 bytes at 4 GB/s.
    pub const CXL_FLAT: Profile = Profile {
        name: "cxl-flat",
        description: "900 ns added for each block of an operation, 64 for each flushed",
        cost: Cost::Flat { read_ns: 900, write_ns: 64 },
    };

    /// The same, with caches and a buffer that so many threads share: with one, it has them whole. Says nothing of media
    /// that have none.
    #[must_use]
    pub fn shared_by(mut self, threads: u32) -> Self {
        if let Cost::Machine(machine) = &mut self.cost {
            machine.sharers = threads.max(1);
        }
        self
    }

    /// The name, and who shares the caches where it is not as many threads as the machine has cores.
    #[must_use]
    pub fn label(&self) -> String {
        match self.cost {
            Cost::Machine(machine) if !Self::ALL.contains(self) => {
                format!("{} shared by {}", self.name, machine.sharers)
            }
            _ => self.name.to_owned(),
        }
    }
}

//! Options of a simulated fabric.

/// Options of a simulated fabric. `SimOptions::default()` is one node of 64 MiB with the times of [`Nic`], without
/// disorder.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SimOptions {
    /// The same seed, options and clients give the same run.
    pub seed: u64,
    /// Bytes of the region of each node.
    pub node_bytes: Vec<u64>,
    /// Clients at once, at most.
    pub max_clients: u32,
    /// Latency and rates.
    pub nic: Nic,
    /// The number of NICs that clients share, in turn; 0 gives each client its own.
    pub client_nics: u32,
    /// Nanoseconds after which a verb to a node that does not answer fails.
    pub deadline_ns: u64,
    /// The [`lease_ns`](crate::fabric::Fabric::lease_ns) of the fabric.
    pub lease_ns: Option<u64>,
    /// Disorder, for tests; `None` for measurements.
    pub chaos: Option<Chaos>,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            seed: 0,
            node_bytes: vec![64 << 20],
            max_clients: 1024,
            nic: Nic::default(),
            client_nics: 0,
            deadline_ns: 1_000_000,
            lease_ns: None,
            chaos: None,
        }
    }
}

/// Latency and rates of a NIC, for nodes and clients alike. Verbs that exceed a rate queue.
///
/// The defaults stand for one 100 Gb/s InfiniBand port of the generation of ConnectX-5 and 6, through
/// one switch, as in the testbed of SepHash's paper (§5.1: one 100 Gb/s ConnectX-5 each, one switch). None
/// was measured here. Each field names its source. An **assumption** has no
/// public source that we know: set it for the cards in question, and say so beside a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nic {
    /// From post to completion in nanoseconds, without the time that its packets take.
    ///
    /// 1,800 is an assumption, for reads, writes and atomics alike. Its bounds: the vendor's product brief
    /// of ConnectX-5 EN has a latency below 600 ns for a card, and UCX takes 600 ns for a port of EDR
    /// (`uct_ib_iface_query` in `src/uct/ib/base/ib_iface.c`); in SepHash's paper (§5.2.1) an insert by a
    /// single client, which is two round trips and its computing, has a median of 4.3 µs.
    pub round_trip_ns: u64,
    /// Gigabits a second in each direction.
    ///
    /// 100: the vendor's user manuals of ConnectX-5 (4 lanes of EDR, 25.78125 Gb/s each in a code of 64 bits by
    /// 66).
    pub gigabits: u64,
    /// Bytes of headers of each packet.
    ///
    /// 42: the InfiniBand standard's local route header of 8 bytes, base transport 12, address and key 16,
    /// checksums 6. An answer's headers are smaller; the same is taken.
    pub header_bytes: u64,
    /// Bytes of payload that a packet has at most.
    ///
    /// 4,096: the largest that the InfiniBand standard allows, which ConnectX cards support.
    pub packet_bytes: u64,
    /// Packets a second in each direction.
    ///
    /// 75 million is an assumption: no public source that we found tells it for one-sided verbs in one
    /// direction.
    pub packets_per_s: u64,
    /// Atomics a second that a node takes, on any words.
    ///
    /// 10 million is an assumption. That there is one unit for all words is one, too, on the slow side: the
    /// vendor's manual of RDMA atomics says only that operations on one address exclude each other.
    pub atomics_per_s: u64,
}

impl Default for Nic {
    fn default() -> Self {
        Nic {
            round_trip_ns: 1_800,
            gigabits: 100,
            header_bytes: 42,
            packet_bytes: 4096,
            packets_per_s: 75_000_000,
            atomics_per_s: 10_000_000,
        }
    }
}

/// Disorder, chosen by the seed. Verbs take effect at any time between post and completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chaos {
    /// Nanoseconds by which a batch completes later, at most.
    pub delay_ns_max: u64,
    /// Parts in which a read or write takes effect, at most, cut between words.
    pub tear_parts_max: u32,
    /// Nanoseconds by which a write that is not awaited takes effect later, at most, unless a flush comes first.
    pub unsignaled_ns_max: u64,
    /// One post in so many stalls its client; 0 for none.
    pub stall_one_in: u64,
    /// Nanoseconds of a stall at most, during which the client sees no completion.
    pub stall_ns_max: u64,
    /// One verb in so many kills its client; 0 for none.
    pub death_one_in: u64,
    /// The [`orders_swaps`](crate::fabric::Fabric::orders_swaps) of the fabric.
    pub orders_swaps: bool,
}

impl Default for Chaos {
    fn default() -> Self {
        Chaos {
            delay_ns_max: 20_000,
            tear_parts_max: 4,
            unsignaled_ns_max: 200_000,
            stall_one_in: 200,
            stall_ns_max: 500_000,
            death_one_in: 0,
            orders_swaps: false,
        }
    }
}

//! What simulations assume: NICs (durahash-remote's [`Nic`] has the sources of its values), and what a client's processor
//! takes for an operation.

use durahash_remote::fabric::{Counts, Nic};

/// The assumptions, each an option of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Assumed {
    /// From the post of a verb to its completion, in ns, without the time that its packets take
    #[arg(long, value_name = "NS", default_value_t = Nic::default().round_trip_ns)]
    pub(crate) round_trip_ns: u64,
    /// Gigabits a second of a NIC in each direction
    #[arg(long, value_name = "N", default_value_t = Nic::default().gigabits, value_parser = rate())]
    pub(crate) gigabits: u64,
    /// Packets a second of a NIC in each direction
    #[arg(long, value_name = "N", default_value_t = Nic::default().packets_per_s, value_parser = rate())]
    pub(crate) packets_per_s: u64,
    /// Atomics a second of a node
    #[arg(long, value_name = "N", default_value_t = Nic::default().atomics_per_s, value_parser = rate())]
    pub(crate) atomics_per_s: u64,
    /// Percent of the processor's time that a client's operations were measured to take; 0 lets it compute in no time
    #[arg(long, value_name = "PERCENT", default_value_t = 100)]
    pub(crate) computing: u64,
}

fn rate() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..)
}

impl Default for Assumed {
    fn default() -> Self {
        let Nic { round_trip_ns, gigabits, packets_per_s, atomics_per_s, .. } = Nic::default();
        Assumed { round_trip_ns, gigabits, packets_per_s, atomics_per_s, computing: 100 }
    }
}

impl Assumed {
    pub(crate) fn nic(self) -> Nic {
        let mut nic = Nic::default();
        (nic.round_trip_ns, nic.gigabits) = (self.round_trip_ns, self.gigabits);
        (nic.packets_per_s, nic.atomics_per_s) = (self.packets_per_s, self.atomics_per_s);
        nic
    }

    /// These, and half and twice of each; of computing also none, and four times as much.
    pub(crate) fn varied(self) -> Vec<(String, Assumed)> {
        type Field = fn(&mut Assumed) -> &mut u64;
        let fields: [(&str, Field); 5] = [
            ("round trip", |all| &mut all.round_trip_ns),
            ("bandwidth", |all| &mut all.gigabits),
            ("packets", |all| &mut all.packets_per_s),
            ("atomics", |all| &mut all.atomics_per_s),
            ("computing", |all| &mut all.computing),
        ];
        let mut varied = vec![("as assumed".to_owned(), self)];
        for (name, field) in fields {
            for (what, times, of) in
                [("none", 0, 1), ("half", 1, 2), ("twice", 2, 1), ("4 times", 4, 1)]
            {
                if name == "computing" || ["half", "twice"].contains(&what) {
                    let mut other = self;
                    *field(&mut other) = *field(&mut other) * times / of;
                    varied.push((format!("{name}, {what}"), other));
                }
            }
        }
        varied
    }
}

/// The time of a client's processor, by what its operations post: an operation whose swap is lost computes again, and one
/// that merges or splits computes in proportion to what it moves.
///
/// Both values of each index are fitted to the processor's time of a thread (`CLOCK_THREAD_CPUTIME_ID`) that does one operation
/// after the other over shared memory, an EPYC of 26 November 2026: `paper sephash --figure "shared memory"` measures it
/// again. What that has and RDMA has not is the copying; what RDMA has and that has not is posting verbs and polling for
/// completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Computing {
    /// Of a verb.
    pub(crate) verb_ns: u64,
    /// Of a byte that is read or written, in ps.
    pub(crate) byte_ps: u64,
}

impl Computing {
    /// Of a real client, whose processor takes what it takes.
    pub(crate) const NONE: Computing = Computing { verb_ns: 0, byte_ps: 0 };
    /// Charges an insert 1.91 µs, an update 2.53, a delete 2.25 and a search 1.43, their part of merges and splits included;
    /// measured were 1.90, 2.62, 2.36 and 1.28. An insert that merges nothing: 0.92, measured as the median 0.96.
    pub(crate) const SEPHASH: Computing = Computing { verb_ns: 150, byte_ps: 900 };
    /// Charges an insert 2.24 µs with its part of splits, an update 1.16, a delete 0.97 and a search 0.84; measured were 2.40,
    /// 1.11, 0.86 and 1.04.
    pub(crate) const RACE: Computing = Computing { verb_ns: 100, byte_ps: 1500 };

    pub(crate) fn percent(self, percent: u64) -> Computing {
        let of = |time| time * percent / 100;
        Computing { verb_ns: of(self.verb_ns), byte_ps: of(self.byte_ps) }
    }

    /// Of verbs that are posted.
    pub(crate) fn ns(self, counts: Counts) -> u64 {
        let bytes = counts.bytes_in + counts.bytes_out;
        counts.verbs() * self.verb_ns + bytes * self.byte_ps / 1000
    }
}

//! Times of verbs: the queues of the NICs, in picoseconds.

use super::options::Nic;
use crate::fabric::batch::{Kind, Verb};

pub(super) const PS_PER_NS: u64 = 1_000;
const PS_PER_S: u64 = 1_000_000_000_000;

/// When each direction of a NIC is free again, and its unit for atomics.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    send: u64,
    receive: u64,
    atomics: u64,
}

/// When a verb takes effect, and when its answer has arrived.
pub(super) struct Times {
    pub(super) effect: u64,
    pub(super) complete: u64,
}

impl Nic {
    pub(super) fn round_trip_ps(&self) -> u64 {
        self.round_trip_ns * PS_PER_NS
    }

    /// Picoseconds for which a message with `bytes` of payload keeps one direction of a NIC busy.
    fn busy_ps(&self, bytes: u64) -> u64 {
        let packets = bytes.div_ceil(self.packet_bytes).max(1);
        let bits = (bytes + packets * self.header_bytes) * 8;
        (bits * 1_000).div_ceil(self.gigabits).max(packets * PS_PER_S / self.packets_per_s)
    }

    /// Passes a verb, posted at `now`, through the queues of its client and its node. A message is
    /// received while it is sent, unless the receiver is busy.
    pub(super) fn pass(
        &self,
        now: u64,
        client: &mut Queue,
        node: &mut Queue,
        verb: &Verb,
    ) -> Times {
        let one_way = self.round_trip_ps() / 2;
        let busy = self.busy_ps(verb.bytes_out());
        let sent = now.max(client.send);
        client.send = sent + busy;
        node.receive = node.receive.max(sent + one_way) + busy;
        let mut effect = node.receive;
        if matches!(verb.kind, Kind::CompareSwap { .. } | Kind::FetchAdd { .. }) {
            node.atomics = node.atomics.max(effect) + PS_PER_S / self.atomics_per_s;
            effect = node.atomics;
        }
        let busy = self.busy_ps(verb.bytes_in());
        let sent = effect.max(node.send);
        node.send = sent + busy;
        client.receive = client.receive.max(sent + one_way) + busy;
        Times { effect, complete: client.receive }
    }
}

//! Who shows wrong tokens is not listened to for a while.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Wrong tokens that an address may show at once.
const AT_ONCE: u32 = 16;
/// Addresses that are remembered, at most.
const ADDRESSES: usize = 1024;

/// Wrong tokens, by address. Each is paid for by a time in which the address shows no other. Nobody is listened to who has
/// too many to pay for, as the node does not know who shares the address: no longer than [`AT_ONCE`] such times after the
/// last wrong one. One that waits for each answer never has too many.
pub(super) struct Guesses {
    price: Duration,
    /// When all that each address has shown are paid for.
    paid: Mutex<HashMap<IpAddr, Instant>>,
}

impl Guesses {
    pub(super) fn new(price: Duration) -> Self {
        Guesses { price, paid: Mutex::default() }
    }

    fn paid(&self) -> MutexGuard<'_, HashMap<IpAddr, Instant>> {
        // Nothing panics while it is held.
        self.paid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a wrong token.
    pub(super) fn note(&self, from: IpAddr, now: Instant) {
        let mut paid = self.paid();
        if paid.len() >= ADDRESSES {
            paid.retain(|_, at| *at > now);
            if let Some(one) = paid.keys().next().copied().filter(|_| paid.len() >= ADDRESSES) {
                paid.remove(&one);
            }
        }
        let at = paid.entry(network(from)).or_insert(now);
        // Those that came together are paid for by twice the usual time at most.
        *at = ((*at).max(now) + self.price).min(now + 2 * AT_ONCE * self.price);
    }

    /// Returns whether an address has shown too many.
    pub(super) fn are_too_many(&self, from: IpAddr, now: Instant) -> bool {
        let paid = self.paid();
        paid.get(&network(from)).is_some_and(|at| *at > now + AT_ONCE * self.price)
    }
}

/// An address, or the network of an IPv6 host, which may have any address there.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_some_wrong_tokens_at_once_and_then_one_from_time_to_time() {
        let (price, now) = (Duration::from_secs(1), Instant::now());
        let guesses = Guesses::new(price);
        let [bad, beside, other] = ["2001:db8::1", "2001:db8::2", "::ffff:10.0.0.1"]
            .map(|address| address.parse::<IpAddr>().unwrap());
        for _ in 0..AT_ONCE {
            guesses.note(bad, now);
            assert!(!guesses.are_too_many(bad, now));
        }
        guesses.note(bad, now);
        assert!(guesses.are_too_many(bad, now) && guesses.are_too_many(beside, now));
        assert!(!guesses.are_too_many(other, now));
        assert!(!guesses.are_too_many(bad, now + price));
        // More of them that were under way.
        (0..1000).for_each(|_| guesses.note(bad, now));
        let paid = now + AT_ONCE * price;
        assert!(guesses.are_too_many(bad, paid - price) && !guesses.are_too_many(bad, paid));
        // Of many addresses some are forgotten.
        for i in 0..3000_u32 {
            guesses.note(IpAddr::V4(i.into()), now);
        }
        assert!(guesses.paid().len() <= ADDRESSES);
    }
}

//! Removes values that have expired.

use durahash_media::Result;

use super::edit::Rule;
use super::expiry::{is_over, split};
use super::{Engine, Single};

impl Engine<Single> {
    /// The expiries of the values whose keys have the hash `h`, which are not verified.
    pub(crate) fn expiries(&self, h: u64, out: &mut Vec<u64>) -> Result<()> {
        self.index.read(h, &mut |payload, still| {
            out.clear();
            payload.map_or(Ok(()), |payload| {
                self.records.walk((h, payload), still, &mut |record| {
                    out.push(self.records.first_word(&record)?);
                    Ok(true)
                })
            })
        })
    }

    /// How many values have not expired when the walk comes to them.
    pub(crate) fn count_live(&self, now: &dyn Fn() -> u64) -> Result<u64> {
        let (mut live, mut expiries) = (0, Vec::new());
        self.each_unit(&mut |slots| {
            for (h, _) in slots {
                self.expiries(*h, &mut expiries)?;
                let now = now();
                live += expiries.iter().filter(|expiry| !is_over(**expiry, now)).count() as u64;
            }
            Ok(())
        })?;
        Ok(live)
    }

    /// Removes the entries whose keys have the hash `h` and whose values have expired: each as it was when that was
    /// found, and not if it has changed since. Calls `gone` with the key and the value of each.
    pub(crate) fn remove_expired(
        &self,
        h: u64,
        now: u64,
        gone: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let mut pairs = Vec::new();
        self.pairs(h, &mut pairs)?;
        pairs.retain(|(_, value)| split(value).is_some_and(|(expiry, _)| is_over(expiry, now)));
        for (key, value) in pairs {
            if self.change(&key, None, Rule::IfEqual(&value), None)?.0.is_done() {
                gone(&key, &value);
            }
        }
        Ok(())
    }
}

//! Connections to all nodes of an index, before their memory is attached.

use std::collections::HashSet;

use durahash_media::{ErrorKind, Result};

use super::limits::Limits;
use super::link::Link;
use super::message::Offer;
use super::token::Token;

/// A node's number is a byte.
const NODES_MAX: usize = 255;

/// Nodes that have admitted this client, with their offers, numbered in their order.
pub struct Offers {
    links: Vec<Link>,
    offers: Vec<Offer>,
}

impl Offers {
    /// Connects to the nodes at these addresses. All clients of an index name its nodes in the same order.
    ///
    /// # Errors
    /// As [`Link::connect`]; [`Options`](ErrorKind::Options) when there are no nodes, too many, the same
    /// memory twice, or different fabrics.
    pub fn gather<A: AsRef<str>>(
        addresses: &[A],
        token: Option<&Token>,
        limits: &Limits,
    ) -> Result<Self> {
        let refused = |what| Err(ErrorKind::Options { what }.into());
        let how_many = "an index needs 1 to 255 nodes, each named once";
        if !(1..=NODES_MAX).contains(&addresses.len()) {
            return refused(how_many);
        }
        let (mut links, mut offers) = (Vec::new(), Vec::<Offer>::new());
        for address in addresses {
            let (link, offer) = Link::connect(address.as_ref(), token, limits)?;
            links.push(link);
            offers.push(offer);
        }
        let ids: HashSet<u64> = offers.iter().map(|offer| offer.id).collect();
        if ids.len() != offers.len() {
            return refused(how_many);
        }
        if offers.iter().any(|offer| offer.fabric != offers[0].fabric) {
            return refused("the nodes use different fabrics");
        }
        Ok(Offers { links, offers })
    }

    /// The name of their fabric.
    #[must_use]
    pub fn fabric(&self) -> &str {
        &self.offers[0].fabric
    }

    /// The connections and the offers, in the nodes' order.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Link>, Vec<Offer>) {
        (self.links, self.offers)
    }
}

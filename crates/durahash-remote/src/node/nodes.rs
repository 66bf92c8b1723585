//! Connections to all nodes of an index, and their memory.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use durahash_media::{ErrorKind, Result};

use super::limits::Limits;
use super::link::Link;
use super::memory::{LOCAL, unknown};
use super::message::Offer;
use super::token::Token;
use crate::fabric::Local;

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
        let offers = Offers { links, offers };
        if offers.ids().collect::<HashSet<_>>().len() != addresses.len() {
            return refused(how_many);
        }
        if offers.offers.iter().any(|offer| offer.fabric != offers.fabric()) {
            return refused("the nodes use different fabrics");
        }
        Ok(offers)
    }

    /// The name of their fabric.
    #[must_use]
    pub fn fabric(&self) -> &str {
        &self.offers[0].fabric
    }

    /// The ids of their memory.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u64> {
        self.offers.iter().map(|offer| offer.id)
    }

    /// The connections and the offers, in the nodes' order.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Link>, Vec<Offer>) {
        (self.links, self.offers)
    }
}

/// Nodes whose memory this process has attached, as one fabric.
///
/// When a connection ends, that node is lost: later verbs to it by clients of [`local`](Nodes::local)
/// fail with [`NodeLost`](ErrorKind::NodeLost). Dropping this ends all connections.
pub struct Nodes {
    local: Local,
    links: Vec<Link>,
}

impl Nodes {
    /// Connects to the nodes at these addresses, which are numbered in this order, and attaches their
    /// memory. All clients of an index name its nodes in the same order.
    ///
    /// # Errors
    /// As [`Offers::gather`] and [`attach`](Self::attach).
    pub fn connect(addresses: &[String], token: Option<&Token>, limits: &Limits) -> Result<Self> {
        Self::attach(Offers::gather(addresses, token, limits)?)
    }

    /// Attaches the memory of nodes that have admitted this client.
    ///
    /// # Errors
    /// As [`Local::attach_each`] when the memory at a node's path is not the node's: that path is valid
    /// on the node's own host only. [`Options`](ErrorKind::Options) when the memory is on another fabric.
    pub fn attach(offers: Offers) -> Result<Self> {
        if offers.fabric() != LOCAL {
            return Err(unknown(offers.fabric()));
        }
        let (mut links, offers) = offers.into_parts();
        let dirs: Vec<_> =
            offers.iter().map(|offer| (OsStr::from_bytes(&offer.place).into(), offer.id)).collect();
        let local = Local::attach_each(&dirs)?;
        for (node, offer) in (0..).zip(&offers) {
            let expect = |what, found, expected| {
                if found == expected {
                    return Ok(());
                }
                Err(ErrorKind::Region { what, found, expected })
            };
            expect("the bytes of the region", local.bytes(node), offer.bytes)?;
            if node == 0 {
                expect("the number of rows", local.max_clients().into(), offer.max_clients.into())?;
            }
        }
        for (node, link) in (0..).zip(&mut links) {
            let ours = local.clone();
            link.watch(move || ours.node_lost(node))?;
        }
        Ok(Nodes { local, links })
    }

    /// The fabric of their memory.
    #[must_use]
    pub fn local(&self) -> &Local {
        &self.local
    }

    /// The address of node number `node`, as it was given.
    ///
    /// # Panics
    /// When there is no such node.
    #[must_use]
    pub fn address(&self, node: u8) -> &str {
        self.links[usize::from(node)].address()
    }
}

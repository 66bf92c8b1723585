//! Who looks after nodes: sees their clients, and evicts some.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use durahash_media::{ErrorKind, Result};

use super::client::check_fabric;
use super::frames::{BAR, DONE, WHO, WHO_BYTES, WHO_ROWS, plain};
use crate::node::Offers;
use crate::wire::Channel;

/// Who looks after nodes over TCP. It is no client, and needs no row, so it comes in where all rows are taken.
pub struct Warden {
    channels: Vec<Channel>,
    rows: u32,
    /// Time for an answer.
    silence: Duration,
}

/// A client of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seated {
    /// Its row, by which messages name it.
    pub row: u32,
    /// Where it connects from.
    pub address: SocketAddr,
    /// Time since the node last heard of it. A client that lives shows so each [`ask`](crate::node::Limits::ask).
    pub silent: Duration,
    incarnation: u64,
}

impl Warden {
    /// Looks after the nodes that have admitted it.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) when the offers are of another fabric.
    pub fn attach(offers: Offers) -> Result<Self> {
        check_fabric(&offers)?;
        let (links, offers) = offers.into_parts();
        let (mut channels, mut silence) = (Vec::new(), Duration::ZERO);
        for link in links {
            let (channel, limits) = link.into_channel();
            channels.push(channel);
            silence = limits.silence;
        }
        Ok(Warden { channels, rows: offers[0].max_clients, silence })
    }

    /// The answer of a node to a request.
    fn ask(&mut self, node: u8, request: &[u8]) -> Result<Vec<u8>> {
        let channel = &mut self.channels[usize::from(node)];
        let (mut answer, until) = (Vec::new(), Instant::now() + self.silence);
        let asked = channel.send(request, until).and_then(|()| {
            channel.receive(&mut answer, until)?;
            let brought = answer.strip_prefix(&[DONE]).map(<[u8]>::to_vec);
            brought.ok_or_else(|| io::ErrorKind::InvalidData.into())
        });
        asked.map_err(|_| ErrorKind::NodeLost { node }.into())
    }

    /// The clients of the first node, in the order of their rows.
    ///
    /// # Errors
    /// [`NodeLost`](ErrorKind::NodeLost).
    pub fn clients(&mut self) -> Result<Vec<Seated>> {
        let mut all = Vec::new();
        for first in (0..self.rows).step_by(WHO_ROWS as usize) {
            let told = self.ask(0, &plain(WHO, first, 0))?;
            if told.len() != WHO_ROWS as usize * WHO_BYTES {
                return Err(ErrorKind::NodeLost { node: 0 }.into());
            }
            all.extend((first..).zip(told.chunks_exact(WHO_BYTES)).filter_map(seated));
        }
        Ok(all)
    }

    /// Ends the connections of a client to all nodes. What it sends later is not read, and it is told that it was
    /// evicted. The other clients then give its row up, as that of a dead one. Nothing happens to a client that came after
    /// it.
    ///
    /// # Errors
    /// [`NodeLost`](ErrorKind::NodeLost) with a node that does not answer: those that do have evicted the client.
    pub fn evict(&mut self, client: &Seated) -> Result<()> {
        let request = plain(BAR, client.row, client.incarnation);
        let nodes = 0..self.channels.len() as u8;
        let asked: Vec<_> = nodes.map(|node| self.ask(node, &request)).collect();
        asked.into_iter().try_for_each(|asked| asked.map(drop))
    }
}

/// Reads what is told of a row; `None` when it has no client.
fn seated((row, told): (u32, &[u8])) -> Option<Seated> {
    let (incarnation, rest) = told.split_first_chunk()?;
    let (silent_ms, rest) = rest.split_first_chunk()?;
    let (ip, port) = rest.split_first_chunk::<16>()?;
    let incarnation = u64::from_le_bytes(*incarnation);
    let ip = IpAddr::from(Ipv6Addr::from(*ip)).to_canonical();
    let address = (ip, u16::from_le_bytes(port.try_into().ok()?)).into();
    let silent = Duration::from_millis(u64::from_le_bytes(*silent_ms));
    (incarnation != 0).then_some(Seated { row, address, silent, incarnation })
}

//! Time limits, and the number of connections.

use std::time::Duration;

/// Time limits of nodes and clients, and the number of connections of a node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Of connecting, and of a whole handshake; 5 s by default.
    pub handshake: Duration,
    /// Interval of a client's pings; 1 s by default.
    pub ask: Duration,
    /// Time after which a node counts as lost that has answered nothing, although it was asked; 10 s by default. A client
    /// detects at once that a node's process has ended.
    pub silence: Duration,
    /// Time without a ping after which a node closes a connection; 60 s by
    /// default. A client that is stopped for longer loses its nodes.
    pub idle: Duration,
    /// Connections of a node at once, at most, each with a thread and a descriptor; 256 by default. As many as there may be
    /// clients and handshakes.
    pub connections: usize,
    /// Of these, those that have not been admitted yet; 64 by default. A new one replaces another, those last that have
    /// shown the token.
    pub handshakes: usize,
    /// Time after which a client with a wrong token is told so; 200 ms by default. Of one address a node takes one
    /// in that time, after the first 16.
    pub guess: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            handshake: Duration::from_secs(5),
            ask: Duration::from_secs(1),
            silence: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            connections: 256,
            handshakes: 64,
            guess: Duration::from_millis(200),
        }
    }
}

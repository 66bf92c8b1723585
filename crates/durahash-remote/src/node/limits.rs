//! How long is waited, and how many are let in.

use std::time::Duration;

/// How long nodes and clients wait for one another, and how many connections a node has.
#[derive(Clone, Debug)]
pub struct Limits {
    /// For connecting, and for the whole of a handshake; 5 s by default.
    pub handshake: Duration,
    /// How often a client asks whether the node is there; 1 s by default.
    pub ask: Duration,
    /// How long a client waits for the answer to that, before it takes the node as lost; 10 s by default. A
    /// node that has ended is missed at once.
    pub silence: Duration,
    /// How long a node waits for the next question of a client before it ends the connection; 60 s by
    /// default. A client that was stopped for longer has lost its nodes when it goes on.
    pub idle: Duration,
    /// Connections that a node has at once, of which each has a thread; 256 by default.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            handshake: Duration::from_secs(5),
            ask: Duration::from_secs(1),
            silence: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            connections: 256,
        }
    }
}

//! Events of verbs, and the function that sees them and decides about their clients.

use crate::fabric::Addr;
use crate::fabric::batch::Kind;

/// An event that a [`Hook`] sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerbEvent {
    /// Virtual time.
    pub now_ns: u64,
    /// The client that posted the verb: the first is 0.
    pub client: u32,
    /// The number of the verb among those of its client, from 0.
    pub number: u64,
    /// The stage of the verb.
    pub stage: Stage,
    /// Its kind.
    pub kind: Kind,
    /// Its address; of an effect, that of the part that takes effect.
    pub addr: Addr,
    /// Its length in bytes.
    pub len: u32,
}

/// A stage of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is posted.
    Posted,
    /// All or a part of it takes effect, or never will because its client or its node is lost.
    Effect {
        /// `true` if it takes effect.
        applies: bool,
    },
}

/// The next step of the client of the verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It goes on.
    Go,
    /// It dies: at a post, with the whole batch under way.
    Kill,
    /// It stalls.
    Stall {
        /// Nanoseconds for which it sees no completion.
        ns: u64,
    },
}

/// Sees each event of a verb and decides about the client. It must not use the fabric.
pub type Hook = Box<dyn FnMut(&VerbEvent) -> Choice>;

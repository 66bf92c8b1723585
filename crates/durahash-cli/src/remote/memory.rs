//! The memory of nodes, over any fabric.

use std::time::Duration;

use durahash::Result;
use durahash_remote::fabric::{Fabric, LocalClient};
use durahash_remote::node::Nodes;
use durahash_remote::tcp::Tcp;

use crate::store::Watch;

/// The memory of nodes that have let this process in.
pub(super) trait Memory: Sync {
    type Client: Fabric + Send;

    /// How the memory is reached, as reports say it.
    const OVER: &str;

    /// A client, for an index to be opened by. Where a process has but one, what it had opened before is no
    /// longer used.
    fn client(&self) -> Result<Self::Client>;

    /// The number of clients, of all processes.
    fn clients(&self) -> Result<u32>;

    /// How long a client must have shown no life to be taken as dead; nothing where the dead are known at once.
    fn lease(&self) -> Option<Duration>;

    /// A check that all nodes are still there.
    fn watch(&self) -> Watch;
}

impl Memory for Nodes {
    type Client = LocalClient;

    const OVER: &str = "shared memory";

    fn client(&self) -> Result<LocalClient> {
        self.local().client()
    }

    fn clients(&self) -> Result<u32> {
        self.local().clients()
    }

    fn lease(&self) -> Option<Duration> {
        None
    }

    fn watch(&self) -> Watch {
        let local = self.local().clone();
        Box::new(move || local.nodes_stand())
    }
}

impl Memory for Tcp {
    type Client = Self;

    const OVER: &str = "TCP";

    fn client(&self) -> Result<Self> {
        Ok(self.clone())
    }

    fn clients(&self) -> Result<u32> {
        Self::clients(self)
    }

    fn lease(&self) -> Option<Duration> {
        None
    }

    fn watch(&self) -> Watch {
        let client = self.clone();
        Box::new(move || client.nodes_stand())
    }
}

#[cfg(feature = "ucx")]
impl Memory for durahash_ucx::Ucx {
    type Client = Self;

    const OVER: &str = "UCX";

    fn client(&self) -> Result<Self> {
        Ok(self.clone())
    }

    fn clients(&self) -> Result<u32> {
        Self::clients(self)
    }

    fn lease(&self) -> Option<Duration> {
        self.lease_ns().map(Duration::from_nanos)
    }

    fn watch(&self) -> Watch {
        let client = self.clone();
        Box::new(move || client.nodes_stand())
    }
}

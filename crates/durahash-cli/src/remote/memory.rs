//! The memory of nodes, over whichever fabric they lend it.

use durahash::Result;
use durahash_remote::fabric::{Fabric, LocalClient};
use durahash_remote::node::Nodes;

/// The memory of nodes that have let this process in.
pub(super) trait Memory: Sync {
    type Client: Fabric + Send;

    /// How the memory is reached, as reports say it.
    const OVER: &str;

    /// A client, for an index to be opened by. Where a process has but one, what it had opened before is no
    /// longer used.
    fn client(&self) -> Result<Self::Client>;

    /// How many clients there are, of whichever process.
    fn clients(&self) -> Result<u32>;
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
}

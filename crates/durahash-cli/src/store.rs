//! The operations that commands need of a map, in a pool or in the memory of nodes.

use durahash::{Error, MAX_VALUE_BYTES, Result};

use crate::args::Kind;
use crate::exit::Failure;
use crate::lifetime::Expiry;

/// A key and a value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// A check that fails when the store is no longer there.
pub(crate) type Watch = Box<dyn Fn() -> Result<()>>;

/// An open map, or multimap, as commands use it.
pub(crate) trait Store {
    /// As messages name it.
    fn name(&self) -> String;

    fn kind(&self) -> Kind;

    /// Puts a value, or adds it; in a cache with an expiry, if there is one.
    fn put(&self, key: &[u8], value: &[u8], expiry: Option<Expiry>) -> Result<()>;

    /// Puts many; where a key comes again, the last value counts.
    fn put_many(&self, pairs: &[Pair]) -> Result<()>;

    /// True if a put would fail because of the key or the value itself. Not called where a retry may succeed.
    fn accepts(&self, _key: &[u8], _value: &[u8]) -> Result<()> {
        Ok(())
    }

    /// The most bytes that a value can have.
    fn value_bytes_max(&self) -> usize {
        MAX_VALUE_BYTES
    }

    fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// Removes a key; true if it was there.
    fn remove(&self, key: &[u8]) -> Result<bool>;

    /// All keys and values. Damage is an error among them, and the rest follows.
    fn entries(&self) -> Box<dyn Iterator<Item = Result<Pair>> + '_>;

    /// How many keys or entries there are, where that is known without looking at all.
    fn len(&self) -> Option<u64>;

    /// The command that lists what is damaged.
    fn check_command(&self) -> String;

    /// The message and exit code of a failure.
    fn failed(&self, e: &Error) -> Failure;

    /// The same of a failed load, which may have loaded some.
    fn load_failed(&self, e: &Error) -> Failure {
        self.failed(e)
    }

    /// A check that the store is still there; none where nothing can take it away.
    fn watch(&self) -> Option<Watch> {
        None
    }

    fn close(self) -> Result<(), Failure>;
}

//! Exact LRU.

use super::cache::Cache;
use super::list::Lists;

pub(super) struct Lru {
    list: Lists,
    there: Vec<bool>,
    size: usize,
}

impl Lru {
    pub(super) fn new(keys: usize, size: usize) -> Self {
        Lru { list: Lists::new(keys, 1), there: vec![false; keys], size }
    }
}

impl Cache for Lru {
    fn access(&mut self, key: u32) -> bool {
        let found = self.there[key as usize];
        if found {
            self.list.remove(0, key);
        } else if self.list.len(0) == self.size {
            let victim = self.list.pop(0);
            self.there[victim as usize] = false;
        }
        self.list.push(0, key);
        self.there[key as usize] = true;
        found
    }
}

//! Lists of keys in the order of their last use. A key is in one of them at most.

/// The neighbours of each key; behind the keys, the ends of the lists.
pub(super) struct Lists {
    links: Vec<[u32; 2]>,
    keys: usize,
    lens: Vec<usize>,
}

impl Lists {
    pub(super) fn new(keys: usize, lists: usize) -> Self {
        let links = (0..(keys + lists) as u32).map(|i| [i, i]).collect();
        Lists { links, keys, lens: vec![0; lists] }
    }

    pub(super) fn len(&self, list: usize) -> usize {
        self.lens[list]
    }

    /// Adds a key as the latest.
    pub(super) fn push(&mut self, list: usize, key: u32) {
        let end = (self.keys + list) as u32;
        let [_, latest] = self.links[end as usize];
        self.links[key as usize] = [end, latest];
        self.links[latest as usize][0] = key;
        self.links[end as usize][1] = key;
        self.lens[list] += 1;
    }

    pub(super) fn remove(&mut self, list: usize, key: u32) {
        let [later, earlier] = self.links[key as usize];
        self.links[later as usize][1] = earlier;
        self.links[earlier as usize][0] = later;
        self.lens[list] -= 1;
    }

    /// The one that was used least recently; the list is not empty.
    pub(super) fn oldest(&self, list: usize) -> u32 {
        self.links[self.keys + list][0]
    }

    pub(super) fn pop(&mut self, list: usize) -> u32 {
        let key = self.oldest(list);
        self.remove(list, key);
        key
    }
}

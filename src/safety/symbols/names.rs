//! Tables by names of the source. Their hash has a seed: for one without, a source can have names
//! that all fall into the same place.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

/// A table by names.
pub(crate) type Names<'a, T> = HashMap<&'a str, T, Seeded>;
/// A set of names.
pub(crate) type NameSet<'a> = HashSet<&'a str, Seeded>;

static SEEDS: LazyLock<[u64; 2]> = LazyLock::new(|| {
    let random = RandomState::new();
    [random.hash_one(0), random.hash_one(1)]
});

/// A hash of names with a seed, the same for all tables of the process.
#[derive(Debug, Clone)]
pub(crate) struct Seeded {
    state: u64,
    key: u64,
}

impl Default for Seeded {
    fn default() -> Self {
        let [state, key] = *SEEDS;
        Self { state, key: key | 1 }
    }
}

impl BuildHasher for Seeded {
    type Hasher = Self;

    #[inline]
    fn build_hasher(&self) -> Self {
        self.clone()
    }
}

impl Seeded {
    #[inline]
    fn add(&mut self, word: u64) {
        let (low, high) = (self.state ^ word).carrying_mul(self.key, 0);
        self.state = low ^ high;
    }
}

impl Hasher for Seeded {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        self.add(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    }

    /// Hashes the end of a text, of which there is one in each name.
    #[inline]
    fn write_u8(&mut self, _: u8) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }
}

//! Random choices that are the same for a seed, for tests that try many cases.

use std::hash::{BuildHasher as _, RandomState};

/// The variable that sets the seed of a run, to repeat one.
pub const SEED: &str = "IKIGAI_TEST_SEED";

/// Returns the seed of this run: the value of the variable [`SEED`] or, if it is not set, a new one
/// in each run. A failing test has to print it.
#[must_use]
pub fn seed() -> u64 {
    match std::env::var(SEED) {
        Ok(seed) => seed.parse().expect("a seed"),
        // This is the standard library's only source of randomness.
        Err(_) => RandomState::new().hash_one(SEED),
    }
}

/// A source of choices (xorshift64*).
pub struct Draw(u64);

impl Draw {
    /// Creates the source for a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // A state of zero would stay zero.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }

    /// Returns one of two.
    pub fn flip(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// Returns a random element of the given values.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let count = of.len() as u64;
        let index = usize::try_from(self.next() % count).unwrap_or_default();
        &of[index]
    }

    /// Returns a random part of the given values.
    pub fn some<'a, T>(&mut self, of: &'a [T]) -> Vec<&'a T> {
        of.iter().filter(|_| self.next().is_multiple_of(3)).collect()
    }
}

// SPDX-License-Identifier: LGPL-3.0-only
//! A random number generator with a fixed seed (splitmix64), so that every run measures the same site.

/// A random number generator. The number is the state of the generator.
pub struct Random(pub u64);

impl Random {
    /// Returns a number from 0 to `limit` - 1.
    pub fn generate_number_below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit
    }
}

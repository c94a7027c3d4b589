//! The stable hash: shards, jitter and spread depend on it, so it must be the same in every version.
//!
//! FNV-1a over 64 bits, then the 64-bit finaliser of MurmurHash3, because FNV alone leaves the high bits of
//! short keys poorly mixed. The vectors below are part of the storage format: changing one moves jobs
//! to shards that do not hold them.

/// Hashes the parts in order, with a separator that no name contains, so that ("ab","c") differs from ("a","bc").
pub fn stable(parts: &[&[u8]]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        for byte in *part {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        hash = (hash ^ 0xff).wrapping_mul(0x0000_0100_0000_01b3);
    }
    mix(hash)
}

/// Spreads the entropy of a number over all its bits; also turns a counter into a seed.
pub fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_never_changes() {
        assert_eq!(stable(&[b"default", b"nightly"]), 8_331_899_574_521_473_718);
        assert_eq!(stable(&[]), 17_280_346_270_528_514_342);
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(stable(&[b"ab", b"c"]), stable(&[b"a", b"bc"]));
    }
}

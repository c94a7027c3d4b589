//! Worlds in which something was found once. What a seed means changes with the workload, so these are memories more than
//! proofs; the cases beside the code are the proofs.

/// An epoch that was lost while it was being loaded; a successor's run that an outdated leader was asked to cancel; a dead
/// session that a clock set back kept alive, and that shards were left to.
const FOUND: [u64; 6] = [54, 66, 102, 136, 219, 393];

#[test]
fn all_promises_hold_where_they_once_did_not() {
    for seed in FOUND {
        if let Err(broken) = punctual_sim::run(seed, punctual_sim::Settings::default()) {
            panic!("seed {seed}, at {}: {}", broken.at, broken.what);
        }
    }
}

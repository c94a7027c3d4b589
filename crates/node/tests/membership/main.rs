//! Several drivers on one store: which node leads which shard, and what happens to attempts when the leader changes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod hand_over;
mod leading;
mod rig;

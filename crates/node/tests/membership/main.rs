//! Several drivers on one store: who leads what, and when, and what becomes of work when that changes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod hand_over;
mod leading;
mod rig;

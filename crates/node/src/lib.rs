//! A scheduling node: a sans-IO [`Driver`], the loop that carries out its inputs and outputs, and background tasks such
//! as retention.

pub mod failure;
pub mod handle;
pub mod leaders;
mod listeners;
mod holds;
mod cycles;
mod pings;
pub mod peers;
pub mod forward;
mod background;
mod courier;
pub mod notifier;
mod watched;
pub mod queues;
pub mod locks;
pub mod calendars;
mod calendar_keeper;
mod descriptors;
pub mod followers;
pub mod live;
mod allowance;
mod busy;
pub mod attempt_key;
pub mod metrics;
pub mod driver;
pub mod store_clock;
pub mod cluster;
pub mod node;
pub mod retention;

pub use attempt_key::AttemptKeys;
pub use driver::{Driver, Input, Output, Wake};
pub use failure::Failure;
pub use followers::{Follower, Followers};
pub use handle::Handle;
pub use leaders::{Forwarding, Leader, Leaders};
pub use live::{LiveChanges, LiveFollower, Topic, Wanted};
pub use node::{Config, Link, Links, Node, Nudge, Reporter};
pub use notifier::AlertChannels;
pub use peers::Peers;
pub use watched::QueueWatch;

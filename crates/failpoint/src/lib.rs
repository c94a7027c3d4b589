//! Points at which a process can be told to die (T-02).
//!
//! Wherever dying matters, before and after something becomes durable or is said, the code names a [`Point`] and calls
//! [`hit`]. `FAILPOINTS=name=2*off->abort` in the environment lets the process pass it twice and die there at the third
//! time, as if its machine had lost its power. Every hit of a point that is named is one line on stderr.
//!
//! All of it is for builds with debug assertions: in a release a hit is nothing at all, and the variable is not read.
//! The list is in one place so that `punctual failpoints` can print it and a test can walk over every one of them.

mod armed;
mod points;

use std::future::{Future, poll_fn};
use std::pin::pin;

pub use points::Point;

/// Whether this build can be told to die.
pub const IS_BUILT_IN: bool = cfg!(debug_assertions);

/// Dies here if it was told to.
#[inline]
pub fn hit(point: Point) {
    if IS_BUILT_IN {
        armed::hit(point);
    }
}

/// The same between the beginning and the end of some work: when it was begun and has to be waited for.
pub async fn midway<F: Future>(point: Point, work: F) -> F::Output {
    if !IS_BUILT_IN {
        return work.await;
    }
    let mut work = pin!(work);
    let mut is_passed = false;
    poll_fn(move |cx| {
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() && !std::mem::replace(&mut is_passed, true) {
            hit(point);
        }
        polled
    })
    .await
}

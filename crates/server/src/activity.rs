//! Tracks whether a connection is in use.
//!
//! hyper closes an idle HTTP/1 connection by itself; an HTTP/2 connection that only answers pings would stay
//! open forever. A request is in progress until the client has taken the last byte of its answer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

#[derive(Debug, Default)]
pub(crate) struct Activity {
    begun: AtomicUsize,
    under_way: AtomicUsize,
}

/// A request in progress; it ends on drop.
#[derive(Debug)]
pub(crate) struct UnderWay {
    activity: Arc<Activity>,
    number: usize,
}

impl Activity {
    pub(crate) fn begin(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Relaxed);
        UnderWay { activity: Arc::clone(self), number: self.begun.fetch_add(1, Relaxed) + 1 }
    }

    /// Returns when no request was in progress for this long.
    pub(crate) async fn idle_for(&self, time: Duration) {
        loop {
            let before = self.begun.load(Relaxed);
            tokio::time::sleep(time).await;
            if self.under_way.load(Relaxed) == 0 && self.begun.load(Relaxed) == before {
                return;
            }
        }
    }
}

impl UnderWay {
    /// The number of this request on its connection, from 1.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn until_sent(self, body: Body) -> Body {
        Body::new(Sending { body, _under_way: self })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.activity.under_way.fetch_sub(1, Relaxed);
    }
}

struct Sending {
    body: Body,
    _under_way: UnderWay,
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_connection_is_idle_after_its_last_answer_was_read() {
        let activity = Arc::new(Activity::default());
        let body = activity.begin().until_sent(Body::empty());
        let idle = tokio::time::timeout(5 * TIME, activity.idle_for(TIME)).await;
        assert!(idle.is_err(), "its answer is still under way");
        drop(body);
        activity.idle_for(TIME).await;
    }
}

//! Reads the rest of a body after an early answer.
//!
//! A request may be refused before its body has arrived: no token, no such route, too large. If the body were
//! dropped then, the client would write to a closed connection (HTTP/1) or a reset stream (HTTP/2), and many
//! clients report that instead of the answer. So the rest of the body is read in the background and
//! discarded, up to a maximum.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use futures_util::StreamExt;
use hyper::body::{Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use crate::limits::BODY_BYTES_MAX;
use crate::rest::request::Deadline;

/// Bytes of a refused body that are still read.
const DRAINED_BYTES_MAX: usize = 8 * BODY_BYTES_MAX;

pub(crate) async fn linger(request: Request, next: Next) -> Response {
    // A client that waits for `100 Continue` sends no body once it has the answer; reading would request the body.
    if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
        return next.run(request).await;
    }
    let until = Deadline::of(&request).until;
    next.run(request.map(|body| Body::new(Lingering { body, until }))).await
}

/// A body that is read to its end even if the handler drops it early.
struct Lingering {
    body: Body,
    until: Instant,
}

impl HttpBody for Lingering {
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

impl Drop for Lingering {
    fn drop(&mut self) {
        let body = std::mem::take(&mut self.body);
        if body.is_end_stream() {
            return;
        }
        // Without a runtime the server has stopped, and the connection is closed anyway.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(timeout_at(self.until, drain(body)));
        }
    }
}

async fn drain(body: Body) {
    let (mut stream, mut read) = (body.into_data_stream(), 0);
    while let Some(Ok(chunk)) = stream.next().await
        && read < DRAINED_BYTES_MAX
    {
        read += chunk.len();
    }
}

//! The window of output: how many bytes a worker has sent that are not acknowledged yet.
//!
//! A worker that sends more than the window holds loses its stream.

use punctual_core::log::{CHUNK_BYTES_MAX, Chunk};
use punctual_wire::grpc::LOG_WINDOW_BYTES;

#[derive(Debug, Default)]
pub(super) struct OutputWindow {
    unacknowledged: usize,
}

impl OutputWindow {
    /// Counts a chunk that has arrived; the error says that it does not fit.
    pub(super) fn arrived(&mut self, chunk: &Chunk) -> Result<(), String> {
        self.unacknowledged += chunk.bytes.len();
        if self.unacknowledged > LOG_WINDOW_BYTES + CHUNK_BYTES_MAX {
            return Err(format!("logs: more than {LOG_WINDOW_BYTES} bytes without an acknowledgement"));
        }
        Ok(())
    }

    pub(super) fn acknowledged(&mut self, bytes: usize) {
        self.unacknowledged = self.unacknowledged.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::Timestamp;
    use punctual_core::ids::{RunId, Token};
    use punctual_core::log::Stream;

    use super::*;

    #[test]
    fn a_worker_sends_no_more_output_than_the_window_holds() {
        let mut window = OutputWindow::default();
        let chunk = |number| Chunk {
            run: RunId(1),
            token: Token(1),
            number,
            at: Timestamp::MIN,
            stream: Stream::Out,
            bytes: vec![0; CHUNK_BYTES_MAX],
        };
        let fits = LOG_WINDOW_BYTES / CHUNK_BYTES_MAX + 1;
        assert!((0..fits as u32).all(|number| window.arrived(&chunk(number)).is_ok()));
        window.acknowledged(CHUNK_BYTES_MAX);
        assert!(window.arrived(&chunk(0)).is_ok());
        assert!(window.arrived(&chunk(1)).is_err());
    }
}

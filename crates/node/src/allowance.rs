//! Limits the output of a run over all its attempts (P19). A worker knows only its own attempt and may not be trusted,
//! so the node reads from the store how much earlier attempts have printed, and continues the count.

use parking_lot::Mutex;
use punctual_core::ids::{RunId, Token};
use punctual_core::log::{CUT_MARK, Chunk, RUN_BYTES_MAX, Stream};
use punctual_store::Store;
use rustc_hash::FxHashMap;

/// Maximum number of runs whose count is cached; for others the store is asked again.
const KNOWN_MAX: usize = 4096;
/// Maximum size of the notes of one attempt, such as the mark where its output was cut.
const NOTES_BYTES_MAX: u64 = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Allowance {
    bytes_max: u64,
    known: Mutex<FxHashMap<RunId, Printed>>,
}

/// How much a run has printed so far, and its current attempt.
#[derive(Debug, Clone, Copy)]
struct Printed {
    bytes: u64,
    token: Token,
    /// The newest chunk that was counted: chunks that a worker sends again are not counted again.
    last: Option<u32>,
    notes: u64,
    is_cut: bool,
}

impl Default for Allowance {
    fn default() -> Self {
        Allowance::of(RUN_BYTES_MAX)
    }
}

impl Allowance {
    fn of(bytes_max: u64) -> Self {
        Allowance { bytes_max, known: Mutex::default() }
    }

    /// Drops output beyond the limit and marks where it was cut.
    pub(crate) async fn cut(&self, store: &dyn Store, chunks: Vec<Chunk>) -> Vec<Chunk> {
        let mut kept = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let known = self.known.lock().get(&chunk.run).copied();
            let mut printed = match known.filter(|printed| printed.token == chunk.token) {
                Some(printed) => printed,
                None => {
                    // If the store does not answer, count from zero: the output of a single attempt is bounded, too.
                    let before = store.log_bytes(chunk.run).await.unwrap_or(0);
                    let here: u64 = kept.iter().filter(|other| is_of(other, chunk.run)).map(length).sum();
                    Printed { bytes: before + here, token: chunk.token, last: None, notes: 0, is_cut: false }
                }
            };
            let run = chunk.run;
            kept.extend(printed.take(chunk, self.bytes_max));
            let mut known = self.known.lock();
            if known.len() >= KNOWN_MAX && !known.contains_key(&run) {
                known.clear();
            }
            known.insert(run, printed);
        }
        kept
    }
}

impl Printed {
    fn take(&mut self, chunk: Chunk, bytes_max: u64) -> Option<Chunk> {
        if self.last.is_some_and(|last| chunk.number <= last) {
            return Some(chunk);
        }
        self.last = Some(chunk.number);
        let length = length(&chunk);
        if chunk.stream == Stream::Note {
            self.notes += length;
            return (self.notes <= NOTES_BYTES_MAX).then_some(chunk);
        }
        if self.bytes + length <= bytes_max {
            self.bytes += length;
            return Some(chunk);
        }
        // Drop the rest of this attempt's output, so that no later line hides the gap.
        self.bytes = bytes_max;
        if std::mem::replace(&mut self.is_cut, true) {
            return None;
        }
        let limit = bytes_max / (1024 * 1024);
        let mark = format!("{CUT_MARK}: the limit of {limit} MiB for all attempts of a run is reached");
        Some(Chunk { stream: Stream::Note, bytes: mark.into_bytes(), ..chunk })
    }
}

fn length(chunk: &Chunk) -> u64 {
    chunk.bytes.len() as u64
}

fn is_of(chunk: &Chunk, run: RunId) -> bool {
    chunk.run == run && chunk.stream != Stream::Note
}

#[cfg(test)]
mod tests {
    use punctual_core::Timestamp;
    use punctual_core::ids::Epoch;
    use punctual_store::memory::Memory;
    use punctual_store::{Logs, Reads};

    use super::*;

    const LIMIT: u64 = 100;

    fn chunk(token: Token, number: u32, bytes: usize) -> Chunk {
        let at = Timestamp::from_millis(0);
        Chunk { run: RunId(77), token, number, at, stream: Stream::Out, bytes: vec![b'x'; bytes] }
    }

    fn tokens() -> [Token; 2] {
        let first = Token::default().next(Epoch(1));
        [first, first.next(Epoch(1))]
    }

    async fn keep(allowance: &Allowance, store: &Memory, chunks: Vec<Chunk>) {
        let kept = allowance.cut(store, chunks).await;
        store.append_logs(kept).await.unwrap();
    }

    async fn read(store: &Memory) -> Vec<(Token, Stream, usize)> {
        let chunks = store.read_logs(RunId(77), None, 1000).await.unwrap();
        chunks.iter().map(|chunk| (chunk.token, chunk.stream, chunk.bytes.len())).collect()
    }

    fn is_mark(chunk: &(Token, Stream, usize), token: Token) -> bool {
        chunk.0 == token && chunk.1 == Stream::Note
    }

    #[tokio::test]
    async fn all_attempts_of_a_run_share_one_output_limit() {
        let store = Memory::new(1);
        let [first, second] = tokens();
        keep(&Allowance::of(LIMIT), &store, vec![chunk(first, 0, 60), chunk(first, 1, 20)]).await;
        // A new leader starts from the count in the store.
        let allowance = Allowance::of(LIMIT);
        let more = vec![chunk(second, 0, 20), chunk(second, 1, 1), chunk(second, 2, 1)];
        keep(&allowance, &store, more).await;
        let kept = read(&store).await;
        assert_eq!(
            kept[..3],
            [(first, Stream::Out, 60), (first, Stream::Out, 20), (second, Stream::Out, 20)]
        );
        assert!(is_mark(&kept[3], second), "{kept:?}");
        assert_eq!(kept.len(), 4, "one mark, and nothing after it: {kept:?}");
        assert!(store.log_bytes(RunId(77)).await.unwrap() <= LIMIT);
    }

    #[tokio::test]
    async fn chunks_sent_again_are_not_counted_again() {
        let store = Memory::new(1);
        let [first, _] = tokens();
        let allowance = Allowance::of(LIMIT);
        for _ in 0..5 {
            keep(&allowance, &store, vec![chunk(first, 0, 60), chunk(first, 1, 40)]).await;
        }
        assert_eq!(read(&store).await, [(first, Stream::Out, 60), (first, Stream::Out, 40)]);
    }

    #[tokio::test]
    async fn notes_may_exceed_the_limit_up_to_their_own() {
        let store = Memory::new(1);
        let [first, _] = tokens();
        let allowance = Allowance::of(LIMIT);
        let note = |number| Chunk { stream: Stream::Note, ..chunk(first, number, 1024) };
        keep(&allowance, &store, vec![chunk(first, 0, 100)]).await;
        keep(&allowance, &store, (1..=1000).map(note).collect()).await;
        let notes = read(&store).await.iter().filter(|chunk| is_mark(chunk, first)).count() as u64;
        assert_eq!(notes, NOTES_BYTES_MAX / 1024);
    }
}

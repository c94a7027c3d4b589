//! Output of attempts, apart from the rows.

use punctual_core::Timestamp;
use punctual_core::ids::{Epoch, RunId, Token};
use punctual_core::log::{Chunk, ChunkPosition, Stream};

use super::given::*;
use crate::{Result, Store};

fn chunk(run: RunId, token: Token, number: u32, text: &str) -> Chunk {
    let stream = [Stream::Out, Stream::Err, Stream::Note][number as usize % 3];
    Chunk { run, token, number, at: at(i64::from(number)), stream, bytes: text.as_bytes().to_vec() }
}

/// Two attempts of a run, three chunks each, in order.
fn six_chunks(run: RunId) -> Vec<Chunk> {
    let first = Token::default().next(Epoch(1));
    let tokens = [first, first.next(Epoch(2))];
    tokens.iter().flat_map(|token| (0..3).map(|number| chunk(run, *token, number, "line\n"))).collect()
}

/// Chunks may arrive in any order; they are read by attempt, in the order of their numbers.
pub async fn logs_read_back_in_order(store: &dyn Store) -> Result<()> {
    let run = RunId(77);
    let chunks = six_chunks(run);
    for index in [4, 0, 5, 2, 1, 3] {
        store.append_logs(vec![chunks[index].clone()]).await?;
    }
    assert_eq!(store.read_logs(run, None, 100).await?, chunks);
    Ok(())
}

/// A worker that got no answer sends a chunk again; the first one stays.
pub async fn a_doubled_chunk_changes_nothing(store: &dyn Store) -> Result<()> {
    let run = RunId(77);
    let chunks = six_chunks(run);
    store.append_logs(chunks.clone()).await?;
    let other = Chunk { bytes: b"something else".to_vec(), at: Timestamp::MAX, ..chunks[2].clone() };
    store.append_logs(vec![other, chunks[5].clone()]).await?;
    assert_eq!(store.read_logs(run, None, 100).await?, chunks);
    Ok(())
}

/// A client that follows a run reads what comes after the last place.
pub async fn logs_are_read_on_from_any_place(store: &dyn Store) -> Result<()> {
    let run = RunId(77);
    let chunks = six_chunks(run);
    store.append_logs(chunks.clone()).await?;
    for (index, last) in chunks.iter().enumerate() {
        let after = Some(last.place());
        assert_eq!(
            store.read_logs(run, after, 2).await?,
            chunks[index + 1..].iter().take(2).cloned().collect::<Vec<_>>()
        );
    }
    assert!(
        store
            .read_logs(run, Some(ChunkPosition { token: Token(u64::MAX >> 1), number: 0 }), 2)
            .await?
            .is_empty()
    );
    Ok(())
}

pub async fn runs_have_their_own_logs(store: &dyn Store) -> Result<()> {
    let (one, two) = (RunId(77), RunId(78));
    store.append_logs([six_chunks(two), six_chunks(one)].concat()).await?;
    assert_eq!(store.read_logs(one, None, 100).await?, six_chunks(one));
    assert_eq!(store.read_logs(two, None, 100).await?, six_chunks(two));
    assert!(store.read_logs(RunId(79), None, 100).await?.is_empty());
    Ok(())
}

pub async fn any_bytes_are_output(store: &dyn Store) -> Result<()> {
    let run = RunId(77);
    let bytes: Vec<u8> = (0..64 * 1024u32).map(|n| n.to_le_bytes()[0]).collect();
    let mut chunks = six_chunks(run);
    chunks[0].bytes = bytes;
    chunks[1].bytes = Vec::new();
    store.append_logs(chunks.clone()).await?;
    store.append_logs(Vec::new()).await?;
    assert_eq!(store.read_logs(run, None, 100).await?, chunks);
    Ok(())
}

/// The limit of a run counts the output of its programs, over all attempts.
pub async fn the_output_of_a_run_is_counted_without_remarks(store: &dyn Store) -> Result<()> {
    let run = RunId(77);
    assert_eq!(store.log_bytes(run).await?, 0);
    store.append_logs([six_chunks(run), six_chunks(RunId(78))].concat()).await?;
    assert_eq!(store.log_bytes(run).await?, 4 * "line\n".len() as u64);
    Ok(())
}

//! Reads pages of waiting messages, and refuses consumers whose queue moves to another node.

use std::sync::Arc;

use punctual_core::ids::ShardId;
use punctual_core::queue::Message;
use punctual_engine::{Context, Ticket};
use punctual_store::Error;

use super::shard_entry::{self, Standing};
use super::{Driver, Output, REST};

/// Maximum number of pages read at once for one shard.
const READS_MAX: usize = 8;

impl Driver {
    /// Requests pages for queues whose messages in memory are about to run out.
    pub(super) fn ask_for_message_pages(&mut self) {
        let elapsed = self.elapsed;
        for entry in &mut self.shards {
            let Standing::Leading(shard) = &mut entry.standing else { continue };
            if entry.leaving.is_some() || entry.page_again_at.is_some_and(|at| at > elapsed) {
                continue;
            }
            while entry.message_reads.len() < READS_MAX
                && let Some((queue, after, limit)) = shard.ask_message_page()
            {
                let read = self.reads.begin();
                entry.message_reads.push((read, queue, limit));
                self.outputs.push(Output::ReadMessages { read, shard: entry.id, queue, after, limit });
            }
        }
    }

    pub(super) fn messages_read(&mut self, read: u64, id: ShardId, result: Result<Vec<Arc<Message>>, Error>) {
        self.reads.under_way.remove(&read);
        let (now, elapsed, lane) = (self.now, self.elapsed, self.lane_of(id));
        let may_apply = self.may_apply();
        if let Some(entry) = self.shards.get_mut(usize::from(id.0))
            && let Some(place) = entry.message_reads.iter().position(|(of, ..)| *of == read)
        {
            let (_, queue, limit) = entry.message_reads.swap_remove(place);
            if let Standing::Leading(shard) = &mut entry.standing {
                let effects = &mut self.lanes[lane].effects;
                let mut cx = Context { now, elapsed, shard: id, pool: &mut self.pool, effects };
                match result {
                    Ok(page) if may_apply => shard.message_page(queue, page, limit, &mut cx),
                    Err(Error::Unusable(why)) => self.outputs.push(Output::Fail { why }),
                    // Without a known time no message is delivered: the page is read again.
                    Ok(_) | Err(_) => {
                        entry.page_again_at = Some(elapsed + REST);
                        shard.message_page_failed(queue);
                    }
                }
                entry.note_wake();
            }
        }
        self.release_pins();
    }

    /// Refuses consumers that wait for a message; they ask the new leader.
    pub(super) fn turn_away_waiting(&mut self, waiting: Vec<Ticket>) {
        for ticket in waiting {
            self.refuse(ticket, shard_entry::not_led());
        }
    }

    /// Makes every shard write its deliveries that are not yet written.
    pub(super) fn hurry(&mut self) {
        for entry in &mut self.shards {
            if let Standing::Leading(shard) = &mut entry.standing {
                shard.hurry();
            }
        }
    }
}

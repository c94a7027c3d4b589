//! What a node does between runs and queues, in one thread.

use punctual_core::command::{Answer, Command};
use punctual_core::cross_shard::CrossShardRequest;
use punctual_core::queue::{Ask, News, Said, Sender, Whereabouts};
use punctual_core::task::Task;
use punctual_engine::Effect;

use super::Rig;

impl Rig {
    /// The requests that have left since the last look.
    pub(crate) fn requests(&mut self) -> Vec<CrossShardRequest> {
        let is_request = |effect: &mut Effect| matches!(effect, Effect::CrossShard(_));
        let requests = self.effects.extract_if(.., is_request);
        requests
            .filter_map(|effect| match effect {
                Effect::CrossShard(request) => Some(request),
                _ => None,
            })
            .collect()
    }

    /// Runs every request, and those that come of them.
    pub(crate) fn run_requests(&mut self) {
        loop {
            let requests = self.requests();
            if requests.is_empty() {
                return;
            }
            requests.into_iter().for_each(|request| self.run_request(request));
        }
    }

    pub(crate) fn run_request(&mut self, request: CrossShardRequest) {
        match request {
            CrossShardRequest::Deliver(assignment) => {
                let sender = Sender { run: assignment.run, token: assignment.token };
                let Task::Queue(task) = &assignment.definition.task else { panic!("{assignment:?}") };
                let deliver = assignment.message(task, self.now).expect("a template that can be evaluated");
                let Said::Added(added) = self.queue_says(Ask::Deliver(deliver)) else { panic!("no answer") };
                match added.into_iter().next() {
                    Some(Ok(notice)) => {
                        let at = Whereabouts::of(notice.id, notice.ttl, notice.at_most_once);
                        self.inform(sender, News::Delivered(at));
                    }
                    Some(Err(why)) => {
                        self.inform(sender, News::Undelivered { why: why.to_string().into() });
                    }
                    None => {}
                }
            }
            CrossShardRequest::Withdraw { sender, queue } => {
                let Said::Acted(acted) = self.queue_says(Ask::Withdraw { queue, sender }) else {
                    panic!("no answer")
                };
                if acted.count == 0 {
                    self.inform(sender, News::Undelivered { why: "stopped".into() });
                }
            }
            CrossShardRequest::Call { sender, run } => {
                let news = match self.ask(Command::RunJob(*run)) {
                    Ok(Answer::Run(run)) => News::Called { run: run.id, since: run.created_at },
                    Ok(Answer::Existing(run)) => News::Called { run, since: self.now },
                    Err(why) => News::Undelivered { why: why.to_string().into() },
                    other => panic!("{other:?}"),
                };
                self.inform(sender, news);
            }
            CrossShardRequest::CancelCall(cancel) => {
                let sender = cancel.sender;
                if self.ask(Command::CancelCall(cancel)) == Ok(Answer::Noted) {
                    self.inform(sender, News::Undelivered { why: "stopped".into() });
                }
            }
            CrossShardRequest::Tell(notice) => {
                self.inform(notice.sender, notice.news);
                self.queue_says(Ask::Told { notice: notice.number });
            }
        }
    }

    fn inform(&mut self, sender: Sender, news: News) {
        assert_eq!(self.ask(Command::Tell { sender, news }), Ok(Answer::Noted));
    }

    fn queue_says(&mut self, ask: Ask) -> Said {
        match self.ask(Command::Queue(ask)) {
            Ok(Answer::Queue(said)) => said,
            other => panic!("{other:?}"),
        }
    }
}

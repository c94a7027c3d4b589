//! Requests between two shards, which may be led by different nodes.
//!
//! A request takes two or three commands to different shards, one after the other: an [`Exchange`]. Each command may be
//! repeated, so a node that is in doubt starts the exchange anew.

use crate::Timestamp;
use crate::alert::Notification;
use crate::attempt::Assignment;
use crate::command::{Answer, CancelCall, Command, Refusal, RunJob};
use crate::ids::{RunId, ShardId, made_at};
use crate::queue::{Ask, Content, EndNotice, News, QueueKey, Said, Sender, Whereabouts};
use crate::task::Task;
use crate::topic::Listener;

/// What a node must do between two shards. It retries until it succeeds, or until another node leads the shard and
/// starts the request again.
#[derive(Debug, Clone, PartialEq)]
pub enum CrossShardRequest {
    /// Add the message of this attempt to its queue.
    Deliver(Box<Assignment>),
    /// Delete it again, because its run is being stopped.
    Withdraw { sender: Sender, queue: QueueKey },
    /// Start a run of another job for this attempt.
    Call { sender: Sender, run: Box<RunJob> },
    /// Cancel it again, because the run that waits for it is being stopped.
    CancelCall(CancelCall),
    /// Tell a sender how its message or its run ended, and then confirm that to the shard of the notice.
    Tell(EndNotice),
}

/// What a request is about: at most one request about a subject is carried out at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    Attempt(Sender),
    Notice(i64),
}

impl Subject {
    /// The shard that the request came from.
    pub fn shard(self) -> ShardId {
        match self {
            Subject::Attempt(sender) => sender.run.shard(),
            Subject::Notice(number) => RunId(number).shard(),
        }
    }
}

/// A request that is being carried out.
#[derive(Debug, Clone)]
pub struct Exchange {
    request: CrossShardRequest,
    asked: Asked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    /// What the request is about.
    First,
    /// The attempt or the step was told about it.
    Second,
    /// The listener was removed.
    Third,
    /// The notice was confirmed.
    Last,
}

/// What comes next in an exchange.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    Ask(Box<Command>),
    /// Send it through its channel, and say when it was sent or given up.
    Send(Box<Notification>),
    Done,
    /// An answer that does not fit: nodes of different versions. The exchange starts anew later.
    Unexpected(Answer),
    /// The exchange starts anew later.
    Refused(Refusal),
}

impl Exchange {
    pub fn new(request: CrossShardRequest) -> Exchange {
        Exchange { request, asked: Asked::Nothing }
    }

    /// The first command.
    pub fn begin(&mut self, now: Timestamp) -> Next {
        self.asked = Asked::First;
        let command = match &self.request {
            CrossShardRequest::Deliver(assignment) => {
                let Task::Queue(task) = &assignment.definition.task else { return Next::Done };
                match assignment.message(task, now) {
                    Ok(deliver) => Command::Queue(Ask::Deliver(deliver)),
                    Err(invalid) => {
                        return self.inform(News::Undelivered { why: invalid.to_string().into() });
                    }
                }
            }
            CrossShardRequest::Withdraw { sender, queue } => {
                Command::Queue(Ask::Withdraw { queue: queue.clone(), sender: *sender })
            }
            CrossShardRequest::Call { run, .. } => Command::RunJob((**run).clone()),
            CrossShardRequest::CancelCall(cancel) => Command::CancelCall(cancel.clone()),
            CrossShardRequest::Tell(notice) => match notice.content.clone() {
                Content::Attempt { sender, news } => Command::Tell { sender, news },
                Content::Wake(wake) => Command::Wake(wake),
                Content::Listen { topic, listener, key } => Command::Listen { topic, listener, key },
                Content::StopListening { topic, step } => Command::StopListening { topic, step },
                Content::Dead(dead) => Command::Queue(Ask::AddDead { notice: notice.number, dead }),
                Content::Notify(notification) => return Next::Send(notification),
            },
        };
        Next::Ask(Box::new(command))
    }

    /// The command after a notification was sent, or given up.
    pub fn sent(&mut self) -> Next {
        let Subject::Notice(notice) = self.request.subject() else { return Next::Done };
        self.asked = Asked::Last;
        Next::Ask(Box::new(Command::Queue(Ask::Told { notice })))
    }

    /// The command after the answer to the one before.
    pub fn heard(&mut self, answer: Result<Answer, Refusal>) -> Next {
        match (&self.request, self.asked, answer) {
            (CrossShardRequest::Call { .. }, Asked::First, Err(refusal)) => {
                self.inform(News::Undelivered { why: refusal.to_string().into() })
            }
            (CrossShardRequest::Tell(_), _, answer) => self.heard_about_notice(answer),
            (_, _, Err(refusal)) => Next::Refused(refusal),
            (_, Asked::First, Ok(answer)) => self.heard_first(answer),
            (_, _, Ok(_)) => Next::Done,
        }
    }

    fn heard_about_notice(&mut self, answer: Result<Answer, Refusal>) -> Next {
        let CrossShardRequest::Tell(EndNotice { number, content }) = &self.request else { return Next::Done };
        let step = match content {
            Content::Listen { topic, listener: Listener::Step(step), .. } => Some((topic, *step)),
            _ => None,
        };
        let (command, asked) = match (content, self.asked, answer, step) {
            (_, Asked::Last, Ok(_), _) => return Next::Done,
            (_, Asked::First, Ok(Answer::Listening(listener)), Some((_, step))) => {
                (Command::StepListens { step, number: Some(listener) }, Asked::Second)
            }
            // The event has too many listeners. A job is told so when it is saved.
            (_, Asked::First, Err(Refusal::Invalid(_)), Some((_, step))) => {
                (Command::StepListens { step, number: None }, Asked::Second)
            }
            (_, _, Err(refusal), _) => return Next::Refused(refusal),
            (Content::Wake(wake), Asked::First, Ok(Answer::NotListening), _) => {
                let topic = wake.topic.clone();
                (Command::Unlisten { topic, listener: wake.number, notice: *number }, Asked::Third)
            }
            (_, Asked::Second, Ok(Answer::NotListening), Some((topic, step))) => {
                (Command::StopListening { topic: topic.clone(), step }, Asked::Third)
            }
            _ => (Command::Queue(Ask::Told { notice: *number }), Asked::Last),
        };
        self.asked = asked;
        Next::Ask(Box::new(command))
    }

    fn heard_first(&mut self, answer: Answer) -> Next {
        let stopped = || Box::from("the attempt was stopped before that was done");
        let news = match (&self.request, answer) {
            (CrossShardRequest::Deliver(_), Answer::Queue(Said::Added(added))) => {
                match added.into_iter().next() {
                    Some(Ok(notice)) => {
                        News::Delivered(Whereabouts::of(notice.id, notice.ttl, notice.at_most_once))
                    }
                    Some(Err(refusal)) => News::Undelivered { why: refusal.to_string().into() },
                    // The message existed and has already ended: its notice tells the attempt.
                    None => return Next::Done,
                }
            }
            // The notice of the message, or of the run, informs the attempt; without one we do it.
            (CrossShardRequest::Withdraw { .. }, Answer::Queue(Said::Acted(acted))) if acted.count > 0 => {
                return Next::Done;
            }
            (CrossShardRequest::CancelCall(_), Answer::Existing(_)) => return Next::Done,
            (CrossShardRequest::Withdraw { .. }, Answer::Queue(Said::Acted(_)))
            | (CrossShardRequest::CancelCall(_), Answer::Noted) => News::Undelivered { why: stopped() },
            (CrossShardRequest::Call { .. }, Answer::Run(run)) => {
                News::Called { run: run.id, since: run.created_at }
            }
            (CrossShardRequest::Call { .. }, Answer::Existing(run)) => {
                News::Called { run, since: made_at(run.0) }
            }
            (_, other) => return Next::Unexpected(other),
        };
        self.inform(news)
    }

    /// Tells the attempt that the request is about.
    fn inform(&mut self, news: News) -> Next {
        let Subject::Attempt(sender) = self.request.subject() else { return Next::Done };
        self.asked = Asked::Second;
        Next::Ask(Box::new(Command::Tell { sender, news }))
    }
}

impl CrossShardRequest {
    pub fn subject(&self) -> Subject {
        match self {
            CrossShardRequest::Deliver(assignment) => {
                Subject::Attempt(Sender { run: assignment.run, token: assignment.token })
            }
            CrossShardRequest::Withdraw { sender, .. }
            | CrossShardRequest::Call { sender, .. }
            | CrossShardRequest::CancelCall(CancelCall { sender, .. }) => Subject::Attempt(*sender),
            CrossShardRequest::Tell(notice) => Subject::Notice(notice.number),
        }
    }

    /// The attempt for which it starts something. It need not be carried out when that attempt has ended.
    pub fn starts_for(&self) -> Option<Sender> {
        match (self, self.subject()) {
            (CrossShardRequest::Deliver(_) | CrossShardRequest::Call { .. }, Subject::Attempt(sender)) => {
                Some(sender)
            }
            _ => None,
        }
    }

    /// Whether it ends what an earlier request about the same attempt has started.
    pub fn is_withdrawal(&self) -> bool {
        matches!(self, CrossShardRequest::Withdraw { .. } | CrossShardRequest::CancelCall(_))
    }
}

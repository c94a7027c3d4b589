//! Errors of commands, in the form that clients expect: a code, then a sentence.

use std::borrow::Cow;

use punctual_core::queue::QueueRefusal;
use punctual_node::Failure;
use punctual_wire::resp::BadId;

#[derive(Debug)]
pub(super) enum Fault {
    Said(Cow<'static, str>),
    /// The client is gone, so no reply can be sent.
    Gone,
}

pub(super) const SYNTAX: Fault = Fault::Said(Cow::Borrowed("ERR syntax error"));
pub(super) const NOT_A_NUMBER: Fault =
    Fault::Said(Cow::Borrowed("ERR value is not an integer or out of range"));
pub(super) const NO_AUTH: Fault = Fault::Said(Cow::Borrowed("NOAUTH Authentication required."));
pub(super) const NOT_REPLICATED: Fault =
    Fault::Said(Cow::Borrowed("NOREPL Timeout reached before replicating to the requested number of nodes"));
pub(super) const LEAVING: Fault =
    Fault::Said(Cow::Borrowed("LEAVING This node is leaving the cluster, please connect to a different one"));
pub(super) const TOO_LONG: &str =
    "ERR this request is too long and was passed over: a word has at most 1048576 bytes, all of it 8388608";
/// The node's answer does not fit the question, which is a bug in this program.
pub(super) const UNEXPECTED: Fault = Fault::Said(Cow::Borrowed("ERR the queue answered something else"));

impl Fault {
    pub(super) const fn new(text: &'static str) -> Fault {
        Fault::Said(Cow::Borrowed(text))
    }

    pub(super) fn of(text: String) -> Fault {
        Fault::Said(Cow::Owned(text))
    }
}

impl From<BadId> for Fault {
    fn from(_: BadId) -> Fault {
        Fault::new("BADID Invalid Job ID format.")
    }
}

impl From<QueueRefusal> for Fault {
    fn from(refusal: QueueRefusal) -> Fault {
        match refusal {
            QueueRefusal::TooLong(_) => {
                Fault::new("MAXLEN Queue is already longer than the specified MAXLEN count")
            }
            QueueRefusal::Paused => Fault::new("PAUSED Queue paused in input, try later"),
            QueueRefusal::NoSuchMessage => Fault::new("NOJOB Job not known in the context of this node."),
            QueueRefusal::TooLate => Fault::new(
                "TOOLATE Half of job TTL already elapsed, you are no longer allowed to postpone the next delivery.",
            ),
            QueueRefusal::Full => Fault::of(format!("TOOLATE {refusal}")),
            QueueRefusal::TooManyQueues => Fault::of(format!("OOM {refusal}")),
        }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Fault {
        match failure {
            Failure::Refused(refusal) => Fault::of(format!("ERR {refusal}")),
            // Nothing happened: the client may try again.
            Failure::NotLed(why) => Fault::of(format!("TRYAGAIN {why}")),
            // The change may have happened.
            Failure::Unavailable(why) | Failure::Unknown(why) => Fault::of(format!("IOERR {why}")),
            Failure::Full(why) => Fault::of(format!("MISCONF Errors writing to the AOF file: {why}")),
        }
    }
}

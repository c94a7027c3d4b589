//! `punctual run why` and `punctual job why`: a sentence, and what it refers to.

use punctual_wire::rest::Why;

use super::Session;
use super::failure::Failure;
use super::output::fields;
use super::time;
use crate::wiring;

pub(super) fn show(session: &Session, why: &Why) -> Result<(), Failure> {
    session.output.show(why, |_| {
        let now = wiring::now();
        let details = &why.details;
        let facts = [
            ("why", Some(why.message.clone())),
            ("code", Some(why.code.clone())),
            ("since", why.since.map(|since| time::both(since.0, now))),
            ("until", why.until.map(|until| time::both(until.0, now))),
            ("job", details.job.as_ref().map(ToString::to_string)),
            ("run", details.run.map(|run| run.to_string())),
            ("worker", details.worker.clone()),
            ("missing", (!details.missing.is_empty()).then(|| details.missing.join(", "))),
        ];
        fields(&facts)
    })
}

//! QSTAT queue: the state of a queue, as a flat list of names and values.

use punctual_wire::resp::Request;

use super::pause::word;
use super::qlen::stat;
use crate::resp::args;
use crate::resp::fault::Fault;
use crate::resp::session::Session;

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let queue = args::queue(&session.namespace, request.word(1))?;
    let name = queue.name.clone();
    let stat = stat(&session.endpoint, queue).await?;
    let out = &mut session.out;
    let Some(stat) = stat else {
        out.nil_array();
        return Ok(());
    };
    out.array(20);
    out.text("name");
    out.text(name.as_str());
    for (field, value) in [
        ("len", stat.len),
        ("age", stat.now.since(stat.created_at).as_secs()),
        ("idle", stat.now.since(stat.used_at).as_secs()),
        ("blocked", stat.waiting),
    ] {
        out.text(field);
        out.count(value);
    }
    // The shard of a queue holds all its jobs: none are imported from other nodes.
    out.text("import-from");
    out.array(0);
    for (field, value) in [("import-rate", 0), ("jobs-in", stat.added), ("jobs-out", stat.taken)] {
        out.text(field);
        out.count(value);
    }
    out.text("pause");
    out.text(word(stat.pause));
    Ok(())
}

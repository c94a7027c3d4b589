//! The announcement of a worker.

use punctual_core::ids::{RunId, Token, WorkerId};
use punctual_core::limits::{
    FUNCTIONS_MAX, HOLDING_MAX, LABEL_BYTES_MAX, LABELS_MAX, NAME_BYTES_MAX, WORKER_SLOTS_MAX,
};
use punctual_core::name;
use punctual_core::task::Kind;
use punctual_core::worker::{Announcement, Kinds};

use super::attempt::{attempt, read_attempts};
use super::{Malformed, WORKER_PROTOCOL, v1};

/// `name` and `life` make the worker's id.
pub fn announcement(
    name: &str,
    life: u64,
    version: &str,
    announcement: &Announcement,
    holding: &[(RunId, Token)],
) -> v1::Announce {
    v1::Announce {
        name: name.to_owned(),
        life,
        version: version.to_owned(),
        protocol: WORKER_PROTOCOL,
        slots: announcement.slots,
        labels: announcement.labels.clone().into_iter().collect(),
        kinds: announcement.kinds.iter().map(|kind| kind.as_str().to_owned()).collect(),
        holding: holding.iter().map(|(run, token)| attempt(*run, *token)).collect(),
        weight: announcement.weight,
        functions: announcement.functions.iter().map(|name| name.as_str().to_owned()).collect(),
    }
}

#[expect(clippy::type_complexity, reason = "who, what it can do, and what it has in hand")]
pub fn read_announcement(
    said: v1::Announce,
) -> Result<(WorkerId, Announcement, Vec<(RunId, Token)>), Malformed> {
    check_name(&said.name)?;
    if said.slots == 0 || said.slots > WORKER_SLOTS_MAX {
        return Err(Malformed::new("announce.slots", format!("1 to {WORKER_SLOTS_MAX}, not {}", said.slots)));
    }
    if said.labels.len() > LABELS_MAX {
        return Err(Malformed::new("announce.labels", format!("at most {LABELS_MAX} labels")));
    }
    for (name, value) in &said.labels {
        check_label(name, value).map_err(|message| Malformed::new("announce.labels", message))?;
    }
    if said.holding.len() > HOLDING_MAX {
        return Err(Malformed::new("announce.holding", format!("at most {HOLDING_MAX} attempts")));
    }
    // Ignore kinds that only a newer worker knows: this node has no such task.
    let kinds: Kinds = said.kinds.iter().filter_map(|kind| Kind::parse(kind)).collect();
    if kinds == Kinds::NONE {
        return Err(Malformed::new("announce.kinds", "name at least one kind of task"));
    }
    if said.functions.len() > FUNCTIONS_MAX {
        return Err(Malformed::new("announce.functions", format!("at most {FUNCTIONS_MAX} functions")));
    }
    let functions: Result<_, name::Error> = said.functions.iter().map(|name| name.parse()).collect();
    let announcement = Announcement {
        slots: said.slots,
        labels: said.labels.into_iter().collect(),
        kinds,
        functions: functions.map_err(|error| Malformed::new("announce.functions", error.to_string()))?,
        weight: said.weight.max(1),
        node_local: false,
    };
    Ok((WorkerId::new(&said.name, said.life), announcement, read_attempts(said.holding)?))
}

fn check_name(name: &str) -> Result<(), Malformed> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(plain) {
        let message = format!("1 to {NAME_BYTES_MAX} letters, digits, dots, dashes and underscores");
        return Err(Malformed::new("announce.name", message));
    }
    Ok(())
}

/// Checks a label; the error says what is allowed.
fn check_label(name: &str, value: &str) -> Result<(), String> {
    let is_plain = |text: &str| text.len() <= LABEL_BYTES_MAX && !text.chars().any(char::is_control);
    if name.is_empty() || !is_plain(name) || !is_plain(value) {
        return Err(format!("a label has a name and at most {LABEL_BYTES_MAX} bytes of each, on one line"));
    }
    Ok(())
}

//! Idempotency keys of commands, and the rows that store them.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Holder, UniqueKey};
use punctual_core::command::{Key, Submit};
use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Invalid};
use punctual_core::name::{Name, Namespace};
use punctual_core::task::Params;

use crate::Shard;
use crate::memory::Stored;

/// A key as it was given, and the row that stores it.
pub(super) struct Claim {
    pub(super) given: Arc<str>,
    pub(super) row: Key,
}

impl Claim {
    pub(super) fn new(given: Key, under: impl FnOnce(&str) -> Arc<str>) -> Claim {
        Claim { row: Key { text: under(&given.text), kept: given.kept }, given: given.text }
    }
}

/// Keys of different kinds of commands have different prefixes, so that they never collide. A colon ends a namespace and
/// a name, because neither can contain one: a namespace can contain slashes, and a key can contain anything.
pub(crate) fn job_run_key(namespace: &Namespace, name: &Name, key: &str) -> Arc<str> {
    Arc::from(format!("job/{namespace}:{name}:{key}"))
}

pub(crate) fn retry_key(namespace: &Namespace, run: RunId, key: &str) -> Arc<str> {
    Arc::from(format!("retry/{namespace}:{run}:{key}"))
}

pub(crate) fn submit_key(namespace: &Namespace, key: &str) -> Arc<str> {
    Arc::from(format!("submit/{namespace}:{key}"))
}

/// The key of a submit: its own, else the `unique` of its definition.
pub(crate) fn given_key(submit: &Submit) -> Result<Option<Key>, Invalid> {
    match &submit.key {
        Some(key) => Ok(Some(key.clone())),
        None => unique_of(&submit.definition, None),
    }
}

/// The `unique` key of a definition, evaluated with the run's own parameters or the definition's.
pub(crate) fn unique_of(definition: &Definition, own: Option<&Params>) -> Result<Option<Key>, Invalid> {
    let Some(unique) = &definition.unique else { return Ok(None) };
    let text = unique.key_for(own.unwrap_or(&definition.params))?;
    Ok(Some(Key { text, kept: unique.kept }))
}

impl Shard {
    /// The run that holds an unexpired key.
    pub(super) fn bearer(&self, key: Option<&Claim>, now: Timestamp) -> Option<RunId> {
        match self.unique_row(&key?.row.text).filter(|row| row.expires_at > now)?.holder {
            Holder::Run(run) => Some(run),
            Holder::Message(_) | Holder::Nobody(_) => None,
        }
    }

    pub(crate) fn unique_row(&self, key: &Arc<str>) -> Option<&UniqueKey> {
        if let Some((row, _)) = self.dirty.uniques.get(key) {
            return row.as_ref();
        }
        match self.pins.uniques.get(key) {
            Some(pin) => pin.row.as_ref(),
            None => self.fetched.uniques.get(key),
        }
    }

    pub(crate) fn give_key(&mut self, key: Key, holder: Holder, now: Timestamp) {
        let stored = match self.dirty.uniques.get(&key.text) {
            Some((_, stored)) => *stored,
            // An expired row may still exist: it is updated, not inserted.
            None if self.unique_row(&key.text).is_some() => Stored::Yes,
            None => Stored::No,
        };
        let row = UniqueKey { key: Arc::clone(&key.text), holder, expires_at: now + key.kept };
        self.dirty.uniques.insert(key.text, (Some(row), stored));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_two_namespaces_never_collide() {
        let [short, long]: [Namespace; 2] = ["a", "a/b"].map(|text| text.parse().unwrap());
        let [b, c]: [Name; 2] = ["b", "c"].map(|text| text.parse().unwrap());
        assert_ne!(submit_key(&short, "b/k"), submit_key(&long, "k"));
        assert_ne!(job_run_key(&short, &b, "c/k"), job_run_key(&long, &c, "k"));
    }
}

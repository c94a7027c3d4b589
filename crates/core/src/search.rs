//! The terms by which a run is found: words of its key, of its job's labels, of the parameters that its job names in
//! `search`, and of its error.
//!
//! A term is a word in lower case, cut to its first bytes. A store keeps the terms of a run in an index, from the commit
//! that makes the run (its error: from the commit that ends it) until the run is pruned. A search gives words, and finds
//! the runs that have, for each of them, a term that begins with it.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::RunId;
use crate::invalid::Invalid;
use crate::job::Definition;
use crate::limits;
use crate::name::Namespace;
use crate::run::Run;

/// The bytes of a term that are kept.
const TERM_BYTES_MAX: usize = 64;
/// Terms of a run that are kept, without those of its error.
const TERMS_MAX: usize = 64;
/// Terms of the error of a run.
const ERROR_TERMS_MAX: usize = 16;
/// Words of a search that are looked up in the index; the others are compared with what these find.
const LOOKED_UP_MAX: usize = 8;

/// One entry of the index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunTerm {
    pub namespace: Namespace,
    pub term: Arc<str>,
    pub run: RunId,
}

/// The words that a run must have, each as the beginning of a term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// The longest first.
    words: Vec<Arc<str>>,
}

impl Search {
    pub fn parse(text: &str) -> Result<Search, Invalid> {
        let (min, max) = (limits::SEARCH_BYTES_MIN, limits::SEARCH_BYTES_MAX);
        if !(min..=max).contains(&text.len()) {
            return Err(Invalid::new("search", format!("must be {min} to {max} bytes")));
        }
        let words: BTreeSet<Arc<str>> = words_of(text).collect();
        let mut words: Vec<Arc<str>> = words.into_iter().collect();
        words.sort_by_key(|word| Reverse(word.len()));
        Ok(Search { words })
    }

    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(|word| &**word)
    }

    /// The words to look up in the index: the longest, because they have the fewest matches.
    pub fn looked_up(&self) -> impl Iterator<Item = &str> {
        self.words().take(LOOKED_UP_MAX)
    }

    /// Whether a run with these terms is found. A search without words finds nothing.
    pub fn finds(&self, terms: &[impl AsRef<str>]) -> bool {
        let has = |word: &Arc<str>| terms.iter().any(|term| term.as_ref().starts_with(&**word));
        !self.words.is_empty() && self.words.iter().all(has)
    }
}

/// The end of the range of terms that begin with a word, which is not in the range.
pub fn end_of(word: &str) -> Vec<u8> {
    let mut end = word.as_bytes().to_vec();
    // No byte of a text is 0xff.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// The terms that a run has when it is made. A child run has no terms: a search finds its parent.
pub fn terms_of_birth(run: &Run, definition: &Definition) -> BTreeSet<Arc<str>> {
    let mut terms = BTreeSet::new();
    if run.parent().is_some() {
        return terms;
    }
    terms.extend(run.key.as_deref().into_iter().flat_map(words_of));
    for (name, value) in &definition.labels {
        terms.extend(words_of(name).chain(words_of(value)));
    }
    // A run that gathers events gets its parameters when it starts.
    if !definition.search.is_empty() && run.gathers().is_none() {
        let params = run.params.as_ref().unwrap_or(&definition.params);
        terms.extend(values_of(&params.0, &definition.search));
    }
    while terms.len() > TERMS_MAX {
        terms.pop_last();
    }
    terms
}

/// The terms that a run has besides when it ends: those of its error.
pub fn terms_of_end(run: &Run, definition: &Definition) -> BTreeSet<Arc<str>> {
    if run.error.is_empty() {
        return BTreeSet::new();
    }
    let had = terms_of_birth(run, definition);
    words_of(&run.error).take(ERROR_TERMS_MAX).filter(|term| !had.contains(term)).collect()
}

/// All terms of a run.
pub fn terms_of(run: &Run, definition: &Definition) -> BTreeSet<Arc<str>> {
    let mut terms = terms_of_birth(run, definition);
    if run.status().is_terminal() {
        terms.extend(terms_of_end(run, definition));
    }
    terms
}

/// The words of the named parameters. A list counts as its items; a map is left out.
fn values_of(params: &str, names: &[String]) -> BTreeSet<Arc<str>> {
    use serde_json::Value;
    let Ok(Value::Object(params)) = serde_json::from_str(params) else { return BTreeSet::new() };
    let values = names.iter().filter_map(|name| params.get(name)).flat_map(|value| match value {
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    });
    let mut words = BTreeSet::new();
    for value in values {
        match value {
            Value::String(text) => words.extend(words_of(text)),
            Value::Number(number) => words.extend(words_of(&number.to_string())),
            Value::Bool(flag) => words.extend(words_of(&flag.to_string())),
            Value::Null | Value::Array(_) | Value::Object(_) => {}
        }
        if words.len() > TERMS_MAX {
            break;
        }
    }
    words
}

/// The words of a text as terms: without punctuation around them, in lower case, cut.
fn words_of(text: &str) -> impl Iterator<Item = Arc<str>> {
    text.split_whitespace().filter_map(|word| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        let lower = word.to_lowercase();
        let end = lower.floor_char_boundary(TERM_BYTES_MAX);
        (end > 0).then(|| Arc::from(&lower[..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::job::Labels;
    use crate::params::Params;
    use crate::run::{Origin, Part, PartOf, State, Trigger};
    use crate::task::Task;

    fn definition() -> Definition {
        Definition {
            labels: Labels::from([("team".to_owned(), "Billing EU".to_owned())]),
            search: vec!["customer".to_owned(), "orders".to_owned(), "none".to_owned()],
            params: Params(r#"{"customer":"ACME","orders":[17,18,true,{"a":"b"}],"secret":"x"}"#.into()),
            ..Definition::of(Task::Noop)
        }
    }

    fn run() -> Run {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let origin = Origin::AdHoc(Arc::new(Definition::of(Task::Noop)));
        let run = Run::new(RunId(7), Namespace::default(), origin, Trigger::Submit, now, now);
        Run { key: Some("Order-4711".into()), ..run }
    }

    fn check(terms: &BTreeSet<Arc<str>>, expected: &[&str]) {
        let terms: Vec<&str> = terms.iter().map(|term| &**term).collect();
        assert_eq!(terms, expected);
    }

    #[test]
    fn a_run_is_found_by_its_key_labels_and_named_parameters() {
        let expected = ["17", "18", "acme", "billing", "eu", "order-4711", "team", "true"];
        check(&terms_of_birth(&run(), &definition()), &expected);
        let own = Run { params: Some(Params(r#"{"customer":"Other Ltd."}"#.into())), ..run() };
        check(&terms_of_birth(&own, &definition()), &["billing", "eu", "ltd", "order-4711", "other", "team"]);
        check(&terms_of_birth(&Run { key: None, ..run() }, &Definition::of(Task::Noop)), &[]);
    }

    #[test]
    fn an_ended_run_is_found_by_its_error() {
        let failed =
            Run { error: "Connection refused: (db-1:5432), ACME".into(), state: State::Failed, ..run() };
        check(&terms_of_end(&failed, &definition()), &["connection", "db-1:5432", "refused"]);
        assert!(terms_of(&failed, &definition()).len() == 11);
        check(&terms_of_end(&run(), &definition()), &[]);
    }

    #[test]
    fn a_child_run_is_found_by_its_error_only() {
        let role = PartOf { parent: RunId(1), part: Part { index: 0, total: 2 }, worker: None };
        let child = Run { part_of: Some(Box::new(role)), error: "broke".into(), ..run() };
        check(&terms_of_birth(&child, &definition()), &[]);
        check(&terms_of_end(&child, &definition()), &["broke"]);
    }

    #[test]
    fn terms_are_bounded() {
        let long = Run { key: Some("ä".repeat(100).into()), ..run() };
        let terms = terms_of_birth(&long, &Definition::of(Task::Noop));
        assert_eq!(terms.iter().map(|term| term.len()).collect::<Vec<_>>(), [64]);
        let words: Vec<String> = (0..1000).map(|n| format!("word{n}")).collect();
        let many = Run { key: Some(words.join(" ").into()), error: words.join(" ").into(), ..run() };
        assert_eq!(terms_of_birth(&many, &definition()).len(), TERMS_MAX);
        assert!(terms_of_end(&many, &definition()).len() <= ERROR_TERMS_MAX);
    }

    #[test]
    fn a_search_needs_every_word_as_the_beginning_of_a_term() {
        let finds = |text: &str| Search::parse(text).unwrap().finds(&["acme", "billing", "refused"]);
        assert!(finds("ac") && finds("ACME bill") && finds("(refused)") && finds("  acme  "));
        assert!(!finds("--"), "it has no words");
        assert!(!finds("cme") && !finds("acme x1") && !finds("acmes"));
    }

    #[test]
    fn a_search_that_is_too_short_or_too_long_is_refused() {
        for text in ["", "a", &"x".repeat(257)] {
            assert_eq!(Search::parse(text).map_err(|error| error.field), Err("search".into()), "{text}");
        }
        assert!(Search::parse(&"x".repeat(256)).is_ok());
    }

    #[test]
    fn the_range_of_a_word_ends_after_its_last_term() {
        for word in ["ab", "zz", "größe", "支付"] {
            let end = end_of(word);
            assert!(word.as_bytes() < &end[..] && format!("{word}\u{10ffff}").as_bytes() < &end[..]);
        }
        assert!(b"ac".to_vec() >= end_of("ab"));
    }
}

//! A page of a listing.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// What to say as `after` for the next page; none: this was the last.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A page of at most `limit` items, from one more than that: the extra one is how we know that there is a
    /// next page.
    pub fn cut(mut items: Vec<T>, limit: usize, cursor: impl Fn(&T) -> String) -> Page<T> {
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(cursor);
        Page { items, next }
    }
}

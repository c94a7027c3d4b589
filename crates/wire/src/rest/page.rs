//! A page of a listing.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// The value of `after` for the next page. `None` means that this is the last page.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A page of at most `limit` items, made from up to one more: the extra item shows that there is a next page.
    pub fn cut(mut items: Vec<T>, limit: usize, cursor: impl Fn(&T) -> String) -> Page<T> {
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(cursor);
        Page { items, next }
    }
}

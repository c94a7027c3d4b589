//! Listings that are longer than a page.

use punctual_client::Error;
use punctual_core::limits::PAGE_MAX;
use punctual_wire::rest::Page;

use super::failure::Failure;

/// Reads pages, each after the last, until there are as many as were asked for; says too whether there are more. `read`
/// is told after what, and at most how many.
pub(crate) async fn gather<T>(
    limit: usize,
    mut read: impl AsyncFnMut(Option<String>, usize) -> Result<Page<T>, Error>,
) -> Result<(Vec<T>, bool), Failure> {
    let (mut items, mut after) = (Vec::new(), None);
    while items.len() < limit {
        let page = read(after.take(), (limit - items.len()).min(PAGE_MAX)).await?;
        items.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok((items, after.is_some()))
}

pub(crate) fn say_if_more(more: bool) {
    if more {
        eprintln!("hint: there are more, --limit shows them");
    }
}

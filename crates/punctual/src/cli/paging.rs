//! Listings longer than a page.

use punctual_client::Error;
use punctual_core::limits::PAGE_MAX;
use punctual_wire::rest::Page;

use super::failure::Failure;

/// Reads pages until there are `limit` items, and says whether there are more. `read` gets the cursor and the
/// size of the next page.
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

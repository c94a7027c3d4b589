//! QSCAN [cursor] [COUNT n] [BUSYLOOP] [MINLEN n] [MAXLEN n] [IMPORTRATE n]: lists the queues, page by page.

use punctual_core::limits::PAGE_MAX;
use punctual_wire::resp::Request;

use crate::resp::args::{Words, is, number, number_or_say};
use crate::resp::endpoint::Endpoint;
use crate::resp::fault::{Fault, SYNTAX};
use crate::resp::scans::Spot;
use crate::resp::session::Session;

pub(super) const COUNT_DEFAULT: usize = 100;
/// The most items in one reply, whatever COUNT says.
pub(super) const ITEMS_MAX: usize = 100_000;

#[derive(Default)]
struct Wanted {
    page: Page,
    len_min: Option<u64>,
    len_max: Option<u64>,
    import_rate: i64,
}

/// The options that all scans have.
#[derive(Default)]
pub(super) struct Page {
    cursor: Option<u64>,
    count: Option<usize>,
    busy_loop: bool,
}

impl Page {
    /// Parses an option that all scans have. `false` means that it is another one.
    pub(super) fn take(&mut self, word: &[u8], words: &mut Words<'_>) -> Result<bool, Fault> {
        if is(word, "BUSYLOOP") {
            self.busy_loop = true;
        } else if is(word, "COUNT") && words.has_next() {
            let count = number_or_say(words.next().unwrap_or_default())?;
            self.count = Some(usize::try_from(count).ok().filter(|count| *count > 0).ok_or(SYNTAX)?);
        } else if word.first().is_some_and(u8::is_ascii_digit) {
            let cursor = number(word).and_then(|cursor| u64::try_from(cursor).ok());
            let cursor = cursor.ok_or(Fault::new("ERR invalid cursor or option name"))?;
            if self.cursor.replace(cursor).is_some() {
                return Err(SYNTAX);
            }
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Rows to read: all of them with BUSYLOOP, up to [`ITEMS_MAX`].
    pub(super) fn size(&self) -> usize {
        let most = if self.busy_loop { ITEMS_MAX } else { self.count.unwrap_or(COUNT_DEFAULT) };
        most.min(ITEMS_MAX)
    }

    /// Where to continue. `None` means from the beginning.
    pub(super) fn spot(&self, endpoint: &Endpoint) -> Result<Option<Spot>, Fault> {
        match self.cursor {
            None | Some(0) => Ok(None),
            Some(cursor) => endpoint.scans.find(cursor).map(Some).ok_or(Fault::new(
                "ERR invalid cursor or option name: this scan is not known here, begin again at 0",
            )),
        }
    }
}

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let wanted = read(request)?;
    let mut after = match wanted.page.spot(&session.endpoint)? {
        None => None,
        Some(Spot::Queue(queue)) if queue.namespace == session.namespace => Some(queue),
        Some(_) => return Err(Fault::new("ERR invalid cursor or option name")),
    };
    let (mut names, mut left) = (Vec::new(), wanted.page.size());
    loop {
        let limit = left.min(PAGE_MAX);
        let queues = session.endpoint.queues.queues(&session.namespace, after.as_ref(), limit).await?;
        let is_last = queues.len() < limit;
        after = queues.last().map(|queue| queue.key.clone()).filter(|_| !is_last);
        left -= queues.len().min(left);
        let fits = |len: u64| {
            wanted.len_min.is_none_or(|least| len >= least) && wanted.len_max.is_none_or(|most| len <= most)
        };
        let queues = queues.into_iter().filter(|queue| fits(queue.queued) && wanted.import_rate <= 0);
        names.extend(queues.map(|queue| queue.key.name));
        if is_last || left == 0 {
            break;
        }
    }
    let cursor = after.map_or(0, |queue| session.endpoint.scans.keep(Spot::Queue(queue)));
    session.out.array(2);
    session.out.text(&cursor.to_string());
    session.out.array(names.len());
    names.iter().for_each(|name| session.out.text(name.as_str()));
    Ok(())
}

fn read(request: &Request) -> Result<Wanted, Fault> {
    let mut wanted = Wanted::default();
    let mut words = Words::of(request, 1);
    while let Some(word) = words.next() {
        if wanted.page.take(word, &mut words)? {
            continue;
        }
        let is_known = ["MINLEN", "MAXLEN", "IMPORTRATE"].iter().any(|known| is(word, known));
        if !is_known || !words.has_next() {
            return Err(Fault::new("ERR invalid cursor or option name"));
        }
        let value = number_or_say(words.next().unwrap_or_default())?;
        let len = u64::try_from(value).unwrap_or(0);
        if is(word, "MINLEN") {
            wanted.len_min = Some(len);
        } else if is(word, "MAXLEN") {
            wanted.len_max = Some(len);
        } else {
            wanted.import_rate = value;
        }
    }
    Ok(wanted)
}

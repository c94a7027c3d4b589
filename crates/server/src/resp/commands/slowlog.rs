//! SLOWLOG GET [count] | LEN | RESET: the slow commands.

use punctual_wire::resp::Request;

use crate::resp::args::{is, number_or_say};
use crate::resp::fault::Fault;
use crate::resp::session::Session;

const COUNT_DEFAULT: usize = 10;

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let (word, out) = (request.word(1), &mut session.out);
    let log = &session.endpoint.slowlog;
    match request.len() {
        2 if is(word, "LEN") => out.count(u64::try_from(log.len()).unwrap_or(0)),
        2 if is(word, "RESET") => {
            log.reset();
            out.simple("OK");
        }
        2 | 3 if is(word, "GET") => {
            let count = if request.len() == 3 { number_or_say(request.word(2))? } else { -2 };
            let count = match count {
                -2 => COUNT_DEFAULT,
                count => usize::try_from(count).unwrap_or(usize::MAX),
            };
            let entries = log.newest(count);
            out.array(entries.len());
            for entry in entries {
                out.array(6);
                out.count(entry.number);
                out.number(entry.at.as_millis() / 1000);
                out.number(i64::try_from(entry.took.as_micros()).unwrap_or(i64::MAX));
                out.array(entry.words.len());
                entry.words.iter().for_each(|word| out.bulk(word));
                out.text(&entry.address);
                out.text(&entry.name);
            }
        }
        _ => {
            return Err(Fault::new(
                "ERR Unknown SLOWLOG subcommand or wrong # of args. Try GET, RESET, LEN.",
            ));
        }
    }
    Ok(())
}

//! COMMAND [COUNT | INFO name... | DOCS name... | LIST]: describes the commands.

use punctual_wire::resp::{Replies, Request};

use crate::resp::args::is;
use crate::resp::fault::Fault;
use crate::resp::session::Session;
use crate::resp::table::{Row, commands, find};
use crate::routes::Right;

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let (word, out) = (request.word(1), &mut session.out);
    match request.len() {
        1 => all(out),
        2 if is(word, "COUNT") => out.count(u64::try_from(commands().len()).unwrap_or(0)),
        2 if is(word, "LIST") => {
            out.array(commands().len());
            commands().iter().for_each(|row| out.text(&row.name.to_ascii_lowercase()));
        }
        2 if is(word, "INFO") => all(out),
        _ if is(word, "INFO") => {
            out.array(request.len() - 2);
            for name in request.words(2) {
                match find(name) {
                    Some((_, row)) => describe(out, row),
                    None => out.nil_array(),
                }
            }
        }
        _ if is(word, "DOCS") => {
            let named: Vec<&Row> = match request.len() {
                2 => commands().iter().collect(),
                _ => request.words(2).filter_map(find).map(|(_, row)| row).collect(),
            };
            out.map(named.len());
            named.into_iter().for_each(|row| document(out, row));
        }
        _ => return Err(Fault::new("ERR Unknown subcommand or wrong number of arguments.")),
    }
    Ok(())
}

fn all(out: &mut Replies) {
    out.array(commands().len());
    commands().iter().for_each(|row| describe(out, row));
}

/// Name, arity, flags, and no keys: any node accepts the command.
fn describe(out: &mut Replies, row: &Row) {
    out.array(6);
    out.text(&row.name.to_ascii_lowercase());
    out.number(row.arity);
    let flags = [
        (row.writes(), "write"),
        (row.right == Right::Read, "readonly"),
        (row.right == Right::Admin, "admin"),
        (row.waits, "blocking"),
    ];
    let flags: Vec<&str> = flags.into_iter().filter_map(|(has, flag)| has.then_some(flag)).collect();
    out.array(flags.len());
    flags.into_iter().for_each(|flag| out.simple(flag));
    [0, 0, 0].into_iter().for_each(|key| out.number(key));
}

fn document(out: &mut Replies, row: &Row) {
    out.text(&row.name.to_ascii_lowercase());
    out.map(3);
    for (name, value) in [("summary", row.summary), ("since", "0.1.0"), ("group", "generic")] {
        out.text(name);
        out.text(value);
    }
}

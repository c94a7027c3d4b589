//! CLIENT: lists the connections, names this one, and ends others.

use std::time::Duration;

use punctual_wire::resp::Request;
use tokio::time::Instant;

use crate::auth::{Caller, Peer};
use crate::resp::args::{is, number};
use crate::resp::commands::auth::Who;
use crate::resp::fault::{Fault, SYNTAX};
use crate::resp::session::{Mode, Session};
use crate::routes::Right;

const NAME_BYTES_MAX: usize = 128;
/// The longest time that a client may pause all clients.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A name that a list can show.
pub(super) fn name_of(word: &[u8]) -> Result<&str, Fault> {
    let name = std::str::from_utf8(word).ok().filter(|name| name.len() <= NAME_BYTES_MAX);
    let is_shown = |name: &&str| name.bytes().all(|byte| byte.is_ascii_graphic());
    name.filter(is_shown)
        .ok_or(Fault::new("ERR Client names cannot contain spaces, newlines or special characters."))
}

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let (word, words) = (request.word(1), request.len());
    match words {
        2 if is(word, "ID") => session.out.count(session.client.id),
        2 if is(word, "INFO") => session.out.text(&session.client.line()),
        2 if is(word, "GETNAME") => match session.client.name() {
            name if name.is_empty() => session.out.nil(),
            name => session.out.text(&name),
        },
        3 if is(word, "SETNAME") => {
            session.client.set_name(name_of(request.word(2))?);
            session.out.simple("OK");
        }
        4 if is(word, "SETINFO") => set_info(session, request.word(2), request.word(3))?,
        3 if is(word, "REPLY") => reply(session, request.word(2))?,
        3 if is(word, "NO-EVICT") || is(word, "NO-TOUCH") => session.out.simple("OK"),
        _ if is(word, "LIST") => {
            alone(session, Right::Admin).await?;
            let lines: String = session.endpoint.clients.all().iter().map(|client| client.line()).collect();
            session.out.text(&lines);
        }
        3.. if is(word, "KILL") => {
            alone(session, Right::Admin).await?;
            kill(session, request)?;
        }
        3 | 4 if is(word, "PAUSE") => {
            alone(session, Right::Admin).await?;
            let millis = number(request.word(2)).and_then(|millis| u64::try_from(millis).ok());
            let millis = millis.ok_or(Fault::new("ERR timeout is not an integer or out of range"))?;
            let pause = Duration::from_millis(millis).min(PAUSE_MAX);
            *session.endpoint.paused_until.lock() = Some(Instant::now() + pause);
            session.out.simple("OK");
        }
        2 if is(word, "UNPAUSE") => {
            alone(session, Right::Admin).await?;
            *session.endpoint.paused_until.lock() = None;
            session.out.simple("OK");
        }
        _ => {
            let shown: String = word.escape_ascii().to_string().chars().take(128).collect();
            return Err(Fault::of(format!(
                "ERR Unknown subcommand or wrong number of arguments for '{shown}'"
            )));
        }
    }
    Ok(())
}

/// Checks a further right: subcommands that affect other clients need more than the command itself.
async fn alone(session: &Session, right: Right) -> Result<(), Fault> {
    let Who::Bearer { token, .. } = &session.who else { return Ok(()) };
    let peer = Peer { address: session.client.address.ip().to_canonical(), certified: false };
    let caller = Caller { bearer: Some(token), peer: Some(peer) };
    let checked = session.endpoint.gate.check(&caller, right).await;
    checked.map_err(|refused| Fault::of(format!("NOPERM {refused}")))
}

fn set_info(session: &mut Session, field: &[u8], value: &[u8]) -> Result<(), Fault> {
    let value = name_of(value).map_err(|_| {
        Fault::new("ERR lib-name and lib-ver cannot contain spaces, newlines or special characters.")
    })?;
    if is(field, "LIB-NAME") {
        session.client.set_library(Some(value), None);
    } else if is(field, "LIB-VER") {
        session.client.set_library(None, Some(value));
    } else {
        return Err(Fault::of(format!("ERR Unrecognized option '{}'", field.escape_ascii())));
    }
    session.out.simple("OK");
    Ok(())
}

fn reply(session: &mut Session, word: &[u8]) -> Result<(), Fault> {
    if is(word, "ON") {
        session.mode = Mode::On;
        session.out.simple("OK");
    } else if is(word, "OFF") {
        session.mode = Mode::Off;
    } else if is(word, "SKIP") {
        if session.mode != Mode::Off {
            session.mode = Mode::SkipNext;
        }
    } else {
        return Err(SYNTAX);
    }
    Ok(())
}

/// CLIENT KILL address, or CLIENT KILL [ID id] [ADDR address] [SKIPME yes|no] ...
fn kill(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let is_old = request.len() == 3;
    let (mut id, mut address, mut skip_me) = (None, None, !is_old);
    if is_old {
        address = Some(request.word(2));
    } else if !request.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    let mut at = if is_old { request.len() } else { 2 };
    while at < request.len() {
        let (word, value) = (request.word(at), request.word(at + 1));
        if is(word, "ID") {
            let value = number(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
            id = Some(value.ok_or(Fault::new("ERR client-id should be greater than 0"))?);
        } else if is(word, "ADDR") {
            address = Some(value);
        } else if is(word, "SKIPME") {
            skip_me = is(value, "YES");
        } else {
            return Err(SYNTAX);
        }
        at += 2;
    }
    let mut killed = 0;
    for client in session.endpoint.clients.all() {
        let fits = id.is_none_or(|id| client.id == id)
            && address.is_none_or(|address| client.address.to_string().as_bytes() == address);
        if !fits || (skip_me && client.id == session.client.id) {
            continue;
        }
        killed += 1;
        client.end();
    }
    match (is_old, killed) {
        (true, 0) => return Err(Fault::new("ERR No such client")),
        (true, _) => session.out.simple("OK"),
        (false, killed) => session.out.count(killed),
    }
    Ok(())
}

//! HELLO: without arguments it lists the nodes, as in Disque; with a version it selects the protocol, as in Redis.
//!
//! HELLO [2|3 [AUTH name secret] [SETNAME name]]

use punctual_wire::resp::{Protocol, Request};

use super::auth::{Who, log_in};
use super::client::name_of;
use super::cluster;
use crate::resp::args::{Words, is, number};
use crate::resp::fault::{Fault, NO_AUTH, SYNTAX};
use crate::resp::session::Session;

/// The format version in the reply of HELLO without arguments.
const FORMAT: i64 = 1;
/// The priority of a reachable node: clients choose a lower number first.
const REACHED: &str = "1";
/// The priority of a live node without an endpoint for queues.
const NOWHERE: &str = "100";

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    if request.len() > 1 { choose(session, request).await } else { tell(session).await }
}

async fn tell(session: &mut Session) -> Result<(), Fault> {
    if session.who == Who::Stranger {
        return Err(NO_AUTH);
    }
    let nodes = cluster::nodes(&session.endpoint).await;
    let out = &mut session.out;
    out.array(2 + nodes.len());
    out.number(FORMAT);
    out.text(session.endpoint.node.as_str());
    for node in nodes {
        out.array(4);
        out.text(node.id.as_str());
        out.text(&node.host);
        out.text(&node.port.to_string());
        // Every node in the list has a session, so it is alive.
        out.text(if node.port == 0 { NOWHERE } else { REACHED });
    }
    Ok(())
}

async fn choose(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let protocol = match number(request.word(1)) {
        Some(2) => Protocol::Two,
        Some(3) => Protocol::Three,
        Some(_) => return Err(Fault::new("NOPROTO unsupported protocol version")),
        None => {
            return Err(Fault::new("ERR Protocol version is not an integer or out of range"));
        }
    };
    let (mut login, mut name) = (None, None);
    let mut words = Words::of(request, 2);
    while let Some(word) = words.next() {
        if is(word, "AUTH") {
            login = Some((words.next().ok_or(SYNTAX)?, words.next().ok_or(SYNTAX)?));
        } else if is(word, "SETNAME") {
            name = Some(name_of(words.next().ok_or(SYNTAX)?)?);
        } else {
            return Err(Fault::of(format!("ERR Syntax error in HELLO option '{}'", word.escape_ascii())));
        }
    }
    if let Some((user, secret)) = login {
        log_in(session, Some(user), secret).await?;
    }
    if session.who == Who::Stranger {
        return Err(Fault::new(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        session.client.set_name(name);
    }
    session.out.speak(protocol);
    session.client.speaks(protocol.number());
    let out = &mut session.out;
    out.map(7);
    out.text("server");
    out.text("punctual");
    out.text("version");
    out.text(env!("CARGO_PKG_VERSION"));
    out.text("proto");
    out.number(protocol.number());
    out.text("id");
    out.count(session.client.id);
    // Any node accepts any command, so a client need not know the others.
    out.text("mode");
    out.text("standalone");
    out.text("role");
    out.text("master");
    out.text("modules");
    out.array(0);
    Ok(())
}

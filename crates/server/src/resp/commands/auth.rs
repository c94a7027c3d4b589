//! AUTH [name] secret: the password of this endpoint, or a token of the server.

use std::time::Duration;

use punctual_wire::resp::Request;
use tokio::time::Instant;

use crate::auth::{Caller, Peer, Refused};
use crate::resp::args::is;
use crate::resp::fault::{Fault, NO_AUTH, SYNTAX};
use crate::resp::password::Checked;
use crate::resp::session::Session;
use crate::resp::table::Row;
use crate::routes::Right;

/// How long an answer of the gate is cached, and so how long a removed token still works here.
const BELIEVED: Duration = Duration::from_secs(2);

/// Who the client is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::resp) enum Who {
    /// Not authenticated yet.
    Stranger,
    /// May do everything: no authentication is needed, or the client gave the password.
    Anyone,
    Bearer {
        token: String,
        /// The granted rights, and when each was checked.
        allowed: Vec<(Right, Instant)>,
    },
}

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    match request.len() {
        2 => log_in(session, None, request.word(1)).await?,
        3 => log_in(session, Some(request.word(1)), request.word(2)).await?,
        _ => return Err(SYNTAX),
    }
    session.out.simple("OK");
    Ok(())
}

pub(super) async fn log_in(session: &mut Session, name: Option<&[u8]>, secret: &[u8]) -> Result<(), Fault> {
    let wrong = match name {
        None => Fault::new("ERR invalid password"),
        Some(_) => Fault::new("WRONGPASS invalid username-password pair or user is disabled."),
    };
    if session.endpoint.is_open() {
        return Err(Fault::new("ERR Client sent AUTH, but no password is set"));
    }
    let peer = session.client.address.ip().to_canonical();
    let is_default = name.is_none_or(|name| is(name, "default"));
    if let Some(password) = session.endpoint.password.as_ref().filter(|_| is_default) {
        match password.check(secret, peer) {
            Checked::Right => {
                session.known_as(Who::Anyone);
                return Ok(());
            }
            Checked::TooMany => return Err(too_many()),
            // The secret may be a token.
            Checked::Wrong => {}
        }
    }
    let token = std::str::from_utf8(secret).ok().filter(|_| !session.endpoint.gate.is_open());
    let Some(token) = token.map(str::to_owned) else { return Err(wrong) };
    let caller = Caller { bearer: Some(&token), peer: Some(Peer { address: peer, certified: false }) };
    match session.endpoint.gate.knows(&caller).await {
        Ok(()) => {
            session.known_as(Who::Bearer { token, allowed: Vec::new() });
            Ok(())
        }
        Err(Refused::TooMany { .. }) => Err(too_many()),
        Err(refused @ (Refused::Expired | Refused::Unavailable)) => Err(Fault::of(format!("ERR {refused}"))),
        Err(_) => Err(wrong),
    }
}

fn too_many() -> Fault {
    Fault::new("ERR too many wrong passwords came from this address: try again in a minute")
}

/// Whether the client has the right that a command needs.
pub(in crate::resp) async fn admit(session: &mut Session, row: &Row) -> Result<(), Fault> {
    let peer = Peer { address: session.client.address.ip().to_canonical(), certified: false };
    let (gate, need) = (&session.endpoint.gate, row.right);
    match &mut session.who {
        Who::Anyone => Ok(()),
        _ if need == Right::Anyone => Ok(()),
        Who::Stranger => Err(NO_AUTH),
        Who::Bearer { token, allowed } => {
            let now = Instant::now();
            let fresh = |(right, at): &(Right, Instant)| *right == need && now.duration_since(*at) < BELIEVED;
            if allowed.iter().any(fresh) {
                return Ok(());
            }
            match gate.check(&Caller { bearer: Some(token), peer: Some(peer) }, need).await {
                Ok(()) => {
                    allowed.retain(|(right, _)| *right != need);
                    allowed.push((need, now));
                    Ok(())
                }
                Err(refused @ Refused::Forbidden { .. }) => Err(Fault::of(format!("NOPERM {refused}"))),
                Err(refused @ Refused::Unavailable) => Err(Fault::of(format!("TRYAGAIN {refused}"))),
                Err(refused) => Err(Fault::of(format!("NOAUTH {refused}"))),
            }
        }
    }
}

//! CONFIG GET pattern... | SET name value | RESETSTAT | REWRITE: the settings of this endpoint, under Disque's names.

use punctual_wire::resp::Request;

use crate::resp::args::{is, number};
use crate::resp::endpoint::Endpoint;
use crate::resp::fault::Fault;
use crate::resp::listen::KEEPALIVE;
use crate::resp::session::Session;

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let word = request.word(1);
    match request.len() {
        3.. if is(word, "GET") => {
            let wanted = |name: &str| request.words(2).any(|pattern| fits(pattern, name.as_bytes()));
            let found =
                values(&session.endpoint).into_iter().filter(|(name, _)| wanted(name)).collect::<Vec<_>>();
            session.out.map(found.len());
            for (name, value) in found {
                session.out.text(name);
                session.out.text(&value);
            }
        }
        4 if is(word, "SET") => {
            set(&session.endpoint, request.word(2), request.word(3))?;
            session.out.simple("OK");
        }
        2 if is(word, "RESETSTAT") => {
            session.endpoint.counts.reset();
            session.out.simple("OK");
        }
        2 if is(word, "REWRITE") => {
            return Err(Fault::new("ERR The server is running without a config file"));
        }
        _ => return Err(Fault::new("ERR CONFIG subcommand must be one of GET, SET, RESETSTAT, REWRITE")),
    }
    Ok(())
}

fn values(endpoint: &Endpoint) -> Vec<(&'static str, String)> {
    let fixed = [
        ("databases", "1"),
        ("maxmemory", "0"),
        ("maxmemory-policy", "noeviction"),
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("save", ""),
        ("latency-monitor-threshold", "0"),
        ("client-output-buffer-limit", "normal 8388608 8388608 30"),
    ];
    let own = [
        ("timeout", endpoint.settings.idle_time.map_or(0, |time| time.as_secs().max(1)).to_string()),
        ("tcp-keepalive", KEEPALIVE.as_secs().to_string()),
        ("bind", endpoint.address.ip().to_string()),
        ("port", endpoint.address.port().to_string()),
        ("maxclients", endpoint.settings.connections.to_string()),
        ("slowlog-log-slower-than", endpoint.slowlog.threshold().to_string()),
        ("slowlog-max-len", endpoint.slowlog.most().to_string()),
    ];
    fixed.into_iter().map(|(name, value)| (name, value.to_owned())).chain(own).collect()
}

fn set(endpoint: &Endpoint, name: &[u8], value: &[u8]) -> Result<(), Fault> {
    let shown = |word: &[u8]| -> String { word.escape_ascii().to_string().chars().take(128).collect() };
    let invalid =
        || Fault::of(format!("ERR Invalid argument '{}' for CONFIG SET '{}'", shown(value), shown(name)));
    if is(name, "slowlog-log-slower-than") {
        endpoint.slowlog.set_threshold(number(value).ok_or_else(invalid)?);
    } else if is(name, "slowlog-max-len") {
        let most = number(value).and_then(|most| usize::try_from(most).ok()).ok_or_else(invalid)?;
        endpoint.slowlog.set_most(most);
    } else {
        return Err(Fault::of(format!("ERR Unsupported CONFIG parameter: {}", shown(name))));
    }
    Ok(())
}

/// Whether a name matches a pattern of `*` and `?`, in at most pattern length times name length steps.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    // The last star, and where in the name the text after it was last tried.
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        let here = pattern.get(at).copied();
        if here == Some(b'*') {
            star = Some((at, in_name));
            at += 1;
        } else if here.is_some_and(|here| here == b'?' || here.eq_ignore_ascii_case(&name[in_name])) {
            (at, in_name) = (at + 1, in_name + 1);
        } else if let Some((behind, taken)) = star {
            star = Some((behind, taken + 1));
            (at, in_name) = (behind + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|rest| *rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_pattern_has_stars_and_question_marks() {
        for (pattern, name, expected) in [
            ("*", "port", true),
            ("max*", "maxclients", true),
            ("*CLIENTS", "maxclients", true),
            ("m*x*s", "maxclients", true),
            ("p?rt", "port", true),
            ("port", "port", true),
            ("por", "port", false),
            ("?", "port", false),
            ("", "port", false),
            ("*x", "port", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern}");
        }
    }
}

//! What `FAILPOINTS` asks for.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Point;

const VARIABLE: &str = "FAILPOINTS";
/// Wrong usage, as everywhere on the command line.
const USAGE: i32 = 2;

/// A point that the process dies at, once it has passed it often enough.
#[derive(Debug)]
struct Armed {
    point: Point,
    off: u64,
    hits: AtomicU64,
}

pub(crate) fn hit(point: Point) {
    static ARMED: OnceLock<Vec<Armed>> = OnceLock::new();
    let armed = ARMED.get_or_init(|| match std::env::var(VARIABLE) {
        Ok(text) => read(&text).unwrap_or_else(|why| {
            say(&format!("error: {VARIABLE}: {why}"));
            std::process::exit(USAGE)
        }),
        Err(_) => Vec::new(),
    });
    for armed in armed.iter().filter(|armed| armed.point == point) {
        let (name, before) = (point.name(), armed.hits.fetch_add(1, Ordering::Relaxed));
        if before < armed.off {
            say(&format!("failpoint {name}: passed"));
            continue;
        }
        say(&format!("failpoint {name}: abort"));
        std::process::abort();
    }
}

/// `name=abort` and `name=3*off->abort`, several of them with a semicolon between.
fn read(text: &str) -> Result<Vec<Armed>, String> {
    text.split(';').filter(|entry| !entry.trim().is_empty()).map(read_one).collect()
}

fn read_one(entry: &str) -> Result<Armed, String> {
    let (name, actions) = entry.trim().split_once('=').ok_or_else(|| format!("`{entry}` names no action"))?;
    let point = Point::ALL.iter().find(|point| point.name() == name);
    let point = *point.ok_or_else(|| format!("no point `{name}`; `punctual failpoints` lists them"))?;
    let off = match actions.strip_suffix("abort") {
        Some("") => Some(0),
        Some(before) => before.strip_suffix("*off->").and_then(|count| count.parse().ok()),
        None => None,
    };
    let off = off.ok_or_else(|| format!("`{actions}` is neither `abort` nor `<count>*off->abort`"))?;
    Ok(Armed { point, off, hits: AtomicU64::new(0) })
}

fn say(line: &str) {
    // The process aborts even if the line cannot be written.
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&[(Point, u64)], &str>) {
        match (read(text), expected) {
            (Ok(armed), Ok(expected)) => {
                let armed: Vec<_> = armed.iter().map(|armed| (armed.point, armed.off)).collect();
                assert_eq!(armed, expected, "{text}");
            }
            (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
            (read, expected) => panic!("{text}: {read:?}, not {expected:?}"),
        }
    }

    #[test]
    fn it_is_said_where_to_die_and_how_often_to_pass_before() {
        check("", Ok(&[]));
        check("node.load.begun=abort", Ok(&[(Point::NodeLoadBegun, 0)]));
        check(
            "node.load.begun=3*off->abort; node.load.done=abort;",
            Ok(&[(Point::NodeLoadBegun, 3), (Point::NodeLoadDone, 0)]),
        );
        check("node.load.begun", Err("names no action"));
        check("nowhere=abort", Err("no point `nowhere`"));
        check("node.load.begun=panic", Err("neither `abort`"));
        check("node.load.begun=x*off->abort", Err("neither `abort`"));
    }

    #[test]
    fn every_point_has_a_name_of_its_own() {
        let mut names: Vec<&str> = Point::ALL.iter().map(|point| point.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Point::ALL.len());
        assert!(names.len() >= 30);
    }
}

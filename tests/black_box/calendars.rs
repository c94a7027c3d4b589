//! A calendar that is edited moves the fires of the jobs that keep to it.

use punctual_tests::wait::{self, SOON};
use punctual_tests::{Export, Node, Scene};
use punctual_verify::Options;
use serde_json::Value;

/// Far off, so that no test is ever run across one of its fires.
const PAYOUT: &str = "
name: payout
schedule: { cron: '0 8 * * *', timezone: Asia/Shanghai, start: '2099-01-01T00:00:00+08:00', calendar: workdays }
task: { noop: {} }
";
/// Fires all the time, so that there is something to verify.
const BEAT: &str = "
name: beat
schedule: { every: 1s, calendar: workdays }
task: { noop: {} }
overlap: allow
misfire: { policy: all }
";

fn workdays(exclude: &str) -> String {
    format!("calendar: workdays\nexclude: [{exclude}]\n")
}

/// The next fires of the payout, which are at eight in Shanghai: midnight in UTC.
fn next(node: &Node, count: &str) -> Vec<String> {
    let fires = node.cli(["job", "next", "payout", "--count", count, "-o", "json"]).json();
    let due = |fire: &Value| fire["due_at"].as_str().expect("a fire has a due time").to_owned();
    fires.as_array().expect("a list of fires").iter().map(due).collect()
}

#[test]
fn an_edited_calendar_moves_the_next_fire() {
    let scene = Scene::new();
    let mut node = scene.start();
    let apply = |node: &Node, noun: &str, text: &str| {
        let file = scene.write(&format!("{noun}.yaml"), text);
        node.cli([noun.as_ref(), "apply".as_ref(), file.as_os_str()])
    };
    let refused = apply(&node, "job", PAYOUT);
    assert_eq!(refused.status.code(), Some(4), "a job without its calendar is refused: {refused:?}");
    assert!(refused.err.contains("schedule.calendar"), "{refused:?}");

    apply(&node, "calendar", &workdays("12-25")).ok();
    apply(&node, "job", PAYOUT).ok();
    apply(&node, "job", BEAT).ok();
    assert_eq!(next(&node, "2"), ["2099-01-01T00:00:00.000Z", "2099-01-02T00:00:00.000Z"]);

    apply(&node, "calendar", &workdays("2099-01-01..2099-01-02")).ok();
    assert_eq!(next(&node, "1"), ["2099-01-03T00:00:00.000Z"], "two days are out, so the third is next");
    let shown = node.cli(["job", "show", "payout", "-o", "json"]).json();
    assert_eq!((&shown["revision"], &shown["schedule"]["calendar"]), (&2.into(), &"workdays".into()));

    node.kill();
    node.start();
    assert_eq!(next(&node, "1"), ["2099-01-03T00:00:00.000Z"]);
    apply(&node, "calendar", &workdays("2099-01-01")).ok();
    assert_eq!(next(&node, "1"), ["2099-01-02T00:00:00.000Z"], "a day that is put back is next");

    let days = ["calendar", "days", "workdays", "--from", "2099-01-01", "--to", "2099-01-02", "-o", "json"];
    let days = node.cli(days).json();
    assert_eq!((&days[0]["in"], &days[1]["in"]), (&false.into(), &true.into()));
    let used = node.cli(["calendar", "delete", "workdays"]);
    assert_eq!(used.status.code(), Some(4), "{used:?}");
    assert!(used.err.contains("`beat`"), "{used:?}");

    wait::until_so("the beat goes on by the newest days", SOON, || {
        Export::of(&node).fires("beat").iter().filter(|run| run["revision"] == 3).count() >= 2
    });
    Export::of(&node).verify(&scene, &node, &Options::default());
}

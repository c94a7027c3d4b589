//! The command line, as someone meets it who has just installed it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cli, Node, Scene, binary};
use serde_json::Value;

/// What a person sees on a terminal of so many columns.
fn on_a_terminal(node: &Node, columns: usize, words: &str, colour: bool) -> String {
    let typed = format!("stty cols {columns}; exec {} {words}", binary::path().display());
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &typed, "/dev/null"]);
    script.env("PUNCTUAL_SERVER", node.api().address()).env("TERM", "xterm").env_remove("NO_COLOR");
    if !colour {
        script.env("NO_COLOR", "1");
    }
    let output = script.stdin(Stdio::null()).output();
    let output = output.expect("`script` is installed: scripts/install-deps test");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("the command line prints text").replace('\r', "")
}

/// The text without its colours.
fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// The binary without a server to talk to.
#[track_caller]
fn alone(words: &[&str]) -> Cli {
    let mut command = Command::new(binary::path());
    // Nobody listens on port 1.
    Cli::run(command.args(words).env("PUNCTUAL_SERVER", "http://127.0.0.1:1").env_remove("NO_COLOR"))
}

fn checks(cli: &Cli) -> Vec<Value> {
    let checks: Value = serde_json::from_str(&cli.out).unwrap_or_else(|error| panic!("{error}: {cli:?}"));
    checks.as_array().expect("the checks are a list").clone()
}

#[track_caller]
fn verdict(checks: &[Value], what: &str) -> String {
    let check = checks.iter().find(|check| check["what"] == what);
    let check = check.unwrap_or_else(|| panic!("no check of {what} in {checks:?}"));
    let verdict = check["verdict"].as_str().expect("a check has a verdict").to_owned();
    let hinted = check["hint"].as_str().is_some_and(|hint| !hint.is_empty());
    assert_eq!(hinted, verdict != "ok", "what is not in order comes with what to do: {check}");
    verdict
}

#[test]
fn without_a_word_it_says_how_to_begin() {
    let said = alone(&[]);
    assert!(said.status.success(), "{said:?}");
    assert!(said.out.contains("punctual dev") && said.out.contains("punctual job apply"), "{said:?}");
}

#[test]
fn an_unreachable_server_is_not_answered_with_the_hint_for_dev() {
    let said = alone(&["job", "list"]);
    assert_eq!(said.status.code(), Some(5), "{said:?}");
    assert!(said.err.contains("error: no answer from http://127.0.0.1:1"), "{said:?}");
    assert!(said.err.contains("start the server there") && !said.err.contains("punctual dev"), "{said:?}");
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let scene = Scene::new();
    let node = scene.start();
    let mut command = Command::new(binary::path());
    for name in ["PUNCTUAL_CA", "PUNCTUAL_TOKEN", "PUNCTUAL_NAMESPACE", "PUNCTUAL_SERVER"] {
        command.env(name, "");
    }
    let said = Cli::run(command.args(["job", "list", "--server", node.api().address()]));
    assert!(said.status.success(), "{said:?}");
}

#[test]
fn usage_does_not_name_what_the_environment_says() {
    let said = alone(&["job", "show"]);
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    assert!(said.err.contains("<NAME>") && !said.err.contains("--server"), "{said:?}");
    let mut command = Command::new(binary::path());
    let said = Cli::run(command.args(["job", "list"]).env("PUNCTUAL_NAMESPACE", "Payments"));
    assert!(said.status.code() == Some(2) && said.err.contains("Payments"), "{said:?}");
}

#[test]
fn the_next_server_is_asked_when_one_cannot_be_reached() {
    let scene = Scene::new();
    let node = scene.start();
    let servers = format!("http://127.0.0.1:1,{},http://127.0.0.1:2", node.api().address());
    let mut command = Command::new(binary::path());
    let said = Cli::run(command.args(["run", "submit", "--noop", "--wait"]).env("PUNCTUAL_SERVER", &servers));
    assert!(said.status.success(), "{said:?}");
    assert_eq!(node.cli(["run", "list", "-o", "json"]).json().as_array().map(Vec::len), Some(1));
    let mut command = Command::new(binary::path());
    let nobody = Cli::run(command.args(["job", "list", "--server", "127.0.0.1:1,127.0.0.1:2"]));
    assert_eq!(nobody.status.code(), Some(5), "{nobody:?}");
    assert!(nobody.err.contains("http://127.0.0.1:1, http://127.0.0.1:2"), "{nobody:?}");
}

#[test]
fn a_start_that_overlap_skips_says_so_and_exits_with_1() {
    let scene = Scene::new();
    let node = scene.start();
    let job = serde_json::json!({ "schedule": { "manual": true }, "task": { "shell": "sleep 60" } });
    node.api().put_job("slow", &job);
    node.cli(["job", "run", "slow"]).ok();
    let skipped = node.cli(["job", "run", "slow"]);
    assert_eq!(skipped.status.code(), Some(1), "{skipped:?}");
    assert!(skipped.out.contains("was skipped: an earlier run of the job was still active"), "{skipped:?}");
}

#[test]
fn a_last_line_without_a_line_break_is_ended() {
    let scene = Scene::new();
    let node = scene.start();
    let run = node.cli(["run", "submit", "--shell", "printf open", "--wait", "-o", "json"]).json();
    let id = run["id"].as_str().expect("a run has an id");
    assert_eq!(node.cli(["run", "logs", id]).out, "open\n");
    assert_eq!(node.cli(["run", "logs", id, "--raw"]).out, "open");
}

#[test]
fn a_folder_without_jobs_is_an_error() {
    let scene = Scene::new();
    let node = scene.start();
    let folder = scene.data().join("jobs");
    fs::create_dir(&folder).expect("our folder can be made");
    let said = node.cli(["job".as_ref(), "apply".as_ref(), folder.as_os_str()]);
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    assert!(said.err.contains("there is no job in") && said.err.contains(".yaml"), "{said:?}");
}

#[test]
fn the_next_fires_are_shown_in_the_zone_of_the_job() {
    let scene = Scene::new();
    let node = scene.start();
    let schedule = serde_json::json!({ "cron": "0 8 * * *", "timezone": "Asia/Shanghai" });
    node.api().put_job("daily", &serde_json::json!({ "schedule": schedule, "task": { "noop": {} } }));
    let said = node.cli(["job", "next", "daily", "--from", "2030-01-01T00:00:00Z", "--count", "2"]).ok();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with("2030-01-01") && lines[0].contains("08:00:00+08:00"), "{said}");
}

#[test]
fn a_job_whose_schedule_is_used_up_is_finished() {
    let scene = Scene::new();
    let node = scene.start();
    let once = serde_json::json!({ "every": "1h", "end": "2020-01-01T00:00:00Z" });
    node.api().put_job("once", &serde_json::json!({ "schedule": once, "task": { "noop": {} } }));
    node.api().put_job("by-hand", &serde_json::json!({ "task": { "noop": {} } }));
    let states = node.cli(["job", "list", "-o", "json"]).json();
    assert_eq!(
        (&states[0]["state"], &states[1]["state"]),
        (&"active".into(), &"finished".into()),
        "{states}"
    );
    let shown = node.cli(["job", "show", "once"]).ok();
    assert!(shown.contains("finished") && shown.contains("never: its schedule is used up"), "{shown}");
    let thrice = serde_json::json!({ "every": "1s", "max_runs": 3 });
    node.api().put_job("thrice", &serde_json::json!({ "schedule": thrice, "task": { "noop": {} } }));
    wait::until_so("its runs are used up", SOON, || {
        node.cli(["job", "show", "thrice", "-o", "json"]).json()["state"] == "finished"
    });
}

#[test]
fn a_run_is_submitted_with_a_route_and_shows_it() {
    let scene = Scene::new();
    let node = scene.start();
    let words = ["run", "submit", "--noop", "--route", "round_robin", "--selector", "disk=ssd", "-o", "json"];
    let id = node.cli(words).json()["id"].as_str().expect("a run has an id").to_owned();
    let shown = node.cli(["run", "show", &id]).ok();
    assert!(shown.contains("round_robin, workers with disk=ssd"), "{shown}");
    assert!(shown.contains("lacks the label `disk=ssd`"), "{shown}");
    assert_eq!(node.api().run(&id)["route"]["strategy"], "round_robin");
    let data = scene.data();
    let doctor =
        node.cli(["doctor".as_ref(), "--data".as_ref(), data.as_os_str(), "-o".as_ref(), "json".as_ref()]);
    let checks = checks(&doctor);
    assert_eq!(verdict(&checks, "ready runs"), "warn", "{checks:?}");
    assert_eq!(node.cli(["run", "submit", "--noop", "--route", "nearest"]).status.code(), Some(2));
}

#[test]
fn a_slip_is_met_with_the_word_that_was_meant() {
    let said = alone(&["job", "aply"]);
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    assert!(said.err.contains("apply"), "{said:?}");
}

#[test]
fn the_doctor_works_without_a_server() {
    let scene = Scene::new();
    let data = scene.data();
    let data = data.to_str().expect("a path of ours is text");
    let said = alone(&["doctor", "--data", data, "-o", "json"]);
    assert!(said.status.success(), "{said:?}");
    let checks = checks(&said);
    for what in
        ["settings", "data folder", "store", "durability", "clock", "time zones", "open files", "shell"]
    {
        assert_ne!(verdict(&checks, what), "fail", "{checks:?}");
    }
    assert_eq!(verdict(&checks, "server"), "warn");
    assert!(!Path::new(data).exists(), "looking makes nothing");
    let table = alone(&["doctor", "--data", data]);
    assert!(
        table.out.contains("ok    data folder") && table.out.contains("hint: start the server there"),
        "{table:?}"
    );
    assert!(!table.out.contains('\u{1b}'), "no colour where nobody looks");
}

#[test]
fn the_doctor_checks_a_running_node_and_an_unused_store() {
    let scene = Scene::new();
    let mut node = scene.start();
    let data = scene.data();
    let words = ["doctor".as_ref(), "--data".as_ref(), data.as_os_str(), "-o".as_ref(), "json".as_ref()];
    let said = node.cli(words);
    assert!(said.status.success(), "{said:?}");
    let seen = checks(&said);
    for what in ["data folder", "file modes", "store", "server", "version", "server clock", "workers"] {
        assert_eq!(verdict(&seen, what), "ok", "{what}: {seen:?}");
    }
    let folder = seen.iter().find(|check| check["what"] == "data folder").expect("it was looked at");
    let pid = format!("in use by process {}", node.pid());
    assert!(folder["found"].as_str().is_some_and(|found| found.contains(&pid)), "{folder}");
    assert!(node.stop().success());

    let seen = checks(&node.cli(words));
    assert_eq!((verdict(&seen, "store"), verdict(&seen, "server")), ("ok".to_owned(), "warn".to_owned()));

    let settings = scene.write("punctual.toml", "slot = 4\n");
    let refused = node.cli(words.into_iter().chain(["--config".as_ref(), settings.as_os_str()]));
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert_eq!(verdict(&checks(&refused), "settings"), "fail");

    fs::set_permissions(&data, Permissions::from_mode(0o755)).expect("our folder can be opened");
    assert_eq!(verdict(&checks(&node.cli(words)), "file modes"), "warn");
    fs::write(data.join("punctual.db"), "nothing that was ever a database").expect("our file can be written");
    let broken = node.cli(words);
    assert_eq!(broken.status.code(), Some(1), "{broken:?}");
    assert_eq!(verdict(&checks(&broken), "store"), "fail");
}

#[test]
fn a_settings_file_is_checked_before_a_node_depends_on_it() {
    let scene = Scene::new();
    let template = alone(&["config", "template"]).ok();
    let file = scene.write("punctual.toml", &template);
    fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("our file can be changed");
    let path = file.to_str().expect("a path of ours is text");
    alone(&["config", "check", path]).ok();
    scene.write("punctual.toml", "[store]\ndurabilty = \"full\"\n");
    let refused = alone(&["config", "check", path]);
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    assert!(
        refused.err.contains("line 2: store.durabilty: unknown field; did you mean `durability`?"),
        "{refused:?}"
    );
    let dev = alone(&["dev", "--config", path]);
    assert_eq!(dev.status.code(), Some(2), "a node does not start with it either: {dev:?}");
}

#[test]
fn runs_are_waited_for_until_all_have_ended() {
    let scene = Scene::new();
    let node = scene.start();
    let submit = |shell: &str| {
        let made = node.cli(["run", "submit", "--shell", shell, "-o", "json"]).json();
        made["id"].as_str().expect("a run has an id").to_owned()
    };
    let go = scene.path("go");
    let wait = format!("until test -e {}; do sleep 0.05; done", go.display());
    let slow = submit(&wait);
    let late = node.cli(["run", "wait", &slow, "--timeout", "100ms"]);
    assert_eq!(late.status.code(), Some(1), "{late:?}");
    assert!(late.err.contains("they go on"), "{late:?}");
    let bad = submit(&format!("touch {}; exit 3", go.display()));
    let ended = node.cli(["run", "wait", &slow, "-o", "json"]).json();
    assert_eq!(ended["state"], "succeeded", "{ended}");
    let both = node.cli(["run", "wait", &slow, &bad]);
    assert_eq!(both.status.code(), Some(1), "{both:?}");
    assert!(both.out.contains(&slow) && both.out.contains(&bad), "{both:?}");
    assert!(both.err.contains(&format!("run {bad} ended as failed")), "{both:?}");
}

#[test]
fn every_listing_speaks_json_and_yaml_and_colours_only_on_request() {
    let scene = Scene::new();
    let node = scene.start();
    let file = scene.write("a.yaml", "name: a\nschedule: { manual: true }\ntask: { shell: exit 3 }\n");
    node.cli(["job".as_ref(), "apply".as_ref(), file.as_os_str()]).ok();
    let run = node.cli(["job", "run", "a", "--wait", "-o", "json"]);
    assert_eq!(run.status.code(), Some(1), "a run that failed is no success: {run:?}");
    let run: Value = serde_json::from_str(&run.out).expect("the run is printed all the same");
    let id = run["id"].as_str().expect("a run has an id");
    let listings: [&[&str]; 9] = [
        &["job", "list"],
        &["job", "show", "a"],
        &["job", "next", "a"],
        &["job", "history", "a"],
        &["run", "list"],
        &["run", "show", id],
        &["dlq", "list"],
        &["node", "list"],
        &["node", "workers"],
    ];
    for words in listings {
        node.cli(words.iter().chain(&["-o", "json"])).json();
        let yaml = node.cli(words.iter().chain(&["-o", "yaml"])).ok();
        assert!(yaml.contains(": ") || yaml.trim() == "[]", "{words:?}: {yaml}");
        let coloured = |when: &str| node.cli(words.iter().chain(&["--color", when])).ok().contains('\u{1b}');
        assert!(!coloured("auto") && !coloured("never"), "{words:?}");
    }
    let always = node.cli(["run", "list", "--color", "always"]).ok();
    assert!(always.contains("\u{1b}[") && always.contains("failed"), "{always}");
}

#[test]
fn a_table_fits_its_terminal_and_has_colours_there_unless_declined() {
    let scene = Scene::new();
    let node = scene.start();
    let said = "a long complaint about the ledger, with 中文 in it, that goes on and on and on and on";
    node.cli(["run", "submit", "--wait", "--shell", &format!("echo '{said}'")]).ok();
    for columns in [40, 80, 200] {
        let seen = on_a_terminal(&node, columns, "run list", true);
        assert!(seen.contains("\u{1b}["), "{seen:?}");
        let seen = plain(&seen);
        assert_eq!(seen.trim_end().lines().count(), 2, "a row is a line: {seen}");
        let wide = |c: char| if ('\u{2e80}'..='\u{ffef}').contains(&c) { 2 } else { 1 };
        for line in seen.lines() {
            assert!(line.chars().map(wide).sum::<usize>() <= columns, "more than {columns}: {line}");
        }
        assert!(seen.contains("succeeded"), "what matters is there at {columns}: {seen}");
    }
    assert!(on_a_terminal(&node, 200, "run list", true).contains("that goes"));
    assert!(!on_a_terminal(&node, 80, "run list", false).contains('\u{1b}'));
    assert!(!on_a_terminal(&node, 80, "run list --color never", true).contains('\u{1b}'));
}

//! Job files, good and bad. Every bad one is refused with the field, the place and the way out.

mod bad_files;

use super::*;
use crate::error::Kind;

fn read_all(text: &str) -> Result<Vec<Draft>, Vec<Error>> {
    super::read_all(text, &Namespace::default())
}

/// A whole job around what a row is about.
fn job(rest: &str) -> String {
    let task = if rest.contains("task:") { "" } else { "task: { noop: {} }\n" };
    format!("name: hello\n{task}{rest}\n")
}

#[track_caller]
fn read_one(text: &str) -> Draft {
    let drafts = read_all(text).unwrap_or_else(|errors| panic!("{text}\nwas refused: {errors:?}"));
    let [draft] = <[Draft; 1]>::try_from(drafts).expect("one job");
    draft
}

/// What a job says at a path once it was read and written again.
#[track_caller]
fn check(rest: &str, pointer: &str, expected: &str) {
    let draft = read_one(&job(rest));
    let form = JobFile::of(&draft.namespace, &draft.name, &draft.definition);
    let json = serde_json::to_value(form).unwrap();
    let found = json.pointer(pointer).map(ToString::to_string).unwrap_or_default();
    assert_eq!(found, expected, "{rest} at {pointer} in {json}");
}

#[test]
fn what_people_write_is_understood() {
    let rows = [
        // Names.
        ("", "/namespace", r#""default""#),
        ("namespace: payments/clearing", "/namespace", r#""payments/clearing""#),
        ("description: settles the day", "/description", r#""settles the day""#),
        // Routes.
        ("", "/route", r#"{"strategy":"least_loaded"}"#),
        ("route: { strategy: least_recently_used }", "/route/strategy", r#""least_recently_used""#),
        ("route: { selector: { disk: ssd } }", "/route/selector", r#"{"disk":"ssd"}"#),
        (
            "route: { strategy: sticky, key: '{{ params.region }}-{{ due | date }}' }",
            "/route/key",
            r#""{{ params.region }}-{{ due | date }}""#,
        ),
        // Schedules.
        ("schedule: { every: 30s }", "/schedule/every", r#""30s""#),
        ("schedule: { every: 90s }", "/schedule/every", r#""1m30s""#),
        ("schedule: { cron: 0 1 * * * }", "/schedule/cron", r#""0 1 * * *""#),
        ("schedule: { cron: 0 1 * * * }", "/schedule/timezone", r#""UTC""#),
        ("schedule: { cron: '*/5 * * * * *' }", "/schedule/cron", r#""*/5 * * * * *""#),
        ("schedule: { cron: '@daily', timezone: Asia/Shanghai }", "/schedule/timezone", r#""Asia/Shanghai""#),
        ("schedule: { cron: '@every 90s' }", "/schedule/every", r#""1m30s""#),
        ("schedule: { cron: H H * * * }", "/schedule/cron", r#""H H * * *""#),
        ("schedule: { after_finish: 10m }", "/schedule/after_finish", r#""10m""#),
        ("schedule: { at: 2026-12-01T08:00:00+08:00 }", "/schedule/at", r#""2026-12-01T00:00:00.000Z""#),
        ("schedule: { manual: true }", "/schedule/manual", "true"),
        ("schedule: { every: 1s, jitter: 500ms }", "/schedule/jitter", r#""500ms""#),
        ("schedule: { every: 1s, max_runs: 3 }", "/schedule/max_runs", "3"),
        ("schedule: { every: 1s, calendar: cn-workdays }", "/schedule/calendar", r#""cn-workdays""#),
        (
            "schedule: { every: 1s, calendar: work, timezone: Asia/Tokyo }",
            "/schedule/timezone",
            r#""Asia/Tokyo""#,
        ),
        (
            "schedule: { cron: '@daily', calendar: work, timezone: Asia/Tokyo }",
            "/schedule/timezone",
            r#""Asia/Tokyo""#,
        ),
        (
            "schedule: { every: 1s, start: 2026-01-01T00:00:00Z }",
            "/schedule/start",
            r#""2026-01-01T00:00:00.000Z""#,
        ),
        (
            "schedule: { every: 1s, end: 2026-01-01T00:00:00Z }",
            "/schedule/end",
            r#""2026-01-01T00:00:00.000Z""#,
        ),
        ("schedule: [{ every: 1s }, { cron: '@hourly' }]", "/schedule/1/cron", r#""@hourly""#),
        ("schedule: [{ every: 1s }]", "/schedule/every", r#""1s""#),
        ("schedule: []", "/schedule", ""),
        ("schedule:", "/schedule", ""),
        // Tasks.
        ("task: { noop: {} }", "/task", r#"{"noop":{}}"#),
        ("task: { shell: echo hi }", "/task/shell", r#""echo hi""#),
        ("task:\n  shell: |\n    echo a\n    echo b", "/task/shell", r#""echo a\necho b\n""#),
        (
            "task: { process: { command: [./settle, --day] } }",
            "/task/process/command",
            r#"["./settle","--day"]"#,
        ),
        ("task: { process: { command: [a], env: { A: b } } }", "/task/process/env", r#"{"A":"b"}"#),
        ("task: { process: { command: [a], dir: /tmp } }", "/task/process/dir", r#""/tmp""#),
        (
            "task: { process: { command: [a, '{{ due | date }}'] } }",
            "/task/process/command/1",
            r#""{{ due | date }}""#,
        ),
        (
            "task: { shell: \"docker ps --format '{{.Names}}'\" }",
            "/task/shell",
            r#""docker ps --format '{{.Names}}'""#,
        ),
        ("task: { queue: { name: orders } }", "/task", r#"{"queue":{"name":"orders"}}"#),
        (
            "task: { queue: { name: 'a b', body: '{{ params.a }}', delay: 90s, retry: 0s, ttl: 1h, priority: 9 } }",
            "/task/queue",
            r#"{"body":"{{ params.a }}","delay":"1m30s","name":"a b","priority":9,"retry":"0s","ttl":"1h"}"#,
        ),
        ("task: { http: { url: http://a/ } }", "/task", r#"{"http":{"method":"GET","url":"http://a/"}}"#),
        ("task: { http: { url: http://a, method: POST, body: hi } }", "/task/http/body", r#""hi""#),
        (
            "task: { http: { url: http://a, method: PUT, body: { b: [1, x], a: null } } }",
            "/task/http/body",
            r#"{"a":null,"b":[1,"x"]}"#,
        ),
        (
            "task: { http: { url: http://a, headers: { Accept: text/plain } } }",
            "/task/http/headers",
            r#"{"Accept":"text/plain"}"#,
        ),
        (
            "task: { http: { url: http://a, timeout: 90s, redirects: 0 } }",
            "/task/http",
            r#"{"method":"GET","redirects":0,"timeout":"1m30s","url":"http://a"}"#,
        ),
        (
            "task: { http: { url: http://a, expect: { status: [200, 3xx, 404-410, '204'] } } }",
            "/task/http/expect",
            r#"{"status":[200,"3xx","404-410",204]}"#,
        ),
        (
            "task: { http: { url: http://a, expect: { status: 201 } } }",
            "/task/http/expect",
            r#"{"status":[201]}"#,
        ),
        (
            "task: { http: { url: http://a, expect: { body: ok, condition: json.ok } } }",
            "/task/http/expect",
            r#"{"body":"ok","condition":"json.ok","status":["2xx"]}"#,
        ),
        (
            "task: { http: { url: https://a, tls: { ca: /etc/ca.pem } } }",
            "/task/http/tls",
            r#"{"ca":"/etc/ca.pem"}"#,
        ),
        // Parameters: keys in order, so that the same parameters are the same text.
        ("params: { b: 1, a: [true, null, 1.5, x] }", "/params", r#"{"a":[true,null,1.5,"x"],"b":1}"#),
        ("", "/params", "{}"),
        // Policies and their defaults.
        ("timeout: 1h", "/timeout", r#""1h""#),
        ("", "/timeout", ""),
        ("retry: { attempts: 5 }", "/retry/attempts", "5"),
        ("retry: { delay: 10s, backoff: linear }", "/retry/backoff", r#""linear""#),
        ("retry: { max_delay: 1h }", "/retry/max_delay", r#""1h""#),
        ("retry: { on: [timeout, 404, 5xx, '500-504'] }", "/retry/on", r#"["timeout",404,"5xx","500-504"]"#),
        ("retry: { jitter: 20% }", "/retry/jitter", r#""20%""#),
        ("retry: { priority: 7 }", "/retry/priority", "7"),
        (
            "",
            "/retry",
            r#"{"attempts":1,"backoff":"exponential","delay":"10s","jitter":"0%","max_delay":"10m"}"#,
        ),
        ("at_most_once: true", "/at_most_once", "true"),
        ("overlap: queue_one", "/overlap", r#""queue_one""#),
        ("", "/overlap", r#""skip""#),
        (
            "misfire: { policy: all, window: 2h, grace: 1s }",
            "/misfire",
            r#"{"grace":"1s","policy":"all","window":"2h"}"#,
        ),
        ("", "/misfire", r#"{"grace":"10s","policy":"once","window":"1h"}"#),
        ("priority: 9", "/priority", "9"),
        ("limits: { running: 1 }", "/limits/running", "1"),
        ("unique: { key: order-17, for: 48h }", "/unique", r#"{"for":"2d","key":"order-17"}"#),
        ("unique: { key: order-17 }", "/unique/for", r#""1d""#),
        ("dead_letter: false", "/dead_letter", "false"),
        ("keep: { runs: 10 }", "/keep", r#"{"days":30,"runs":10}"#),
        // What the server says about a job may be sent back to it.
        ("id: '7'\nrevision: 3\nstate: active\nfired_through: x", "/priority", "5"),
    ];
    for (rest, pointer, expected) in rows {
        check(rest, pointer, expected);
    }
}

#[track_caller]
fn check_refused(text: &str, expected: &str) {
    match read_all(text) {
        Ok(drafts) => panic!("{text}\nwas taken: {drafts:?}"),
        Err(errors) => {
            assert_eq!(errors[0].to_string(), expected, "for\n{text}");
        }
    }
}

#[test]
fn a_mistake_is_named_with_its_field_its_place_and_the_way_out() {
    let unit = "write it like 1h30m, 90s or 500ms";
    let when = "cron, every, after_finish, at or manual: true";
    let rows: Vec<(&str, String)> = vec![
        // Unknown keys: slips, and what is still to come.
        ("shedule: { every: 1s }", "line 3, column 1: shedule: unknown field; did you mean `schedule`?".into()),
        (
            "group: ledger",
            "line 3, column 1: group: unknown field; known are namespace, name, description, schedule, task, params, \
             timeout, retry, at_most_once, overlap, misfire, priority, route, limits, unique, dead_letter, keep"
                .into(),
        ),
        (
            "paused: true",
            "line 3, column 1: paused: unknown field; known are namespace, name, description, schedule, task, params, \
             timeout, retry, at_most_once, overlap, misfire, priority, route, limits, unique, dead_letter, keep"
                .into(),
        ),
        (
            "schedule: { every: 1s, holiday: cn }",
            "line 3, column 24: schedule.holiday: unknown field; known are cron, timezone, weekdays, every, \
             after_finish, at, manual, jitter, start, end, max_runs, calendar"
                .into(),
        ),
        ("task: { kubernetes: {} }", "line 2, column 9: task.kubernetes: unknown field; known are process, shell, http, function, queue, noop".into()),
        ("task: { noop: { a: 1 } }", "line 2, column 17: task.noop.a: unknown field; nothing can be said here".into()),
        ("retry: { atempts: 3 }", "line 3, column 10: retry.atempts: unknown field; did you mean `attempts`?".into()),
        // Schedules.
        ("schedule: {}", format!("line 3, column 11: schedule: say when, by one of {when}")),
        ("schedule: { manual: false }", format!("line 3, column 11: schedule: say when, by one of {when}")),
        (
            "schedule: { every: 1s, at: 2026-01-01T00:00:00Z }",
            format!("line 3, column 11: schedule: only one of {when}; write a list for several"),
        ),
        (
            "schedule: every 5s",
            "line 3, column 11: schedule: expected a map like { every: 30s } or a list of such maps, found `every 5s`".into(),
        ),
        ("schedule: [5]", "line 3, column 12: schedule[0]: expected a map like { every: 30s }, found the number 5".into()),
        (
            "schedule:\n  - every: 1s\n  - cron: '61 * * * *'",
            "line 5, column 11: schedule[1].cron: minute field: `61` is out of range 0-59".into(),
        ),
        ("schedule: { cron: '* * *' }", "line 3, column 19: schedule.cron: cron expression has 3 fields; write 5 (minute first), 6 (second first) or 7 (year last)".into()),
        ("schedule: { cron: '@fortnightly' }", "line 3, column 19: schedule.cron: `@fortnightly` is not a nickname; use @hourly, @daily, @weekly, @monthly, @yearly or `every`".into()),
        ("schedule: { cron: '0 0 30 2 *' }", "line 3, column 19: schedule.cron: `0 0 30 2 *` never occurs: none of its months has such a day".into()),
        ("schedule: { cron: 5 }", "line 3, column 19: schedule.cron: expected a string, found the number 5; put it in quotes".into()),
        ("schedule: { cron: '@daily', timezone: Mars/Olympus }", "line 3, column 39: schedule.timezone: unknown time zone `Mars/Olympus`; write an IANA name such as Asia/Shanghai or UTC".into()),
        ("schedule: { every: 1s, timezone: UTC }", "line 3, column 34: schedule.timezone: goes with `cron` or `calendar` only; instants carry their own offset".into()),
        ("schedule: { every: 30 }", "line 3, column 20: schedule.every: expected a duration like 30s or 1h30m, found the number 30".into()),
        ("schedule: { every: '30' }", format!("line 3, column 20: schedule.every: `30` is not a duration: a number has no unit; {unit}")),
        ("schedule: { every: 5min }", format!("line 3, column 20: schedule.every: `5min` is not a duration: the units are w, d, h, m, s and ms; {unit}")),
        ("schedule: { every: -5s }", format!("line 3, column 20: schedule.every: `-5s` is not a duration: a whole number was expected; {unit}")),
        ("schedule: { every: 0s }", "line 3, column 20: schedule.every: a period must be at least 1ms".into()),
        ("schedule: { after_finish: 0s }", "line 3, column 27: schedule.after_finish: a period must be at least 1ms".into()),
        ("schedule: { at: tomorrow }", "line 3, column 17: schedule.at: `tomorrow` is not an instant; write it like 2026-12-01T08:00:00+08:00".into()),
        ("schedule: { at: 2026-12-01T08:00:00 }", "line 3, column 17: schedule.at: `2026-12-01T08:00:00` is not an instant; write it like 2026-12-01T08:00:00+08:00".into()),
        ("schedule: { at: 2026-02-30T08:00:00Z }", "line 3, column 17: schedule.at: `2026-02-30T08:00:00Z` is not an instant; write it like 2026-12-01T08:00:00+08:00".into()),
        ("schedule: { at: 1960-01-01T00:00:00Z }", "line 3, column 17: schedule.at: an instant of the schedule lies outside the years 1970 to 9999".into()),
        ("schedule: { every: 1s, start: 2026-02-01T00:00:00Z, end: 2026-01-01T00:00:00Z }", "line 3, column 58: schedule.end: end 2026-01-01T00:00:00.000Z is before start 2026-02-01T00:00:00.000Z".into()),
        ("schedule: { manual: true, calendar: work }", "line 3, column 37: schedule.calendar: a calendar goes with cron, every or at; what waits for a run or a person has no days of its own".into()),
        ("schedule: { every: 1s, calendar: a b }", "line 3, column 34: schedule.calendar: `a b` has the character ` `; a name has A-Z, a-z, 0-9, dot, - and _".into()),
        ("schedule: { every: 1s, calendar: work, timezone: Mars/Olympus }", "line 3, column 50: schedule.timezone: unknown time zone `Mars/Olympus`; write an IANA name such as Asia/Shanghai or UTC".into()),
        ("schedule: { every: 1s, max_runs: 0 }", "line 3, column 34: schedule.max_runs: max_runs is 0, so the schedule would never fire; leave it out or make the schedule manual".into()),
        ("schedule: { every: 1s, max_runs: -1 }", "line 3, column 34: schedule.max_runs: expected a whole number, not negative, found the number -1".into()),
        ("schedule: { every: 1s, max_runs: 1.5 }", "line 3, column 34: schedule.max_runs: expected a whole number, not negative, found the number 1.5".into()),
        ("schedule: { manual: yes }", "line 3, column 21: schedule.manual: expected true or false, found `yes`".into()),
        // Tasks.
        ("task: {}", "line 2, column 7: task: say what to do, by one of process, shell, http, function, queue or noop: {}".into()),
        ("task:", "line 2, column 5: task: say what to do, by one of process, shell, http, function, queue or noop: {}".into()),
        ("task: echo hi", "line 2, column 7: task: expected a map like { shell: \"echo hi\" }, found `echo hi`".into()),
        ("task: { shell: a, noop: {} }", "line 2, column 7: task: only one of process, shell, http, function, queue and noop".into()),
        ("task: { shell: '  ' }", "line 2, column 16: task.shell: the command is empty".into()),
        ("task: { shell: [echo, hi] }", "line 2, column 16: task.shell: expected a string, found a list".into()),
        ("task: { process: ./a }", "line 2, column 18: task.process: expected a map like { command: [\"./settle\", \"--day\"] }, found `./a`".into()),
        ("task: { process: {} }", "line 2, column 18: task.process.command: name the program first, then its arguments".into()),
        ("task: { process: { command: ./a } }", "line 2, column 29: task.process.command: expected a list, found `./a`".into()),
        ("task: { process: { command: [a, 1] } }", "line 2, column 33: task.process.command[1]: expected a string, found the number 1; put it in quotes".into()),
        ("task: { process: { command: [a], env: { PORT: 80 } } }", "line 2, column 47: task.process.env.PORT: expected a string, found the number 80; put it in quotes".into()),
        ("task: { process: { command: [a], env: { LD_PRELOAD: x } } }", "line 2, column 39: task.process.env: `LD_PRELOAD` is not for jobs to set".into()),
        ("task: { process: { command: [a], env: { PUNCTUAL_RUN: x } } }", "line 2, column 39: task.process.env: `PUNCTUAL_RUN` is not for jobs to set".into()),
        ("task: { process: { command: [a], env: { 'A=B': x } } }", "line 2, column 39: task.process.env: `A=B` cannot be set as an environment variable".into()),
        // Templates.
        ("task: { process: { command: [./a, --day, '{{ due | datee }}'] } }", "line 2, column 42: task.process.command[2]: unknown filter `datee`; known are default, date, time, format, in_zone, plus, minus, unix, json, parse_json, urlencode, upper, lower, trim, replace, split, join, length, first, last, min, max, string, int, float, round, abs (column 10 of the text)".into()),
        ("task: { process: { command: ['{{ params.program }}'] } }", "line 2, column 30: task.process.command[0]: the program itself is no template: who starts the job must not choose what runs".into()),
        ("task: { process: { command: [a], env: { A: '{{ parms.a }}' } } }", "line 2, column 44: task.process.env.A: unknown variable `parms`; known are params, due, started, run, job, shard (column 4 of the text)".into()),
        ("task: { process: { command: [a], env: { PATH: '{{ params.a }}' } } }", "line 2, column 47: task.process.env.PATH: is no template: who starts the job must not choose what runs".into()),
        ("task: { process: { command: [./a], dir: '{{ params.a }}' } }", "line 2, column 41: task.process.dir: with a folder that is a template, name the program by its full path or by its name alone".into()),
        ("task: { shell: 'echo {{ params.a }}' }", "line 2, column 16: task.shell: a shell text is no template, for a shell would run what is spliced in; parameters are in $PUNCTUAL_PARAMS and on standard input as JSON, or use process: { command: [...] }".into()),
        ("unique: { key: '{{ due }}' }", "line 3, column 16: unique.key: unknown variable `due`; known are params (column 4 of the text)".into()),
        // HTTP.
        ("task: { queue: {} }", "line 2, column 16: task.queue.name: say which queue".into()),
        ("task: { queue: { name: '' } }", "line 2, column 24: task.queue.name: a queue needs a name".into()),
        ("task: { queue: orders }", "line 2, column 16: task.queue: expected a map like { name: orders, body: \"{{ params.order }}\" }, found `orders`".into()),
        ("task: { queue: { name: a, priority: 10 } }", "line 2, column 37: task.queue.priority: 0 to 9, and 9 goes first".into()),
        ("task: { queue: { name: a, ttl: 0s } }", "line 2, column 32: task.queue.ttl: longer than nothing".into()),
        ("task: { queue: { name: a, ttl: 5s, delay: 5s } }", "line 2, column 43: task.queue.delay: shorter than the message's life (`ttl`, else the job's `timeout`, else 24h): it would never be delivered".into()),
        ("task: { queue: { name: a, body: '{{ b }}' } }", "line 2, column 33: task.queue.body: unknown variable `b`; known are params, due, started, run, job, shard (column 4 of the text)".into()),
        ("task: { queue: { name: a } }\nroute: { strategy: broadcast }", "line 3, column 8: route: a message goes to no worker, but to whoever consumes from its queue; leave it out".into()),
        ("task: { http: {} }", "line 2, column 15: task.http.url: say which URL to call".into()),
        ("task: { http: http://a }", "line 2, column 15: task.http: expected a map like { url: \"https://example.com/\" }, found `http://a`".into()),
        ("task: { http: { url: ftp://a } }", "line 2, column 22: task.http.url: begins with http:// or https://".into()),
        ("task: { http: { url: 'http://' } }", "line 2, column 22: task.http.url: has no host".into()),
        ("task: { http: { url: 'http://:80/' } }", "line 2, column 22: task.http.url: has no host".into()),
        ("task: { http: { url: 'http://a:99999/' } }", "line 2, column 22: task.http.url: has a port that is no number from 0 to 65535".into()),
        ("task: { http: { url: \"http://example.com/a\\r\\nb\" } }", "line 2, column 22: task.http.url: has a line break or another control character in it; write it on one line".into()),
        ("task: { http: { url: 'http://a b/' } }", "line 2, column 22: task.http.url: has a blank in its host".into()),
        ("task: { http: { url: 'http://me:secret@a/' } }", "line 2, column 22: task.http.url: has a user or a password in it; send the header Authorization instead".into()),
        ("task: { http: { url: 'http://{{ params.host }}/' } }", "line 2, column 22: task.http.url: the host and the port are no template: who starts the job must not choose where it goes".into()),
        ("task: { http: { url: 'http://a/{{ params.' } }", "line 2, column 22: task.http.url: `{{` has no `}}`; write {{ \"{{\" }} for the characters themselves (column 10 of the text)".into()),
        ("task: { http: { url: http://a, method: BREW } }", "line 2, column 40: task.http.method: `BREW` is not known; known are GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS".into()),
        ("task: { http: { url: http://a, method: get } }", "line 2, column 40: task.http.method: `get` is not known; known are GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS".into()),
        ("task: { http: { url: http://a, headers: { 'X Y': z } } }", "line 2, column 41: task.http.headers: `X Y` is no name of a header".into()),
        ("task: { http: { url: http://a, headers: { Host: z } } }", "line 2, column 49: task.http.headers.Host: is not for jobs to set".into()),
        ("task: { http: { url: http://a, headers: { Punctual-Run-Id: z } } }", "line 2, column 60: task.http.headers.Punctual-Run-Id: is not for jobs to set".into()),
        ("task: { http: { url: http://a, headers: { a: z, A: y } } }", "line 2, column 46: task.http.headers.a: is given twice, in capitals and small letters".into()),
        ("task: { http: { url: http://a, headers: { A: \"x\\ny\" } } }", "line 2, column 46: task.http.headers.A: a header is one line without control characters".into()),
        ("task: { http: { url: http://a, body: x } }", "line 2, column 38: task.http.body: a GET has no body; say `method: POST` or another".into()),
        ("task: { http: { url: http://a, method: POST, body: 5 } }", "line 2, column 52: task.http.body: expected a text, or a map or a list to be sent as JSON, found the number 5".into()),
        ("task: { http: { url: http://a, method: POST, body: { a: [x, '{{ b }}'] } } }", "line 2, column 61: task.http.body.a[1]: unknown variable `b`; known are params, due, started, run, job, shard (column 4 of the text)".into()),
        ("task: { http: { url: http://a, timeout: 0s } }", "line 2, column 41: task.http.timeout: longer than nothing, and at most ten years".into()),
        ("task: { http: { url: http://a, redirects: 6 } }", "line 2, column 43: task.http.redirects: at most 5".into()),
        ("task: { http: { url: http://a, expect: { status: [] } } }", "line 2, column 50: task.http.expect.status: 1 to 32 codes from 100 to 599, such as 200, 2xx or 200-204".into()),
        ("task: { http: { url: http://a, expect: { status: [ok] } } }", "line 2, column 51: task.http.expect.status[0]: `ok` is no status; write 200, 2xx or 200-204".into()),
        ("task: { http: { url: http://a, expect: { status: 700 } } }", "line 2, column 50: task.http.expect.status: 1 to 32 codes from 100 to 599, such as 200, 2xx or 200-204".into()),
        ("task: { http: { url: http://a, expect: { status: [204-200] } } }", "line 2, column 50: task.http.expect.status: 1 to 32 codes from 100 to 599, such as 200, 2xx or 200-204".into()),
        ("task: { http: { url: http://a, expect: { condition: json.ok and } } }", "line 2, column 53: task.http.expect.condition: unexpected end of input, expected expression (column 9 of the text)".into()),
        ("task: { http: { url: http://a, expect: { condition: 'ok' } } }", "line 2, column 53: task.http.expect.condition: unknown variable `ok`; known are params, due, started, run, job, shard, status, headers, body, json (column 1 of the text)".into()),
        ("task: { http: { url: http://a, expect: { body: '' } } }", "line 2, column 48: task.http.expect.body: 1 to 1048576 bytes".into()),
        ("task: { http: { url: https://a, tls: { ca: ca.pem } } }", "line 2, column 44: task.http.tls.ca: the full path of a file on the worker".into()),
        ("task: { http: { url: https://a, tls: { insecure: true } } }", "line 2, column 40: task.http.tls.insecure: unknown field; known are ca".into()),
        // Policies.
        ("params: [1]", "line 3, column 9: params: expected a map, found a list".into()),
        ("timeout: 0s", "line 3, column 10: timeout: longer than nothing; leave it out for no timeout".into()),
        ("timeout: 600w", "line 3, column 10: timeout: at most ten years".into()),
        ("timeout: 60", "line 3, column 10: timeout: expected a duration like 30s or 1h30m, found the number 60".into()),
        ("retry: 3", "line 3, column 8: retry: expected a map like { attempts: 3, delay: 10s }, found the number 3".into()),
        ("retry: { attempts: 0 }", "line 3, column 20: retry.attempts: 1 to 100, the first included".into()),
        ("retry: { attempts: 101 }", "line 3, column 20: retry.attempts: 1 to 100, the first included".into()),
        ("retry: { attempts: 5000000000 }", "line 3, column 20: retry.attempts: expected a whole number, not negative, found the number 5000000000".into()),
        ("retry: { backoff: exponentail }", "line 3, column 19: retry.backoff: `exponentail` is not known; did you mean `exponential`?".into()),
        ("retry: { jitter: 20 }", "line 3, column 18: retry.jitter: expected a percentage like 20%, found the number 20".into()),
        ("retry: { jitter: 120% }", "line 3, column 18: retry.jitter: expected 0% to 100%, found `120%`".into()),
        ("retry: { jitter: +5% }", "line 3, column 18: retry.jitter: expected 0% to 100%, found `+5%`".into()),
        ("retry: { attempts: 2 }\nat_most_once: true", "line 4, column 15: at_most_once: cannot be kept with retry.attempts above 1; drop one of them".into()),
        ("overlap: sometimes", "line 3, column 10: overlap: `sometimes` is not known; known are skip, queue, queue_one, replace, allow".into()),
        ("overlap: 1", "line 3, column 10: overlap: expected one of skip, queue, queue_one, replace, allow, found the number 1".into()),
        ("overlap: Skip", "line 3, column 10: overlap: `Skip` is not known; did you mean `skip`?".into()),
        ("misfire: once", "line 3, column 10: misfire: expected a map like { policy: once }, found `once`".into()),
        ("misfire: { policy: never }", "line 3, column 20: misfire.policy: `never` is not known; known are skip, once, all".into()),
        ("priority: 10", "line 3, column 11: priority: 0 to 9, and 9 goes first".into()),
        ("priority: 300", "line 3, column 11: priority: 0 to 9, and 9 goes first".into()),
        ("priority: high", "line 3, column 11: priority: expected a whole number, not negative, found `high`".into()),
        ("limits: { running: 0 }", "line 3, column 20: limits.running: at least 1; pause the job to stop it".into()),
        ("limits: { rate: 100/m }", "line 3, column 11: limits.rate: unknown field; known are running".into()),
        ("unique: { for: 1h }", "line 3, column 9: unique.key: say which key must be unique".into()),
        ("unique: { key: '' }", "line 3, column 16: unique.key: 1 to 256 bytes".into()),
        ("keep: { runs: 0 }", "line 3, column 7: keep: at least 1 run and 1 day".into()),
        ("dead_letter: maybe", "line 3, column 14: dead_letter: expected true or false, found `maybe`".into()),
        // YAML itself.
        ("priority: 1\npriority: 2", "line 4, column 1: the key `priority` is given twice".into()),
        ("schedule: { cron: * * * * * }", "line 3, column 19: while scanning an anchor or alias, did not find expected alphabetic or numeric character; put a value that begins with * & @ or % in quotes".into()),
        ("description: @home", "line 3, column 14: unexpected character: `@'; put a value that begins with * & @ or % in quotes".into()),
        ("description: 'open", "line 4, column 1: invalid indentation in multiline quoted scalar".into()),
        ("params: { a: .nan }", "line 3, column 14: non-finite float `.nan` rejected by the configured policy".into()),
    ];
    assert!(rows.len() >= 60);
    // All of them at once: a change of one message is often a change of ten.
    let found = |rest: &str| match read_all(&job(rest)) {
        Ok(drafts) => format!("was taken: {drafts:?}"),
        Err(errors) => errors[0].to_string(),
    };
    let wrong = rows.iter().map(|(rest, expected)| (rest, expected, found(rest)));
    let wrong: Vec<_> = wrong.filter(|(_, expected, found)| *expected != found).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_job_needs_a_name_that_can_be_one() {
    check_refused("task: { noop: {} }", "line 1, column 1: name: a job needs a name");
    check_refused("name: ''\ntask: { noop: {} }", "line 1, column 7: name: a name is needed");
    check_refused(
        "name: a b\ntask: { noop: {} }",
        "line 1, column 7: name: `a b` has the character ` `; a name has A-Z, a-z, 0-9, dot, - and _",
    );
    check_refused(
        "name: 17\ntask: { noop: {} }",
        "line 1, column 7: name: expected a string, found the number 17; put it in quotes",
    );
    check_refused(
        "name: a\nnamespace: Payments\ntask: { noop: {} }",
        "line 2, column 12: namespace: `Payments` has the character `P`; a namespace has a-z, 0-9, - and / between segments",
    );
    check_refused(
        "- a\n- b",
        "line 1, column 1: expected a job, a map with at least `name` and `task`, found a list",
    );
    check_refused(
        "hello",
        "line 1, column 1: expected a job, a map with at least `name` and `task`, found `hello`",
    );
}

#[test]
fn a_file_holds_several_documents_and_every_wrong_one_is_named() {
    let file = "# jobs\nname: a\ntask: { noop: {} }\n---\n---\nname: b\ntask: { shell: x }\n";
    let names: Vec<_> = read_all(file).unwrap().into_iter().map(|draft| draft.name.to_string()).collect();
    assert_eq!(names, ["a", "b"]);

    let file = "name: a\ntask: { nop: {} }\n---\nname: b\ntask: { noop: {} }\n---\nname: c\npriority: 99\ntask: { noop: {} }\n";
    let errors: Vec<_> = read_all(file).unwrap_err().into_iter().map(|error| error.to_string()).collect();
    assert_eq!(
        errors,
        [
            "line 2, column 9: task.nop: unknown field; did you mean `noop`?",
            "line 8, column 11: priority: 0 to 9, and 9 goes first",
        ]
    );
    assert_eq!(read_all("").unwrap(), []);
}

#[test]
fn a_json_file_is_a_job_file() {
    let draft = read_one(r#"{"name": "hello", "task": {"shell": "echo"}, "schedule": [{"every": "1s"}]}"#);
    assert_eq!((draft.namespace.as_str(), draft.name.as_str()), ("default", "hello"));
    assert_eq!(draft.definition.schedules.len(), 1);
}

#[test]
fn what_is_written_reads_back_the_same() {
    let draft = read_one(&job(
        "namespace: payments\nschedule: [{ cron: 0 1 * * *, timezone: Asia/Shanghai, jitter: 30s }, { manual: true }]\n\
         params: { region: east }\ntimeout: 1h\nretry: { attempts: 5, jitter: 20%, priority: 7 }\noverlap: queue\n\
         limits: { running: 2 }\nunique: { key: k, for: 1h }\ndescription: \"two\\nlines\"",
    ));
    let form = JobFile::of(&draft.namespace, &draft.name, &draft.definition);
    assert_eq!(read_one(&crate::yaml::to_string(&form).unwrap()), draft);
    assert_eq!(read_one(&serde_json::to_string(&form).unwrap()), draft);

    let draft = read_one(&job(
        "task: { http: { url: 'https://a/{{ due | date }}', method: POST, headers: { A: '{{ run.id }}' }, timeout: 5s, \
         redirects: 1, body: { day: '{{ due | date }}', n: 1.5 }, expect: { status: [2xx, 404], body: ok, \
         condition: json.n > 1 }, tls: { ca: /ca.pem } } }\nunique: { key: 'order-{{ params.order }}' }",
    ));
    let form = JobFile::of(&draft.namespace, &draft.name, &draft.definition);
    assert_eq!(read_one(&crate::yaml::to_string(&form).unwrap()), draft);
    assert_eq!(read_one(&serde_json::to_string(&form).unwrap()), draft);
}

#[test]
fn every_example_of_the_guides_is_a_job() {
    let guides = [
        include_str!("../../../../docs/guides/templates.md"),
        include_str!("../../../../docs/guides/http-tasks.md"),
    ];
    let mut examples = 0;
    for example in guides.iter().flat_map(|guide| guide.split("```yaml\n").skip(1)) {
        let example = example.split("```").next().unwrap();
        read_one(example);
        examples += 1;
    }
    assert_eq!(examples, 5);
}

#[test]
fn a_body_may_repeat_its_address_but_not_contradict_it() {
    let (namespace, name) = (Namespace::default(), "hello".parse::<Name>().unwrap());
    let read = |body: &str| {
        let node = Node::from_json(body.as_bytes())?;
        read_for(node, &namespace, &name).map(|draft| draft.name.to_string())
    };
    assert_eq!(read(r#"{"task":{"noop":{}}}"#).unwrap(), "hello");
    assert_eq!(read(r#"{"name":"hello","namespace":"default","task":{"noop":{}}}"#).unwrap(), "hello");
    assert_eq!(read(r#"{"name":"other","task":{"noop":{}}}"#).unwrap_err().field, "name");
    assert_eq!(read(r#"{"namespace":"other","task":{"noop":{}}}"#).unwrap_err().field, "namespace");
}

#[test]
fn a_body_is_refused_before_it_can_do_harm() {
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let rows = [
        ("".to_owned(), "EOF while parsing a value"),
        ("{".to_owned(), "EOF while parsing an object"),
        (r#"{"a":1,"a":2}"#.to_owned(), "the key `a` is given twice"),
        ("{} {}".to_owned(), "trailing characters"),
        (format!(r#"{{"params":{deep}}}"#), "nested deeper than 64 levels"),
        ("[".repeat(100_000), "recursion limit exceeded"),
        ("\u{feff}{}".to_owned(), "expected value"),
        ("{'a':1}".to_owned(), "key must be a string"),
        (r#"{"a":1e999}"#.to_owned(), "number out of range"),
    ];
    for (body, message) in rows {
        let error = Node::from_json(body.as_bytes()).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (Kind::Malformed, message));
    }
    let error = Node::from_json(b"{\"a\":\"\xff\"}").unwrap_err();
    assert_eq!(error.kind, Kind::Malformed);
}

#[test]
fn a_yaml_bomb_does_not_go_off() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        bomb += &format!("a{level}: &a{level} [{below}]\n");
    }
    assert_eq!(read_all(&bomb).unwrap_err()[0].kind, Kind::Malformed);

    let deep = format!("name: a\nparams: {}{}\n", "{a: ".repeat(5000), "}".repeat(5000));
    assert_eq!(read_all(&deep).unwrap_err()[0].kind, Kind::Malformed);
}

#[test]
fn a_long_text_is_not_echoed() {
    let key = "k".repeat(100_000);
    let errors =
        read_all(&format!("name: a\ntask: {{ noop: {{}} }}\nretry: {{ ? {key} : 1 }}\n")).unwrap_err();
    assert!(errors[0].to_string().len() < 400, "{}", errors[0].to_string().len());
    let errors = read_all(&job(&format!("overlap: {key}"))).unwrap_err();
    assert!(errors[0].to_string().len() < 400);
    let errors = read_all(&job(&format!("schedule: {{ at: {key} }}"))).unwrap_err();
    assert_eq!(errors[0].message, "at most 64 bytes, this has 100000");
    let description = "d".repeat(punctual_core::limits::DESCRIPTION_BYTES_MAX + 1);
    assert_eq!(read_all(&job(&format!("description: {description}"))).unwrap_err()[0].field, "description");
}

#[track_caller]
fn patch(current: &str, patch: &str) -> Result<serde_json::Value, Error> {
    let draft = read_one(&job(current));
    let current = JobFile::of(&draft.namespace, &draft.name, &draft.definition);
    let patched = patched(&current, Node::from_json(patch.as_bytes()).unwrap())?;
    let form = JobFile::of(&patched.namespace, &patched.name, &patched.definition);
    Ok(serde_json::to_value(form).unwrap())
}

#[test]
fn a_patch_changes_what_it_names_and_leaves_the_rest() {
    let rows = [
        ("priority: 3", r#"{"priority": 7}"#, "/priority", "7"),
        ("priority: 3", r#"{"priority": null}"#, "/priority", "5"),
        ("priority: 3", r#"{}"#, "/priority", "3"),
        ("retry: { attempts: 3, delay: 5s }", r#"{"retry": {"attempts": 4}}"#, "/retry/delay", r#""5s""#),
        ("timeout: 5s", r#"{"timeout": null}"#, "/timeout", ""),
        ("params: { a: 1, b: 2 }", r#"{"params": {"a": null, "c": 3}}"#, "/params", r#"{"b":2,"c":3}"#),
        ("schedule: { every: 1s }", r#"{"schedule": {"every": "2s"}}"#, "/schedule/every", r#""2s""#),
        ("", r#"{"task": {"noop": null, "shell": "true"}}"#, "/task/shell", r#""true""#),
        ("", r#"{"name": "hello"}"#, "/name", r#""hello""#),
    ];
    for (current, change, pointer, expected) in rows {
        let json = patch(current, change).unwrap_or_else(|error| panic!("{change}: {error}"));
        let found = json.pointer(pointer).map(ToString::to_string).unwrap_or_default();
        assert_eq!(found, expected, "{current} with {change}");
    }
}

#[test]
fn a_patch_is_checked_as_the_job_it_makes() {
    let rows = [
        ("schedule: { every: 1s }", r#"{"schedule": {"cron": "* * * * *"}}"#, "schedule"),
        ("", r#"{"task": null}"#, "task"),
        ("", r#"{"task": {"shell": "true"}}"#, "task"),
        ("", r#"{"name": "other"}"#, "name"),
        ("", r#"{"namespace": "other"}"#, "namespace"),
        ("", r#"{"state": "paused"}"#, "state"),
        ("", r#"{"revision": 7}"#, "revision"),
        ("", r#"{"colour": "red"}"#, "colour"),
        ("retry: { attempts: 3 }", r#"{"at_most_once": true}"#, "at_most_once"),
        ("", r#"["task"]"#, ""),
        ("", r#"null"#, ""),
    ];
    for (current, change, field) in rows {
        assert_eq!(patch(current, change).unwrap_err().field, field, "{current} with {change}");
    }
}

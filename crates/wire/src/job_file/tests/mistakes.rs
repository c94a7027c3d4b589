//! The messages about mistakes: each names the field, its place and the way out.

use super::{job, read_all};

#[test]
fn a_mistake_is_named_with_its_field_its_place_and_the_way_out() {
    let unit = "write it like 1h30m, 90s or 500ms";
    let when = "cron, every, after_finish, at or manual: true";
    let rows: Vec<(&str, String)> = vec![
        // Unknown keys: slips, and what is still to come.
        ("shedule: { every: 1s }", "line 3, column 1: shedule: unknown field; did you mean `schedule`?".into()),
        (
            "group: ledger",
            "line 3, column 1: group: unknown field; known are namespace, name, description, labels, search, schedule, task, params, \
             timeout, grace, retry, at_most_once, overlap, misfire, priority, route, limits, unique, dead_letter, keep"
                .into(),
        ),
        (
            "paused: true",
            "line 3, column 1: paused: unknown field; known are namespace, name, description, labels, search, schedule, task, params, \
             timeout, grace, retry, at_most_once, overlap, misfire, priority, route, limits, unique, dead_letter, keep"
                .into(),
        ),
        (
            "schedule: { every: 1s, holiday: cn }",
            "line 3, column 24: schedule.holiday: unknown field; known are cron, timezone, weekdays, every, \
             after_finish, at, manual, jitter, start, end, max_runs, calendar"
                .into(),
        ),
        ("task: { kubernetes: {} }", "line 2, column 9: task.kubernetes: unknown field; known are process, shell, http, grpc, function, queue, noop".into()),
        ("task: { noop: { a: 1 } }", "line 2, column 17: task.noop.a: unknown field; this map must be empty".into()),
        ("retry: { atempts: 3 }", "line 3, column 10: retry.atempts: unknown field; did you mean `attempts`?".into()),
        // Schedules.
        ("schedule: {}", format!("line 3, column 11: schedule: write one of {when}")),
        ("schedule: { manual: false }", format!("line 3, column 11: schedule: write one of {when}")),
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
        ("schedule: { every: 1s, timezone: UTC }", "line 3, column 34: schedule.timezone: is allowed only together with `cron` or `calendar`; remove it: an instant has its own offset".into()),
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
        ("schedule: { manual: true, calendar: work }", "line 3, column 37: schedule.calendar: a calendar is allowed only together with cron, every or at; remove `calendar`".into()),
        ("schedule: { every: 1s, calendar: a b }", "line 3, column 34: schedule.calendar: `a b` has the character ` `; a name has A-Z, a-z, 0-9, dot, - and _".into()),
        ("schedule: { every: 1s, calendar: work, timezone: Mars/Olympus }", "line 3, column 50: schedule.timezone: unknown time zone `Mars/Olympus`; write an IANA name such as Asia/Shanghai or UTC".into()),
        ("schedule: { every: 1s, max_runs: 0 }", "line 3, column 34: schedule.max_runs: max_runs is 0, so the schedule would never fire; leave it out or make the schedule manual".into()),
        ("schedule: { every: 1s, max_runs: -1 }", "line 3, column 34: schedule.max_runs: expected a whole number, not negative, found the number -1".into()),
        ("schedule: { every: 1s, max_runs: 1.5 }", "line 3, column 34: schedule.max_runs: expected a whole number, not negative, found the number 1.5".into()),
        ("schedule: { manual: yes }", "line 3, column 21: schedule.manual: expected true or false, found `yes`".into()),
        // Tasks.
        ("task: {}", "line 2, column 7: task: write one of process, shell, http, grpc, function, queue or noop: {}".into()),
        ("task:", "line 2, column 5: task: write one of process, shell, http, grpc, function, queue or noop: {}".into()),
        ("task: echo hi", "line 2, column 7: task: expected a map like { shell: \"echo hi\" }, found `echo hi`".into()),
        ("task: { shell: a, noop: {} }", "line 2, column 7: task: only one of process, shell, http, grpc, function, queue and noop".into()),
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
        ("task: { process: { command: [a], env: { A: '{{ parms.a }}' } } }", "line 2, column 44: task.process.env.A: unknown variable `parms`; known are params, due, started, run, job, shard, checkpoint (column 4 of the text)".into()),
        ("task: { process: { command: [a], env: { PATH: '{{ params.a }}' } } }", "line 2, column 47: task.process.env.PATH: is no template: who starts the job must not choose what runs".into()),
        ("task: { process: { command: [./a], dir: '{{ params.a }}' } }", "line 2, column 41: task.process.dir: with a folder that is a template, name the program by its full path or by its name alone".into()),
        ("task: { shell: 'echo {{ params.a }}' }", "line 2, column 16: task.shell: a shell text is no template, for a shell would run what is spliced in; parameters are in $PUNCTUAL_PARAMS and on standard input as JSON, or use process: { command: [...] }".into()),
        ("unique: { key: '{{ due }}' }", "line 3, column 16: unique.key: unknown variable `due`; known are params (column 4 of the text)".into()),
        // HTTP.
        ("task: { queue: {} }", "line 2, column 16: task.queue.name: is missing; write the name of the queue".into()),
        ("task: { queue: { name: '' } }", "line 2, column 24: task.queue.name: a queue needs a name".into()),
        ("task: { queue: orders }", "line 2, column 16: task.queue: expected a map like { name: orders, body: \"{{ params.order }}\" }, found `orders`".into()),
        ("task: { queue: { name: a, priority: 10 } }", "line 2, column 37: task.queue.priority: 0 to 9, and 9 goes first".into()),
        ("task: { queue: { name: a, ttl: 0s } }", "line 2, column 32: task.queue.ttl: longer than nothing".into()),
        ("task: { queue: { name: a, ttl: 5s, delay: 5s } }", "line 2, column 43: task.queue.delay: shorter than the message's life (`ttl`, else the job's `timeout`, else 24h): it would never be delivered".into()),
        ("task: { queue: { name: a, body: '{{ b }}' } }", "line 2, column 33: task.queue.body: unknown variable `b`; known are params, due, started, run, job, shard, checkpoint (column 4 of the text)".into()),
        ("task: { queue: { name: a } }\nroute: { strategy: broadcast }", "line 3, column 8: route: a message goes to the consumers of its queue, not to a worker; leave it out".into()),
        ("task: { grpc: { method: a.B/C } }", "line 2, column 15: task.grpc.address: is missing; write the host and the port of the server".into()),
        ("task: { grpc: { address: 'a:1' } }", "line 2, column 15: task.grpc.method: is missing; write the method to call, such as orders.v1.Orders/Settle".into()),
        ("task: { grpc: { address: a, method: a.B/C } }", "line 2, column 26: task.grpc.address: a host and a port, such as orders.internal:50051; write `tls: {}` beside it for TLS".into()),
        ("task: { grpc: { address: 'a:1', method: a.B/C, message: { a: ['{{ nobody }}'] } } }", "line 2, column 63: task.grpc.message.a[0]: unknown variable `nobody`; known are params, due, started, run, job, shard, checkpoint (column 4 of the text)".into()),
        ("task: { http: {} }", "line 2, column 15: task.http.url: is missing; write the URL to call".into()),
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
        ("task: { http: { url: http://a, body: x } }", "line 2, column 38: task.http.body: a GET has no body; write `method: POST`, or remove `body`".into()),
        ("task: { http: { url: http://a, method: POST, body: 5 } }", "line 2, column 52: task.http.body: expected a text, or a map or a list to be sent as JSON, found the number 5".into()),
        ("task: { http: { url: http://a, method: POST, body: { a: [x, '{{ b }}'] } } }", "line 2, column 61: task.http.body.a[1]: unknown variable `b`; known are params, due, started, run, job, shard, checkpoint (column 4 of the text)".into()),
        ("task: { http: { url: http://a, timeout: 0s } }", "line 2, column 41: task.http.timeout: longer than nothing, and at most ten years".into()),
        ("task: { http: { url: http://a, redirects: 6 } }", "line 2, column 43: task.http.redirects: at most 5".into()),
        ("task: { http: { url: http://a, expect: { status: [] } } }", "line 2, column 50: task.http.expect.status: 1 to 32 codes from 100 to 599, such as 200, 2xx or 200-204".into()),
        ("task: { http: { url: http://a, expect: { status: [ok] } } }", "line 2, column 51: task.http.expect.status[0]: `ok` is no status; write 200, 2xx or 200-204".into()),
        ("task: { http: { url: http://a, expect: { status: 700 } } }", "line 2, column 50: task.http.expect.status: 1 to 32 codes from 100 to 599, such as 200, 2xx or 200-204".into()),
        ("task: { http: { url: http://a, expect: { status: [204-200] } } }", "line 2, column 50: task.http.expect.status: 1 to 32 codes from 100 to 599, such as 200, 2xx or 200-204".into()),
        ("task: { http: { url: http://a, expect: { condition: json.ok and } } }", "line 2, column 53: task.http.expect.condition: unexpected end of input, expected expression (column 9 of the text)".into()),
        ("task: { http: { url: http://a, expect: { condition: 'ok' } } }", "line 2, column 53: task.http.expect.condition: unknown variable `ok`; known are params, due, started, run, job, shard, checkpoint, status, headers, body, json (column 1 of the text)".into()),
        ("task: { http: { url: http://a, expect: { body: '' } } }", "line 2, column 48: task.http.expect.body: 1 to 1048576 bytes".into()),
        ("task: { http: { url: http://a, method: GET, accept: {} } }", "line 2, column 40: task.http.method: with `accept`, GET polls and DELETE cancels; start the work with POST, PUT or PATCH".into()),
        ("task: { http: { url: http://a, accept: { poll: 10ms } } }", "line 2, column 48: task.http.accept.poll: 100ms to 1h".into()),
        ("task: { http: { url: http://a, accept: { all: http://b/all } } }", "line 2, column 47: task.http.accept.all: has the scheme, the host and the port of `task.http.url`".into()),
        ("task: { http: { url: http://a, accept: { every: 5s } } }", "line 2, column 42: task.http.accept.every: unknown field; known are poll, all".into()),
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
        ("unique: { for: 1h }", "line 3, column 9: unique.key: is missing; write the key that must be unique".into()),
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

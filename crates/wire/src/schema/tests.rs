//! The schema of a job and its reader say the same.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::check::misfit;
use super::*;
use crate::calendar_file;
use crate::job_file;
use crate::rest::{
    AcquireLock, ActOnMessages, ActOnRuns, AddMessage, AddMessages, AddToken, Again, Calendar, Day,
    DeadLetter, Decide, Decisions, Fire, Job, Message, NewToken, Node, Problem, Progress, Queue,
    RevisionFile, Run, Start, Submit, Take, TaskProgress, Token, Way, Worker,
};
use crate::tree;

fn all() -> Value {
    let mut components = Components::default();
    components.job_body();
    components.calendar_body();
    components.reference::<Job>();
    components.reference::<RevisionFile>();
    components.reference::<Calendar>();
    components.reference::<Day>();
    components.reference::<ActOnRuns>();
    components.reference::<Decide>();
    components.reference::<Decisions>();
    components.reference::<Progress>();
    components.reference::<TaskProgress>();
    components.reference::<Run>();
    components.reference::<DeadLetter>();
    components.reference::<Fire>();
    components.reference::<Node>();
    components.reference::<Worker>();
    components.reference::<Submit>();
    components.reference::<Start>();
    components.reference::<Again>();
    components.reference::<AddMessages>();
    components.reference::<ActOnMessages>();
    components.reference::<Message>();
    components.reference::<Queue>();
    components.reference::<Take>();
    components.reference::<AcquireLock>();
    components.reference::<Way>();
    components.reference::<AddToken>();
    components.reference::<crate::rest::PutDescriptor>();
    components.reference::<NewToken>();
    components.reference::<Token>();
    components.reference::<Problem>();
    components.finish()
}

/// A job around what a row is about.
fn job(rest: &Value) -> Value {
    let mut job = json!({ "name": "hello", "task": { "noop": {} } });
    for (field, value) in rest.as_object().into_iter().flatten() {
        job[field] = value.clone();
    }
    job
}

fn is_read(job: &Value) -> bool {
    job_file::read_all(&job.to_string(), &punctual_core::name::Namespace::default()).is_ok()
}

#[test]
fn what_is_structurally_good_or_bad_is_so_to_the_reader_and_to_the_schema() {
    let all = all();
    let good = [
        json!({}),
        json!({ "namespace": "payments/clearing", "description": "settles" }),
        json!({ "schedule": { "every": "30s" } }),
        json!({ "schedule": { "cron": "0 1 * * *", "timezone": "Asia/Shanghai", "jitter": "30s" } }),
        json!({ "schedule": [{ "every": "1s", "max_runs": 3 }, { "manual": true }] }),
        json!({ "schedule": { "at": "2026-12-01T08:00:00+08:00" } }),
        json!({ "schedule": null, "timeout": null, "retry": null }),
        json!({ "task": { "shell": "echo hi" } }),
        json!({ "task": { "shell": "echo hi", "noop": null } }),
        json!({ "task": { "process": { "command": ["./a", "b"], "env": { "A": "b" }, "dir": "/" } } }),
        json!({ "schedule": { "cron": "0 0 0 ? * 2", "weekdays": "quartz", "calendar": "trading" } }),
        json!({ "task": { "http": { "url": "https://example.com/" } } }),
        json!({ "task": { "http": {
            "url": "http://example.com/a", "method": "POST", "headers": { "a": "b" }, "body": { "a": [1] },
            "timeout": "5s", "redirects": 0, "tls": { "ca": "/ca.pem" },
            "expect": { "status": [200, "3xx", "400-404"], "body": "ok", "condition": "status == 200" }
        } } }),
        json!({ "task": { "http": { "url": "http://example.com/", "method": "PUT", "body": "text", "expect": { "status": "2xx" } } } }),
        json!({ "task": { "http": { "url": "http://example.com/", "accept": {} } } }),
        json!({ "task": { "http": {
            "url": "http://example.com/a", "accept": { "poll": "1s", "all": "http://example.com/all" }
        } } }),
        json!({ "task": { "grpc": { "address": "orders:50051", "method": "orders.v1.Orders/Settle" } } }),
        json!({ "task": { "grpc": {
            "address": "[::1]:50051", "method": "Orders/Settle", "message": { "day": "{{ due | date }}", "n": [1] },
            "metadata": { "authorization": "Bearer a" }, "timeout": "5s", "tls": { "ca": "/ca.pem" }, "descriptor": "orders",
            "expect": { "status": ["OK", "NOT_FOUND"], "condition": "json.ok" }
        } } }),
        json!({ "task": { "grpc": { "address": "orders:50051", "method": "a.B/C", "tls": {}, "expect": { "status": "OK" } } } }),
        json!({ "task": { "grpc": { "address": "orders:50051", "message": { "n": 1 }, "accept": {} } } }),
        json!({ "task": { "queue": { "name": "orders" } } }),
        json!({ "task": { "queue": {
            "name": "any text", "body": "{{ params.a }}", "delay": "1s", "retry": "0s", "ttl": "1h", "priority": 9
        } } }),
        json!({ "params": { "a": [1, true, null, { "b": 1.5 }] } }),
        json!({ "timeout": "1h", "priority": 9, "at_most_once": true, "dead_letter": false }),
        json!({ "retry": { "attempts": 3, "on": ["error", "timeout", 429, "5xx", "500-504"] } }),
        json!({ "retry": { "attempts": 5, "delay": "10s", "backoff": "linear", "jitter": "20%", "priority": 7 } }),
        json!({ "overlap": "queue_one", "misfire": { "policy": "all", "window": "2h", "grace": "1s" } }),
        json!({ "route": { "strategy": "sticky", "selector": { "disk": "ssd" }, "key": "{{ params.region }}" } }),
        json!({ "route": {} }),
        json!({ "labels": { "team": "billing" }, "search": ["customer"] }),
        json!({ "limits": { "running": 1 }, "unique": { "key": "k", "for": "48h" }, "keep": { "runs": 10, "days": 1 } }),
    ];
    for rest in good {
        let job = job(&rest);
        assert!(is_read(&job), "{job}");
        assert_eq!(misfit(&job, &all["JobBody"], &all), None, "{job}");
    }
    let bad = [
        json!({ "shedule": { "every": "1s" } }),
        json!({ "schedule": {} }),
        json!({ "schedule": "@daily" }),
        json!({ "schedule": { "every": "1s", "cron": "* * * * *" } }),
        json!({ "schedule": { "every": 30 } }),
        json!({ "schedule": { "manual": "yes" } }),
        json!({ "schedule": [{ "every": "1s", "max_runs": 0 }] }),
        json!({ "task": null }),
        json!({ "task": {} }),
        json!({ "task": { "nop": {} } }),
        json!({ "task": { "shell": "a", "noop": {} } }),
        json!({ "task": { "noop": { "a": 1 } } }),
        json!({ "task": { "process": {} } }),
        json!({ "task": { "process": { "command": "a" } } }),
        json!({ "task": { "process": { "command": [] } } }),
        json!({ "task": { "process": { "command": ["a", 1] } } }),
        json!({ "task": { "process": { "command": ["a"], "env": { "PORT": 80 } } } }),
        json!({ "schedule": { "cron": "0 0 * * *", "weekdays": "roman" } }),
        json!({ "schedule": { "every": "1h", "calendar": 7 } }),
        json!({ "route": { "strategy": "best" } }),
        json!({ "route": { "selector": ["disk"] } }),
        json!({ "route": { "selector": { "disk": 1 } } }),
        json!({ "route": "local" }),
        json!({ "task": { "http": {} } }),
        json!({ "task": { "http": { "url": null } } }),
        json!({ "task": { "http": "https://example.com/" } }),
        json!({ "task": { "http": { "url": "http://example.com/", "method": "TEAR" } } }),
        json!({ "task": { "http": { "url": "http://example.com/", "headers": { "a": 1 } } } }),
        json!({ "task": { "http": { "url": "http://example.com/", "body": 7 } } }),
        json!({ "task": { "http": { "url": "http://example.com/", "redirects": 6 } } }),
        json!({ "task": { "http": { "url": "http://example.com/", "accept": { "every": "1s" } } } }),
        json!({ "task": { "http": { "url": "http://example.com/", "expect": { "status": [] } } } }),
        json!({ "task": { "http": { "url": "http://example.com/", "expect": { "status": 600 } } } }),
        json!({ "task": { "http": { "url": "http://example.com/", "expect": { "staus": 200 } } } }),
        json!({ "task": { "http": { "url": "http://example.com/" }, "noop": {} } }),
        json!({ "task": { "grpc": {} } }),
        json!({ "task": { "grpc": { "address": "orders:50051" } } }),
        json!({ "task": { "grpc": { "method": "a.B/C" } } }),
        json!({ "task": { "grpc": { "address": "orders:50051", "method": "a.B/C", "message": "{}" } } }),
        json!({ "task": { "grpc": { "address": "orders:50051", "method": "a.B/C", "expect": { "status": "ok" } } } }),
        json!({ "task": { "grpc": { "address": "orders:50051", "method": "a.B/C", "expect": { "status": [] } } } }),
        json!({ "task": { "grpc": { "address": "orders:50051", "method": "a.B/C", "expect": { "body": "a" } } } }),
        json!({ "task": { "grpc": { "address": "orders:50051", "method": "a.B/C", "accept": {} } } }),
        json!({ "task": { "grpc": { "address": "orders:50051", "accept": { "poll": "1s" } } } }),
        json!({ "task": { "queue": {} } }),
        json!({ "task": { "queue": { "name": "" } } }),
        json!({ "task": { "queue": "orders" } }),
        json!({ "task": { "queue": { "name": "orders", "priority": 10 } } }),
        json!({ "task": { "queue": { "name": "orders", "ttl": 60 } } }),
        json!({ "task": { "queue": { "name": "orders", "body": { "a": 1 } } } }),
        json!({ "params": [1] }),
        json!({ "timeout": 60 }),
        json!({ "retry": 3 }),
        json!({ "retry": { "attempts": 0 } }),
        json!({ "retry": { "attempts": 101 } }),
        json!({ "retry": { "attempts": -1 } }),
        json!({ "retry": { "backoff": "never" } }),
        json!({ "retry": { "on": [] } }),
        json!({ "retry": { "on": [600] } }),
        json!({ "overlap": "sometimes" }),
        json!({ "overlap": 1 }),
        json!({ "misfire": "once" }),
        json!({ "priority": 10 }),
        json!({ "priority": "high" }),
        json!({ "limits": { "running": 0 } }),
        json!({ "dead_letter": "maybe" }),
        json!({ "labels": ["billing"] }),
        json!({ "labels": { "team": 1 } }),
        json!({ "search": "customer" }),
        json!({ "search": [1] }),
        json!({ "name": 17 }),
    ];
    for rest in bad {
        let job = job(&rest);
        assert!(!is_read(&job), "{job}");
        assert!(misfit(&job, &all["JobBody"], &all).is_some(), "{job}");
    }
}

/// The fields that a reader says it knows, when it is given one that it does not.
fn known<T: serde::de::DeserializeOwned>() -> BTreeSet<String> {
    let error = match tree::from_json::<T>(br#"{"zzzzzzzz":1}"#) {
        Ok(_) => panic!("an unknown field was taken"),
        Err(error) => error.message,
    };
    let (_, known) = error.split_once("known are ").unwrap_or_else(|| panic!("{error}"));
    known.split(", ").map(str::to_owned).collect()
}

#[track_caller]
fn check_fields<T: serde::de::DeserializeOwned + ToSchema>() {
    let all = all();
    let described = all[T::name().as_ref()]["properties"].as_object().expect("it is described").keys();
    assert_eq!(described.cloned().collect::<BTreeSet<_>>(), known::<T>(), "{}", T::name());
}

#[test]
fn every_field_that_is_read_is_described_and_no_other() {
    check_fields::<job_file::JobFile>();
    check_fields::<job_file::Schedule>();
    check_fields::<job_file::Task>();
    check_fields::<job_file::Process>();
    check_fields::<job_file::Http>();
    check_fields::<job_file::Expect>();
    check_fields::<job_file::Tls>();
    check_fields::<job_file::Accept>();
    check_fields::<job_file::Grpc>();
    check_fields::<job_file::GrpcExpect>();
    check_fields::<job_file::Retry>();
    check_fields::<job_file::Misfire>();
    check_fields::<job_file::Limit>();
    check_fields::<job_file::Unique>();
    check_fields::<job_file::Keep>();
    check_fields::<Submit>();
    check_fields::<Start>();
    check_fields::<Again>();
    check_fields::<crate::rest::StepAgain>();
    check_fields::<Decide>();
    check_fields::<Progress>();
    check_fields::<TaskProgress>();
    check_fields::<AddMessage>();
    check_fields::<AddMessages>();
    check_fields::<ActOnMessages>();
    check_fields::<Take>();
    check_fields::<Way>();
    check_fields::<calendar_file::CalendarFile>();
    check_fields::<crate::rest::PutDescriptor>();
}

#[test]
fn a_job_that_was_read_may_be_put_as_it_is() {
    let all = all();
    let job = json!({
        "id": "17", "name": "a", "namespace": "default", "task": { "noop": {} }, "revision": 1, "state": "active",
        "created_at": "2026-12-01T08:00:00.000Z", "updated_at": "2026-12-01T08:00:00.000Z",
        "next_due_at": null, "fired_through": "2026-12-01T08:00:00.000Z"
    });
    assert_eq!(misfit(&job, &all["Job"], &all), None);
    assert_eq!(misfit(&job, &all["JobBody"], &all), None);
    assert!(misfit(&job, &all["JobFile"], &all).is_some(), "a file has no revision");
}

#[test]
fn a_calendar_is_so_to_the_reader_and_to_the_schema() {
    let all = all();
    let is_read =
        |file: &Value| calendar_file::read_all(&file.to_string(), &"default".parse().unwrap()).is_ok();
    let rows = [
        (true, json!({ "calendar": "a" })),
        (
            true,
            json!({ "calendar": "a", "namespace": "payments", "description": "d", "weekly": ["mon", "fri"] }),
        ),
        (
            true,
            json!({ "calendar": "a", "include": ["2026-10-01", "2026-10-01..2026-10-07", "02-29"], "exclude": [] }),
        ),
        (
            true,
            json!({ "calendar": "a", "version": 3, "settled": true, "updated_at": "2026-12-01T08:00:00.000Z" }),
        ),
        (false, json!({ "calendar": "a", "weekly": "mon" })),
        (false, json!({ "calendar": "a", "weekly": ["moon"] })),
        (false, json!({ "calendar": "a", "include": [20261001] })),
        (false, json!({ "calendar": "a", "holidays": [] })),
        (false, json!({ "calendar": 1 })),
    ];
    for (is_good, file) in rows {
        assert_eq!(is_read(&file), is_good, "{file}");
        assert_eq!(misfit(&file, &all["CalendarBody"], &all).is_none(), is_good, "{file}");
    }
    let shown = json!({ "calendar": "a", "weekly": ["mon"], "version": 1, "settled": true, "updated_at": "2026-12-01T08:00:00.000Z" });
    assert_eq!(misfit(&shown, &all["Calendar"], &all), None);
    assert!(misfit(&shown, &all["CalendarFile"], &all).is_some(), "a file has no version");
}

#[test]
fn letters_are_decided_about_by_their_ids_or_by_their_job() {
    let all = all();
    let rows = [
        (true, json!({ "action": "replay", "ids": ["17"] })),
        (true, json!({ "action": "discard", "job": "nightly", "limit": 5, "ids": null })),
        (false, json!({ "ids": ["17"] })),
        (false, json!({ "action": "replay" })),
        (false, json!({ "action": "replay", "ids": [], "job": null })),
        (false, json!({ "action": "replay", "ids": ["17"], "job": "nightly" })),
        (false, json!({ "action": "burn", "ids": ["17"] })),
        (false, json!({ "action": "replay", "job": "nightly", "limit": 1001 })),
    ];
    for (is_good, body) in rows {
        let read = tree::from_json::<Decide>(body.to_string().as_bytes()).and_then(|decide| decide.chosen());
        assert_eq!(read.is_ok(), is_good, "{body}");
        assert_eq!(misfit(&body, &all["Decide"], &all).is_none(), is_good, "{body}");
    }
}

#[test]
fn every_rule_is_about_a_field_that_there_is() {
    let all = all();
    for (schema, field, rule, bound) in components::BOUNDS {
        assert_eq!(all[schema]["properties"][field][rule], bound, "{schema}.{field}");
    }
    assert_eq!(all["Schedule"]["properties"]["cron"]["format"], "cron");
}

//! When something is: expressions, zones, durations, instants.

use super::*;

pub(super) fn crons() -> Vec<Row> {
    let long = format!("0{} * * * *", ",0".repeat(200));
    let bad = [
        "",
        " ",
        "*",
        "* * * *",
        "* * * * * * * *",
        "60 * * * *",
        "-1 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 0 *",
        "* * * 13 *",
        "* * * * 8",
        "* * * * 9",
        "60 * * * * *",
        "0 0 0 1 1 * 1969",
        "0 0 0 1 1 * 2100",
        "0 0 0 1 1 * 2035-2030",
        "a * * * *",
        "* * * JANUARY *",
        "* * * * MONDAY",
        "*/0 * * * *",
        "*/61 * * * *",
        "*/ * * * *",
        "/5 * * * *",
        "1- * * * *",
        "-5 * * * *",
        "1--5 * * * *",
        ",1 * * * *",
        "1, * * * *",
        "1,,2 * * * *",
        "1.5 * * * *",
        "+1 * * * *",
        "1e1 * * * *",
        "0x1 * * * *",
        "٣ * * * *",
        "１ * * * *",
        "* * * * *\u{0}",
        "* * * * \u{202e}1",
        "? * * * *",
        "0 ? * * *",
        "0 0 L-0 * *",
        "0 0 L-31 * *",
        "0 0 W * *",
        "0 0 0W * *",
        "0 0 1-5W * *",
        "0 0 * * L",
        "0 0 * * 1#0",
        "0 0 * * 1#6",
        "0 0 * * #1",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "@reboot",
        "@",
        "@every",
        "@every 0s",
        "@every -1s",
        "@every 5min",
        "@daily extra",
        "H(5-1) * * * *",
        "H(0-60) * * * *",
        "H/0 * * * *",
        "0 0 0 1 1 * H",
        "$(reboot) * * * *",
        &long,
    ];
    bad.map(|cron| schedule("schedule.cron", json!({ "cron": cron }))).into()
}

pub(super) fn zones() -> Vec<Row> {
    let long = "A/".repeat(40);
    let bad = [
        "",
        " ",
        "Mars/Olympus",
        "CEST",
        "+08:00",
        "UTC+8",
        "Asia/Shanghai ",
        "Asia\\Shanghai",
        "../../etc/localtime",
        "Etc/Unknown",
        "亚洲/上海",
        "UTC\u{0}",
        &long,
    ];
    let mut rows: Vec<Row> =
        bad.map(|zone| schedule("schedule.timezone", json!({ "cron": "@daily", "timezone": zone }))).into();
    rows.push(schedule("schedule.timezone", json!({ "every": "1s", "timezone": "UTC" })));
    rows.push(schedule("schedule.timezone", json!({ "cron": "@daily", "timezone": 8 })));
    rows.push(schedule("schedule.weekdays", json!({ "cron": "@daily", "weekdays": "lunar" })));
    rows.push(schedule("schedule.weekdays", json!({ "every": "1s", "weekdays": "quartz" })));
    rows
}

pub(super) fn durations() -> Vec<Row> {
    let long = "1s".repeat(40);
    let bad = [
        "",
        " ",
        "0s",
        "0ms",
        "-1s",
        "1",
        "s",
        "1.5h",
        "1 h",
        "1h ",
        "5min",
        "1M",
        "1y",
        "1s1s",
        "1s1m",
        "1e3s",
        "99999999999999999999s",
        "18446744073709551615w",
        "１s",
        "1s\u{0}",
        "PT1H",
        "soon",
        &long,
    ];
    let mut rows: Vec<Row> = bad.map(|span| schedule("schedule.every", json!({ "every": span }))).into();
    rows.push(schedule("schedule.every", json!({ "every": 30 })));
    rows.push(schedule("schedule.every", json!({ "every": null })));
    rows.last_mut().expect("just pushed").expected.2 = "schedule";
    rows.push(schedule("schedule.after_finish", json!({ "after_finish": "0s" })));
    rows.push(schedule("schedule.jitter", json!({ "every": "1s", "jitter": "x" })));
    rows.push(job("timeout", "timeout", json!("0s")));
    rows.push(job("timeout", "timeout", json!("5000w")));
    rows.push(job("retry.delay", "retry", json!({ "delay": "often" })));
    rows.push(job("retry.delay", "retry", json!({ "delay": "5000w" })));
    rows.push(job("retry.max_delay", "retry", json!({ "max_delay": "5000w" })));
    rows.push(job("misfire.window", "misfire", json!({ "window": "5000w" })));
    rows.push(job("misfire.grace", "misfire", json!({ "grace": "5000w" })));
    rows.push(submit("delay", "delay", json!("5000w")));
    rows.push(submit("delay", "delay", json!("-5s")));
    rows.push(submit("delay", "delay", json!(5)));
    rows.push(submit("timeout", "timeout", json!("0s")));
    rows
}

pub(super) fn instants() -> Vec<Row> {
    let bad = [
        "",
        "tomorrow",
        "2026-12-01",
        "2026-12-01T08:00:00",
        "2026-02-30T08:00:00Z",
        "2026-13-01T08:00:00Z",
        "2026-12-01T25:00:00Z",
        "1969-12-31T23:59:59Z",
        "9999-12-31T23:59:59Z",
        "10000-01-01T00:00:00Z",
        "1764547200",
        "2026-12-01T08:00:00+99:00",
    ];
    let mut rows: Vec<Row> = bad.map(|at| schedule("schedule.at", json!({ "at": at }))).into();
    rows.extend(bad.map(|at| submit("due_at", "due_at", json!(at))));
    rows.push(schedule("schedule.at", json!({ "at": 1_764_547_200 })));
    rows.push(schedule("schedule.start", json!({ "every": "1s", "start": "then" })));
    rows.push(schedule("schedule.end", json!({ "every": "1s", "end": "then" })));
    let (start, end) = ("2030-01-02T00:00:00Z", "2030-01-01T00:00:00Z");
    rows.push(schedule("schedule.end", json!({ "every": "1s", "start": start, "end": end })));
    rows
}

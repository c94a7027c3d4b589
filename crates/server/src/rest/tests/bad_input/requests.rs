//! What is around a body: addresses, queries, headers.

use super::*;

pub(super) fn addresses() -> Vec<Row> {
    let long = "x".repeat(129);
    let mut rows = Vec::new();
    let task = json!({ "task": { "noop": {} } });
    for name in [
        "%20",
        "a%20b",
        "%00",
        "a%0ab",
        "..%2f..%2fetc",
        "%2e%2e%2f",
        "na%C3%AFve",
        "%E4%BD%A0",
        "%E2%80%AEb",
        "a@b",
        &long,
    ] {
        rows.push(row(name, with_json(Request::put(format!("{JOBS}/{name}")), &task), PARAMETER, "name"));
        rows.push(row(name, get_of(&format!("{JOBS}/{name}")), PARAMETER, "name"));
    }
    for space in ["Upper", "a..b", ".a", "a.", "%20", "%00", "a_b", "%E4%BD%A0", "a%2f%2fb", &long] {
        rows.push(row(space, get_of(&format!("/api/v1/namespaces/{space}/jobs")), PARAMETER, "namespace"));
    }
    rows.push(row("no UTF-8", get_of(&format!("{JOBS}/%ff")), PARAMETER, "path"));
    rows.push(row("no UTF-8", get_of("/api/v1/namespaces/%c0%80/jobs"), PARAMETER, "path"));
    for id in ["none", "-1", "0x10", "1.5", "99999999999999999999", "%00", "%20", "１"] {
        let id = id.replace('１', "%EF%BC%91");
        rows.push(row(id.clone(), get_of(&format!("{RUNS}/{id}")), PARAMETER, "id"));
        rows.push(row(
            id.clone(),
            Request::post(format!("{RUNS}/{id}/cancel")).body(Body::empty()).unwrap(),
            PARAMETER,
            "id",
        ));
    }
    for path in [
        "/assets",
        "/api",
        "/api/v1",
        "/api/v1/",
        "/api/v2/nodes",
        "/API/V1/nodes",
        "//api/v1/nodes",
        "/api/v1/nodes/",
        "/api/v1/namespaces/default",
        "/api/v1/cron",
        "/../etc/passwd",
        "/%2e%2e/etc/passwd",
        "/.git/config",
    ] {
        rows.push(row(path, get_of(path), (404, "no_such_route"), ""));
    }
    for (method, path) in [
        ("POST", JOBS),
        ("DELETE", JOBS),
        ("PUT", RUNS),
        ("TRACE", RUNS),
        ("BREW", RUNS),
        ("OPTIONS", JOBS),
        ("POST", "/healthz"),
    ] {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        rows.push(row(format!("{method} {path}"), request, (405, "method_not_allowed"), ""));
    }
    rows.push(row(
        "a long address",
        get_of(&format!("{RUNS}?job={}", "x".repeat(9000))),
        (414, "address_too_long"),
        "",
    ));
    rows
}

pub(super) fn queries() -> Vec<Row> {
    let bad = [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=-1", "limit"),
        ("limit=1.5", "limit"),
        ("limit=", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("limit=%31%00", "limit"),
        ("limit=1&limit=1", "limit"),
        ("state=asleep", "state"),
        ("state=", "state"),
        ("state=waiting,,ready", "state"),
        ("state=pending", "state"),
        ("since=yesterday", "since"),
        ("since=2026-01-01", "since"),
        ("until=", "until"),
        ("after=x", "after"),
        ("after=-1", "after"),
        ("job=a%20b", "job"),
        ("job=", "job"),
        ("colour=red", "colour"),
        ("Limit=5", "Limit"),
        ("=5", ""),
        ("a[]=1", "a[]"),
        ("%00=1", "\\u{0}"),
    ];
    bad.map(|(query, field)| row(query, get_of(&format!("{RUNS}?{query}")), PARAMETER, field)).into()
}

pub(super) fn headers() -> Vec<Row> {
    let task = json!({ "task": { "noop": {} } });
    let put = |name: &str, value: &[u8]| with_json(put_job().header(name, value), &task);
    let post = |name: &str, value: &[u8]| with_json(Request::post(RUNS).header(name, value), &task);
    let mut many = Request::get(RUNS);
    for n in 0..101 {
        many = many.header(format!("x-{n}"), "x");
    }
    let kind = |kind: &[u8]| put_job().header("content-type", kind).body(Body::from("{}")).unwrap();
    let unsupported = (415, "unsupported_media_type");
    let twice = Request::post(RUNS).header("idempotency-key", "a").header("idempotency-key", "a");
    let mut rows = vec![
        row("If-Match without quotes", put("if-match", b"3"), PARAMETER, "If-Match"),
        row("If-Match with a star", put("if-match", b"*"), PARAMETER, "If-Match"),
        row("If-Match with words", put("if-match", b"\"three\""), PARAMETER, "If-Match"),
        row("If-Match below zero", put("if-match", b"\"-1\""), PARAMETER, "If-Match"),
        row("If-Match too large", put("if-match", b"\"99999999999\""), PARAMETER, "If-Match"),
        row("If-Match that is no text", put("if-match", b"\"\xff\""), PARAMETER, "if-match"),
        row("If-None-Match with a tag", put("if-none-match", b"\"1\""), PARAMETER, "If-None-Match"),
        row(
            "both",
            with_json(put_job().header("if-match", "\"1\"").header("if-none-match", "*"), &task),
            (412, "wrong_revision"),
            "If-Match",
        ),
        row("a job that is not there", put("if-match", b"\"1\""), (404, "no_such_job"), ""),
        row("a key twice", with_json(twice, &task), PARAMETER, "idempotency-key"),
        row("an empty key", post("idempotency-key", b""), INVALID, "key"),
        row("a long key", post("idempotency-key", "k".repeat(257).as_bytes()), INVALID, "key"),
        row("a key that is no text", post("idempotency-key", b"\xff"), PARAMETER, "idempotency-key"),
        row("many headers", many.body(Body::empty()).unwrap(), (431, "headers_too_large"), ""),
        row("a large header", post("x-large", &[b'x'; 40_000]), (431, "headers_too_large"), ""),
        row("a foreign host", post("host", b"evil.example"), (403, "cross_origin"), "Host"),
        row("a host that is no text", post("host", b"\xff"), (403, "cross_origin"), "Host"),
        row(
            "a foreign origin",
            with_json(
                Request::post(RUNS).header("host", "localhost:1").header("origin", "http://evil.example"),
                &task,
            ),
            (403, "cross_origin"),
            "Origin",
        ),
        row(
            "a null origin",
            with_json(Request::post(RUNS).header("host", "localhost:1").header("origin", "null"), &task),
            (403, "cross_origin"),
            "Origin",
        ),
    ];
    let kinds: [&[u8]; 8] = [
        b"text/plain",
        b"application/xml",
        b"multipart/form-data",
        b"application/x-www-form-urlencoded",
        b"json",
        b"",
        b"application/jsonp",
        b"\xff",
    ];
    rows.extend(kinds.map(|of| row(String::from_utf8_lossy(of), kind(of), unsupported, "Content-Type")));
    rows
}

//! Bodies as they come: JSON and YAML.

use super::*;

pub(super) fn documents() -> Vec<Row> {
    let deep = |n: usize| format!("{{\"params\":{}{}}}", "[".repeat(n), "]".repeat(n));
    let deep_maps = format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100));
    let bad: Vec<Vec<u8>> = [
        "{",
        "}",
        "{\"task\"}",
        "{\"task\":}",
        "{'task':{}}",
        "{task:{}}",
        "{\"a\":1,}",
        "[1,]",
        "nul",
        "tru",
        "NaN",
        "{} {}",
        "{}x",
        "// c\n{}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":{\"b\":1,\"b\":2}}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":+1}",
        "{\"a\":1e999}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\udc00\\ud800\"}",
        "{\"\\ud800\":1}",
        "{\"a\":\"\u{1}\"}",
        "{\"a\":\"x",
        "\u{feff}{}",
        "\u{0}",
        &deep(97),
        &deep(100_000),
        &deep_maps,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    let mut rows: Vec<Row> = bad
        .into_iter()
        .map(|text| (String::from_utf8_lossy(&text).into_owned(), text))
        .map(|(what, text)| row(what, body("application/json", text), MALFORMED, ""))
        .collect();
    for (what, text) in [
        ("no UTF-8", b"{\"a\":\"\xff\xfe\"}".to_vec()),
        ("overlong UTF-8", b"{\"a\":\"\xc0\x80\"}".to_vec()),
        ("a surrogate in UTF-8", b"{\"a\":\"\xed\xa0\x80\"}".to_vec()),
        ("UTF-16", "{}".encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("gzip", vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0]),
    ] {
        rows.push(row(what, body("application/json", text), MALFORMED, ""));
    }
    for text in ["5", "\"a job\"", "[]", "null", "true", "[{\"task\":{\"noop\":{}}}]"] {
        rows.push(row(text, body("application/json", text), INVALID, ""));
    }
    let large = vec![b' '; 1024 * 1024 + 1];
    rows.push(row("a large body", body("application/json", large.clone()), (413, "body_too_large"), ""));
    rows.push(row("a large YAML body", body("application/yaml", large), (413, "body_too_large"), ""));
    rows.push(row("nothing", body("application/json", ""), MALFORMED, ""));
    rows
}

pub(super) fn yamls() -> Vec<Row> {
    let yaml =
        |text: String, expected, field| row(text.clone(), body("application/yaml", text), expected, field);
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        bomb += &format!("a{level}: &a{level} [{}]\n", format!("*a{}, ", level - 1).repeat(10));
    }
    let deep = format!("task: {{ noop: {{}} }}\nparams: {}{}\n", "{a: ".repeat(1000), "}".repeat(1000));
    let mut rows = vec![
        yaml(bomb, MALFORMED, ""),
        yaml(deep, MALFORMED, ""),
        yaml("task: { noop: {} }\n---\ntask: { noop: {} }\n".to_owned(), MALFORMED, ""),
        yaml("# nothing\n".to_owned(), MALFORMED, ""),
        yaml("task: { noop: {} }\ntask: { noop: {} }\n".to_owned(), MALFORMED, ""),
        yaml("task: *nowhere\n".to_owned(), MALFORMED, ""),
        yaml("task: { noop: {}\n".to_owned(), MALFORMED, ""),
        yaml("task:\n\tnoop: {}\n".to_owned(), MALFORMED, ""),
        yaml("task: { nop: {} }\n".to_owned(), INVALID, "task.nop"),
        yaml("- task\n".to_owned(), INVALID, ""),
        yaml("task: { noop: {} }\npriority: 99\n".to_owned(), INVALID, "priority"),
        yaml("task: { shell: [a] }\n".to_owned(), INVALID, "task.shell"),
    ];
    rows.push(row("no UTF-8", body("application/yaml", b"task: \xff".to_vec()), MALFORMED, ""));
    rows
}

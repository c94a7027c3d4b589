//! Templates, good and bad. Every bad one is refused where it stands, and none costs more than its limits.

use proptest::prelude::*;

use super::*;
use crate::Timestamp;
use crate::limits::EXPRESSION_DEPTH_MAX;

/// 2026-12-01T00:30:00Z, a Tuesday.
const DUE: Timestamp = Timestamp::from_millis(1_796_085_000_000);

fn values() -> Values {
    let params = r#"{
        "region": "east", "n": 3, "price": 2.5, "on": true, "off": false, "nothing": null, "empty": "",
        "list": [3, 1, 2], "words": ["a", "b"], "map": {"inner": {"deep": 7}}, "key with blank": 1,
        "big": 18446744073709551615, "json": "{\"a\": [1, 2]}", "at": "2026-12-01T08:00:00+08:00", "path": "../a b&c"
    }"#;
    Values::default()
        .with("params", Value::from_json(params).unwrap())
        .with("due", Value::instant(DUE))
        .with("started", Value::instant(DUE))
        .with("run", Value::map([("id", Value::text("17")), ("attempt", Value::Int(2))]))
        .with("job", Value::map([("name", Value::text("nightly"))]))
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let template = Template::parse(text).unwrap_or_else(|error| panic!("{text}: {}", error.in_text(text)));
    let rendered =
        template.render(&values()).unwrap_or_else(|error| panic!("{text}: {}", error.in_text(text)));
    assert_eq!(rendered, expected, "{text}");
}

#[test]
fn what_people_write_is_evaluated() {
    let rows = [
        ("", ""),
        ("plain", "plain"),
        ("}} is no mark", "}} is no mark"),
        (r#"{"a":{"b":1}}"#, r#"{"a":{"b":1}}"#),
        (r#"{{ "{{" }}.Names{{ "}}" }}"#, "{{.Names}}"),
        ("{{ params.region }}-{{params.n}}", "east-3"),
        ("{{ params['key with blank'] }}", "1"),
        ("{{ params.map.inner.deep }}", "7"),
        ("{{ params.list[0] }}{{ params.list[-1] }}", "32"),
        ("{{ params.region[:2] }}{{ params.region[-1:] }}", "eat"),
        ("{{ params.list[1:] }}", "[1,2]"),
        ("{{ params.big }}", "18446744073709551615"),
        ("{{ params.map }}", r#"{"inner":{"deep":7}}"#),
        ("{{ run.id }}/{{ run.attempt }}/{{ job.name }}", "17/2/nightly"),
        // Dates and zones.
        ("{{ due }}", "2026-12-01T00:30:00.000Z"),
        ("{{ due | date }}", "2026-12-01"),
        ("{{ due | time }}", "00:30:00"),
        ("{{ due | in_zone('America/New_York') | date }}", "2026-11-30"),
        ("{{ due | in_zone('Asia/Shanghai') }}", "2026-12-01T08:30:00+08:00"),
        ("{{ due | format('%Y/%m/%d %H:%M') }}", "2026/12/01 00:30"),
        ("{{ due | in_zone('Asia/Shanghai') | format('%A %z') }}", "Tuesday +0800"),
        ("{{ due | minus('1d') | date }}", "2026-11-30"),
        ("{{ due | plus('1h30m') | time }}", "02:00:00"),
        ("{{ due | minus('1mo') | format('%Y-%m') }}", "2026-11"),
        ("{{ due | plus('1y') | date }}", "2027-12-01"),
        ("{{ due | unix }}", "1796085000"),
        ("{{ params.at | date }}", "2026-12-01"),
        ("{{ due == started }}", "true"),
        ("{{ due < (due | plus('1s')) }}", "true"),
        // JSON.
        ("{{ params.list | json }}", "[3,1,2]"),
        ("{{ params.region | json }}", "\"east\""),
        ("{{ (params.json | parse_json).a[1] }}", "2"),
        ("{{ {'a': [1, params.on, none]} | json }}", r#"{"a":[1,true,null]}"#),
        // Texts.
        ("{{ params.region | upper }}", "EAST"),
        ("{{ '  Ab ' | trim | lower }}", "ab"),
        ("{{ 'a-b-c' | replace('-', '+') }}", "a+b+c"),
        ("{{ 'a,b,c' | split(',') | last }}", "c"),
        ("{{ params.words | join('; ') }}", "a; b"),
        ("{{ params.path | urlencode }}", "..%2Fa%20b%26c"),
        ("{{ '汉字' | length }}{{ params.list | length }}", "23"),
        ("{{ 'a' ~ 1 ~ true }}{{ 'x' + 'y' }}", "a1truexy"),
        // Numbers.
        ("{{ 1 + 2 * 3 - 4 }}", "3"),
        ("{{ 7 // 2 }} {{ 7 % 3 }} {{ 2 ** 10 }} {{ -7 // 2 }}", "3 1 1024 -4"),
        ("{{ 7 / 2 }} {{ params.price * 2 }}", "3.5 5.0"),
        (
            "{{ ' 42 ' | int + 1 }} {{ '2.5' | float }} {{ 2.567 | round(1) }} {{ 2.5 | round }}",
            "43 2.5 2.6 3",
        ),
        ("{{ -3 | abs }} {{ params.list | min }} {{ params.list | max }} {{ 3.9 | int }}", "3 1 3 3"),
        ("{{ params.list | first }}{{ 5 | string | length }}", "31"),
        // What is not there.
        ("{{ params.missing | default('x') }}", "x"),
        ("{{ params.missing.deeper | default('x') }}", "x"),
        ("{{ params.nothing | default('x') }}", "x"),
        ("{{ params.empty | default('x') }}", ""),
        (
            "{{ params.missing is defined }} {{ params.n is defined }} {{ params.x is undefined }}",
            "false true true",
        ),
        // Choices.
        ("{{ 'a' if params.on else 'b' }}", "a"),
        ("{{ 'a' if params.off else 'b' if params.on else 'c' }}", "b"),
        ("{{ params.empty or 'none given' }}", "none given"),
        ("{{ not params.off and params.n in params.list }}", "true"),
        (
            "{{ 1 < params.n <= 3 }} {{ 1 == 1.0 }} {{ 'eas' in params.region }} {{ 'x' not in params }}",
            "true true true true",
        ),
        (
            "{{ params.region is startingwith('ea') }} {{ params.n is number }} {{ params.nothing is none }}",
            "true true true",
        ),
        ("{{ params.region is string and params.list is sequence and params.map is mapping }}", "true"),
    ];
    for (text, expected) in rows {
        check(text, expected);
    }
}

/// Everything that is refused when a job is saved, with the column it is refused at.
#[test]
fn a_bad_template_is_refused_where_it_stands() {
    let unknown = "; known are params, due, started, run, job, shard, checkpoint";
    let rows: Vec<(&str, String)> = vec![
        // Braces.
        ("{{ params.a", "`{{` has no `}}`; write {{ \"{{\" }} for the characters themselves (column 1 of the text)".into()),
        ("a {{ 'b }}", "`{{` has no `}}`; write {{ \"{{\" }} for the characters themselves (column 3 of the text)".into()),
        ("{{ }}", "the expression is empty (column 3 of the text)".into()),
        ("{{}}", "the expression is empty (column 3 of the text)".into()),
        ("{% if a %}", "`{%` is not known: only expressions, {{ … }}; write {{ \"{%\" }} for the characters themselves (column 1 of the text)".into()),
        ("汉{# a #}", "`{#` is not known: only expressions, {{ … }}; write {{ \"{#\" }} for the characters themselves (column 2 of the text)".into()),
        ("{{- due }}", "`{{-` is not known: nothing around an expression is trimmed; put a blank after `{{` (column 3 of the text)".into()),
        // Syntax.
        ("{{ .Names }}", "unexpected `.` (column 4 of the text)".into()),
        ("{{ 1 + }}", "unexpected end of input, expected expression (column 6 of the text)".into()),
        ("{{ (1 }}", "unexpected end of input, expected `)` (column 5 of the text)".into()),
        ("{{ [1, 2 }}", "unexpected end of input, expected `,` (column 8 of the text)".into()),
        ("{{ params..a }}", "unexpected `.`, expected identifier or integer (column 11 of the text)".into()),
        ("{{ due date }}", "unexpected input after expression (column 8 of the text)".into()),
        ("{{ 1 == }}", "unexpected end of input, expected expression (column 6 of the text)".into()),
        ("{{ 'a' | }}", "unexpected end of input, expected identifier (column 8 of the text)".into()),
        ("{{ a ? b : c }}", "unexpected character (column 6 of the text)".into()),
        ("{{ set x = 1 }}", "unexpected input after expression (column 8 of the text)".into()),
        ("{{ for x in y }}", "unexpected input after expression (column 8 of the text)".into()),
        ("{{ 'a' if params.on }}", "an `if` needs an `else` (column 3 of the text)".into()),
        ("{{ params.list[::2] }}", "a slice has a start and an end, no step (column 10 of the text)".into()),
        // Names.
        ("{{ param.a }}", format!("unknown variable `param`{unknown} (column 4 of the text)")),
        ("{{ now }}", format!("unknown variable `now`{unknown} (column 4 of the text)")),
        ("x\ny {{ env.HOME }}", format!("unknown variable `env`{unknown} (line 2, column 6 of the text)")),
        ("{{ status }}", format!("unknown variable `status`{unknown} (column 4 of the text)")),
        ("{{ self }}", format!("unknown variable `self`{unknown} (column 4 of the text)")),
        ("{{ params.a | default(other) }}", format!("unknown variable `other`{unknown} (column 23 of the text)")),
        ("{{ run.token }}", "`run` has no `token`; it has id, attempt, trigger, key (column 4 of the text)".into()),
        ("{{ job.id }}", "`job` has no `id`; it has name, namespace, revision (column 4 of the text)".into()),
        ("{{ due.year }}", "`due` has no parts; use a filter (column 4 of the text)".into()),
        // Filters, tests and calls.
        ("{{ due | date(1) }}", "`date` takes no argument (column 10 of the text)".into()),
        ("{{ due | format }}", "`format` takes one argument (column 10 of the text)".into()),
        ("{{ 'a' | replace('a') }}", "`replace` takes 2 arguments (column 10 of the text)".into()),
        ("{{ params.a | default }}", "`default` takes one argument (column 15 of the text)".into()),
        ("{{ params.a | join('a', 'b') }}", "`join` takes one argument at most (column 15 of the text)".into()),
        ("{{ params.a | default(value=1) }}", "arguments have no names and no `*` here (column 15 of the text)".into()),
        ("{{ params.a | join(*params.b) }}", "arguments have no names and no `*` here (column 15 of the text)".into()),
        ("{{ params.a is divisibleby(2) }}", "unknown test `divisibleby`; known are defined, undefined, none, true, false, boolean, number, string, sequence, mapping, startingwith, endingwith (column 16 of the text)".into()),
        ("{{ params.a is startingwith }}", "`is startingwith` takes one argument (column 16 of the text)".into()),
        ("{{ range(10) }}", "nothing can be called here; filters are written `value | name` (column 4 of the text)".into()),
        ("{{ params.get('a') }}", "nothing can be called here; filters are written `value | name` (column 10 of the text)".into()),
        ("{{ due | in_zone('Mars/Olympus') }}", "unknown time zone `Mars/Olympus`; write an IANA name such as Asia/Shanghai or UTC (column 10 of the text)".into()),
        ("{{ due | plus('1 fortnight') }}", "`1 fortnight` is no span; write it like 1d, 2h30m, 1mo or 1y (column 10 of the text)".into()),
        ("{{ due | minus('-1d') }}", "`-1d` is no span; write it like 1d, 2h30m, 1mo or 1y (column 10 of the text)".into()),
        ("{{ due | plus(1) }}", "the argument is a text in quotes (column 10 of the text)".into()),
        ("{{ due | format('%Q %!') }}", "`%Q %!` is no format; write it like %Y-%m-%d %H:%M (column 10 of the text)".into()),
        ("{{ due | plus('9999y') }}", "lies outside the years 1 to 9998 (column 10 of the text)".into()),
        ("{{ 1e999 }}", "the number is too large (column 4 of the text)".into()),
    ];
    assert!(rows.len() >= 40);
    let mut wrong = Vec::new();
    for (text, expected) in rows {
        let found = Template::parse(text).err().map(|error| error.in_text(text));
        if found.as_deref() != Some(expected.as_str()) {
            wrong.push(format!("{text}\n  expected {expected}\n  found    {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unknown = Template::parse("{{ due | datum }}").unwrap_err().in_text("{{ due | datum }}");
    assert!(unknown.starts_with("unknown filter `datum`; known are default, date, time, "), "{unknown}");
}

#[test]
fn what_only_a_run_can_tell_fails_with_a_reason() {
    let rows = [
        ("{{ params.missing }}", "there is no `params.missing`", 4),
        ("{{ params.map.inner.missing }}", "there is no `params.map.inner.missing`", 4),
        ("{{ params.n.missing }}", "a number has no `missing`, in `params.n.missing`", 4),
        ("{{ params.list[9] }}", "there is no item 9 in a list of 3", 4),
        ("{{ params.nothing }}", "is null, which has no text; give it a value by `| default(…)`", 4),
        ("{{ params.n + params.region }}", "a number is needed, this is a text", 4),
        ("{{ params.region * 3 }}", "a number is needed, this is a text", 4),
        ("{{ 1 / (params.n - 3) }}", "divides by zero", 4),
        ("{{ 9 ** 99 }}", "the number is too large", 4),
        ("{{ params.big * params.big * params.big }}", "the number is too large", 4),
        ("{{ 'a' < 1 }}", "a text and a number cannot be compared", 4),
        ("{{ 1 in 2 }}", "a number cannot be in a number", 4),
        ("{{ params.region | int }}", "`int`: the text is no whole number", 20),
        ("{{ params.region | parse_json }}", "`parse_json`: the text is no JSON", 20),
        ("{{ params.n | upper }}", "`upper`: a text is needed, this is a number", 15),
        ("{{ params.n | date }}", "`date`: an instant is needed, this is a number", 15),
        (
            "{{ params.region | date }}",
            "`date`: the text is no instant; write it like 2026-12-01T08:00:00+08:00",
            20,
        ),
        (
            "{{ due | in_zone(params.region) }}",
            "`in_zone`: unknown time zone `east`; write an IANA name such as Asia/Shanghai or UTC",
            10,
        ),
        ("{{ params.words | join(', ') | split('') }}", "`split`: a text cannot be split by nothing", 32),
        ("{{ [] | first }}", "`first`: the list is empty", 9),
        ("{{ [1, 'a'] | max }}", "`max`: the items cannot be compared", 15),
    ];
    let mut wrong = Vec::new();
    for (text, message, column) in rows {
        let expected = format!("{message} (column {column} of the text)");
        let found = Template::parse(text).unwrap().render(&values()).err().map(|error| error.in_text(text));
        if found.as_deref() != Some(expected.as_str()) {
            wrong.push(format!("{text}\n  expected {expected}\n  found    {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_expression_is_bounded_in_length_depth_steps_and_size() {
    let refused = |text: &str| Template::parse(text).expect_err("too much").message;
    let long = format!("{{{{ '{}' }}}}", "x".repeat(EXPRESSION_BYTES_MAX));
    assert_eq!(refused(&long), "an expression has at most 4096 bytes");
    let deep = "nested deeper than 64 levels, each operator counted";
    for (open, core, close, times) in [
        ("(", "1", ")", 2000),
        ("[", "", "]", 2000),
        ("{'a':", "1", "}", 600),
        ("not ", "true", "", 1000),
        ("-", "1", "", 4000),
        ("", "params", ".a", 2000),
        ("", "params", "[0]", 1300),
        ("", "1", "+1", 2000),
        ("", "'a'", "|trim", 800),
        ("", "1", " is none", 500),
        ("1 if 1 else ", "1", "", 330),
        ("", "1", "<1", 2000),
        ("((", "1", ")+1)", 600),
    ] {
        let source = format!(" {}{core}{}", open.repeat(times), close.repeat(times));
        assert!(source.len() <= EXPRESSION_BYTES_MAX, "{open}{core}{close} is not cut short by its length");
        assert_eq!(refused(&format!("{{{{{source}}}}}")), deep, "{open}{core}{close}");
        let shallow = format!(" {}{core}{}", open.repeat(10), close.repeat(10));
        assert!(Template::parse(&format!("{{{{{shallow}}}}}")).is_ok(), "{shallow}");
    }
    let just = format!("{{{{ {}1 }}}}", "-".repeat(EXPRESSION_DEPTH_MAX));
    assert!(Template::parse(&just).is_ok());

    let text = Value::text("x".repeat(200_000));
    let values = Values::default().with(
        "params",
        Value::map([("text", text), ("many", Value::List(vec![Value::Int(1); 100_000].into()))]),
    );
    let rendered = |text: &str| Template::parse(text).unwrap().render(&values);
    let too_large = |text: &str| {
        let message = rendered(text).expect_err(text).message;
        assert!(message.contains("bytes") || message.contains("steps"), "{text}: {message}");
    };
    assert_eq!(rendered("{{ params.text ~ params.text }}").unwrap().len(), 400_000);
    too_large("{{ params.text ~ params.text ~ params.text ~ params.text ~ params.text ~ params.text }}");
    too_large(
        "{{ params.text }}{{ params.text }}{{ params.text }}{{ params.text }}{{ params.text }}{{ params.text }}",
    );
    too_large("{{ params.text | replace('x', 'xxxxxxxxxx') }}");
    too_large("{{ params.many | join(params.text) }}");
    too_large(&"{{ params.many == params.many }}".repeat(20));
    too_large(&format!("{{{{ [{}] | length }}}}", "params.text|upper,".repeat(200)));
    assert!(rendered("{{ 1 }}".repeat(EXPRESSIONS_MAX).as_str()).is_ok());
    let many = "{{ 1 }}".repeat(EXPRESSIONS_MAX + 1);
    assert_eq!(refused(&many), "at most 256 expressions in one text");
}

#[test]
fn a_text_that_is_one_expression_keeps_its_kind() {
    let value =
        |text: &str| Template::parse(text).unwrap().evaluate(&values()).unwrap().to_json().to_string();
    assert_eq!(value("{{ params.n }}"), "3");
    assert_eq!(value("{{ params.list }}"), "[3,1,2]");
    assert_eq!(value("{{ params.nothing }}"), "null");
    assert_eq!(value("n={{ params.n }}"), "\"n=3\"");
    assert_eq!(value("{{ due }}"), "\"2026-12-01T00:30:00.000Z\"");
}

#[test]
fn a_value_stays_one_part_of_a_url() {
    let url = Template::parse("http://a/{{ params.path }}?q={{ params.region }}").unwrap();
    assert_eq!(url.render_url(&values()).unwrap(), "http://a/..%2Fa%20b%26c?q=east");
}

fn response(body: &str) -> Values {
    let json = Value::from_json(body).unwrap_or(Value::Null);
    values().with("status", Value::Int(200)).with("body", Value::text(body)).with("json", json)
}

#[test]
fn a_condition_is_true_or_false() {
    let holds = |text: &str, body: &str| Condition::parse(text).unwrap().holds(&response(body));
    assert_eq!(holds("json.ok and status == 200", r#"{"ok": true}"#), Ok(true));
    assert_eq!(holds("json.ok and status == 200", r#"{"ok": false}"#), Ok(false));
    assert_eq!(holds("json.items | length > 1", r#"{"items": [1, 2]}"#), Ok(true));
    assert_eq!(holds("'done' in body", "all done"), Ok(true));
    assert_eq!(holds("json.ok | default(false)", "{}"), Ok(false));
    assert_eq!(holds("json.ok", "{}").unwrap_err().message, "there is no `json.ok`");
    assert_eq!(holds("json.ok", "no json").unwrap_err().message, "null has no `ok`, in `json.ok`");
    assert_eq!(holds("json.n", r#"{"n": 1}"#).unwrap_err().message, "gives a number, not true or false");
}

#[test]
fn a_bad_condition_is_refused() {
    let refused = |text: &str| Condition::parse(text).unwrap_err().message;
    assert_eq!(refused(""), "the expression is empty");
    assert_eq!(refused("{{ json.ok }}"), "a condition stands by itself here, without `{{` and `}}`");
    assert_eq!(refused("'yes'"), "is always a text, not true or false");
    assert_eq!(
        refused("ok"),
        "unknown variable `ok`; known are params, due, started, run, job, shard, checkpoint, status, headers, body, json"
    );
    assert_eq!(refused("status = 200"), "unexpected input after expression");
    assert_eq!(refused("status.code"), "`status` has no parts; use a filter");
    assert_eq!(refused(&"(".repeat(5000)), "a condition has at most 4096 bytes");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in r#"(\{\{)?[ a-z0-9'"|.(){}\[\]<>=!~%*/+,:-]{0,60}(\}\})?"#) {
        if let Ok(template) = Template::parse(&text) {
            let _ = template.render(&values());
        }
        if let Ok(condition) = Condition::parse(&text) {
            let _ = condition.holds(&response("{}"));
        }
    }

    #[test]
    fn no_expression_makes_it_panic(words in prop::collection::vec(prop::sample::select(vec![
        "params", ".n", ".list", ".region", ".map", "[0]", "[1:]", "(", ")", "[", "]", "{", "}", "|", "date", "json", "join(',')",
        "default(1)", "upper", "int", "is", "not", "defined", "number", "and", "or", "if", "else", "in", "==", "<", "+", "-", "*",
        "/", "//", "%", "**", "~", ",", ":", "1", "2.5", "'a'", "true", "none", "due", "minus('1d')", "unix", "length", "max",
    ]), 0..24)) {
        let text = format!("{{{{ {} }}}}", words.join(" "));
        if let Ok(template) = Template::parse(&text) {
            let _ = template.render(&values());
        }
    }

    #[test]
    fn a_text_without_marks_stands_for_itself(text in "[^{]{0,80}") {
        prop_assert_eq!(Template::parse(&text).unwrap().render(&values()).unwrap(), text);
    }

    #[test]
    fn any_param_arrives_as_it_was_given(given in "\\PC{0,40}") {
        let values = Values::default().with("params", Value::map([("p", Value::text(given.clone()))]));
        let rendered = Template::parse("<{{ params.p }}>").unwrap().render(&values).unwrap();
        prop_assert_eq!(rendered, format!("<{given}>"));
        let back = Template::parse("{{ (params.p | json | parse_json) == params.p }}").unwrap();
        prop_assert_eq!(back.render(&values).unwrap(), "true");
    }

    #[test]
    fn arithmetic_is_that_of_numbers(a in -1000_i128..1000, b in 1_i128..1000) {
        let values = Values::default().with("params", Value::map([("a", Value::Int(a)), ("b", Value::Int(b))]));
        let text = "{{ params.a + params.b }} {{ params.a * params.b }} {{ params.a // params.b * params.b + params.a % params.b }}";
        let rendered = Template::parse(text).unwrap().render(&values).unwrap();
        prop_assert_eq!(rendered, format!("{} {} {a}", a + b, a * b));
    }
}

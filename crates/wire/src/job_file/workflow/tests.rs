use super::*;
use crate::rest::{Code, Problem};

/// A job with these lines below `task.workflow`; the first of them is line 4.
fn job(lines: &str) -> String {
    let lines: Vec<String> = lines.lines().map(|line| format!("    {line}\n")).collect();
    format!("name: nightly\ntask:\n  workflow:\n{}", lines.concat())
}

fn read(text: &str) -> Result<Vec<WorkflowDraft>, Vec<Error>> {
    read_workflows(text, &Namespace::default())
}

const WHOLE: &str = r#"
name: nightly
namespace: payments
timeout: 2h
task:
  workflow:
    steps:
      extract: { task: { process: { command: ["./extract"] } }, timeout: 10m, retry: { attempts: 3 } }
      load: { needs: [extract], map: "steps.extract.output.tables", parallel: 20, task: { http: { url: "http://a/{{ item }}" } } }
      settle: { needs: [load], when: "steps.load.succeeded > 0", job: settlement, params: { day: "{{ due | date }}" } }
      review: { needs: [settle], approve: { within: 2d } }
      rest: { needs: [review], wait: { for: 30m } }
      told: { needs: [rest], task: { noop: {} }, alerts: [{ on: failed }, { on: late, by: 1m, to: [ops] }] }
      alarm: { needs: [load], rule: any_failed, task: { shell: "./alarm" } }
      inner: { needs: [rest], task: { workflow: { steps: { a: { task: { noop: {} } } } } }, switch: { on: steps.inner.state, cases: { succeeded: [last] } } }
      last: { wait: { until: "{{ due | plus('2h') }}" } }
    finally: { clean: { task: { shell: "./clean" } } }
    output: "steps.settle.output"
"#;

#[test]
fn a_workflow_is_read_in_the_order_of_its_file() {
    let [draft] = <[WorkflowDraft; 1]>::try_from(read(WHOLE).unwrap()).unwrap();
    assert_eq!((draft.namespace.as_str(), draft.name.as_str()), ("payments", "nightly"));
    let told: Vec<(&str, &str)> =
        draft.workflow.all().map(|step| (step.name.as_str(), step.work.word())).collect();
    let expected = [
        ("extract", "process"),
        ("load", "http"),
        ("settle", "job"),
        ("review", "approve"),
        ("rest", "wait"),
        ("told", "noop"),
        ("alarm", "shell"),
        ("inner", "workflow"),
        ("last", "wait"),
        ("clean", "shell"),
    ];
    assert_eq!(told, expected);
    let graph = rule::Graph::of(&draft.workflow).unwrap();
    assert_eq!((graph.edges(), graph.depth()), (8, 8));
}

#[test]
fn a_job_that_is_no_workflow_is_left_out() {
    assert_eq!(read("name: a\ntask: { noop: {} }\n").unwrap(), []);
    let both = format!("name: a\ntask: {{ shell: x }}\n---\n{}", job("steps: { a: { task: { noop: {} } } }"));
    assert_eq!(read(&both).unwrap().len(), 1);
}

#[test]
fn sixteen_levels_of_workflows_fit_in_a_file() {
    let nested = |levels: usize| {
        let begin = "{ steps: { a: { task: { workflow: ".repeat(levels - 1);
        let inner = "{ steps: { a: { task: { process: { command: [ls] } } } } }";
        format!("name: a\ntask: {{ workflow: {begin}{inner}{} }}\n", " } } } }".repeat(levels - 1))
    };
    assert_eq!(read(&nested(16)).map(|drafts| drafts.len()), Ok(1));
    let errors = read(&nested(17)).unwrap_err();
    assert_eq!(errors[0].message, "at most 16 levels of workflows");
}

/// Malformed graphs: the lines below `task.workflow`, the code, the field below `task.workflow` and the line in the file.
const MALFORMED: &[(&str, &str, &str, u32)] = &[
    // The whole.
    ("[]", "invalid", "", 4),
    ("steps: {}", "invalid", "steps", 4),
    ("finally: { a: { task: { noop: {} } } }", "invalid", "steps", 4),
    ("stps: { a: { task: { noop: {} } } }", "invalid", "stps", 4),
    ("steps: [a, b]", "invalid", "steps", 4),
    ("steps: a", "invalid", "steps", 4),
    ("steps:\n  a: { task: { noop: {} } }\noutput: 5", "invalid", "output", 6),
    ("steps:\n  a: { task: { noop: {} } }\noutput: steps.b.output", "invalid", "output", 6),
    ("steps:\n  a: { task: { noop: {} } }\noutput: 'steps.a.'", "invalid", "output", 6),
    // Names.
    ("steps:\n  a b: { task: { noop: {} } }", "invalid", "steps.a b", 5),
    ("steps:\n  a.b: { task: { noop: {} } }", "invalid", "steps.a.b", 5),
    ("steps:\n  a: { task: { noop: {} } }\n  a: { task: { noop: {} } }", "malformed", "", 6),
    ("steps:\n  a: { task: { noop: {} } }\nfinally:\n  a: { task: { noop: {} } }", "invalid", "finally.a", 7),
    // What a step does.
    ("steps:\n  a: {}", "invalid", "steps.a", 5),
    ("steps:\n  a:", "invalid", "steps.a", 5),
    ("steps:\n  a: ./run", "invalid", "steps.a", 5),
    ("steps:\n  a: { task: { noop: {} }, job: b }", "invalid", "steps.a", 5),
    ("steps:\n  a:\n    task: {}", "invalid", "steps.a.task", 6),
    ("steps:\n  a:\n    task: { shell: '' }", "invalid", "steps.a.task.shell", 6),
    ("steps:\n  a:\n    task: { shell: x, workflow: { steps: {} } }", "invalid", "steps.a.task", 6),
    ("steps:\n  a:\n    tsk: { noop: {} }", "invalid", "steps.a.tsk", 6),
    ("steps:\n  a:\n    job: a/b", "invalid", "steps.a.job", 6),
    ("steps:\n  a:\n    wait: {}", "invalid", "steps.a.wait", 6),
    ("steps:\n  a:\n    wait: { for: 5m, until: 2030-01-01T00:00:00Z }", "invalid", "steps.a.wait", 6),
    ("steps:\n  a:\n    wait: { for: 0s }", "invalid", "steps.a.wait.for", 6),
    ("steps:\n  a:\n    wait:\n      until: tomorrow", "invalid", "steps.a.wait.until", 7),
    ("steps:\n  a:\n    wait:\n      until: '{{ item }}'", "invalid", "steps.a.wait.until", 7),
    ("steps:\n  a:\n    approve: { within: 0s }", "invalid", "steps.a.approve.within", 6),
    // Needs.
    ("steps:\n  a:\n    task: { noop: {} }\n    needs: b", "invalid", "steps.a.needs", 7),
    ("steps:\n  a:\n    task: { noop: {} }\n    needs: [b]", "invalid", "steps.a.needs[0]", 7),
    ("steps:\n  a:\n    task: { noop: {} }\n    needs: [a]", "invalid", "steps.a.needs", 7),
    (
        "steps:\n  a: { task: { noop: {} } }\n  b:\n    task: { noop: {} }\n    needs: [a, a]",
        "invalid",
        "steps.b.needs[1]",
        8,
    ),
    (
        "steps:\n  a: { task: { noop: {} }, needs: [c] }\n  b: { task: { noop: {} }, needs: [a] }\n  c: { task: { noop: {} }, needs: [b] }",
        "invalid",
        "steps.a.needs",
        5,
    ),
    (
        "steps:\n  a:\n    task: { noop: {} }\n    needs: [z]\nfinally:\n  z: { task: { noop: {} } }",
        "invalid",
        "steps.a.needs",
        7,
    ),
    // Rules, conditions, maps and switches.
    ("steps:\n  a:\n    task: { noop: {} }\n    rule: always", "invalid", "steps.a.rule", 7),
    ("steps:\n  a:\n    task: { noop: {} }\n    rule: any_failed", "invalid", "steps.a.rule", 7),
    ("steps:\n  a:\n    task: { noop: {} }\n    when: '{{ true }}'", "invalid", "steps.a.when", 7),
    ("steps:\n  a:\n    task: { noop: {} }\n    when: '5'", "invalid", "steps.a.when", 7),
    ("steps:\n  a:\n    task: { noop: {} }\n    when: steps.a.failed > 0", "invalid", "steps.a.when", 7),
    (
        "steps:\n  a: { task: { noop: {} } }\n  b:\n    task: { noop: {} }\n    when: steps.a.failed > 0",
        "invalid",
        "steps.b.when",
        8,
    ),
    ("steps:\n  a:\n    task: { noop: {} }\n    map: [1, 2]", "invalid", "steps.a.map", 7),
    ("steps:\n  a:\n    task: { noop: {} }\n    map: 'params.'", "invalid", "steps.a.map", 7),
    ("steps:\n  a:\n    task: { noop: {} }\n    parallel: 5", "invalid", "steps.a.parallel", 7),
    (
        "steps:\n  a:\n    task: { noop: {} }\n    map: params.x\n    parallel: 0",
        "invalid",
        "steps.a.parallel",
        8,
    ),
    (
        "steps:\n  a:\n    task: { noop: {} }\n    map: params.x\n    parallel: 10001",
        "invalid",
        "steps.a.parallel",
        8,
    ),
    (
        "steps:\n  a:\n    task: { noop: {} }\n    switch: { cases: { x: [] } }",
        "invalid",
        "steps.a.switch.on",
        7,
    ),
    (
        "steps:\n  a:\n    task: { noop: {} }\n    switch: { on: params.x }",
        "invalid",
        "steps.a.switch.cases",
        7,
    ),
    (
        "steps:\n  a:\n    task: { noop: {} }\n    switch:\n      on: params.x\n      cases: { x: [b] }",
        "invalid",
        "steps.a.switch.cases.x[0]",
        9,
    ),
    (
        "steps:\n  a:\n    task: { noop: {} }\n    switch:\n      on: params.x\n      cases: { x: [] }\n      default: [a]",
        "invalid",
        "steps.a.switch.default[0]",
        10,
    ),
    // Policies and parameters.
    (
        "steps:\n  a:\n    task: { noop: {} }\n    retry: { attempts: 0 }",
        "invalid",
        "steps.a.retry.attempts",
        7,
    ),
    ("steps:\n  a:\n    task: { noop: {} }\n    priority: 10", "invalid", "steps.a.priority", 7),
    ("steps:\n  a:\n    task: { noop: {} }\n    timeout: soon", "invalid", "steps.a.timeout", 7),
    ("steps:\n  a:\n    wait: { for: 5m }\n    retry: { attempts: 3 }", "invalid", "steps.a.retry", 7),
    // Alerts.
    (
        "steps:\n  a:\n    task: { noop: {} }\n    alerts: { on: failed, after: 2 }",
        "invalid",
        "steps.a.alerts[0].after",
        7,
    ),
    (
        "steps:\n  a:\n    task: { noop: {} }\n    alerts:\n      - { on: failed }\n      - { on: dead_letter }",
        "invalid",
        "steps.a.alerts[1].on",
        9,
    ),
    ("steps:\n  a:\n    task: { noop: {} }\n    alerts: { on: late }", "invalid", "steps.a.alerts.by", 7),
    ("steps:\n  a:\n    wait: { for: 5m }\n    alerts: { on: late, by: 1m }", "invalid", "steps.a.alerts", 7),
    (
        "steps:\n  a:\n    task: { noop: {} }\n    params:\n      day: '{{ day }}'",
        "invalid",
        "steps.a.params.day",
        8,
    ),
    (
        "steps:\n  a:\n    task:\n      workflow:\n        steps:\n          b: { task: { noop: {} }, needs: [c] }",
        "invalid",
        "steps.a.task.workflow.steps.b.needs[0]",
        9,
    ),
];

#[test]
fn a_malformed_graph_is_refused_with_its_code_field_and_line() {
    assert!(MALFORMED.len() >= 40, "{}", MALFORMED.len());
    let mut wrong = Vec::new();
    for (lines, code, field, line) in MALFORMED {
        let errors = read(&job(lines)).expect_err(lines);
        let error = &errors[0];
        let problem = Problem::from(error.clone());
        let whole = match (*code, field.is_empty()) {
            ("malformed", _) => String::new(),
            (_, true) => "task.workflow".to_owned(),
            _ => format!("task.workflow.{field}"),
        };
        let expected = (*code, whole.as_str(), Some(*line));
        let found = (problem.code.as_str(), error.field.as_str(), error.place.map(|place| place.line));
        if found != expected {
            wrong.push(format!("{lines}\n  {found:?} instead of {expected:?}: {}", error.message));
        }
        assert!(matches!(problem.code, Code::Malformed | Code::Invalid));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_cycle_names_its_path_and_its_place() {
    let steps = "steps:\n  a:\n    needs: [b]\n    job: x\n  b:\n    needs: [a]\n    job: x";
    let errors = read(&job(steps)).unwrap_err();
    let expected =
        "line 6, column 16: task.workflow.steps.a.needs: these steps need each other in a cycle: a → b → a";
    assert_eq!(errors[0].to_string(), expected);
}

#[test]
fn a_workflow_that_was_read_can_be_put_back_unchanged() {
    let mut drafts = crate::job_file::read_all(WHOLE, &Namespace::default()).unwrap();
    let draft = drafts.pop().unwrap();
    let told = crate::job_file::JobFile::of(&draft.namespace, &draft.name, &draft.definition);
    let told = serde_json::to_string(&told).unwrap();
    assert_eq!(crate::job_file::read_all(&told, &Namespace::default()), Ok(vec![draft]));
}

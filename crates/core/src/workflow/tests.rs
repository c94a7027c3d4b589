mod any_graph;
mod refusals;

use super::*;
use crate::Timestamp;
use crate::template::{Value, Values};

/// A step that does nothing and needs these.
fn step(name: &str, needs: &[&str]) -> Step {
    let needs = needs.iter().map(|name| name.parse().unwrap()).collect();
    Step { needs, ..Step::of(name.parse().unwrap(), Work::Task(Task::Noop)) }
}

fn workflow(steps: Vec<Step>, finally: Vec<Step>) -> Workflow {
    Workflow { steps, finally, output: None }
}

/// Executes a workflow: `ends` says how each step ends that starts. The decisions come in their order, as text.
fn execute(workflow: &Workflow, ends: impl Fn(&str) -> State) -> (Vec<String>, End) {
    let graph = Graph::of(workflow).unwrap();
    let mut progress = Progress::new(&graph);
    let mut told = Vec::new();
    loop {
        let name = |index: usize| workflow.step(index).unwrap().name.as_str();
        let mut decided = progress.advance(&graph, |step, states| {
            let is_needed = |index: &usize| graph.nodes()[step].needs.contains(index);
            let known = |index: usize| Some(index).filter(is_needed).map(|index| known(states[index]));
            let values = values(workflow, known);
            workflow.holds(&graph, step, &values).map_err(|error| error.to_string())
        });
        decided.sort_unstable_by_key(|(step, _)| *step);
        for (step, decision) in &decided {
            told.push(match decision {
                Decision::Start => name(*step).to_owned(),
                Decision::Skip(reason) => format!("{}: skipped: {}", name(*step), reason.as_str()),
                Decision::Fail(message) => format!("{}: {message}", name(*step)),
                Decision::Wait | Decision::Done => panic!("{decision:?} is no decision"),
            });
        }
        for (step, _) in decided.iter().filter(|(_, decision)| *decision == Decision::Start) {
            progress.ended(&graph, *step, ends(name(*step)));
        }
        match progress.end() {
            Some(end) => return (told, end),
            None => assert!(!decided.is_empty(), "nothing goes on after {told:?}"),
        }
    }
}

fn known(state: State) -> Known<'static> {
    let (succeeded, failed) = (u32::from(state == State::Succeeded), u32::from(state == State::Failed));
    Known { state, output: Output::Text(r#"{"rows": 7}"#), error: None, run: None, succeeded, failed }
}

fn values<'a>(workflow: &Workflow, known: impl Fn(usize) -> Option<Known<'a>>) -> Values {
    let steps = workflow.steps_value(0..workflow.all().count(), known);
    Values::of_params("{}").with("steps", steps)
}

fn succeed(_: &str) -> State {
    State::Succeeded
}

#[test]
fn a_diamond_is_executed_level_by_level() {
    // Written in another order than it runs.
    let diamond = workflow(
        vec![
            step("join", &["left", "right"]),
            step("right", &["top"]),
            step("left", &["top"]),
            step("top", &[]),
        ],
        vec![],
    );
    assert_eq!(diamond.check(), Ok(()));
    let (told, end) = execute(&diamond, succeed);
    assert_eq!((told.join(" "), end), ("top right left join".to_owned(), End::Succeeded));
    let graph = Graph::of(&diamond).unwrap();
    assert_eq!(graph.nodes().iter().map(|node| node.level).collect::<Vec<_>>(), [3, 2, 2, 1]);
    assert_eq!((graph.edges(), graph.depth()), (4, 3));
}

#[test]
fn a_failed_step_starts_the_failure_branch_and_then_finally() {
    let alarm = Step { rule: Rule::AnyFailed, ..step("alarm", &["load"]) };
    let report = Step { rule: Rule::AllDone, ..step("report", &["settle"]) };
    let steps = vec![step("load", &[]), step("settle", &["load"]), alarm, report];
    let branches = workflow(steps, vec![step("clean", &[])]);
    let fail = |name: &str| if name == "load" { State::Failed } else { State::Succeeded };
    let (told, end) = execute(&branches, fail);
    assert_eq!(told, ["load", "settle: skipped: rule", "alarm", "report", "clean"]);
    assert_eq!(end, End::Failed(0));
    let (told, end) = execute(&branches, succeed);
    assert_eq!(told, ["load", "settle", "alarm: skipped: rule", "report", "clean"]);
    assert_eq!(end, End::Succeeded);
}

#[test]
fn each_rule_goes_by_the_ends_of_the_needed_steps() {
    use State::{Failed, Skipped, Succeeded};
    let holds = |rule: Rule| {
        let ends: [&[State]; 6] = [
            &[],
            &[Succeeded, Succeeded],
            &[Succeeded, Skipped],
            &[Succeeded, Failed],
            &[Skipped, Skipped],
            &[Failed, Skipped],
        ];
        ends.map(|ends| {
            let names: Vec<String> = (0..ends.len()).map(|at| format!("s{at}")).collect();
            let mut steps: Vec<Step> = names.iter().map(|name| step(name, &[])).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            steps.push(Step { rule, ..step("last", &names) });
            let Ok(graph) = Graph::of(&workflow(steps, vec![])) else { return None };
            let mut states = ends.to_vec();
            states.push(State::Open);
            let decision = Progress::of(&graph, states, false).decide(&graph, ends.len(), || Ok(true));
            Some(decision == Decision::Start)
        })
    };
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(holds(Rule::AllSucceeded), [yes, yes, no, no, no, no]);
    // Without steps that it needs, such a step is refused.
    assert_eq!(holds(Rule::AnySucceeded), [None, yes, yes, yes, no, no]);
    assert_eq!(holds(Rule::AllDone), [yes; 6]);
    assert_eq!(holds(Rule::AnyFailed), [None, no, no, yes, no, yes]);
    assert_eq!(holds(Rule::NoneFailed), [yes, yes, yes, no, yes, no]);
}

#[test]
fn a_condition_skips_a_step_and_a_broken_one_fails_it() {
    let when = |name: &str, text: &str| Step { when: Some(text.to_owned()), ..step(name, &["load"]) };
    let steps = vec![
        step("load", &[]),
        when("some", "steps.load.output.rows > 5 and steps.load.succeeded == 1"),
        when("none", "steps.load.state == 'failed'"),
        when("broken", "steps.load.output.rows"),
        step("after", &["broken"]),
    ];
    let conditions = workflow(steps, vec![]);
    assert_eq!(conditions.check(), Ok(()));
    let (told, end) = execute(&conditions, succeed);
    let broken = "broken: steps.broken.when: gives a number, not true or false (column 1 of the text)";
    assert_eq!(told, ["load", "some", "none: skipped: when", broken, "after: skipped: rule"]);
    assert_eq!(end, End::Failed(3));
}

#[test]
fn a_switch_starts_the_steps_of_its_case() {
    let switch = |on: &str| {
        let names = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<Name>>();
        let cases =
            vec![("7".to_owned(), names(&["seven", "both"])), ("8".to_owned(), names(&["eight", "both"]))];
        Switch { on: on.to_owned(), cases, default: names(&["other"]) }
    };
    let told = |on: &str| {
        let load = Step { switch: Some(Box::new(switch(on))), ..step("load", &[]) };
        let listed = ["seven", "eight", "both", "other"].map(|name| step(name, &[]));
        let steps = std::iter::once(load).chain(listed).collect();
        let switching = workflow(steps, vec![]);
        assert_eq!(switching.check(), Ok(()));
        execute(&switching, succeed).0.join(", ").replace(": skipped: when", "-")
    };
    assert_eq!(told("steps.load.output.rows"), "load, seven, eight-, both, other-");
    assert_eq!(told("steps.load.output.rows + 1"), "load, seven-, eight, both, other-");
    assert_eq!(told("'neither'"), "load, seven-, eight-, both-, other");
}

#[test]
fn a_map_gives_a_list_within_its_limit() {
    let mapped = |over: &str| Map { over: over.to_owned(), parallel: None };
    let items = |over: &str| {
        let step = Step { map: Some(Box::new(mapped(over))), ..step("load", &[]) };
        let values = Values::of_params(r#"{"tables": ["a", "b"], "many": 10001}"#);
        let values = match over {
            "params.long" => Values::of_params(&format!("{{\"long\": [{}0]}}", "0,".repeat(10_000))),
            _ => values,
        };
        workflow(vec![step], vec![])
            .items(0, &values)
            .map(|items| items.unwrap().len())
            .map_err(|e| e.to_string())
    };
    assert_eq!(items("params.tables"), Ok(2));
    assert_eq!(items("[]"), Ok(0));
    assert_eq!(items("params.many"), Err("steps.load.map: gives a number, not a list".to_owned()));
    let long = "steps.load.map: map_too_long: gives 10001 items, at most 10000";
    assert_eq!(items("params.long"), Err(long.to_owned()));
}

#[test]
fn the_output_of_a_workflow_is_an_expression_of_its_steps() {
    let whole = Workflow {
        output: Some("steps.load.output.rows * 2".to_owned()),
        ..workflow(vec![step("load", &[])], vec![])
    };
    let ended = values(&whole, |_| Some(known(State::Succeeded)));
    assert_eq!(whole.evaluate_output(&ended), Ok(Some(Value::Int(14))));
    let skipped = values(&whole, |_| None);
    assert_eq!(whole.evaluate_output(&skipped).unwrap_err().field, "output");
}

#[test]
fn a_stopped_workflow_starts_nothing_but_finally() {
    let chain =
        workflow(vec![step("a", &[]), step("b", &["a"]), step("c", &["b"])], vec![step("clean", &[])]);
    let graph = Graph::of(&chain).unwrap();
    let mut progress = Progress::new(&graph);
    let mut holds = |_: usize, _: &[State]| Ok(true);
    assert_eq!(progress.advance(&graph, &mut holds), [(0, Decision::Start)]);
    progress.stop(&graph);
    let mut skipped = progress.advance(&graph, &mut holds);
    skipped.sort_unstable_by_key(|(step, _)| *step);
    assert_eq!(skipped, [1, 2].map(|step| (step, Decision::Skip(Skip::Stopped))));
    assert_eq!(progress.end(), None);
    progress.ended(&graph, 0, State::Failed);
    assert_eq!(progress.advance(&graph, &mut holds), [(3, Decision::Start)]);
    progress.ended(&graph, 3, State::Succeeded);
    assert_eq!(progress.end(), Some(End::Stopped));
}

#[test]
fn the_longest_chain_and_the_widest_fan_are_decided_without_recursion() {
    let names: Vec<String> = (0..4999).map(|at| format!("s{at}")).collect();
    let chain = names[..1000].iter().enumerate().map(|(at, name)| match at {
        0 => step(name, &[]),
        _ => step(name, &[&names[at - 1]]),
    });
    let chain = workflow(chain.collect(), vec![]);
    assert_eq!(chain.check(), Ok(()));
    let fail_first = |name: &str| if name == "s0" { State::Failed } else { State::Succeeded };
    let (told, end) = execute(&chain, fail_first);
    assert_eq!((told.len(), end), (1000, End::Failed(0)));
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let fan = names.iter().map(|name| step(name, &[])).chain([step("join", &all)]).collect();
    let fan = workflow(fan, vec![]);
    assert_eq!(fan.check(), Ok(()));
    let (told, end) = execute(&fan, succeed);
    assert_eq!((told.len(), told.last().map(String::as_str), end), (5000, Some("join"), End::Succeeded));
}

#[test]
fn a_step_names_the_steps_of_all_its_expressions() {
    let process = crate::task::Process {
        command: vec!["./load".to_owned(), "{{ steps.c.output }}".to_owned()],
        env: Default::default(),
        dir: None,
    };
    let last = Step {
        when: Some("steps.a.failed == 0".to_owned()),
        map: Some(Box::new(Map { over: "steps.b.output".to_owned(), parallel: None })),
        params: Params(r#"{"day": "{{ steps.d.output }}"}"#.into()),
        work: Work::Task(Task::Process(process)),
        ..step("last", &["a", "b", "c", "d", "e"])
    };
    let steps = ["a", "b", "c", "d", "e"].map(|name| step(name, &[]));
    let whole = workflow(steps.into_iter().chain([last]).collect(), vec![]);
    let whole = Workflow { output: Some("steps.e.output".to_owned()), ..whole };
    assert_eq!(whole.check(), Ok(()));
    let graph = Graph::of(&whole).unwrap();
    assert_eq!(whole.named(&graph, 5), [0, 1, 2, 3]);
    assert_eq!((whole.named(&graph, 0), whole.named_by_output()), (vec![], vec![4]));
}

#[test]
fn the_parameters_of_a_step_come_on_top_of_those_of_the_workflow() {
    let own = Params(r#"{"rows": "{{ steps.a.output.rows }}", "n": "{{ index }}", "gone": null}"#.into());
    let map = Some(Box::new(Map { over: "[1]".to_owned(), parallel: None }));
    let whole = workflow(vec![step("a", &[]), Step { params: own, map, ..step("b", &["a"]) }], vec![]);
    assert_eq!(whole.check(), Ok(()));
    let values = values(&whole, |_| Some(known(State::Succeeded))).with("index", Value::Int(3));
    let outer = Params(r#"{"day": 1, "gone": 2}"#.into());
    let params = whole.step_params(1, &outer, &values).unwrap().unwrap();
    assert_eq!(&*params.0, r#"{"day":1,"n":3,"rows":7}"#);
    assert_eq!(whole.step_params(0, &outer, &values), Ok(None));
    let missing = whole.step_params(1, &outer, &Values::default()).unwrap_err();
    assert_eq!(missing.field, "steps.b.params.n");
}

#[test]
fn a_wait_ends_at_an_instant_that_may_be_computed() {
    let now = Timestamp::from_millis(1_800_000_000_000);
    let until = |wait: Wait| {
        let whole = workflow(vec![Step::of("a".parse().unwrap(), Work::Wait(wait))], vec![]);
        let values = Values::of_params_and_due(r#"{"at": "later"}"#, now);
        whole.wait_until(0, &values, now).map_err(|error| error.to_string())
    };
    let hour = std::time::Duration::from_secs(3600);
    assert_eq!(until(Wait::For(hour)), Ok(Some(now + hour)));
    assert_eq!(until(Wait::Until("{{ due | plus('1h') }}".to_owned())), Ok(Some(now + hour)));
    let error = "steps.a.wait.until: gives `later`, which is no instant".to_owned();
    assert_eq!(until(Wait::Until("{{ params.at }}".to_owned())), Err(error));
}

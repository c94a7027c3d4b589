//! Any text either has workflows or is refused with a message that can be shown. A workflow that was read has a graph
//! without a cycle, and its execution ends with every step decided once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_core::name::Namespace;
use punctual_core::workflow::{Decision, Graph, Progress, State, Workflow};
use punctual_wire::job_file::read_workflows;

fuzz_target!(|text: &str| {
    // Few inputs are whole jobs, so the text is also taken as the workflow of one.
    let lines: String = text.lines().map(|line| format!("    {line}\n")).collect();
    for file in [text.to_owned(), format!("name: a\ntask:\n  workflow:\n{lines}")] {
        match read_workflows(&file, &Namespace::default()) {
            Ok(drafts) => drafts.iter().for_each(|draft| check(&draft.workflow)),
            Err(errors) => {
                for error in errors {
                    let shown = error.to_string();
                    assert!(!shown.is_empty() && !shown.contains(char::is_control), "{shown:?}");
                }
            }
        }
    }
});

fn check(workflow: &Workflow) {
    let graph = Graph::of(workflow).expect("it was checked when it was read");
    let mut progress = Progress::new(&graph);
    let mut decided = vec![0; graph.nodes().len()];
    while progress.end().is_none() {
        let now = progress.advance(&graph, |step, _| Ok(step % 3 != 1));
        assert!(!now.is_empty(), "it stands still");
        for (step, decision) in now {
            decided[step] += 1;
            if decision == Decision::Start {
                let end = if step % 5 == 4 { State::Failed } else { State::Succeeded };
                progress.ended(&graph, step, end);
            }
        }
    }
    assert!(decided.iter().all(|count| *count == 1), "{decided:?}");
}

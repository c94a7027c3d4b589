//! Any valid graph ends, decides every step exactly once, and decides it as the rules say.

use proptest::prelude::*;

use super::*;

/// A step of a random graph: the earlier steps that it needs, its rule, and what would become of it.
#[derive(Debug, Clone)]
struct Drawn {
    needs: Vec<prop::sample::Index>,
    rule: Rule,
    condition: Result<bool, String>,
    end: State,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let rule = prop::sample::select(vec![
        Rule::AllSucceeded,
        Rule::AllSucceeded,
        Rule::AnySucceeded,
        Rule::AllDone,
        Rule::AnyFailed,
        Rule::NoneFailed,
    ]);
    let condition =
        prop_oneof![8 => Just(Ok(true)), 2 => Just(Ok(false)), 1 => Just(Err("broken".to_owned()))];
    let end = prop_oneof![3 => Just(State::Succeeded), 1 => Just(State::Failed)];
    (prop::collection::vec(any::<prop::sample::Index>(), 0..4), rule, condition, end)
        .prop_map(|(needs, rule, condition, end)| Drawn { needs, rule, condition, end })
}

/// A graph in which each step needs some of those before it. `order` is the order in which the steps are written.
fn graph_of(steps: &[Drawn], finally: &[Drawn], order: &[usize]) -> Workflow {
    let make = |at: usize, drawn: &Drawn, names: &[String]| {
        let mut needs: Vec<usize> = match at {
            0 => Vec::new(),
            _ => drawn.needs.iter().map(|index| index.index(at)).collect(),
        };
        needs.sort_unstable();
        needs.dedup();
        let rule = if needs.is_empty() { Rule::AllDone } else { drawn.rule };
        let needs: Vec<&str> = needs.iter().map(|index| names[*index].as_str()).collect();
        Step { rule, ..step(&names[at], &needs) }
    };
    let names: Vec<String> = (0..steps.len() + finally.len()).map(|at| format!("s{at}")).collect();
    let all: Vec<Step> =
        steps.iter().chain(finally).enumerate().map(|(at, drawn)| make(at, drawn, &names)).collect();
    let (first, last) = all.split_at(steps.len());
    workflow(order.iter().map(|at| first[*at].clone()).collect(), last.to_vec())
}

/// How each step ends by the rules alone, one step after the other.
fn model(graph: &Graph, drawn: &[&Drawn]) -> Vec<State> {
    let mut states = vec![State::Open; drawn.len()];
    for step in graph.order() {
        let node = &graph.nodes()[*step];
        let count = |state| node.needs.iter().filter(|needed| states[**needed] == state).count();
        let (succeeded, failed) = (count(State::Succeeded), count(State::Failed));
        let holds = match node.rule {
            Rule::AllSucceeded => succeeded == node.needs.len(),
            Rule::AnySucceeded => succeeded > 0,
            Rule::AllDone => true,
            Rule::AnyFailed => failed > 0,
            Rule::NoneFailed => failed == 0,
        };
        states[*step] = match (holds, &drawn[*step].condition) {
            (false, _) | (true, Ok(false)) => State::Skipped,
            (true, Err(_)) => State::Failed,
            (true, Ok(true)) => drawn[*step].end,
        };
    }
    states
}

/// One execution, with the ends in the order of `picks`; it is stopped after `stop` ends, and after every end the
/// states alone are kept, as after a crash.
struct Execution<'a> {
    graph: &'a Graph,
    drawn: Vec<&'a Drawn>,
    picks: Vec<prop::sample::Index>,
    stop: Option<usize>,
}

impl Execution<'_> {
    fn run(&self) -> Result<(Vec<State>, Vec<usize>), TestCaseError> {
        let graph = self.graph;
        let count = graph.nodes().len();
        let mut progress = Progress::new(graph);
        let (mut decided, mut active, mut ends) = (vec![0_usize; count], Vec::new(), 0);
        loop {
            if self.stop == Some(ends) {
                progress.stop(graph);
            }
            let is_stopped = self.stop.is_some_and(|stop| stop <= ends);
            let mut early = Vec::new();
            let now = progress.advance(graph, |step, states| {
                let needs = &graph.nodes()[step].needs;
                early.extend(needs.iter().copied().filter(|needed| !states[*needed].has_ended()));
                self.drawn[step].condition.clone()
            });
            prop_assert!(early.is_empty(), "a step was decided before {early:?} had ended");
            for (step, decision) in now {
                decided[step] += 1;
                if decision != Decision::Start {
                    continue;
                }
                if graph.is_finally(step) {
                    let ended = |step: usize| progress.states()[step].has_ended();
                    prop_assert!((0..graph.steps()).all(ended), "{step} of finally was early");
                } else {
                    prop_assert!(!is_stopped, "{step} started after the stop");
                }
                active.push(step);
            }
            let again = Progress::of(graph, progress.states().to_vec(), is_stopped);
            prop_assert_eq!(&again, &progress, "a restart changes what comes next");
            if active.is_empty() {
                break;
            }
            prop_assert_eq!(progress.end(), None);
            let pick = self.picks[ends % self.picks.len()].index(active.len());
            let step = active.swap_remove(pick);
            progress.ended(graph, step, self.drawn[step].end);
            ends += 1;
        }
        prop_assert!(progress.end().is_some(), "it stands still: {:?}", progress.states());
        Ok((progress.states().to_vec(), decided))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_graph_ends_and_decides_every_step_exactly_once(
        steps in prop::collection::vec(drawn(), 1..24),
        finally in prop::collection::vec(drawn(), 0..4),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 32),
        shuffle in any::<prop::sample::Index>(),
        stop in prop::option::weighted(0.3, 0_usize..12),
    ) {
        // Any rotation: the order of writing says nothing about the order of execution.
        let mut order: Vec<usize> = (0..steps.len()).collect();
        order.rotate_left(shuffle.index(steps.len()));
        let workflow = graph_of(&steps, &finally, &order);
        prop_assert_eq!(workflow.check(), Ok(()));
        let graph = Graph::of(&workflow).unwrap();
        let drawn: Vec<&Drawn> = order.iter().map(|at| &steps[*at]).chain(&finally).collect();
        let expected = model(&graph, &drawn);
        let execution = Execution { graph: &graph, drawn, picks, stop };
        let (states, decided) = execution.run()?;
        prop_assert_eq!(&decided, &vec![1; decided.len()], "each step is decided once");
        if stop.is_none() {
            prop_assert_eq!(states, expected);
        }
    }

    #[test]
    fn any_edge_back_to_an_earlier_step_is_a_cycle(
        steps in prop::collection::vec(drawn(), 2..24),
        from in any::<prop::sample::Index>(),
    ) {
        let order: Vec<usize> = (0..steps.len()).collect();
        let mut workflow = graph_of(&steps, &[], &order);
        let graph = Graph::of(&workflow).unwrap();
        let with_follower: Vec<usize> =
            (0..steps.len()).filter(|step| !graph.nodes()[*step].followers.is_empty()).collect();
        prop_assume!(!with_follower.is_empty());
        let first = with_follower[from.index(with_follower.len())];
        let follower = graph.nodes()[first].followers[0];
        let name = workflow.steps[follower].name.clone();
        workflow.steps[first].needs.push(name);
        let message = Graph::of(&workflow).unwrap_err().message;
        let (_, path) = message.split_once("cycle: ").expect("it is a cycle");
        let path: Vec<&str> = path.split(" → ").collect();
        prop_assert_eq!(path.first(), path.last());
        for pair in path.windows(2).filter(|pair| !pair.iter().any(|name| name.starts_with('('))) {
            let step = workflow.steps.iter().find(|step| step.name.as_str() == pair[0]).unwrap();
            prop_assert!(step.needs.iter().any(|name| name.as_str() == pair[1]), "{} in {}", pair[0], message);
        }
    }
}

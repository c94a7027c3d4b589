//! Expressions are evaluated just before a program is started, and what they give is data.

use punctual_core::attempt::{Assignment, End, Outcome};
use punctual_core::log::Stream;
use punctual_core::task::{Params, Process, Task};
use punctual_worker::Order;

use crate::rig::{Rig, assignment, process};

async fn outcome_of(task: Process, params: &str) -> Outcome {
    let mut rig = Rig::start().await;
    let assignment = Assignment { params: Params(params.into()), ..assignment(1, Task::Process(task)) };
    rig.order(vec![Order::Assign(assignment)]).await;
    let outcome = rig.finished(1).await;
    if outcome.end == End::Failed && outcome.exit_code.is_none() {
        assert_eq!(rig.logs.text(1, Stream::Note), &*outcome.error, "the log says it too");
    }
    rig.shut_down().await;
    outcome
}

#[tokio::test]
async fn what_an_expression_gives_stays_one_word_whatever_is_in_it() {
    let canary = tempfile::tempdir().unwrap();
    let file = canary.path().join("canary");
    let evil = format!("a b; touch {} $(touch {0}) `touch {0}` * \n\"'", file.display());
    let params = format!(r#"{{"evil": {evil:?}}}"#);
    let words = ["printf", "%s|", "x={{ params.evil }}", "--", "{{ params.evil }}"];
    let outcome = outcome_of(process(&words), &params).await;
    assert_eq!(outcome.end, End::Succeeded, "{}", outcome.error);
    assert_eq!(&*outcome.output, format!("x={evil}|--|{evil}|"));
    assert!(!file.exists());
}

#[tokio::test]
async fn a_program_is_told_its_due_time_its_run_and_its_params() {
    let words = [
        "printf",
        "%s ",
        "{{ due | in_zone('Asia/Shanghai') | date }}",
        "{{ run.id }}/{{ run.attempt }}",
        "{{ run.trigger }}",
        "{{ job.name }}@{{ job.revision }}",
        "{{ job.namespace }}",
        "{{ params.n + 1 }}",
    ];
    let outcome = outcome_of(process(&words), r#"{"n": 41}"#).await;
    assert_eq!(&*outcome.output, "2027-01-15 1/2 manual nightly@3 default 42 ");
}

#[tokio::test]
async fn environment_and_folder_are_templates_too() {
    let mut task = process(&["/bin/sh", "-c", "echo $DAY; pwd"]);
    task.env.insert("DAY".to_owned(), "{{ due | date }}".to_owned());
    task.dir = Some("/{{ params.dir }}".to_owned());
    assert_eq!(&*outcome_of(task, r#"{"dir": "tmp"}"#).await.output, "2027-01-15\n/tmp");
}

#[tokio::test]
async fn a_param_that_is_missing_fails_the_attempt_with_a_reason() {
    let outcome = outcome_of(process(&["echo", "a", "{{ params.day }}"]), "{}").await;
    assert_eq!((outcome.end, outcome.exit_code), (End::Failed, None));
    assert_eq!(&*outcome.error, "task.process.command[2]: there is no `params.day` (column 4 of the text)");
}

#[tokio::test]
async fn a_param_does_not_become_an_option_or_a_nul_byte() {
    let words = process(&["ls", "{{ params.file }}"]);
    let outcome = outcome_of(words.clone(), r#"{"file": "--help"}"#).await;
    assert!(
        outcome.error.starts_with("task.process.command[1]: gives a word that begins with `-`"),
        "{}",
        outcome.error
    );
    let outcome = outcome_of(process(&["printf", "%s", "--", "{{ params.n }}"]), r#"{"n": -5}"#).await;
    assert_eq!(outcome.end, End::Succeeded, "{}", outcome.error);
    let outcome = outcome_of(words, r#"{"file": "a\u0000b"}"#).await;
    assert_eq!(&*outcome.error, "task.process.command[1]: gives a NUL byte, which cannot be passed on");
}

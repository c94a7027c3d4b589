//! The guide to cron says what is true: every expression, every printed answer and every job file on the page.

use punctual_core::Timestamp;
use punctual_core::name::Namespace;
use punctual_core::schedule::{Language, Weekdays, When};
use punctual_wire::job_file;
use punctual_wire::rest::Explained;

const PAGE: &str = include_str!("../../../docs/guides/cron-and-zones.md");

/// The blocks of the page in a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let opening = format!("```{language}\n");
    let after = PAGE.split(opening.as_str()).skip(1);
    after.map(|rest| rest.split("\n```").next().expect("a block ends")).collect()
}

#[test]
fn every_expression_in_a_table_reads_as_the_page_says() {
    let mut rows = 0;
    for line in PAGE.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [expression, words] = cells[..] else { panic!("two cells: {line}") };
        let expression = expression.trim_matches('`');
        // The last table shows the other kinds of schedule as they stand in a job file.
        if expression.contains(": ") {
            let file = format!("name: a\ntask: {{ noop: {{}} }}\nschedule: {{ {expression} }}\n");
            job_file::read_all(&file, &Namespace::default()).expect("a schedule on the page can be saved");
            continue;
        }
        let when = When::parse_cron(expression, "UTC", Weekdays::Unix, None).expect(line);
        let said = when.describe(Language::English);
        assert_eq!(said.trim_end_matches(" (UTC)"), words, "{expression}");
        rows += 1;
    }
    assert!(rows >= 25, "{rows}");
}

#[test]
fn every_printed_answer_is_the_one_given() {
    let answers = blocks("console");
    assert!(answers.len() >= 6);
    for answer in answers {
        let (command, shown) = answer.split_once('\n').expect("a command and what it prints");
        assert_eq!(printed(command), shown, "{command}");
    }
}

/// What `punctual job explain` prints for a command on the page, all of which name `--from`.
fn printed(command: &str) -> String {
    let (before, options) = command.split_once("' ").expect("an expression in quotes");
    let expression = before.strip_prefix("$ punctual job explain '").expect("a command of this kind");
    let words: Vec<&str> = options.split(' ').collect();
    let option = |name: &str| words.chunks(2).find(|pair| pair[0] == name).map(|pair| pair[1]);
    let known = ["--timezone", "--weekdays", "--from", "--count", "--job"];
    assert!(words.chunks(2).all(|pair| known.contains(&pair[0])), "{command}");

    let weekdays = if option("--weekdays") == Some("quartz") { Weekdays::Quartz } else { Weekdays::Unix };
    let key = option("--job").map(|job| format!("default/{job}"));
    let zone = option("--timezone").unwrap_or("UTC");
    let when = job_file::read_cron(expression, zone, weekdays, key.as_deref()).expect(command);
    let from: Timestamp = option("--from").and_then(|from| from.parse().ok()).expect("an instant");
    let count = option("--count").and_then(|count| count.parse().ok()).expect("a count");
    let explained = Explained::of(expression, when, Language::English, from, count);
    let next: Vec<&str> = explained.next.iter().map(|at| at.local.as_str()).collect();
    let previous = explained.previous.map(|at| at.local).expect("each of them has come before");
    format!(
        "cron      {}\nin words  {}\nnext      {}\nprevious  {previous}",
        explained.expression,
        explained.description,
        next.join("\n          ")
    )
}

#[test]
fn every_job_file_can_be_applied() {
    let files = blocks("yaml");
    assert!(files.len() >= 2);
    for file in files {
        let drafts = job_file::read_all(file, &Namespace::default()).expect("a job of the page");
        assert_eq!(drafts.len(), 1, "{file}");
    }
}

//! The documents against the code: what they show can be read, and what can be read is explained.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use punctual::core::name::Namespace;
use punctual::wire::job_file;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every document, the decisions left out: they tell of their day.
fn documents() -> Vec<PathBuf> {
    let folders = ["docs", "docs/guides", "docs/reference"].map(|folder| root().join(folder));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("the documents are there"));
    let files = entries.map(|entry| entry.expect("a folder can be read").path());
    let mut files: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|kind| kind == "md")).collect();
    files.push(root().join("README.md"));
    files.sort();
    files
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The fenced blocks of a document in one language, each with its first line's number.
fn blocks(text: &str, language: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut inside: Option<(bool, usize, String)> = None;
    for (number, line) in text.lines().enumerate() {
        match (&mut inside, line.trim_start().strip_prefix("```")) {
            (None, Some(kind)) => inside = Some((kind == language, number + 2, String::new())),
            (Some(_), Some(_)) => blocks.extend(inside.take().filter(|(wanted, ..)| *wanted)),
            (Some((_, _, block)), None) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(inside.is_none(), "a block is not closed");
    blocks.into_iter().map(|(_, line, block)| (line, block)).collect()
}

#[track_caller]
fn check_jobs(text: &str, place: &str) -> usize {
    match job_file::read_all(text, &Namespace::default()) {
        Ok(jobs) => jobs.len(),
        Err(errors) => panic!("{place}: {errors:?}\n{text}"),
    }
}

/// A part of a job, as guides show it, is a job once it has what every job needs.
fn completed(block: &str) -> String {
    let has = |field: &str| block.lines().any(|line| line.starts_with(field));
    let mut whole = block.to_owned();
    if !has("name:") {
        whole.push_str("name: completed\n");
    }
    if !has("task:") {
        whole.push_str("task: { noop: {} }\n");
    }
    whole
}

#[test]
fn every_job_in_the_documents_is_one() {
    let mut count = 0;
    for file in documents() {
        for (line, block) in blocks(&read(&file), "yaml") {
            // A file of its own kind says what it is.
            if block.lines().any(|line| line.starts_with("calendar:")) {
                continue;
            }
            count += check_jobs(&completed(&block), &format!("{}, line {line}", file.display()));
        }
    }
    assert!(count > 20, "only {count} were found");
}

#[test]
fn every_example_is_a_job_file_or_a_program_and_says_what_it_shows() {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(root().join("examples")).expect("the examples are there") {
        let file = entry.expect("a folder can be read").path();
        let text = read(&file);
        if file.extension().is_some_and(|kind| kind == "md") {
            continue;
        }
        let is_of = |kind: &str| file.extension().is_some_and(|of| of == kind);
        let is_program = is_of("rs") || is_of("py");
        let opening = if is_of("rs") { "//! " } else { "# " };
        assert!(text.starts_with(opening), "{}: the first line says what it shows", file.display());
        if !is_program {
            check_jobs(&text, &file.display().to_string());
        }
        names.insert(file);
    }
    assert!(names.len() >= 10, "{names:?}");
    let index = read(&root().join("examples/README.md"));
    for file in names {
        let name = file.file_name().expect("a file has a name").to_string_lossy();
        assert!(index.contains(&*name), "examples/README.md does not mention {name}");
    }
}

#[test]
fn the_executor_of_the_guide_is_the_one_that_is_tested() {
    let example = read(&root().join("examples/executor.rs"));
    let shown = blocks(&read(&root().join("docs/guides/grpc-tasks.md")), "rust");
    assert_eq!(shown.len(), 3);
    for (line, block) in shown {
        assert!(example.contains(&block), "grpc-tasks.md, line {line}: not in examples/executor.rs\n{block}");
    }
}

/// A word that no form knows: the parser answers it with those that it does.
const UNKNOWN: &str = "zzzzzzzzzz";

/// The fields that the parser knows at a path; none: it is no map, or one of free keys.
fn fields_at(path: &[String]) -> Option<Vec<String>> {
    let mut document = format!("{{ {UNKNOWN}: 1 }}");
    for field in path.iter().rev() {
        document = format!("{{ {field}: {document} }}");
    }
    let errors = job_file::read_all(&document, &Namespace::default()).err()?;
    let error = errors.first()?;
    if !error.field.ends_with(UNKNOWN) {
        return None;
    }
    let known = error.message.split_once("known are ")?.1;
    Some(known.split(", ").map(str::to_owned).collect())
}

fn known_fields() -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(path) = open.pop() {
        for field in fields_at(&path).unwrap_or_default() {
            let mut below = path.clone();
            below.push(field);
            known.insert(below.join("."));
            open.push(below);
        }
    }
    known.extend(fields_of_a_step());
    known
}

/// The fields of a step, whose name is free: `….steps.NAME.rule`. Its task and its policies have the fields of a job.
fn fields_of_a_step() -> Vec<String> {
    let path = |below: &[&str]| -> Vec<String> {
        ["task", "workflow", "steps", "NAME"].iter().chain(below).map(ToString::to_string).collect()
    };
    let of_step =
        fields_at(&path(&[])).expect("a step has fields").into_iter().filter(|field| field != "wait");
    let of_wait = fields_at(&path(&["wait"])).expect("a wait has fields");
    let of_wait = of_wait.into_iter().map(|field| format!("wait.{field}"));
    of_step.chain(of_wait).map(|field| format!("….steps.NAME.{field}")).collect()
}

/// The first cell of every row that names a field: `| `retry.delay` | …`.
fn explained_fields() -> BTreeSet<String> {
    let text = read(&root().join("docs/reference/job-file.md"));
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(field, _)| field.to_owned()).collect()
}

#[test]
fn the_reference_explains_every_field_and_no_other() {
    let (known, explained) = (known_fields(), explained_fields());
    for field in ["name", "schedule.cron", "task.process.command", "retry.max_delay", "unique.for"] {
        assert!(known.contains(field), "the parser was not asked well: {known:?}");
    }
    let missing: Vec<&String> = known.difference(&explained).collect();
    let unknown: Vec<&String> = explained.difference(&known).collect();
    assert!(missing.is_empty(), "docs/reference/job-file.md does not explain {missing:?}");
    assert!(unknown.is_empty(), "docs/reference/job-file.md explains what does not exist: {unknown:?}");
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    for file in documents() {
        let text = read(&file);
        let folder = file.parent().expect("a file lies in a folder");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            let elsewhere = target.is_empty() || target.contains("://");
            assert!(elsewhere || folder.join(target).exists(), "{}: {link} leads nowhere", file.display());
        }
    }
}

#[test]
fn every_file_that_architecture_names_exists() {
    let text = read(&root().join("ARCHITECTURE.md"));
    let named: Vec<&str> =
        text.split('`').skip(1).step_by(2).filter(|word| word.starts_with("crates/")).collect();
    assert!(named.len() > 15, "only {named:?} were found");
    let missing: Vec<&&str> = named.iter().filter(|path| !root().join(path).exists()).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names files that do not exist: {missing:?}");
}

/// Where the packages are: `punctual-NAME` is `crates/NAME`.
fn folder_of(package: &str) -> PathBuf {
    match package {
        "punctual-tests" => root().join("tests"),
        "punctual" => root().join("crates/punctual"),
        _ => root().join("crates").join(package.strip_prefix("punctual-").unwrap_or(package)),
    }
}

/// A source file as a path of a test may name it.
struct Source {
    /// Its folders, its own name and the modules in it.
    modules: BTreeSet<String>,
    tests: BTreeSet<String>,
}

impl Source {
    fn read(file: &Path, package: &Path) -> Source {
        let text = read(file);
        let place = file.strip_prefix(package).expect("it is in its package").with_extension("");
        let mut modules: BTreeSet<String> =
            place.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let mut tests = BTreeSet::new();
        // The cases of the conformance suite are plain functions that every backend makes tests of.
        let are_cases = modules.contains("conformance");
        let mut is_test = false;
        for line in text.lines().map(str::trim_start) {
            let word_after = |opening: &str| {
                let (_, rest) = line.split_once(opening)?;
                rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned)
            };
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            modules.extend(word_after("mod ").or_else(|| word_after("conformance!(")));
            if let Some(name) = word_after("fn ") {
                if is_test || are_cases {
                    tests.insert(name);
                }
                is_test = false;
            }
        }
        Source { modules, tests }
    }

    /// Whether the path leads here: to a test, to some that begin so (`killing_a_…`), or to a module.
    fn has(&self, modules: &[&str], last: &str) -> bool {
        let is_test = |test: &String| match last.strip_suffix('…') {
            Some(beginning) => test.starts_with(beginning),
            None => test == last,
        };
        modules.iter().all(|module| self.modules.contains(*module))
            && (self.modules.contains(last) || self.tests.iter().any(is_test))
    }
}

fn sources_below(folder: &Path, package: &Path, sources: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a folder can be read").path();
        if path.is_dir() {
            sources_below(&path, package, sources);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            sources.push(Source::read(&path, package));
        }
    }
}

/// Whether a package has such a test or module.
fn has_test(packages: &mut BTreeMap<String, Vec<Source>>, path: &str) -> bool {
    let parts: Vec<&str> = path.split("::").collect();
    let [package, modules @ .., last] = &parts[..] else { return false };
    let sources = packages.entry((*package).to_owned()).or_insert_with(|| {
        let (folder, mut sources) = (folder_of(package), Vec::new());
        sources_below(&folder, &folder, &mut sources);
        sources
    });
    // The name of the binary of these tests, which no folder bears.
    let modules: Vec<&str> = modules.iter().copied().filter(|module| *module != "rules").collect();
    sources.iter().any(|source| source.has(&modules, last))
}

#[test]
fn every_test_that_a_requirement_names_exists() {
    let text = read(&root().join("docs/requirements.md"));
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let mut packages = BTreeMap::new();
    let (mut count, mut missing) = (0, Vec::new());
    for row in rows {
        let mut whole = Vec::new();
        for named in row.split('`').skip(1).step_by(2).filter(|word| word.contains("::")) {
            count += 1;
            // `…::name` stands in the module of the path before it, or in one above that.
            let exists = match named.strip_prefix("…::") {
                None => {
                    whole = named.split("::").collect();
                    has_test(&mut packages, named)
                }
                Some(rest) => (1..whole.len())
                    .rev()
                    .any(|parts| has_test(&mut packages, &format!("{}::{rest}", whole[..parts].join("::")))),
            };
            if !exists {
                missing.push(named);
            }
        }
    }
    assert!(count > 300, "only {count} were found");
    assert!(missing.is_empty(), "docs/requirements.md names tests that do not exist: {missing:?}");
}

//! The mechanical part of plain words: words and openings of sentences that are always wrong here, long test names, long
//! functions and long files. Everything else about style is for a reader to judge.
//!
//! A failure lists every place with the word to write instead.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders and files that others write, or that record the past.
const LEFT_OUT: [&str; 9] = [
    "target",
    "node_modules",
    "dist",
    "data",
    "corpus",
    "CHANGELOG.md",
    "Cargo.lock",
    "schema.d.ts",
    // It has to name the words.
    "tidy.rs",
];

/// At 500 lines a file has a second idea.
const LINES_MAX: usize = 500;
/// A function of the product fits on a screen.
const FUNCTION_LINES_MAX: usize = 80;
/// A test name is one short clause.
const TEST_NAME_MAX: usize = 70;

/// Words that are wrong in identifiers, comments, messages and documents, with the words to prefer.
const WORDS: [(&str, &str); 14] = [
    ("door", "endpoint"),
    ("doors", "endpoints"),
    ("errand", "the name of what is asked: request, command, read"),
    ("errands", "the name of what is asked: requests, commands, reads"),
    ("figures", "metrics, or numbers"),
    ("mend", "fix, or repair"),
    ("mended", "fixed, or repaired"),
    ("mends", "fixes, or repairs"),
    ("mending", "fixing, or repairing"),
    ("somebody", "the noun: a consumer, another node, another transaction"),
    ("unsaid", "default"),
    ("whoever", "the noun: the node that, every client that"),
    ("whomever", "the noun"),
    ("young", "recent, or new"),
];

/// Phrases that have to be read twice.
const PHRASES: [(&str, &str); 12] = [
    ("worked out", "computed, or evaluated"),
    ("works out", "computes, or evaluates"),
    ("work out", "compute, or evaluate"),
    ("it has none", "what is absent"),
    ("what is there", "the noun"),
    ("lost to another", "redelivered"),
    ("who lives", "membership, or which nodes are alive"),
    ("in the line", "queued, or in the queue"),
    ("into the line", "queued, or into the queue"),
    ("out of the line", "out of the queue"),
    ("front of the line", "front of the queue"),
    ("stands in line", "waits in the queue"),
];

/// Openings that leave the reader without a subject.
const OPENERS: [(&str, &str); 6] = [
    ("One that ", "the noun: A message that"),
    ("One who ", "the noun: A client that"),
    ("Whatever ", "the noun: Everything that, Every request"),
    ("None: it ", "`None` means …"),
    ("It has none", "the noun"),
    ("What is there", "the noun"),
];

/// Module names that do not say what the module does.
const MODULES: [&str; 6] = ["common", "util", "utils", "types", "old", "young"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository exists")
}

/// A text of ours, with its path from the root.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_test(&self) -> bool {
        let parts = Path::new(&self.path).with_extension("");
        parts.iter().any(|part| part == "tests")
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(at, line)| (at + 1, line))
    }
}

fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    collect(&root(), &root(), &mut sources);
    assert!(sources.len() > 500, "only {} files were found", sources.len());
    sources
}

fn collect(root: &Path, folder: &Path, sources: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("a folder can be read") {
        let path = entry.expect("a folder can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, sources);
            continue;
        }
        let place = path.strip_prefix(root).expect("it is below the root").to_string_lossy().into_owned();
        if is_ours(&name, &place) {
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{place}: {error}"));
            sources.push(Source { path: place, text });
        }
    }
}

fn is_ours(name: &str, place: &str) -> bool {
    const KINDS: [&str; 11] =
        [".rs", ".md", ".toml", ".proto", ".sql", ".yaml", ".py", ".js", ".mjs", ".ts", ".svelte"];
    KINDS.iter().any(|kind| name.ends_with(kind)) || name == "Makefile" || place.starts_with("scripts/")
}

/// The words of a line; `a_long_name` and `ALongName` are three words each.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in line.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && before.is_lowercase()) {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.last_mut().expect("there is a last word").extend(c.to_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The text of a line without the marks of a comment or a list.
fn prose(line: &str) -> &str {
    line.trim_start().trim_start_matches(['/', '!', '#', '-', '*', ' '])
}

#[track_caller]
fn check(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

#[test]
fn no_text_uses_a_forbidden_word() {
    let mut found = Vec::new();
    for source in sources() {
        for (number, line) in source.lines() {
            let words = words(line);
            let bad = WORDS.iter().filter(|(word, _)| words.iter().any(|said| said == word));
            found.extend(
                bad.map(|(word, better)| format!("{}:{number}: {word}: write {better}", source.path)),
            );
            let spoken = words.join(" ");
            let bad =
                PHRASES.iter().filter(|(phrase, _)| format!(" {spoken} ").contains(&format!(" {phrase} ")));
            found.extend(
                bad.map(|(word, better)| format!("{}:{number}: {word}: write {better}", source.path)),
            );
        }
    }
    check("these words are wrong here", &found);
}

#[test]
fn no_sentence_opens_without_a_subject() {
    let mut found = Vec::new();
    for source in sources() {
        for (number, line) in source.lines() {
            let is_prose = source.path.ends_with(".md") || line.trim_start().starts_with(['/', '#']);
            let opens =
                |opener: &str| prose(line).starts_with(opener) || line.contains(&format!(". {opener}"));
            let bad = OPENERS.iter().filter(|(opener, _)| is_prose && opens(opener));
            found.extend(
                bad.map(|(opener, better)| format!("{}:{number}: {opener}: write {better}", source.path)),
            );
        }
    }
    check("these sentences do not name their subject", &found);
}

/// A letter is a dead letter, or one of the alphabet.
#[test]
fn a_letter_is_a_dead_letter() {
    const ALPHABET: [&str; 3] = ["letters, digits", "small letters", "message type letter"];
    let mut found = Vec::new();
    // In the console a letter is a key, too.
    for source in sources().into_iter().filter(|source| !source.path.starts_with("web/")) {
        let spoken = source.text.replace(['_', '-', '\n'], " ").to_lowercase();
        if spoken.contains("dead letter") || spoken.contains("deadletter") {
            continue;
        }
        for (number, line) in source.lines() {
            let is_alphabet = ALPHABET.iter().any(|phrase| line.contains(phrase));
            if !is_alphabet && words(line).iter().any(|word| word == "letter" || word == "letters") {
                found.push(format!("{}:{number}: write mail, notice, message or byte", source.path));
            }
        }
    }
    check("a letter is a dead letter only", &found);
}

#[test]
fn a_module_is_named_for_what_it_does() {
    let is_bad = |source: &&Source| {
        let parts = Path::new(&source.path).with_extension("");
        source.is_rust()
            && parts.iter().any(|part| MODULES.iter().any(|name| part.to_string_lossy() == *name))
    };
    let sources = sources();
    let found: Vec<String> = sources.iter().filter(is_bad).map(|source| source.path.clone()).collect();
    check("these names say nothing of the module", &found);
}

#[test]
fn no_file_is_longer_than_500_lines() {
    let sources = sources();
    let long = sources.iter().filter(|source| source.is_rust()).filter_map(|source| {
        let lines = source.text.lines().count();
        (lines > LINES_MAX).then(|| format!("{}: {lines} lines: split it at its second idea", source.path))
    });
    check("these files are too long", &long.collect::<Vec<String>>());
}

/// The functions of a formatted text before its tests: the number of the first line, and of all lines.
fn functions(text: &str) -> Vec<(usize, usize)> {
    // `pub(in crate::pool)` is two words.
    let is_qualifier =
        |word: &str| ["const", "async"].contains(&word) || word.starts_with("pub") || word.ends_with(')');
    let lines: Vec<&str> = text.lines().take_while(|line| *line != "mod tests {").collect();
    let mut functions = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((before, _)) = line.split_once("fn ") else { continue };
        let is_function = before.split_whitespace().all(is_qualifier);
        // The first line that ends so is the last one of the signature.
        let opens = lines[at..].iter().find(|line| line.ends_with(['{', ';', '}']));
        if !is_function || !opens.is_some_and(|line| line.ends_with('{')) {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let is_end = |line: &&str| line.strip_prefix(indent) == Some("}");
        let end = lines[at..].iter().position(is_end).expect("a function ends");
        functions.push((at + 1, end + 1));
    }
    functions
}

#[test]
fn no_function_is_longer_than_80_lines() {
    let mut found = Vec::new();
    let mut seen = 0;
    for source in sources().iter().filter(|source| source.is_rust() && !source.is_test()) {
        let functions = functions(&source.text);
        seen += functions.len();
        let long = functions.iter().filter(|(_, lines)| *lines > FUNCTION_LINES_MAX);
        found.extend(long.map(|(number, lines)| {
            format!(
                "{}:{number}: {lines} lines: move its plain work into functions of their own",
                source.path
            )
        }));
    }
    assert!(seen > 5000, "only {seen} functions were found");
    check("these functions are too long", &found);
}

#[test]
fn a_test_name_is_one_short_clause() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| source.is_rust()) {
        let mut is_test = false;
        for (number, line) in source.lines() {
            is_test |= line.trim_start().starts_with("#[test]") || line.contains("#[tokio::test");
            let Some((_, rest)) = line.split_once("fn ") else { continue };
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            if is_test && name.len() > TEST_NAME_MAX {
                found.push(format!("{}:{number}: {name} has {} characters", source.path, name.len()));
            }
            is_test = false;
        }
    }
    check("these test names are more than a short clause", &found);
}

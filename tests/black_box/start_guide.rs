//! `docs/start.md`, followed exactly: every file is written, every command typed, every line of the answers compared.
//!
//! A block of YAML that begins with `# NAME.yaml` is a file. In a block of console a line with `$ ` is typed and the
//! lines below are its answer. Numbers and times differ from one day to the next, so of the answer the words
//! without digits are compared; an id that the guide shows stands for the one that was printed in its place.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::thread;

use punctual_tests::{Cli, Node, Scene, guide};

/// Digits of a run's id: nothing else in the guide is as long a number.
const ID_DIGITS_MIN: usize = 13;

/// The node and the server to call are there already, and a test types nothing that never ends.
const LEFT_OUT: [&str; 3] = ["make ", "export ", "python3 -m http.server"];

/// What the guide has someone call: it answers everything with a greeting, until the test is over.
struct Callee(TcpListener);

impl Callee {
    fn start() -> Callee {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let serving = listener.try_clone().expect("a socket can be shared");
        thread::spawn(move || {
            for connection in serving.incoming() {
                let Ok(mut connection) = connection else { return };
                let mut request = [0; 4096];
                let _ = connection.read(&mut request);
                let _ = connection
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nhi\n");
            }
        });
        Callee(listener)
    }

    fn address(&self) -> String {
        format!("http://{}", self.0.local_addr().expect("it is bound"))
    }
}

struct Step {
    line: usize,
    typed: String,
    answer: Vec<String>,
}

enum Part {
    File { name: String, text: String },
    Step(Step),
}

fn text() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/start.md");
    fs::read_to_string(path).expect("the guide is there")
}

fn parts(guide: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let blocks = guide::blocks(guide);
    let lines = blocks.iter().flat_map(|block| {
        (block.line..).zip(block.text.lines()).map(|(number, line)| (block.language.as_str(), number, line))
    });
    for (kind, number, line) in lines {
        match (kind, parts.last_mut()) {
            ("yaml", _) if line.starts_with("# ") && line.ends_with(".yaml") => {
                parts
                    .push(Part::File { name: line.trim_start_matches("# ").to_owned(), text: String::new() });
            }
            ("yaml", Some(Part::File { text, .. })) => text.push_str(&format!("{line}\n")),
            ("console", _) if line.starts_with("$ ") => {
                let typed = line.trim_start_matches("$ ").to_owned();
                parts.push(Part::Step(Step { line: number, typed, answer: Vec::new() }));
            }
            ("console", Some(Part::Step(step))) => step.answer.push(line.to_owned()),
            _ => {}
        }
    }
    parts
}

fn is_id(word: &str) -> bool {
    word.len() >= ID_DIGITS_MIN && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn words(line: &str) -> Vec<&str> {
    line.split(|c: char| c.is_whitespace() || ",:()".contains(c)).filter(|word| !word.is_empty()).collect()
}

/// The words of a line that are the same every day.
fn lasting(line: &str) -> Vec<&str> {
    let changes =
        |word: &str| word.bytes().any(|byte| byte.is_ascii_digit()) || ["now", "ago", "in"].contains(&word);
    words(line).into_iter().filter(|word| !changes(word)).collect()
}

fn type_it(step: &Step, scene: &Scene, node: &Node, ids: &BTreeMap<String, String>) -> Cli {
    let mut typed = step.typed.clone();
    for (shown, real) in ids {
        typed = typed.replace(shown, real);
    }
    Cli::run(&mut guide::shell(&typed, &scene.path("guide"), node))
}

#[track_caller]
fn compare(step: &Step, said: &Cli, ids: &mut BTreeMap<String, String>) {
    let place = format!("docs/start.md, line {}: `{}`", step.line, step.typed);
    let told_to_fail = step.answer.iter().any(|line| line.starts_with("error: "));
    assert_eq!(said.status.success(), !told_to_fail, "{place}: {said:?}");
    let real: Vec<&str> = said.out.lines().collect();
    let shown: Vec<&String> = step.answer.iter().take_while(|line| line.as_str() != "…").collect();
    for (index, line) in shown.iter().enumerate() {
        let found = real.get(index).copied().unwrap_or("");
        assert_eq!(lasting(line), lasting(found), "{place}, line {index} of its answer: {said:?}");
        let pairs = words(line).into_iter().zip(words(found));
        ids.extend(
            pairs
                .filter(|(shown, real)| is_id(shown) && is_id(real))
                .map(|(a, b)| (a.to_owned(), b.to_owned())),
        );
    }
    let whole = shown.len() == step.answer.len();
    assert!(!whole || real.len() == shown.len(), "{place}: its answer has other lines: {said:?}");
}

#[test]
fn the_guide_does_what_it_says() {
    let scene = Scene::new();
    let node = scene.start();
    let callee = Callee::start();
    fs::create_dir(scene.path("guide")).expect("a folder of the scene can be made");
    let mut ids = BTreeMap::new();
    let mut typed = 0;
    for part in parts(&text()) {
        match part {
            Part::File { name, text } => {
                let path = scene.path("guide").join(&name);
                fs::create_dir_all(path.parent().expect("it lies in a folder"))
                    .expect("a folder can be made");
                fs::write(path, text.replace("http://127.0.0.1:7500", &callee.address()))
                    .expect("a file of the guide can be written");
            }
            Part::Step(step) if LEFT_OUT.iter().any(|begin| step.typed.starts_with(begin)) => {}
            Part::Step(step) => {
                let said = type_it(&step, &scene, &node, &ids);
                compare(&step, &said, &mut ids);
                typed += 1;
            }
        }
    }
    assert!(typed >= 20, "only {typed} commands were found");
}

//! Queues from the command line: one-liners of people and scripts, and workers that run a command for each message.

mod settings;

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use punctual_core::limits::KEY_BYTES_MAX;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cli, Node, Scene, binary};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn start(scene: &Scene) -> Node {
    let mut node =
        scene.node().with_env("PUNCTUAL_DURABILITY", "relaxed").with_env("PUNCTUAL_RESP", "127.0.0.1:0");
    node.start();
    node
}

/// `echo text | …`, by whatever name the binary is called.
#[track_caller]
fn piped(program: &Path, node: &Node, text: &[u8], words: &[&str]) -> Cli {
    let mut command = Command::new(program);
    command.args(words).env("PUNCTUAL_SERVER", node.api().address()).env("NO_COLOR", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary can be started");
    // A command that refuses its arguments does not read its input.
    let _ = child.stdin.take().expect("it is piped").write_all(text);
    let output = child.wait_with_output().expect("a child can be waited for");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the command line prints text");
    Cli { status: output.status, out: text(output.stdout), err: text(output.stderr) }
}

#[track_caller]
fn echo(node: &Node, text: &str, words: &[&str]) -> String {
    piped(binary::path(), node, text.as_bytes(), words).ok().trim().to_owned()
}

/// A worker that goes with the test.
struct Worker(Child);

impl Worker {
    fn start(node: &Node, words: &[&str]) -> Worker {
        let mut command = Command::new(binary::path());
        command.args(["queue", "work"]).args(words).env("PUNCTUAL_SERVER", node.api().address());
        Worker(command.process_group(0).stdin(Stdio::null()).spawn().expect("the binary can be started"))
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id().cast_signed()).expect("a child has a pid");
        kill_process(pid, signal).expect("it is there");
    }

    #[track_caller]
    fn wait_for_end(&mut self) -> bool {
        wait::until("the worker ends", SOON, || self.0.try_wait().expect("a child can be asked")).success()
    }
}

impl Drop for Worker {
    /// Asked twice, it stops what it runs and gives it back: nothing of it is left when it has gone.
    fn drop(&mut self) {
        let is_there = |worker: &mut Child| matches!(worker.try_wait(), Ok(None));
        for signal in [Signal::TERM, Signal::INT] {
            if is_there(&mut self.0) {
                self.signal(signal);
            }
        }
        let deadline = wait::now() + SOON;
        while is_there(&mut self.0) && wait::now() < deadline {
            wait::pass(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// The parent of a process.
fn parent(pid: &str) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    let after = stat.rsplit_once(')').expect("it has a name").1;
    after.split_whitespace().nth(1).expect("it has a parent").to_owned()
}

fn lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[track_caller]
fn queued(node: &Node, queue: &str) -> u64 {
    node.cli(["queue", "stat", queue, "-o", "json"]).json()["messages"].as_u64().expect("it is a number")
}

#[test]
fn a_message_from_stdin_is_shown_as_a_table_or_json() {
    let scene = Scene::new();
    let node = start(&scene);
    let id = echo(&node, "task one\n", &["queue", "add", "mail"]);
    assert_eq!((id.len(), id.starts_with("D-")), (40, true), "{id}");
    let table = node.cli(["queue", "show", &id]).ok();
    let titles: Vec<&str> = table.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(titles, ["ID", "QUEUE", "STATE", "DELAY", "DELIVERIES", "TTL", "NODE", "BODY"]);
    assert!(table.contains("queued") && table.ends_with("task one\n"), "{table}");

    let shown = node.cli(["queue", "show", &id, "-o", "json"]).json();
    for key in
        ["state", "id", "replicate", "group", "ttl", "body", "attempts", "registered_at", "delivery_info"]
    {
        assert!(!shown[key].is_null(), "{key}: {shown}");
    }
    assert_eq!(shown["delivery_info"]["delivery_count"], json!(0));
    assert_eq!(shown["body"], json!("task one"), "the line end of echo is not part of it");

    let taken = node.cli(["queue", "get", "mail"]).ok();
    assert!(taken.contains(&id) && taken.contains("active"), "{taken}");
    assert_eq!(node.cli(["queue", "get", "mail"]).status.code(), Some(3), "there is nothing any more");
    assert_eq!(node.cli(["queue", "ack", &id]).ok(), "acknowledged 1 of 1\n");
    assert_eq!(node.cli(["queue", "show", &id]).status.code(), Some(3));
    assert_eq!(node.cli(["queue", "ack", &id]).status.code(), Some(3), "a script notices");
}

#[test]
fn a_key_that_is_too_long_is_refused_by_its_name() {
    let scene = Scene::new();
    let node = start(&scene);
    let (longest, longer) = ("k".repeat(KEY_BYTES_MAX), "k".repeat(KEY_BYTES_MAX + 1));
    let id = echo(&node, "a", &["queue", "add", "mail", "--key", &longest]);
    assert_eq!(echo(&node, "b", &["queue", "add", "mail", "--key", &longest]), id, "it is there already");
    let refused = piped(binary::path(), &node, b"c", &["queue", "add", "mail", "--key", &longer]);
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    assert!(refused.err.contains("key: must be 1 to 256 bytes"), "{refused:?}");
    assert_eq!(queued(&node, "mail"), 1);
}

/// R140, R9: a plain call takes one, and one call takes a whole backlog.
#[test]
fn one_call_takes_one_message_or_a_backlog() {
    let scene = Scene::new();
    let node = start(&scene);
    let text: String = (0..1500).map(|number| format!("{number}\n")).collect();
    let ids = echo(&node, &text, &["queue", "add", "mail", "--lines"]);
    assert_eq!(ids.lines().count(), 1500);
    let get = |words: &[&str]| -> Vec<String> {
        let words = ["queue", "get", "mail", "-o", "json"].into_iter().chain(words.iter().copied());
        let taken = node.cli(words).json();
        let bodies = taken.as_array().expect("a list").iter();
        bodies.filter_map(|message| message["body"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(get(&[]), ["0"]);
    assert_eq!(get(&["--count", "3"]), ["1", "2", "3"]);
    assert_eq!(get(&["--count", "1000", "--ack"]).len(), 1000);
    assert_eq!(queued(&node, "mail"), 500, "those in hands count");
}

/// R6: not seen before its time, delivered once then; called off, never.
#[test]
fn a_delayed_message_comes_in_time_and_a_deleted_one_never() {
    let scene = Scene::new();
    let node = start(&scene);
    echo(&node, "pay", &["queue", "add", "orders", "--delay", "1s"]);
    let gone = echo(&node, "never", &["queue", "add", "orders", "--delay", "1s"]);
    assert_eq!(node.cli(["queue", "get", "orders"]).status.code(), Some(3), "it is too early");
    node.cli(["queue", "delete", &gone]).ok();
    let taken = node.cli(["queue", "get", "orders", "--wait", "20s", "-o", "json"]).json();
    assert_eq!(taken[0]["body"], "pay");
    assert_eq!(node.cli(["queue", "get", "orders", "--wait", "1s"]).status.code(), Some(3), "once is enough");
}

/// R138: what ends with 0 is done, what does not comes back, and every message is worked on.
#[test]
fn a_queue_worker_runs_a_command_for_each_message() {
    let scene = Scene::new();
    let node = start(&scene);
    let file = scene.path("done");
    let text: String = (0..20).map(|number| format!("{number}\n")).collect();
    echo(&node, &text, &["queue", "add", "mail", "--lines"]);
    // The first delivery of number 7 fails.
    let script = format!(
        "body=$(cat); [ $body = 7 ] && [ $PUNCTUAL_DELIVERIES = 1 ] && exit 1; \
         echo $body $PUNCTUAL_DELIVERIES $PUNCTUAL_QUEUE >> {}",
        file.display()
    );
    let _worker =
        Worker::start(&node, &["mail", "--slots", "4", "--nack-delay", "0s", "--", "sh", "-c", &script]);
    wait::until_so("everything is done", SOON, || lines(&file).len() == 20);
    wait::until_so("and acknowledged", SOON, || queued(&node, "mail") == 0);
    let mut done = lines(&file);
    done.sort();
    done.dedup();
    assert_eq!(done.len(), 20, "{done:?}");
    assert!(done.contains(&"7 2 mail".to_owned()) && done.contains(&"8 1 mail".to_owned()), "{done:?}");
}

#[test]
fn a_command_that_times_out_has_its_message_redelivered() {
    let scene = Scene::new();
    let node = start(&scene);
    let file = scene.path("begun");
    echo(&node, "slow", &["queue", "add", "mail"]);
    let child = scene.path("child");
    let script = format!("echo $$ >> {}; sleep 600 & echo $! >> {}; wait", file.display(), child.display());
    let mut worker = Worker::start(
        &node,
        &["mail", "--timeout", "300ms", "--nack-delay", "50ms", "--", "sh", "-c", &script],
    );
    wait::until_so("it was tried twice", SOON, || lines(&file).len() >= 2);
    assert!(!is_alive(&lines(&file)[0]), "the first one is gone");
    assert!(!is_alive(&lines(&child)[0]), "and what it had started");
    worker.signal(Signal::TERM);
    assert!(worker.wait_for_end());
    assert_eq!(queued(&node, "mail"), 1, "it is not lost");
}

#[test]
fn a_command_finds_its_message_and_one_that_fails_says_how() {
    let scene = Scene::new();
    let node = start(&scene);
    let work = |command: &[&str]| {
        echo(&node, "hello", &["queue", "add", "mail", "--retry", "1h"]);
        let words = ["queue", "work", "mail", "--drain", "--nack-delay", "1h", "--"];
        piped(binary::path(), &node, b"", &[&words, command].concat()).err
    };
    let script = "test \"$(cat)\" = hello && test ${#PUNCTUAL_MESSAGE_ID} = 40 \
                  && test $PUNCTUAL_QUEUE$PUNCTUAL_DELIVERIES$PUNCTUAL_NAMESPACE = mail1default && test -n \"$PATH\"";
    assert_eq!(work(&["sh", "-c", script]), "done with 1 messages, gave back 0\n");
    assert_eq!(work(&["true"]), "done with 1 messages, gave back 0\n", "it need not read its body");
    let said = work(&["sh", "-c", "exit 7"]);
    assert!(said.contains("exit status: 7, given back"), "{said}");
    let said = work(&["/no/such/program"]);
    assert!(said.contains("`/no/such/program` could not be started: No such file"), "{said}");
}

/// A worker that is killed cannot tidy up behind itself: the guardians of its commands do.
#[test]
fn nothing_outlives_a_worker_that_is_killed() {
    let scene = Scene::new();
    let node = start(&scene);
    let file = scene.path("pids");
    echo(&node, "a\nb\n", &["queue", "add", "mail", "--lines"]);
    let daemon = format!("setsid sh -c 'echo $$ >> {0}; exec sleep 600' &", file.display());
    let script = format!("echo $$ >> {}; {daemon} wait", file.display());
    let worker = Worker::start(&node, &["mail", "--slots", "2", "--", "sh", "-c", &script]);
    wait::until_so("both have begun", SOON, || lines(&file).len() == 4);
    let mut pids = lines(&file);
    let parents: Vec<String> = pids.iter().map(|pid| parent(pid)).collect();
    let worker_pid = worker.0.id().to_string();
    assert!(!parents.contains(&worker_pid), "a guardian is between them");
    pids.extend(parents);
    worker.signal(Signal::KILL);
    wait::until_so("all are gone", SOON, || !pids.iter().any(|pid| is_alive(pid)));
}

/// The message stays out of the queue for as long as its command runs, however short its retry is.
#[test]
fn a_long_command_keeps_its_message() {
    let scene = Scene::new();
    let node = start(&scene);
    let file = scene.path("begun");
    echo(&node, "long", &["queue", "add", "mail", "--retry", "1s"]);
    let script = format!("echo begun >> {}; sleep 4", file.display());
    let mut worker = Worker::start(&node, &["mail", "--slots", "2", "--drain", "--", "sh", "-c", &script]);
    assert!(worker.wait_for_end());
    assert_eq!(lines(&file).len(), 1, "nobody else was given it");
    assert_eq!(node.cli(["queue", "get", "mail"]).status.code(), Some(3));
}

#[test]
fn a_worker_that_is_asked_to_stop_finishes_what_it_has_begun() {
    let scene = Scene::new();
    let node = start(&scene);
    let file = scene.path("done");
    for body in ["a", "b", "c"] {
        echo(&node, body, &["queue", "add", "mail"]);
    }
    let script = format!("echo begun >> {0}; sleep 1; echo done >> {0}", file.display());
    let mut worker = Worker::start(&node, &["mail", "--", "sh", "-c", &script]);
    wait::until_so("it has begun", SOON, || !lines(&file).is_empty());
    worker.signal(Signal::TERM);
    assert!(worker.wait_for_end(), "it ends well");
    assert_eq!(lines(&file), ["begun", "done"]);
    let left = node.cli(["queue", "stat", "mail", "-o", "json"]).json();
    assert_eq!(
        (&left["messages"], &left["queued"]),
        (&json!(2), &json!(2)),
        "the others are where they were"
    );
}

/// R94: one at a time and in order, over several workers, one of which is told to stop.
#[test]
fn single_workers_take_one_message_at_a_time_in_order() {
    let scene = Scene::new();
    let node = start(&scene);
    let file = scene.path("order");
    let text: String = (10..30).map(|number| format!("{number}\n")).collect();
    echo(&node, &text, &["queue", "add", "ledger", "--lines"]);
    let script = format!("body=$(cat); echo +$body >> {0}; sleep 0.05; echo -$body >> {0}", file.display());
    let words = ["ledger", "--single", "--", "sh", "-c", &script];
    let mut first = Worker::start(&node, &words);
    let _second = Worker::start(&node, &words);
    let _third = Worker::start(&node, &words);
    wait::until_so("some are done", SOON, || lines(&file).len() >= 10);
    first.signal(Signal::TERM);
    assert!(first.wait_for_end());
    wait::until_so("all are done", SOON * 2, || lines(&file).len() >= 40);
    let expected: Vec<String> =
        (10..30).flat_map(|number| [format!("+{number}"), format!("-{number}")]).collect();
    assert_eq!(lines(&file), expected);
}

/// R58: a worker with nothing but a way out gets work when it is idle, and none when it is full.
#[test]
fn a_worker_is_given_no_more_than_it_has_slots_for() {
    let scene = Scene::new();
    let node = start(&scene);
    let file = scene.path("begun");
    let _worker = Worker::start(
        &node,
        &["mail", "--slots", "2", "--", "sh", "-c", &format!("echo begun >> {}; sleep 600", file.display())],
    );
    let text = "a\nb\nc\nd\n";
    echo(&node, text, &["queue", "add", "mail", "--lines"]);
    wait::until_so("its slots are full", SOON, || lines(&file).len() == 2);
    let stat: Value = node.cli(["queue", "stat", "mail", "-o", "json"]).json();
    assert_eq!(stat["queued"], json!(2), "the other messages are left for idle workers");
    wait::pass(Duration::from_secs(1));
    assert_eq!(lines(&file).len(), 2);
}

/// R135 to R139: the words of old notes, by the old name.
#[test]
fn called_disque_it_takes_the_words_of_old_notes() {
    let scene = Scene::new();
    let node = start(&scene);
    let disque = scene.path("disque");
    symlink(binary::path(), &disque).expect("a link can be made");
    let say = |text: &str, words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        piped(&disque, &node, text.as_bytes(), &words)
    };
    assert_eq!(say("", "queue mail").ok(), "OK\n");
    let id = say("task\n", "addjob mail 5000 replicate nocache async asynckey k").ok().trim().to_owned();
    let told = say("", "queue mail").ok();
    assert!(told.lines().any(|line| line.split_whitespace().eq(["queued", "1"])), "{told}");
    assert!(say("", &format!("show {id}")).ok().starts_with("ID"));
    let json: Value = serde_json::from_str(&say("", &format!("client k {id}")).ok()).expect("it is JSON");
    assert_eq!(
        (&json["body"], &json["group"], &json["state"]),
        (&json!("task"), &json!("mail"), &json!("queued"))
    );
    assert_eq!(say("", &format!("client other {id}")).status.code(), Some(3));
    assert!(say("", "getjob from mail").ok().contains(&id));
    assert_eq!(say("", &format!("ackjob {id}")).ok(), "acknowledged 1 of 1\n");
    assert_eq!(say("", "getjob nohang from mail").status.code(), Some(3));

    let late = say("late", "addjob orders 0").ok().trim().to_owned();
    assert!(say("", "getjob timeout 20000 from mail orders").ok().contains(&late), "whichever has one");
    say("", &format!("ackjob {late}")).ok();
    let other = say("", "addjob mail other 0").ok().trim().to_owned();
    assert_eq!(say("", &format!("deljob {other}")).ok(), "deleted 1 of 1\n");
    say("one", "addjob mail 0").ok();
    say("two", "addjob mail 0").ok();
    assert_eq!(say("", "worker mail -t 5 --single-process --drain").ok(), "onetwo");
}

/// R134: an old configuration, whose lines for Redis are passed over.
#[test]
fn called_disque_server_it_starts_from_an_old_configuration() {
    let scene = Scene::new();
    let server = scene.path("disque-server");
    symlink(binary::path(), &server).expect("a link can be made");
    let config = format!(
        "# as it always was\nport 0\nbind 127.0.0.1\ndir {}\nmaxmemory 1gb\nappendonly yes\nsave 900 1\n",
        scene.path("old").display()
    );
    let config = scene.write("disque.conf", &config);
    let words = [config.as_os_str().to_owned(), "--punctual-http".into(), "127.0.0.1:0".into()];
    let mut node = scene.node().with_data(scene.path("old/punctual-data")).with_program(&server, words);
    node.start();
    assert!(node.printed().contains("`save` is not known here and is passed over"), "{}", node.printed());
    assert!(node.printed().contains("queues on 127.0.0.1:"), "{}", node.printed());
    let id = echo(&node, "task", &["queue", "add", "mail"]);
    assert_eq!(node.cli(["queue", "show", &id, "-o", "json"]).json()["body"], "task");
    assert!(node.stop().success());
}

#[test]
fn a_second_disque_server_starts_beside_the_first() {
    // Some other process may have it: that does as well.
    let _taken = TcpListener::bind("127.0.0.1:7400");
    let scene = Scene::new();
    let [server, disque] = ["disque-server", "disque"].map(|name| scene.path(name));
    symlink(binary::path(), &server).expect("a link can be made");
    symlink(binary::path(), &disque).expect("a link can be made");
    let started = |name: &str, http: Option<&str>| {
        let folder = scene.path(name);
        let words = ["--port", "0", "--dir", &folder.display().to_string()].map(str::to_owned);
        let mut node = scene.node().with_data(folder.join("punctual-data")).with_program(&server, words);
        node.set_env("PUNCTUAL_HTTP", http);
        node.start();
        node
    };
    let (mut first, mut second) = (started("first", None), started("second", Some("127.0.0.1:0")));
    assert!(first.printed().contains("127.0.0.1:7400 is taken"), "{}", first.printed());
    // Each is found by its port for the Redis protocol.
    for node in [&first, &second] {
        let port = node.resp_port().to_string();
        let say = |text: &str, words: &[&str]| {
            let words = [&["-h", "127.0.0.1", "-p", &port], words].concat();
            let mut command = Command::new(&disque);
            command.args(words).env_remove("PUNCTUAL_SERVER").env("NO_COLOR", "1");
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().expect("the binary can be started");
            child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("it reads");
            let output = child.wait_with_output().expect("a child can be waited for");
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).expect("it prints text")
        };
        let id = say("task", &["addjob", "mail", "5000"]);
        assert!(say("", &["getjob", "from", "mail"]).contains(id.trim()));
        assert_eq!(node.cli(["queue", "show", id.trim(), "-o", "json"]).json()["body"], "task");
    }
    assert!(first.stop().success() && second.stop().success());
}

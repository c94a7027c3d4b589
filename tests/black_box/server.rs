//! `punctual server`: safe from its first start.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use punctual_tests::authority::Authority;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cli, Node, Scene, Worker, binary};

const NODES: &str = "/api/v1/nodes";
/// A removed token has to be refused everywhere by then.
const REMOVED_MAX: Duration = Duration::from_secs(5);

/// A server of this scene that is not started yet, with further options.
fn server(scene: &Scene, options: &[&str]) -> Node {
    let store = format!("sqlite:{}", scene.data().display());
    let words = ["server", "--http", "127.0.0.1:0", "--store", &store];
    let words = words.iter().chain(options).map(|word| (*word).to_owned());
    scene.node().with_program(binary::path(), words.collect::<Vec<_>>()).with_env("PUNCTUAL_TOKEN", "")
}

/// The command line with a token, or without one.
#[track_caller]
fn cli(server: &str, token: Option<&str>, words: &[&str]) -> Cli {
    let mut command = Command::new(binary::path());
    command.args(words).env("PUNCTUAL_SERVER", server).env("NO_COLOR", "1").env_remove("PUNCTUAL_TOKEN");
    if let Some(token) = token {
        command.env("PUNCTUAL_TOKEN", token);
    }
    Cli::run(&mut command)
}

/// A command that is expected to refuse to start.
#[track_caller]
fn refused(scene: &Scene, words: &[&str]) -> Cli {
    let store = format!("sqlite:{}", scene.data().display());
    let mut command = Command::new(binary::path());
    let said = Cli::run(command.args(["server", "--store", &store]).args(words).env("NO_COLOR", "1"));
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    assert!(said.err.contains("error: ") && !scene.data().exists(), "nothing was made: {said:?}");
    said
}

/// Every token in a text.
fn tokens(text: &str) -> Vec<String> {
    let starts = text.match_indices("pct_").map(|(at, _)| &text[at..]);
    let end = |text: &str| text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    starts.map(|text| text[..end(text).unwrap_or(text.len())].to_owned()).collect()
}

/// Whether any file of a folder has this in it.
fn holds(folder: &Path, needle: &str) -> bool {
    fs::read_dir(folder).expect("a folder can be read").any(|entry| {
        let path = entry.expect("a folder can be read").path();
        if path.is_dir() {
            return holds(&path, needle);
        }
        let bytes = fs::read(&path).unwrap_or_default();
        bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
    })
}

fn status(node: &Node, path: &str, token: Option<&str>) -> u16 {
    let header = token.map(|token| format!("Bearer {token}"));
    let header = header.as_deref().map(|value| ("authorization", value));
    node.api().send(reqwest::Method::GET, path, None, header).expect("the node answers").status
}

fn write_secret(scene: &Scene, text: &str, mode: u32) -> String {
    let path = scene.write("secret", text);
    fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode can be set");
    path.display().to_string()
}

#[test]
fn the_first_start_prints_its_tokens_once_and_keeps_hashes() {
    let scene = Scene::new();
    let mut node = server(&scene, &["--slots", "2"]);
    node.start();
    let told = tokens(&node.printed());
    let [admin, worker] = told.as_slice() else { panic!("two tokens are told: {told:?}") };
    assert!(admin.len() == "pct_".len() + 64 && admin != worker, "{told:?}");

    assert_eq!(status(&node, "/readyz", None), 200);
    for path in [NODES, "/metrics", "/api/v1/openapi.json", "/nothing"] {
        assert_eq!(status(&node, path, None), 401, "{path}");
        assert_eq!(status(&node, path, Some("pct_wrong")), 401, "{path}");
    }
    assert_eq!(status(&node, &format!("{NODES}?token={admin}"), None), 401, "no token in an address");
    assert_eq!(status(&node, NODES, Some(admin)), 200);
    assert_eq!(status(&node, NODES, Some(worker)), 403);
    let submit = ["run", "submit", "--shell", "echo hi", "--wait"];
    cli(node.api().address(), Some(admin), &submit).ok();

    node.kill();
    node.start();
    assert_eq!(tokens(&node.printed()), told, "a second start tells nothing");
    assert_eq!(status(&node, NODES, Some(admin)), 200, "they last");
    assert!(node.stop().success());
    for token in &told {
        assert!(!holds(&scene.data(), &token["pct_".len()..]), "only a hash is kept");
    }
}

#[test]
fn relaxed_durability_is_shown_in_every_status() {
    let scene = Scene::new();
    let mut node = server(&scene, &[]).with_env("PUNCTUAL_DURABILITY", "relaxed");
    node.start();
    let ready = node.api().get("/readyz").expect("the node answers");
    assert!(ready.text.contains("durability relaxed"), "{ready:?}");
    let admin = tokens(&node.printed()).remove(0);
    let address = node.api().address();
    let list = cli(address, Some(&admin), &["node", "list"]).ok();
    assert!(list.contains("durability relaxed"), "{list}");
    let doctor = cli(address, Some(&admin), &["doctor"]);
    assert!(doctor.out.contains("--durability full"), "{doctor:?}");
}

#[test]
fn a_worker_with_a_wrong_token_is_refused_and_ends() {
    let scene = Scene::new();
    let mut node = server(&scene, &[]);
    node.start();
    let data = scene.path("worker").display().to_string();
    let said = cli(node.api().address(), Some("pct_wrong"), &["worker", "--data", &data]);
    assert!(!said.status.success() && said.err.contains("not valid for workers"), "{said:?}");
}

#[test]
fn without_a_token_the_command_line_says_what_to_do() {
    let scene = Scene::new();
    let mut node = server(&scene, &[]);
    node.start();
    let said = cli(node.api().address(), None, &["job", "list"]);
    assert_eq!(said.status.code(), Some(4), "{said:?}");
    assert!(said.err.contains("PUNCTUAL_TOKEN") && said.err.contains("punctual token add"), "{said:?}");
    let worker = tokens(&node.printed()).remove(1);
    let said = cli(node.api().address(), Some(&worker), &["job", "list"]);
    assert_eq!(said.status.code(), Some(4), "{said:?}");
    assert!(said.err.contains("role `worker`") && said.err.contains("role `reader`"), "{said:?}");
}

#[test]
fn tokens_come_and_go_by_the_command_line_and_never_into_the_log() {
    let scene = Scene::new();
    let secret = "0123456789abcdefghijklmnopqrstuv";
    let file = write_secret(&scene, &format!("{secret}\n"), 0o600);
    let mut node = server(&scene, &["--bootstrap-token-file", &file]).with_env("PUNCTUAL_LOG", "trace");
    node.start();
    let address = node.api().address().to_owned();
    let by_file = |words: &[&str]| cli(&address, None, &[words, &["--token-file", &file]].concat());

    let reader =
        by_file(&["token", "add", "ci", "--role", "reader", "--expires", "1h"]).ok().trim().to_owned();
    assert_eq!(tokens(&reader).join(" "), reader, "nothing but the token is on stdout");
    cli(&address, Some(&reader), &["job", "list"]).ok();
    let said = cli(&address, Some(&reader), &["run", "submit", "--noop"]);
    assert_eq!(said.status.code(), Some(4), "{said:?}");
    let listed = by_file(&["token", "list", "-o", "json"]).json();
    let names: Vec<_> = listed.as_array().expect("a list").iter().map(|token| &token["name"]).collect();
    assert_eq!(names, ["bootstrap", "ci"]);
    assert!(listed[1]["expires_at"].is_string() && listed[1]["last_used_at"].is_string(), "{listed}");
    assert!(by_file(&["token", "list"]).ok().contains("reader"));
    assert_eq!(by_file(&["token", "add", "ci", "--role", "reader"]).status.code(), Some(4));

    by_file(&["token", "remove", "ci"]).ok();
    wait::until_so("a removed token is refused", REMOVED_MAX, || status(&node, NODES, Some(&reader)) == 401);
    assert_eq!(by_file(&["token", "remove", "ci"]).status.code(), Some(3));

    assert!(node.stop().success());
    let printed = node.printed();
    assert!(printed.contains("a token was added"), "it is on record: {printed}");
    assert!(!printed.contains(secret) && tokens(&printed).is_empty(), "no token is in the log");
    assert!(!holds(&scene.data(), secret), "only a hash is kept");
}

#[test]
fn a_token_that_was_brought_has_to_be_secret_and_hard_to_guess() {
    let scene = Scene::new();
    let good = "0123456789abcdefghijklmnopqrstuv";
    for (text, mode, why) in [
        (good, 0o644, "chmod 600"),
        (good, 0o640, "chmod 600"),
        ("default_token", 0o600, "examples"),
        ("123456", 0o600, "examples"),
        ("0123456789abcdef", 0o600, "at least 32"),
        ("", 0o600, "one line"),
    ] {
        let file = write_secret(&scene, text, mode);
        let said = refused(&scene, &["--bootstrap-token-file", &file]);
        assert!(said.err.contains(why), "{text} {mode:o}: {said:?}");
        assert!(text.is_empty() || !said.err.contains(text), "what was wrong is not repeated: {said:?}");
    }
}

#[test]
fn beyond_this_machine_it_does_not_listen_in_the_clear() {
    let scene = Scene::new();
    let said = refused(&scene, &["--http", "0.0.0.0:0"]);
    for word in ["TLS", "--tls-cert", "--tls-key", "--insecure"] {
        assert!(said.err.contains(word), "{word}: {said:?}");
    }
    let said = refused(&scene, &["--tls-cert", "cert.pem"]);
    assert!(said.err.contains("go together"), "{said:?}");
    let said = refused(&scene, &["--tls-cert", "cert.pem", "--tls-key", "nowhere.pem"]);
    assert!(said.err.contains("cert.pem"), "{said:?}");
}

#[test]
fn a_store_that_is_not_built_in_is_named_without_its_password() {
    let scene = Scene::new();
    let mut command = Command::new(binary::path());
    let said =
        Cli::run(command.args(["server", "--store", "oracle://me:tiger@db/x", "--data"]).arg(scene.data()));
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert!(said.err.contains("`oracle`") && said.err.contains("sqlite:DIR"), "{said:?}");
    assert!(!said.err.contains("tiger"), "{said:?}");
}

#[test]
fn clients_that_trust_the_authority_reach_the_server_over_tls() {
    let scene = Scene::new();
    let folder = scene.path("");
    let ours = Authority::make(&folder, "ours");
    let other = Authority::make(&folder, "other");
    let path = |path: &Path| path.display().to_string();
    let options = ["--tls-cert", &path(&ours.cert), "--tls-key", &path(&ours.key), "--slots", "1"];
    let mut node = server(&scene, &options);
    node.spawn();
    let address = address_over_tls(&node);
    let admin = tokens(&node.printed()).remove(0);
    let ask = |scheme: &str, trusted: &[&str]| {
        let words = [&["run", "submit", "--shell", "echo hi", "--wait"], trusted].concat();
        cli(&format!("{scheme}://{address}"), Some(&admin), &words)
    };
    let trusted = |authority: &Authority| ["--ca".to_owned(), path(&authority.ca)];
    let ours = trusted(&ours);
    let other = trusted(&other);
    ask("https", &ours.each_ref().map(String::as_str)).ok();
    assert_eq!(
        ask("https", &other.each_ref().map(String::as_str)).status.code(),
        Some(5),
        "another authority"
    );
    assert_eq!(ask("https", &[]).status.code(), Some(5), "nobody vouches for it");
    assert_eq!(ask("http", &[]).status.code(), Some(5), "in the clear");
    assert!(node.stop().success());
}

#[test]
fn a_ca_certificate_is_refused_with_the_command_to_use() {
    // What a client hears of a server whose certificate `openssl` made with these words more.
    let ask = |more: &[&str]| {
        let scene = Scene::new();
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        openssl.args(["-days", "2", "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost"]);
        openssl.args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]).args(more);
        let made = openssl.current_dir(scene.path("")).output().expect("openssl is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let path = |name: &str| scene.path(name).display().to_string();
        let (cert, key) = (path("cert.pem"), path("key.pem"));
        let mut node = server(&scene, &["--tls-cert", &cert, "--tls-key", &key]);
        node.spawn();
        let address = format!("https://{}", address_over_tls(&node));
        let said = cli(&address, None, &["node", "list", "--ca", &cert]);
        assert!(node.stop().success());
        said
    };
    let said = ask(&[]);
    assert_eq!(said.status.code(), Some(5), "{said:?}");
    let why = "its certificate is that of an authority (CA:TRUE)";
    let how = "-addext basicConstraints=critical,CA:FALSE";
    assert!(said.err.contains(why) && said.err.contains(how), "{said:?}");
    assert!(!said.err.contains("punctual dev"), "{said:?}");
    // What the hint says works: the server is reached, and asks for a token.
    let said = ask(&["-addext", "basicConstraints=critical,CA:FALSE"]);
    assert_eq!(said.status.code(), Some(4), "{said:?}");
}

/// A body that comes while its request is already refused must not turn the answer into a broken stream.
#[test]
fn curl_hears_an_early_refusal_over_http_2() {
    let scene = Scene::new();
    let ours = Authority::make(&scene.path(""), "ours");
    let path = |path: &Path| path.display().to_string();
    let mut node = server(&scene, &["--tls-cert", &path(&ours.cert), "--tls-key", &path(&ours.key)]);
    node.spawn();
    let address = address_over_tls(&node);
    let tokens = tokens(&node.printed());
    let reader = {
        let words = ["token", "add", "looker", "--role", "reader", "--ca", &path(&ours.ca)];
        let said = cli(&format!("https://{address}"), Some(&tokens[0]), &words).ok();
        self::tokens(&said).remove(0)
    };
    let body = |name: &str, bytes: usize| path(&scene.write(name, &"x".repeat(bytes)));
    let bodies = [body("small", 20), body("middling", 300_000), body("large", 5_000_000)];
    let runs = "/api/v1/namespaces/default/runs";
    for (route, token, wanted) in
        [(runs, None, "401"), ("/nowhere", Some(&tokens[0]), "404"), (runs, Some(&reader), "403")]
    {
        for file in &bodies {
            for turn in 0..20 {
                let mut curl = Command::new("curl");
                curl.args(["-sS", "--http2", "--cacert", &path(&ours.ca), "-o", "/dev/null"]);
                curl.args(["-w", "%{http_code} %{http_version}", "-H", "Content-Type: application/json"]);
                if let Some(token) = token {
                    curl.args(["-H", &format!("Authorization: Bearer {token}")]);
                }
                curl.args(["--data-binary", &format!("@{file}"), &format!("https://{address}{route}")]);
                let said = Cli::run(&mut curl);
                assert_eq!(said.out, format!("{wanted} 2"), "{route}, {file}, turn {turn}: {said:?}");
                assert!(said.status.success(), "{route}, {file}, turn {turn}: {said:?}");
            }
        }
    }
    assert!(node.stop().success());
}

/// The first words of a server that has a certificate.
#[track_caller]
fn address_over_tls(node: &Node) -> String {
    wait::until("the server says where it listens", SOON, || {
        let printed = node.printed();
        let (_, after) = printed.split_once("listens on https://")?;
        Some(after.split_once(',')?.0.to_owned())
    })
}

#[test]
fn a_worker_comes_over_tls_with_a_token_from_a_file() {
    let scene = Scene::new();
    let ours = Authority::make(&scene.path(""), "ours");
    let path = |path: &Path| path.display().to_string();
    let (cert, key, ca) = (path(&ours.cert), path(&ours.key), path(&ours.ca));
    let mut node = server(&scene, &["--tls-cert", &cert, "--tls-key", &key]);
    node.spawn();
    let server = format!("https://{}", address_over_tls(&node));
    let tokens = tokens(&node.printed());
    let secret = write_secret(&scene, &tokens[1], 0o600);
    let words = ["--token-file", &secret, "--ca", &ca, "--slots", "2"];
    let mut worker = Worker::spawn(&scene.path("worker"), "w", &server, &words);
    worker.wait_until_ready();
    let submit = ["run", "submit", "--shell", "echo hi", "--wait", "--ca", &ca];
    cli(&server, Some(&tokens[0]), &submit).ok();
    worker.kill();
    assert!(node.stop().success());
}

//! Mail, taken by a server of others: aiosmtpd with STARTTLS and AUTH.

use std::process::Child;

use punctual_tests::authority::Authority;

use super::*;

const PASSWORD: &str = "correct horse";

/// A mail server that refuses each notification once.
struct MailServer {
    child: Child,
    port: u16,
    received: Arc<Mutex<Vec<Value>>>,
}

impl Drop for MailServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl MailServer {
    fn start(authority: &Authority) -> MailServer {
        let mut child = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/smtp/run"))
            .args([&authority.cert, &authority.key])
            .args(["punctual", PASSWORD])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the script can be started");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let first = lines.next().expect("it prints its port; is python3-venv installed?");
        let port = first.expect("it prints text").parse().expect("a port is a number");
        let received = Arc::<Mutex<Vec<Value>>>::default();
        let kept = Arc::clone(&received);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mail = serde_json::from_str(&line).expect("it prints JSON");
                kept.lock().expect("no reader panics").push(mail);
            }
        });
        MailServer { child, port, received }
    }

    /// The mails with this subject.
    fn with_subject(&self, subject: &str) -> Vec<Value> {
        let all = self.received.lock().expect("no reader panics").clone();
        all.into_iter().filter(|mail| mail["headers"]["subject"] == subject).collect()
    }
}

fn mail_channel(name: &str, port: u16, rest: &str) -> String {
    format!(
        "[alerts.channels.{name}]\ntype = \"email\"\nhost = \"localhost\"\nport = {port}\n\
         from = \"Punctual <punctual@example.com>\"\nto = [\"team@example.com\", \"Ops <ops@example.com>\"]\n{rest}\n"
    )
}

#[test]
fn a_mail_is_sent_over_starttls_until_it_is_taken() {
    let scene = Scene::new();
    let authority = Authority::make(&scene.path(""), "mail");
    let server = MailServer::start(&authority);
    let login = |file: &str| format!("username = \"punctual\"\npassword_file = \"{file}\"");
    let right = login(&secret_file(&scene, "right", PASSWORD));
    let wrong = login(&secret_file(&scene, "wrong", "battery staple"));
    let channels = [
        mail_channel("english", server.port, &right),
        mail_channel("chinese", server.port, &format!("language = \"zh\"\n{right}")),
        mail_channel("wrong", server.port, &wrong),
        mail_channel("open", server.port, "tls = \"none\""),
    ];
    let settings = scene.write("punctual.toml", &channels.concat());
    let mut node =
        scene.node().with_env("PUNCTUAL_CONFIG", settings).with_env("SSL_CERT_FILE", &authority.ca);
    node.start();
    node.cli(["alert", "test", "english"]).ok();
    let test = &server.with_subject("Test")[0];
    assert_eq!(test["recipients"], json!(["team@example.com", "ops@example.com"]), "{test:#}");
    for (channel, why) in [("wrong", "did not accept the username"), ("open", "STARTTLS")] {
        let told = node.cli(["alert", "test", channel]);
        assert!(!told.status.success() && told.err.contains(why), "{told:?}");
    }
    node.api().put_job("breaks", &failing_job(&["english", "chinese"]));
    fails(node.api(), "breaks");
    for subject in ["Alert: default/breaks: a run failed", "告警：default/breaks：运行失败"] {
        let tries = wait::until("it is sent again after it was refused", SOON, || {
            Some(server.with_subject(subject)).filter(|tries| tries.len() == 2)
        });
        let ids = tries.iter().map(|mail| &mail["headers"]["message-id"]).collect::<Vec<_>>();
        assert_eq!(ids[0], ids[1], "one id for each try");
        assert!(tries[0]["text"].as_str().is_some_and(|text| text.contains("it broke")), "{tries:#?}");
    }
}

#[test]
fn a_mail_server_that_hangs_delays_no_run() {
    let scene = Scene::new();
    // It takes connections into its backlog and never answers.
    let hanging = listen();
    let port = hanging.local_addr().expect("it has an address").port();
    let node = node(&scene, "", &[mail_channel("hanging", port, "")]);
    node.api().put_job("tick", &json!({ "schedule": { "every": "1s" }, "task": { "noop": {} } }));
    node.api().put_job("breaks", &failing_job(&["hanging"]));
    fails(node.api(), "breaks");
    let told = node.cli(["alert", "test", "hanging"]);
    assert!(!told.status.success() && told.err.contains("has not taken the mail within 10 s"), "{told:?}");
    assert_no_run_was_late(node.api(), "tick");
}

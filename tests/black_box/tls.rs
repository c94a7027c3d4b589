//! HTTP tasks over TLS: whom a worker believes, and what it says when it does not.
//!
//! Certificates and servers are made with `openssl`, so that the other side is nobody of ours.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Node, Scene};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A certificate authority for this test alone.
struct Authority {
    folder: TempDir,
}

/// A key and its certificate.
struct Identity {
    key: PathBuf,
    certificate: PathBuf,
}

/// `openssl s_server`; it goes with the test.
struct Server {
    child: Child,
    place: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Authority {
    fn new() -> Authority {
        let authority = Authority { folder: TempDir::new().expect("a folder can be made") };
        authority.issue("ca", &["-subj", "/CN=test authority"]);
        authority
    }

    fn certificate(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A server on this machine that the authority vouches for.
    fn vouched_for(&self) -> Identity {
        let (ca, key) = (self.certificate(), self.folder.path().join("ca.key"));
        let (ca, key) = (path(&ca), path(&key));
        let names = "subjectAltName=IP:127.0.0.1,DNS:localhost";
        let plain = "basicConstraints=critical,CA:FALSE";
        let args = ["-subj", "/CN=localhost", "-addext", names, "-addext", plain, "-CA", ca, "-CAkey", key];
        self.issue("server", &args)
    }

    /// A self-signed certificate.
    fn self_signed(&self) -> Identity {
        self.issue("alone", &["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"])
    }

    fn issue(&self, name: &str, args: &[&str]) -> Identity {
        let (key, certificate) =
            (self.folder.path().join(format!("{name}.key")), self.folder.path().join(format!("{name}.pem")));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
            .args(["-days", "2", "-keyout", path(&key), "-out", path(&certificate)])
            .args(args)
            .output()
            .expect("openssl is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Identity { key, certificate }
    }
}

impl Identity {
    fn serve(&self) -> Server {
        let mut child = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-www"])
            .args(["-key", path(&self.key), "-cert", path(&self.certificate)])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is installed");
        let said = BufReader::new(child.stdout.take().expect("it is piped"));
        let place = said
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("ACCEPT ").map(str::to_owned))
            .expect("it says where it listens");
        Server { child, place }
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

/// A run that calls a server, when it has ended.
#[track_caller]
fn call(node: &Node, server: &Server, tls: &Value) -> Value {
    let http = json!({ "url": format!("https://{}/", server.place), "tls": tls, "timeout": "10s" });
    let run = node.api().submit(&json!({ "task": { "http": http } }));
    let id = run["id"].as_str().expect("a run has an id").to_owned();
    wait::until("the call is over", SOON, || Some(node.api().run(&id)).filter(has_ended))
}

#[track_caller]
fn check_refused(run: &Value, server: &Server) {
    assert_eq!(run["state"], "failed", "{run}");
    let error = run["error"].as_str().expect("it says why");
    assert!(error.starts_with(&format!("no TLS with {}: invalid peer certificate", server.place)), "{error}");
}

#[test]
fn only_the_authority_that_the_job_names_is_trusted() {
    let authority = Authority::new();
    let (known, alone) = (authority.vouched_for().serve(), authority.self_signed().serve());
    let scene = Scene::new();
    let node = scene.start();
    let ca = json!({ "ca": authority.certificate() });
    let run = call(&node, &known, &ca);
    assert_eq!(run["state"], "succeeded", "{run}");
    assert!(run["output"].as_str().is_some_and(|page| page.contains("TLSv1.3")), "{run}");
    check_refused(&call(&node, &known, &Value::Null), &known);
    check_refused(&call(&node, &alone, &Value::Null), &alone);
    check_refused(&call(&node, &alone, &ca), &alone);
}

#[test]
fn an_authority_that_the_machine_trusts_need_not_be_named() {
    let authority = Authority::new();
    let (known, alone) = (authority.vouched_for().serve(), authority.self_signed().serve());
    let scene = Scene::new();
    let mut node = scene.node().with_env("SSL_CERT_FILE", authority.certificate());
    node.start();
    let run = call(&node, &known, &Value::Null);
    assert_eq!(run["state"], "succeeded", "{run}");
    check_refused(&call(&node, &alone, &Value::Null), &alone);
}

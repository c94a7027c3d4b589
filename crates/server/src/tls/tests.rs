//! Handshakes with certificates that are made for the test.

use std::process::{Command, Stdio};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsConnector;

use super::*;

/// Longer than it takes, on any machine.
const SOON: Duration = Duration::from_secs(10);

fn openssl(dir: &Path, words: &str) {
    let mut command = Command::new("openssl");
    command.args(words.split(' ')).current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().expect("openssl is installed").success(), "openssl {words}");
}

const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30";

/// An authority `NAME.pem`, and a certificate `NAME-leaf.pem` of it for this machine.
fn authority(dir: &Path, name: &str) {
    let words = format!("req -x509 {NEW_KEY} -subj /CN={name} -keyout {name}.key -out {name}.pem");
    openssl(dir, &words);
    openssl(
        dir,
        &format!(
            "req -x509 {NEW_KEY} -subj /CN=localhost -CA {name}.pem -CAkey {name}.key -keyout {name}-leaf.key \
             -out {name}-leaf.pem -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
        ),
    );
}

/// A folder with two authorities, `ours` and `other`; what the server shows is a copy, so that it can change.
fn folder() -> (TempDir, Files) {
    let dir = tempfile::tempdir().unwrap();
    authority(dir.path(), "ours");
    authority(dir.path(), "other");
    let files = Files { cert: dir.path().join("cert.pem"), key: dir.path().join("key.pem"), client_ca: None };
    install(&dir, &files, "ours");
    (dir, files)
}

/// As tools that renew certificates do: written aside, then renamed.
fn install(dir: &TempDir, files: &Files, name: &str) {
    for (from, to) in [("pem", &files.cert), ("key", &files.key)] {
        let aside = dir.path().join("aside");
        fs::copy(dir.path().join(format!("{name}-leaf.{from}")), &aside).unwrap();
        fs::rename(&aside, to).unwrap();
    }
}

/// Someone who trusts one authority and, if they have one, shows a certificate.
fn client(dir: &TempDir, trusts: &str, shows: Option<&str>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&dir.path().join(format!("{trusts}.pem"))).unwrap() {
        roots.add(certificate).unwrap();
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let config = match shows {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let chain = certificates(&dir.path().join(format!("{name}-leaf.pem"))).unwrap();
            let key = key(&dir.path().join(format!("{name}-leaf.key"))).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    TlsConnector::from(Arc::new(config))
}

/// Whether they came to terms and, if so, whether the server took the caller's certificate.
async fn meet(tls: &Tls, client: &TlsConnector) -> Option<bool> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let calling = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut stream = client.connect(name, stream).await.ok()?;
        // A refused certificate shows only when the first answer is waited for.
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).await.ok().map(|_| ())
    };
    let answering = async {
        let (stream, _) = listener.accept().await.unwrap();
        let Shaken { mut stream, certified } = tls.shake(stream).await?;
        stream.write_all(b"ok").await.ok()?;
        stream.flush().await.ok()?;
        Some(certified)
    };
    let (called, answered) = timeout(SOON, async { tokio::join!(calling, answering) }).await.unwrap();
    called.and(answered)
}

#[tokio::test]
async fn who_trusts_our_authority_gets_in_and_who_trusts_another_does_not() {
    let (dir, files) = folder();
    let tls = Tls::open(files).unwrap();
    assert_eq!(meet(&tls, &client(&dir, "ours", None)).await, Some(false));
    assert_eq!(meet(&tls, &client(&dir, "other", None)).await, None);
}

#[tokio::test]
async fn only_certificates_of_the_worker_authority_are_accepted() {
    let (dir, files) = folder();
    let files = Files { client_ca: Some(dir.path().join("ours.pem")), ..files };
    let tls = Tls::open(files).unwrap();
    assert!(tls.asks_workers());
    assert_eq!(meet(&tls, &client(&dir, "ours", Some("ours"))).await, Some(true));
    assert_eq!(meet(&tls, &client(&dir, "ours", None)).await, Some(false), "people show none");
    assert_eq!(meet(&tls, &client(&dir, "ours", Some("other"))).await, None);
}

#[tokio::test]
async fn a_renewed_certificate_is_used_without_a_restart() {
    let (dir, files) = folder();
    let tls = Tls::open(files.clone()).unwrap();
    let (old, new) = (client(&dir, "ours", None), client(&dir, "other", None));
    let looks_twice = async || tokio::time::sleep(LOOK_EVERY + LOOK_EVERY / 10).await;

    fs::copy(dir.path().join("other-leaf.pem"), &files.cert).unwrap();
    looks_twice().await;
    assert_eq!(meet(&tls, &old).await, Some(false), "its key is not there yet: the old pair stays");
    fs::copy(dir.path().join("other-leaf.key"), &files.key).unwrap();
    looks_twice().await;
    assert_eq!(meet(&tls, &new).await, Some(false));
    assert_eq!(meet(&tls, &old).await, None);

    install(&dir, &files, "ours");
    looks_twice().await;
    assert_eq!(meet(&tls, &old).await, Some(false));
}

#[tokio::test]
async fn who_does_not_speak_tls_gets_nowhere() {
    let (_dir, files) = folder();
    let tls = Tls::open(files).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    assert!(tls.shake(accepted).await.is_none());
}

#[test]
fn what_cannot_be_used_is_told_by_its_name() {
    let (dir, files) = folder();
    let error = |files: &Files| Tls::open(files.clone()).unwrap_err();
    let missing = Files { cert: dir.path().join("nowhere.pem"), ..files.clone() };
    assert!(error(&missing).contains("nowhere.pem"), "{}", error(&missing));
    let swapped = Files { cert: files.key.clone(), ..files.clone() };
    assert!(error(&swapped).contains("no certificate"), "{}", error(&swapped));
    let foreign = Files { key: dir.path().join("other-leaf.key"), ..files.clone() };
    assert!(error(&foreign).contains("cert.pem and its key"), "{}", error(&foreign));
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(error(&files).contains("everyone may read this key"), "{}", error(&files));
}

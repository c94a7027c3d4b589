//! The files of the console, their headers, and names that lead elsewhere.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response};
use punctual_core::Timestamp;
use punctual_core::time::ManualClock;
use punctual_node::{Config, Node};
use punctual_store::memory::Memory;
use tower::ServiceExt;

use super::*;
use crate::{Gate, Settings, router};

const FILES: &[File] = &[
    ("assets/app-1a2b.js", b"let a = 1;", Some(b"compressed")),
    ("assets/app-1a2b.css", b"a {}", None),
    ("favicon.svg", b"<svg/>", None),
    ("index.html", b"<!doctype html>", Some(b"compressed page")),
];

/// A node that serves a console.
struct Scene {
    _node: Node,
    router: Router,
}

impl Scene {
    async fn of(console: Console) -> Scene {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        let store = Arc::new(Memory::new(1));
        let node = Node::start(Config {
            store: store.clone(),
            clock: clock.clone(),
            lanes: 1,
            attempt_lease: Duration::from_secs(15),
            records: true,
            shard_lease: Duration::from_secs(3),
            cluster: None,
            attempt_keys: None,
            channels: None,
        })
        .unwrap();
        // Behind a gate: the files are served to callers without a token.
        let gate = Gate::guarded(store, clock.clone(), false);
        let endpoints = Endpoints::new(node.handle(), clock, "test", Settings::default()).behind(gate);
        Scene { _node: node, router: router(endpoints.with_console(console)) }
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response<Body> {
        let request =
            headers.iter().fold(Request::get(path).header("host", "localhost"), |request, (name, value)| {
                request.header(*name, *value)
            });
        self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    async fn text(&self, path: &str) -> (u16, String) {
        let answer = self.get(path, &[]).await;
        (answer.status().as_u16(), text(answer).await)
    }
}

async fn text(answer: Response<Body>) -> String {
    String::from_utf8(to_bytes(answer.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
}

fn header<'a>(answer: &'a Response<Body>, name: &str) -> &'a str {
    answer.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn the_page_and_its_files_are_served_with_their_own_policy() {
    let scene = Scene::of(Console::Embedded(FILES)).await;
    for (path, kind, caching) in [
        ("/", "text/html; charset=utf-8", "no-cache"),
        ("/favicon.svg", "image/svg+xml", "no-cache"),
        ("/assets/app-1a2b.js", "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"),
        ("/assets/app-1a2b.css", "text/css; charset=utf-8", "public, max-age=31536000, immutable"),
    ] {
        let answer = scene.get(path, &[]).await;
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!((header(&answer, "content-type"), header(&answer, "cache-control")), (kind, caching));
        let policy = header(&answer, "content-security-policy");
        for part in ["default-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "object-src 'none'"] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(header(&answer, "x-content-type-options"), "nosniff");
        assert_eq!(header(&answer, "referrer-policy"), "no-referrer");
    }
    let api = scene.get("/healthz", &[]).await;
    assert!(header(&api, "content-security-policy").starts_with("default-src 'none'"));
}

#[tokio::test]
async fn a_client_that_accepts_gzip_gets_the_compressed_file() {
    let scene = Scene::of(Console::Embedded(FILES)).await;
    for (accepted, expected) in [
        ("gzip, deflate, br", "compressed"),
        ("GZIP;q=0.5", "compressed"),
        ("gzip;q=0", "let a = 1;"),
        ("br", "let a = 1;"),
    ] {
        let answer = scene.get("/assets/app-1a2b.js", &[("accept-encoding", accepted)]).await;
        let encoding = if expected == "compressed" { "gzip" } else { "" };
        assert_eq!(header(&answer, "content-encoding"), encoding, "{accepted}");
        assert_eq!(header(&answer, "vary"), "accept-encoding");
        assert_eq!(text(answer).await, expected, "{accepted}");
    }
    let plain = scene.get("/assets/app-1a2b.css", &[("accept-encoding", "gzip")]).await;
    assert_eq!(header(&plain, "content-encoding"), "");
    assert_eq!(text(plain).await, "a {}");
}

#[tokio::test]
async fn a_known_page_is_not_sent_again() {
    let scene = Scene::of(Console::Embedded(FILES)).await;
    let first = scene.get("/", &[]).await;
    let tag = header(&first, "etag").to_owned();
    let again = scene.get("/", &[("if-none-match", &tag), ("accept-encoding", "gzip")]).await;
    assert_eq!((again.status().as_u16(), header(&again, "etag")), (304, tag.as_str()));
    assert_eq!(text(again).await, "");
    assert_eq!(scene.get("/", &[("if-none-match", "W/\"0\"")]).await.status(), 200);
}

#[tokio::test]
async fn without_a_console_the_page_says_how_to_build_it() {
    let scene = Scene::of(Console::default()).await;
    let (status, page) = scene.text("/").await;
    assert!(status == 200 && page.contains("npm run build"), "{page}");
    for inline in ["style", "<script", " on"] {
        assert!(
            !page.contains(&format!("{inline}=")) && !page.contains("<style"),
            "the policy forbids {inline}"
        );
    }
    for path in ["/favicon.svg", "/assets/app.js"] {
        let (status, problem) = scene.text(path).await;
        assert!(status == 404 && problem.contains("no_such_file"), "{path}: {problem}");
    }
}

#[tokio::test]
async fn a_folder_is_served_as_it_is_now() {
    let folder = tempfile::tempdir().unwrap();
    let scene = Scene::of(Console::Folder(folder.path().join("dist"))).await;
    assert!(scene.text("/").await.1.contains("npm run build"), "there is no folder yet");
    fs::create_dir_all(folder.path().join("dist/assets")).unwrap();
    fs::write(folder.path().join("dist/index.html"), "one").unwrap();
    assert_eq!(scene.text("/").await, (200, "one".to_owned()));
    fs::write(folder.path().join("dist/index.html"), "two").unwrap();
    fs::write(folder.path().join("dist/assets/a.js"), "three").unwrap();
    fs::write(folder.path().join("dist/assets/a.js.gz"), "four").unwrap();
    assert_eq!(scene.text("/").await, (200, "two".to_owned()));
    assert_eq!(scene.text("/assets/a.js").await, (200, "three".to_owned()));
    let gzipped = scene.get("/assets/a.js", &[("accept-encoding", "gzip")]).await;
    assert_eq!(header(&gzipped, "content-encoding"), "gzip");
    assert_eq!(text(gzipped).await, "four");
}

#[tokio::test]
async fn no_path_leaves_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let dist = folder.path().join("dist");
    fs::create_dir_all(dist.join("assets/deep")).unwrap();
    for (path, text) in [("secret.txt", "secret"), ("dist/.env", "secret"), ("dist/assets/.env", "secret")] {
        fs::write(folder.path().join(path), text).unwrap();
    }
    fs::write(dist.join("assets/deep/a.js"), "secret").unwrap();
    std::os::unix::fs::symlink(folder.path().join("secret.txt"), dist.join("assets/link.txt")).unwrap();
    let scene = Scene::of(Console::Folder(dist.clone())).await;
    for name in [
        "..",
        ".",
        ".env",
        "link.txt",
        "deep",
        "%2e%2e",
        "..%2f..%2fsecret.txt",
        "..%2Fsecret.txt",
        "..%5csecret.txt",
        "%2e%2e%2fsecret.txt",
        "deep%2fa.js",
        "%2fetc%2fpasswd",
        "a%00.js",
        "../secret.txt",
        "../../secret.txt",
        "deep/a.js",
        "%c0%ae%c0%ae",
        "....%2f%2fsecret.txt",
        &"a".repeat(200),
    ] {
        let answer = scene.get(&format!("/assets/{name}"), &[]).await;
        let status = answer.status().as_u16();
        assert!(matches!(status, 400 | 401 | 404), "{name}: {status}");
        assert!(text(answer).await != "secret", "{name}");
    }
    assert_eq!(fs::read_to_string(dist.join("assets/link.txt")).unwrap(), "secret", "the link itself works");
}

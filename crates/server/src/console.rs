//! The console: the page and its scripts, embedded in the binary or read from a folder.
//!
//! These routes need no token, because the files hold no data: the page asks for a token and sends it with every request
//! to the API. Their content security policy allows only files of this server and no inline script. File names are
//! compared with a list or must be plain names, so that no path leaves the folder.

use std::io;
use std::path::{Path, PathBuf};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{self, HeaderMap};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use punctual_wire::rest::{Code, Problem};
use sha2::{Digest, Sha256};
use tracing::error;

use crate::Endpoints;
use crate::limits::CONSOLE_FILE_BYTES_MAX;
use crate::rest::problem::{Failed, internal};
use crate::rest::request::FileAt;

/// Browsers load files of this server only, run no inline script, and do not show the page in a frame.
pub(crate) const CONTENT_POLICY: &str =
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The name of an asset contains a hash of its contents, so an asset never changes.
const FOREVER: &str = "public, max-age=31536000, immutable";
/// A browser may keep the file, but must ask whether it has changed.
const ASK_FIRST: &str = "no-cache";
const INDEX: &str = "index.html";
const ICON: &str = "favicon.svg";
const NAME_BYTES_MAX: usize = 128;

/// The page of a binary without a console. It has no style, because the policy forbids inline styles.
const NOT_BUILT: &str = include_str!("console/not_built.html");

/// A file in the binary: its path, its contents, and its contents compressed by gzip.
pub(crate) type File = (&'static str, &'static [u8], Option<&'static [u8]>);

/// Where the files of the console come from.
#[derive(Debug, Clone)]
pub enum Console {
    /// Files in the binary. An empty list means that the console was not built.
    Embedded(&'static [File]),
    /// A folder, read at every request: for work on the console.
    Folder(PathBuf),
}

impl Default for Console {
    fn default() -> Console {
        Console::Embedded(&[])
    }
}

/// The contents of a file, as they are sent.
#[derive(Debug)]
struct Content {
    bytes: Bytes,
    is_gzipped: bool,
    /// A hash of the file before compression.
    tag: String,
}

pub(crate) async fn index(
    State(endpoints): State<Endpoints>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let index = match endpoints.console.read(INDEX, &headers).await? {
        Some(index) => index,
        None => Content::plain(NOT_BUILT.as_bytes().into()),
    };
    Ok(index.answer(INDEX, ASK_FIRST, &headers))
}

pub(crate) async fn icon(State(endpoints): State<Endpoints>, headers: HeaderMap) -> Result<Response, Failed> {
    let icon = endpoints.console.read(ICON, &headers).await?;
    icon.map(|icon| icon.answer(ICON, ASK_FIRST, &headers)).ok_or_else(|| no_such_file(ICON))
}

pub(crate) async fn asset(
    State(endpoints): State<Endpoints>,
    FileAt(name): FileAt,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    if !is_plain(&name) {
        return Err(no_such_file(&name));
    }
    let asset = endpoints.console.read(&format!("assets/{name}"), &headers).await?;
    asset.map(|asset| asset.answer(&name, FOREVER, &headers)).ok_or_else(|| no_such_file(&name))
}

/// Whether a name names a file in its own folder: no separator, no `..`, no hidden file.
fn is_plain(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !name.starts_with('.') && (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

fn no_such_file(name: &str) -> Failed {
    let name: String = name.chars().take(NAME_BYTES_MAX).collect();
    Failed(Problem::new(Code::NoSuchFile, format!("the console has no file `{name}`; load `/` again")))
}

impl Console {
    /// A file by its path, compressed if the client accepts that. `None` means that there is no such file.
    async fn read(&self, path: &str, headers: &HeaderMap) -> Result<Option<Content>, Failed> {
        let gzip = accepts_gzip(headers);
        match self {
            Console::Embedded(files) => {
                let file = files.iter().find(|(name, ..)| *name == path);
                Ok(file.map(|(_, plain, gzipped)| Content::embedded(plain, gzipped.filter(|_| gzip))))
            }
            Console::Folder(folder) => from_folder(folder, path, gzip).await.map_err(|error| {
                error!(path, %error, "a file of the console cannot be read");
                Failed(internal())
            }),
        }
    }
}

async fn from_folder(folder: &Path, path: &str, gzip: bool) -> io::Result<Option<Content>> {
    let Some(plain) = read_file(folder, path).await? else { return Ok(None) };
    let content = Content::plain(plain);
    let gzipped = if gzip { read_file(folder, &format!("{path}.gz")).await? } else { None };
    Ok(Some(match gzipped {
        Some(bytes) => Content { bytes, is_gzipped: true, ..content },
        None => content,
    }))
}

/// Reads a file inside the folder; a link that leads outside counts as absent.
async fn read_file(folder: &Path, path: &str) -> io::Result<Option<Bytes>> {
    let found = |result: io::Result<PathBuf>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    };
    let Some(folder) = found(tokio::fs::canonicalize(folder).await)? else { return Ok(None) };
    let Some(file) = found(tokio::fs::canonicalize(folder.join(path)).await)? else { return Ok(None) };
    let about = tokio::fs::metadata(&file).await?;
    if !file.starts_with(&folder) || !about.is_file() || about.len() > CONSOLE_FILE_BYTES_MAX {
        return Ok(None);
    }
    tokio::fs::read(&file).await.map(|bytes| Some(bytes.into()))
}

/// Whether `Accept-Encoding` lists gzip, and not with the weight 0.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_none_or(|weight: f32| weight > 0.0)
    })
}

impl Content {
    fn plain(bytes: Bytes) -> Content {
        let tag = tag(&bytes);
        Content { bytes, is_gzipped: false, tag }
    }

    fn embedded(plain: &'static [u8], gzipped: Option<&'static [u8]>) -> Content {
        let bytes = Bytes::from_static(gzipped.unwrap_or(plain));
        Content { bytes, is_gzipped: gzipped.is_some(), tag: tag(plain) }
    }

    fn answer(self, name: &str, caching: &'static str, headers: &HeaderMap) -> Response {
        let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let is_known = known.flat_map(|value| value.split(',')).any(|tag| tag.trim() == self.tag);
        let mut response =
            if is_known { StatusCode::NOT_MODIFIED.into_response() } else { self.bytes.into_response() };
        let mut set = |name: HeaderName, value: &'static str| {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        };
        set(header::CONTENT_SECURITY_POLICY, CONTENT_POLICY);
        set(header::CACHE_CONTROL, caching);
        set(header::VARY, "accept-encoding");
        set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
        set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
        if !is_known {
            set(header::CONTENT_TYPE, media_type(name));
        }
        if self.is_gzipped && !is_known {
            set(header::CONTENT_ENCODING, "gzip");
        }
        if let Ok(tag) = HeaderValue::from_str(&self.tag) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}

/// A weak tag: the same for a file and its compressed form.
fn tag(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    let hex: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("W/\"{hex}\"")
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json" | "map") => "application/json",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests;

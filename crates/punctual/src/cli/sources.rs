//! The inputs of a command: files, folders, stdin.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use punctual_wire::tree;

use super::failure::{Exit, Failure};

/// The named files, with folders expanded.
pub(super) fn sources<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            sources.push(Source::Stdin);
        } else if path.is_dir() {
            sources.extend(folder(path).map_err(|error| unreadable(path, &error))?);
        } else {
            sources.push(Source::File(path.clone()));
        }
    }
    Ok(sources)
}

pub(super) enum Source {
    Stdin,
    File(PathBuf),
}

impl Source {
    pub(super) fn text(&self) -> Result<String, Failure> {
        let mut bytes = Vec::new();
        // Read one byte more than allowed, to notice a file that is too long.
        let max = u64::try_from(tree::FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
        match self {
            Source::Stdin => io::stdin().lock().take(max).read_to_end(&mut bytes).map_err(Failure::io)?,
            Source::File(path) => fs::File::open(path)
                .and_then(|file| file.take(max).read_to_end(&mut bytes))
                .map_err(|error| unreadable(path, &error))?,
        };
        String::from_utf8(bytes)
            .map_err(|_| Failure::new(Exit::Refused, format!("{self}: this is not UTF-8 text")))
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Stdin => f.write_str("stdin"),
            Source::File(path) => path.display().fmt(f),
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("{}: {error}", path.display()))
}

/// The YAML and JSON files of a folder, by name.
fn folder(path: &Path) -> io::Result<Vec<Source>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        let is_ours = file.extension().is_some_and(|kind| kind == "yaml" || kind == "yml" || kind == "json");
        if is_ours && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files.into_iter().map(Source::File).collect())
}

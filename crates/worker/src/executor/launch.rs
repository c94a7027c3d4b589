//! Starts a program: finds its file, folder and environment.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use punctual_core::attempt::Assignment;
use punctual_core::task::Process;
use rustix::io::Errno;

use super::Host;
use super::group::MARK;
use super::program::{Bare, Guarded, Program};
use super::reports::Folder;
use crate::guardian::{NotStarted, Wanted};

/// The variables a program inherits from our environment. The rest may contain secrets of the server.
const INHERITED: [&str; 6] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER"];
const INHERITED_PREFIX: &[u8] = b"LC_";
/// The default `PATH`.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";
/// Longer parameters are passed on standard input only: Linux limits a variable to 128 KiB, and few programs expect
/// that much.
const PARAMS_VARIABLE_BYTES_MAX: usize = 32 * 1024;

/// Starts the program, under a guardian if the host has one. The error is written for the job's author.
pub(super) async fn launch(
    process: &Process,
    assignment: &Assignment,
    folder: &Folder,
    host: &Host,
) -> Result<Program, String> {
    let name = process.command.first().ok_or("the command is empty")?;
    let mark = host.groups.mark(assignment.run, assignment.token);
    let environment = environment(process, assignment, folder, &mark);
    let path = environment.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value);
    let program = find(name, process.dir.as_deref(), path);
    let program = program.ok_or_else(|| format!("no such program `{name}`"))?;
    let wanted = Wanted {
        program: program.as_os_str(),
        arguments: &process.command,
        environment: &environment,
        dir: process.dir.as_deref(),
        input: assignment.params.0.as_bytes(),
    };
    let groups = &host.groups;
    let started = match &host.guardian {
        Some(guardian) => Guarded::start(guardian, &wanted, groups, mark).await.map(Program::Guarded),
        None => Bare::start(&wanted, groups, mark).map(Program::Bare).map_err(NotStarted::Command),
    };
    started.map_err(|error| match error {
        NotStarted::Command(error) => explain(&error, process, name, &program),
        NotStarted::Guardian(error) => format!("the guardian of `{name}` could not be started: {error}"),
    })
}

/// Later entries win: a job may override inherited variables, but not the `PUNCTUAL_` ones.
fn environment(
    process: &Process,
    assignment: &Assignment,
    folder: &Folder,
    mark: &str,
) -> Vec<(OsString, OsString)> {
    let inherited = std::env::vars_os().filter(|(name, _)| is_inherited(name));
    let given = process.env.iter().map(|(name, value)| (name.into(), value.into()));
    let mut environment: Vec<(OsString, OsString)> = inherited.chain(given).collect();
    environment.push(("PUNCTUAL_REPORT".into(), folder.reports().into()));
    if assignment.checkpoint.is_some() {
        environment.push(("PUNCTUAL_CHECKPOINT".into(), folder.checkpoint().into()));
    }
    let mut say = |name: &str, value: String| environment.push((name.into(), value.into()));
    say("PUNCTUAL_RUN_ID", assignment.run.to_string());
    say("PUNCTUAL_ATTEMPT", assignment.attempt.to_string());
    say("PUNCTUAL_ATTEMPT_TOKEN", assignment.token.to_string());
    if let Some(key) = &assignment.attempt_key {
        say("PUNCTUAL_ATTEMPT_KEY", key.to_string());
    }
    say("PUNCTUAL_DUE", assignment.due.to_string());
    say("PUNCTUAL_NAMESPACE", assignment.namespace.to_string());
    if let Some(job) = &assignment.job {
        say("PUNCTUAL_JOB", job.to_string());
    }
    say("PUNCTUAL_SHARD_INDEX", assignment.part.index.to_string());
    say("PUNCTUAL_SHARD_TOTAL", assignment.part.total.to_string());
    if assignment.params.0.len() <= PARAMS_VARIABLE_BYTES_MAX {
        say("PUNCTUAL_PARAMS", assignment.params.0.to_string());
    }
    say(MARK, mark.to_owned());
    environment
}

fn is_inherited(name: &std::ffi::OsStr) -> bool {
    INHERITED.iter().any(|inherited| name == *inherited)
        || name.as_encoded_bytes().starts_with(INHERITED_PREFIX)
}

/// Finds the file of a program. A name with a slash is a path, relative to the job's folder if it has one; any other
/// name is searched in `PATH`.
fn find(name: &str, dir: Option<&str>, path: Option<&OsString>) -> Option<PathBuf> {
    if name.contains('/') {
        let file = dir.map_or_else(|| PathBuf::from(name), |dir| Path::new(dir).join(name));
        // Make the path independent of the folder that the program is started in.
        return std::path::absolute(file).ok();
    }
    let default = OsString::from(PATH_DEFAULT);
    std::env::split_paths(path.unwrap_or(&default))
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

fn explain(error: &io::Error, process: &Process, name: &str, program: &Path) -> String {
    let missing_dir = process.dir.as_deref().filter(|dir| !Path::new(dir).is_dir());
    match (missing_dir, error.kind()) {
        (Some(dir), _) => format!("no such folder `{dir}`"),
        (None, io::ErrorKind::NotFound) if program.exists() => {
            format!("cannot start `{name}`: the interpreter that it names is missing")
        }
        (None, io::ErrorKind::NotFound) => format!("no such program `{name}`"),
        (None, io::ErrorKind::PermissionDenied) => format!("`{name}` may not be executed"),
        _ if error.raw_os_error() == Some(Errno::TOOBIG.raw_os_error()) => {
            format!("cannot start `{name}`: its arguments and its environment are too long together")
        }
        _ => format!("cannot start `{name}`: {error}"),
    }
}

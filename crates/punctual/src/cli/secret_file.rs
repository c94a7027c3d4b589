//! Reads a secret from a file: one line, readable by its owner only.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::failure::{Exit, Failure};

/// The permission bits that are refused: only the owner may read and write.
const TOO_OPEN: u32 = 0o777 & !0o600;
/// Bytes read; no secret is longer.
const BYTES_MAX: u64 = 4096;

pub(super) fn read(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let cannot = |error: std::io::Error| Failure::new(Exit::Usage, format!("{shown}: {error}"));
    let mut file = File::open(path).map_err(cannot)?;
    // Check the open file, because the path may point to another file a moment later.
    let mode = file.metadata().map_err(cannot)?.permissions().mode() & 0o777;
    if mode & TOO_OPEN != 0 {
        let message = format!("{shown}: others may read this secret (mode {mode:o})");
        return Err(Failure::new(Exit::Usage, message).hint(format!("`chmod 600 {shown}`")));
    }
    let mut text = String::new();
    file.by_ref().take(BYTES_MAX).read_to_string(&mut text).map_err(cannot)?;
    let secret = text.trim();
    if secret.is_empty() || secret.contains(char::is_whitespace) {
        return Err(Failure::new(Exit::Usage, format!("{shown}: one line with the secret is needed")));
    }
    Ok(secret.to_owned())
}

/// A file that anyone may read.
pub(super) fn read_public(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    #[test]
    fn a_secret_that_others_may_read_is_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, "pct_1\n").unwrap();
        for (mode, fine) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o700, false)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(&path).is_ok(), fine, "{mode:o}");
        }
    }

    #[test]
    fn a_secret_is_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        for (text, secret) in
            [("pct_1", Some("pct_1")), (" pct_1 \n", Some("pct_1")), ("", None), ("a\nb\n", None)]
        {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            assert_eq!(read(&path).ok().as_deref(), secret, "{text:?}");
        }
    }
}

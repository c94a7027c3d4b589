//! Reads secrets from files that only their owner may read.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tokio::io::AsyncReadExt;

/// The permission bits that are refused: only the owner may read and write.
const TOO_OPEN: u32 = 0o777 & !0o600;
/// Bytes read; no secret is longer.
const BYTES_MAX: u64 = 4096;

/// The lines of a file, without empty ones.
pub(super) async fn lines(path: &Path) -> Result<Vec<String>, String> {
    let shown = path.display();
    let cannot = |error: std::io::Error| format!("cannot read {shown}: {error}");
    let mut file = tokio::fs::File::open(path).await.map_err(cannot)?;
    // Check the open file, because the path may point to another file a moment later.
    let mode = file.metadata().await.map_err(cannot)?.permissions().mode() & 0o777;
    if mode & TOO_OPEN != 0 {
        return Err(format!(
            "others may read the secret in {shown} (mode {mode:o}); run `chmod 600 {shown}`"
        ));
    }
    let mut text = String::new();
    (&mut file).take(BYTES_MAX).read_to_string(&mut text).await.map_err(cannot)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    if lines.is_empty() { Err(format!("{shown} is empty")) } else { Ok(lines) }
}

/// The only line of a file.
pub(super) async fn one(path: &Path) -> Result<String, String> {
    let mut lines = lines(path).await?;
    match lines.pop() {
        Some(line) if lines.is_empty() => Ok(line),
        _ => Err(format!("{} has more than one line", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[tokio::test]
    async fn a_secret_that_others_may_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, "one\n\n two words\r\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(lines(&path).await.unwrap_err().contains("chmod 600"));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(lines(&path).await.unwrap(), ["one", "two words"]);
        assert!(one(&path).await.is_err());
        fs::write(&path, "").unwrap();
        assert!(lines(&path).await.is_err());
    }
}

//! An authority of our own, and a certificate for this machine that it signed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30";

#[derive(Debug)]
pub struct Authority {
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    /// Made by `openssl`, in files of this folder that begin with the name.
    #[track_caller]
    pub fn make(folder: &Path, name: &str) -> Authority {
        let openssl = |words: String| {
            let mut command = Command::new("openssl");
            command.args(words.split(' ')).current_dir(folder);
            let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            let status = status.expect("openssl is installed: scripts/install-deps test");
            assert!(status.success(), "openssl {words}");
        };
        openssl(format!("req -x509 {NEW_KEY} -subj /CN={name} -keyout {name}-ca.key -out {name}-ca.pem"));
        openssl(format!(
            "req -x509 {NEW_KEY} -subj /CN=localhost -CA {name}-ca.pem -CAkey {name}-ca.key -keyout {name}.key \
             -out {name}.pem -addext subjectAltName=IP:127.0.0.1,DNS:localhost \
             -addext basicConstraints=critical,CA:FALSE"
        ));
        let file = |end: &str| folder.join(format!("{name}{end}"));
        Authority { ca: file("-ca.pem"), cert: file(".pem"), key: file(".key") }
    }
}

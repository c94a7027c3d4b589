//! A disk that is soon full: a small tmpfs.

use std::fs;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Takes root.
    #[track_caller]
    pub fn mount(path: PathBuf, mebibytes: u32) -> SmallDisk {
        fs::create_dir_all(&path).expect("a folder of the scene can be made");
        let size = format!("size={mebibytes}m");
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", &size, "punctual-tests"]).arg(&path).output();
        let mounted = mounted.expect("mount is installed: scripts/install-deps test");
        let why = String::from_utf8_lossy(&mounted.stderr);
        assert!(mounted.status.success(), "to mount a tmpfs takes root: run the tests as root: {why}");
        SmallDisk { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes all the room that is left.
    pub fn fill(&self) {
        let mut ballast = File::create(self.ballast()).expect("a file can be made on the disk");
        for size in [1 << 16, 1 << 12, 1] {
            let chunk = vec![0; size];
            loop {
                match ballast.write(&chunk) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                    Err(error) => panic!("the disk cannot be filled: {error}"),
                }
            }
        }
    }

    /// Gives it back.
    pub fn clear(&self) {
        fs::remove_file(self.ballast()).expect("the ballast can be removed");
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that still has a file open must not keep the mount for ever.
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

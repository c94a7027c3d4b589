//! Lists the files of the built console, `web/dist`, for `include_bytes!`. It never runs npm.
//!
//! Without a built console the list is empty and the build succeeds, unless `PUNCTUAL_REQUIRE_UI=1` is set.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The folder of the built console, from this crate.
const DIST: &str = "../../web/dist";
/// The folder below it with the files whose names contain a hash.
const ASSETS: &str = "assets";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PUNCTUAL_REQUIRE_UI");
    let dist = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join(DIST);
    // Cargo would run this script at every build if the folder did not exist.
    if dist.is_dir() || fs::create_dir_all(&dist).is_ok() {
        println!("cargo::rerun-if-changed={DIST}");
    }
    let files = if dist.join("index.html").is_file() { files(&dist)? } else { Vec::new() };
    let required = env::var("PUNCTUAL_REQUIRE_UI").is_ok_and(|value| !matches!(value.as_str(), "" | "0"));
    if files.is_empty() && required {
        return Err("PUNCTUAL_REQUIRE_UI is set and web/dist has no index.html: build the console first, \
                    with `npm ci --ignore-scripts` and `npm run build` in web/"
            .into());
    }
    if files.is_empty() {
        println!(
            "cargo::warning=the console is not built, so the binary serves a page that says how to build it"
        );
    } else {
        println!("cargo::rustc-env=PUNCTUAL_UI={:016x}", hash(&dist, &files)?);
    }
    fs::write(Path::new(&env::var("OUT_DIR")?).join("files.rs"), list(&dist, &files)?)?;
    Ok(())
}

/// The files to serve, as paths below `dist`, sorted.
fn files(dist: &Path) -> io::Result<Vec<String>> {
    let mut files = names(dist)?;
    if dist.join(ASSETS).is_dir() {
        files.extend(names(&dist.join(ASSETS))?.into_iter().map(|name| format!("{ASSETS}/{name}")));
    }
    files.retain(|file| !file.ends_with(".gz"));
    files.sort();
    Ok(files)
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// The list as a Rust expression.
fn list(dist: &Path, files: &[String]) -> Result<String, Box<dyn std::error::Error>> {
    let mut list = String::from("&[\n");
    for file in files {
        let (path, gzipped) = (dist.join(file), dist.join(format!("{file}.gz")));
        let included = |path: PathBuf| format!("include_bytes!({path:?})");
        let gzipped =
            if gzipped.is_file() { format!("Some({})", included(gzipped)) } else { "None".to_owned() };
        writeln!(list, "({file:?}, {}, {gzipped}),", included(path))?;
    }
    list.push(']');
    Ok(list)
}

/// FNV-1a over all names and contents: it names a build, and is no protection.
fn hash(dist: &Path, files: &[String]) -> io::Result<u64> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        for byte in file.bytes().chain(fs::read(dist.join(file))?) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(hash)
}

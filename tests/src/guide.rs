//! Guides, followed exactly: their blocks, and a shell to type them into.

use std::path::Path;
use std::process::Command;

use crate::{Node, binary};

/// A fenced block of a guide.
#[derive(Debug)]
pub struct Block {
    /// The number of its first line.
    pub line: usize,
    pub language: String,
    pub text: String,
}

pub fn blocks(guide: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_inside = false;
    for (index, line) in guide.lines().enumerate() {
        match (line.strip_prefix("```"), blocks.last_mut()) {
            (Some(language), _) if !is_inside => {
                blocks.push(Block { line: index + 2, language: language.to_owned(), text: String::new() });
                is_inside = true;
            }
            (Some(_), _) => is_inside = false,
            (None, Some(block)) if is_inside => block.text.push_str(&format!("{line}\n")),
            (None, _) => {}
        }
    }
    blocks
}

/// A shell in a folder that runs one command as a person types it: it finds the binary under test and knows the node.
pub fn shell(typed: &str, folder: &Path, node: &Node) -> Command {
    let binaries = binary::path().parent().expect("a binary lies in a folder");
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(format!("{{ {typed}\n}} 2>&1")).current_dir(folder);
    shell.env("PATH", path).env("PUNCTUAL_SERVER", node.api().address());
    shell
}

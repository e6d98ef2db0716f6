//! Lines of shell that works leave their preparation, checks and removal to, so that the measuring program itself
//! touches no file.

use std::path::Path;
use std::process::Command;

use crate::error::{BenchError, Context};

/// Runs a line of shell on `dir` ($0) and returns what it printed.
pub fn shell(script: &str, dir: &Path) -> Result<String, BenchError> {
    let output = Command::new("/bin/sh").args(["-c", script]).arg(dir).output().context("running a shell")?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(BenchError::Child {
        what: script.to_owned(),
        status: output.status.to_string(),
        words: String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned(),
    })
}

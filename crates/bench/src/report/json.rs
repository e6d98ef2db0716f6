//! Writing a report as JSON.

use crate::error::{BenchError, Context};
use serde::Serialize;
use std::path::Path;

/// Writes a report to a file, in a folder that is made.
pub fn write_json(report: &impl Serialize, file: &Path) -> Result<(), BenchError> {
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir).context("making the directory for the JSON")?;
    }
    let json = serde_json::to_string_pretty(report).context("writing the JSON")?;
    std::fs::write(file, json + "\n").context("writing the JSON")
}

//! fio's `psync` engine on the same patterns, as a cross-check of our own loops.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::BenchError;
use crate::peers::peer::Peer;
use crate::processes::child;
use crate::workload::writes::pages::PageWork;
use crate::works::program::Program;
use crate::works::work::Work;

const LIMIT: Duration = Duration::from_secs(120);

/// Where fio is, if it is installed.
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join("fio")).find(|candidate| candidate.is_file())
}

/// Operations per second of fio on the pattern of `work`; `None` if it has no such pattern.
pub fn rate(fio: &Path, peer: &dyn Peer, work: &Work, time: Duration) -> Option<Result<f64, BenchError>> {
    let (pattern, size, file_bytes) = match work.program {
        Program::Append(append) => ("write", append.size, append.bytes_max),
        Program::Pages(pages) => match pages.work {
            PageWork::Read => ("randread", pages.size, pages.file_bytes),
            PageWork::OverwriteAndSync => ("randwrite", pages.size, pages.file_bytes),
            PageWork::Overwrite => return None,
        },
        _ => return None,
    };
    // fio makes the file itself, but not the directory, and removes neither: a file in the peer's root.
    let file = peer.dir(&format!("fio-{}", work.name));
    let mut command = peer.command(fio);
    command
        .args([
            "--invalidate=0",
            "--ioengine=psync",
            "--thread",
            "--output-format=json",
            "--fallocate=none",
            "--unlink=1",
        ])
        .arg(format!("--name={}", work.name))
        .arg(format!("--filename={}", file.display()))
        .arg(format!("--rw={pattern}"))
        .arg(format!("--bs={size}"))
        .arg(format!("--size={file_bytes}"))
        .arg(format!("--runtime={}ms", time.as_millis()));
    // Our own reads are hot; fio drops the page cache unless it is told to read ahead of time.
    command.arg(if pattern == "randread" { "--pre_read=1" } else { "--fsync=1" });
    if pattern != "write" {
        command.arg("--time_based");
    }
    Some(child::run(&mut command, "fio", LIMIT).and_then(|output| rate_of(&output, pattern)))
}

fn rate_of(output: &str, pattern: &str) -> Result<f64, BenchError> {
    let direction = if pattern == "randread" { "read" } else { "write" };
    // fio may print notes before the JSON.
    let json = output.find('{').map_or(output, |start| &output[start..]);
    serde_json::from_str::<serde_json::Value>(json)
        .ok()
        .and_then(|report| report["jobs"][0][direction]["iops"].as_f64())
        .ok_or_else(|| BenchError::Unusable("fio said something we do not understand".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_the_right_direction_is_found() {
        let output = r#"note: x
            {"jobs": [{"read": {"iops": 1.5}, "write": {"iops": 2.5}}]}"#;
        assert_eq!(rate_of(output, "randread").unwrap(), 1.5);
        assert_eq!(rate_of(output, "write").unwrap(), 2.5);
        assert!(rate_of("nonsense", "write").is_err());
    }
}

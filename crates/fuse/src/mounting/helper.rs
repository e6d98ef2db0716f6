//! Taking a mount away by the helper, which may do so for users who are not root.

use super::error::{HELPER, MountError};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) fn unmount_by_helper(at: &Path, lazy: bool) -> Result<(), MountError> {
    let mut command = Command::new(HELPER);
    command.arg(if lazy { "-uz" } else { "-u" }).arg("--").arg(at).stdin(Stdio::null());
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => MountError::NoHelper,
        _ => MountError::Helper(error.to_string()),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("busy") {
        return Err(MountError::InUse);
    }
    Err(MountError::Helper(said.lines().next().unwrap_or("it failed").to_owned()))
}

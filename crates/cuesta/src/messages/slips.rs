//! What people mean who give a store where it is not taken: most commands take it as their argument, those that take
//! something else besides by `--store`.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// One line about the slip, if the parser's error is one.
pub fn explained(error: &clap::Error, command: &str) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(unexpected)) = error.get(ContextKind::InvalidArg) else { return None };
    match (command, unexpected.as_str()) {
        ("mkfs" | "mount" | "serve" | "stop" | "status" | "quota" | "fsck" | "trace", "--store") => {
            Some(format!("{command} takes the store as it is, without --store: cuesta {command} STORE"))
        }
        ("explain", path) if !path.starts_with('-') => {
            Some(format!("{path}: explain takes one path; the store is named by --store or CUESTA_STORE"))
        }
        _ => None,
    }
}

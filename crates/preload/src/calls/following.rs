//! Calls on paths that a link of the kernel's leads into the store.

use crate::call::{Answer, Call, Failure};
use crate::calls::paths::links::{NOTHING_FOUND, behind_link, paths_of};
use std::ffi::CString;

/// A call on paths of the kernel's that it has answered with ENOENT: the answer it has in the store, or that one.
pub fn look_again(call: &Call) -> Answer {
    match in_store(call) {
        None | Some(Err(Failure::NotOurs)) => NOTHING_FOUND,
        Some(answer) => answer,
    }
}

/// A call that the kernel would answer with what it has where the store is: the answer it has in the store.
#[cold]
pub fn look_first(call: &Call) -> Answer {
    in_store(call).unwrap_or_else(|| crate::calls::serve(call.number, call.arguments))
}

/// The answer of a call if a link leads at least one of its paths into the store.
fn in_store(call: &Call) -> Option<Answer> {
    let mut arguments = call.arguments;
    // The kernel reads them in the call.
    let mut paths: [Option<CString>; 2] = [None, None];
    for (named, kept) in paths_of(call).into_iter().flatten().zip(&mut paths) {
        if let Some(found) = behind_link(call, named) {
            arguments[named.1] = kept.insert(found).as_ptr() as usize;
            if let Some(directory) = named.0 {
                arguments[directory] = libc::AT_FDCWD as usize;
            }
        }
    }
    paths.iter().any(Option::is_some).then(|| crate::calls::serve(call.number, arguments))
}

//! What to do about what `cuesta doctor` found, in plain words.

use super::report::Report;
use crate::messages::system_calls;
use cuesta_format::account::{CountedCall, CountedProgram, Outcome};
use libc::c_long;

/// Calls a program has another way for, and takes it when it is refused.
const REFUSED_ON_PURPOSE: c_long = libc::SYS_io_uring_setup;

/// One line: whether all is well, and what to do if not.
pub fn verdict(report: &Report) -> String {
    let missed: Vec<&CountedCall> = report
        .of(Outcome::Unserved)
        .filter(|call| c_long::from(call.kind.number) != REFUSED_ON_PURPOSE)
        .collect();
    let refused = report.programs.iter().find(|program| program.refused != 0);
    let unwatched = report.unwatched().next();
    let of_store = report.total(Outcome::Served) + report.total(Outcome::Failed);
    if let Some(program) = refused {
        return format!(
            "{} was refused, because it would have had something of the store and does not see it ({}); use a \
             dynamically linked program, or keep it off the store.",
            name(program),
            why_unwatched(program),
        );
    }
    if let Some(most) = missed.first() {
        let count: u64 = missed.iter().map(|call| call.count).sum();
        let calls = if count == 1 { "call about the store is" } else { "calls about the store are" };
        let often = if missed.len() == 1 { "" } else { " most often" };
        let call = c_long::from(most.kind.number);
        return format!(
            "{count} {calls} not served yet:{often} {}; {}.",
            system_calls::name(most.kind.number),
            instead_of(call)
        );
    }
    if let Some(program) = unwatched.filter(|_| report.store_path.is_mounted) {
        return format!(
            "what could be watched was served; {} could not be ({}), and finds the store by the mount.",
            name(program),
            why_unwatched(program),
        );
    }
    if let Some(program) = unwatched {
        return format!(
            "what could be watched was served, but {} does not see the store ({}); it must get its files elsewhere.",
            name(program),
            why_unwatched(program),
        );
    }
    if of_store == 0 && report.store_path.is_mounted {
        return format!(
            "nothing that could be watched was done on the store: what a program does that the preload library cannot be loaded \
             into goes by the mount at {}.",
            report.store_path.at.display(),
        );
    }
    if of_store == 0 {
        return format!(
            "nothing was done on the store: no path below {} was used, and no descriptor of it. Give the program one, or \
             say with --at where it looks.",
            report.store_path.at.display(),
        );
    }
    if report.total(Outcome::Unserved) != 0 {
        return "everything was served; io_uring is refused on purpose, programs then use ordinary calls."
            .to_owned();
    }
    let failures = match report.total(Outcome::Failed) {
        0 => ", and nothing of it failed",
        _ => "; what failed is listed above",
    };
    let cause = if report.is_success() { "" } else { failures };
    format!("everything it did on the store was served{cause}.")
}

/// Why the library was not in a program.
pub fn why_unwatched(program: &CountedProgram) -> &'static str {
    program.barrier.map_or("the preload library did not start in it", |barrier| barrier.description())
}

fn name(program: &CountedProgram) -> String {
    String::from_utf8_lossy(&program.path).into_owned()
}

/// The advice for a program that needs a call which is not served.
fn instead_of(number: c_long) -> &'static str {
    match number {
        libc::SYS_mmap => {
            "a program of another user than the store's cannot share mappings; start it as that user"
        }
        libc::SYS_sendmsg | libc::SYS_sendmmsg => {
            "a vfork child cannot send descriptors of the store; let the receiver open the file by its path"
        }
        libc::SYS_inotify_add_watch => "changes cannot be watched; let the program poll",
        libc::SYS_name_to_handle_at => "files have no handles; programs that ask mostly go on without",
        libc::SYS_mount | libc::SYS_chroot | libc::SYS_pivot_root => {
            "the store is no place of the kernel's; mount, chroot and containers need one"
        }
        libc::SYS_io_submit => "this kind of request cannot be had; use ordinary reads and writes",
        _ => {
            "if the program does not work as it should, this is where to look; keep these files outside the store"
        }
    }
}

//! Calls that change a thread's credentials. One by which the process becomes another user is prepared for ([`crate::users::change_of_user`]).

use crate::call::{Answer, Call};
use crate::users::change_of_user;
use crate::users::thread_credentials::CHANGES;
use std::sync::atomic::Ordering;

/// Makes a call that changes credentials.
pub fn change(call: &Call) -> Answer {
    let number = call.number as i64;
    let is_of_user = matches!(number, libc::SYS_setuid | libc::SYS_setreuid | libc::SYS_setresuid);
    let bridge = if is_of_user { change_of_user::before() } else { None };
    let answer = call.kernel(call.arguments);
    CHANGES.fetch_add(1, Ordering::AcqRel);
    if answer == 0 && !matches!(number, libc::SYS_setfsuid | libc::SYS_setfsgid) {
        change_of_user::after(bridge);
    }
    Ok(answer)
}

//! From an intercepted call to its answer: no panic crosses this boundary.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::arch::{self, Frame};
use crate::call::{Call, Failure, errno, filter};
use crate::calls::paths::links;
use crate::door::counting;
use crate::door::proxy::{self, How};
use crate::process;
use crate::thread::{self, sanitizers, signals};

/// Entered by patched sites (see `arch`), with all state saved.
pub(crate) extern "C" fn cuesta_dispatch(frame: *mut Frame) {
    // SAFETY: the entry code passes the frame it has just pushed, alive until this returns.
    run_on_client_stack(unsafe { &mut *frame });
}

/// Serves a call that came by symbol; `None` if it is not ours.
pub fn call(frame: &mut Frame) -> Option<isize> {
    run_on_client_stack(frame);
    frame.answered()
}

#[inline(always)]
fn run_on_client_stack(frame: &mut Frame) {
    let errno = errno::get();
    // SAFETY: this thread's own state.
    if unsafe { (*arch::thread_state()).stack_top } == 0 {
        thread::ensure_stack();
    }
    arch::call_on_stack(run, frame);
    errno::set(errno);
}

extern "C" fn run(frame: &mut Frame) {
    thread::enter();
    sanitizers::begin();
    process::catch_up();
    thread::note_came_by_symbol(frame.comes_again());
    let call = Call { number: frame.number(), arguments: frame.arguments() };
    let found_nothing = frame.found_nothing();
    let serve = || {
        let how = match found_nothing {
            true => How::LookingAgain,
            false if proxy::may_install_filter(&call) => How::InstallingFilter,
            false if links::must_look_first() => How::LookingFirst,
            false => How::Plainly,
        };
        let answer = proxy::serve(&call, how);
        counting::note(frame, &call, answer);
        answer
    };
    match catch_unwind(AssertUnwindSafe(serve)) {
        Ok(Ok(answer)) => frame.answer(answer),
        Ok(Err(Failure::NotOurs)) if filter::is_on_path(call.number) => frame.try_kernel(),
        Ok(Err(Failure::NotOurs)) => {}
        Ok(Err(Failure::Errno(errno) | Failure::Unserved(errno))) => frame.answer(-(errno as isize)),
        Ok(Err(Failure::OverLimit)) => {
            signals::raise(libc::SIGXFSZ);
            frame.answer(-(libc::EFBIG as isize));
        }
        Err(_) => {
            crate::process::report(format_args!(
                "internal error in system call {}; answered EIO",
                frame.number()
            ));
            frame.answer(-(libc::EIO as isize));
        }
    }
    sanitizers::end();
    thread::leave();
}

//! The symbols that the entry code of `entry` defines.

use crate::arch::x86_64::frame::Frame;

unsafe extern "C" {
    fn cuesta_entry();
    fn cuesta_call_on_stack(function: extern "C" fn(&mut Frame), frame: &mut Frame);
    fn cuesta_restorer();
    fn cuesta_filter_load_0();
    fn cuesta_filter_load_1();
    fn cuesta_filter_load_2();
    fn cuesta_filter_load_3();
    fn cuesta_filter_load_4();
    fn cuesta_filter_not_ours();
}

/// Where the stubs jump to.
pub(super) fn entry_address() -> usize {
    cuesta_entry as *const () as usize
}

/// Where a signal handler that this library installed returns to.
pub fn restorer() -> usize {
    cuesta_restorer as *const () as usize
}

/// Where to go on if `address` is one of the filter's reads of an application's path.
pub fn filter_fault(address: usize) -> Option<usize> {
    let loads = [
        cuesta_filter_load_0 as *const () as usize,
        cuesta_filter_load_1 as *const () as usize,
        cuesta_filter_load_2 as *const () as usize,
        cuesta_filter_load_3 as *const () as usize,
        cuesta_filter_load_4 as *const () as usize,
    ];
    loads.contains(&address).then_some(cuesta_filter_not_ours as *const () as usize)
}

/// Runs `function` on this thread's client stack, or on the current one if there is none yet, if it is
/// already in use, or if this is the application's signal stack.
pub fn call_on_stack(function: extern "C" fn(&mut Frame), frame: &mut Frame) {
    // SAFETY: the callee is an ordinary function, and the stack it runs on is either the current one
    // or the thread's own, registered by `thread::ensure_stack` and unused below its top.
    unsafe { cuesta_call_on_stack(function, frame) }
}

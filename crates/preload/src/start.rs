//! The constructor: what every program under `cuesta run` pays for, so nothing is attached here.

use std::os::unix::ffi::OsStrExt as _;

use crate::{arch, filter, patch, process, signals, thread};

const DEFAULT_PREFIX: &str = "/cuesta";

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let _ = std::panic::catch_unwind(|| {
        let Some(socket) = std::env::var_os("CUESTA_SOCKET").filter(|path| !path.is_empty()) else { return };
        let prefix = std::env::var_os("CUESTA_AT").unwrap_or_else(|| DEFAULT_PREFIX.into());
        let Some(prefix) = crate::calls::path::normal(prefix.as_bytes()) else {
            crate::report(format_args!("CUESTA_AT must be an absolute path below the root"));
            return;
        };
        thread::enter();
        begin(socket.as_bytes(), &prefix);
        thread::leave();
    });
}

fn begin(socket: &[u8], prefix: &[u8]) {
    let patching = std::env::var_os("CUESTA_PATCH").unwrap_or_default();
    filter::set_prefix(prefix);
    arch::prepare();
    thread::prepare();
    signals::prepare();
    process::configure(socket, prefix);
    let report = patch::install(process::forked_flag(), patching == "all");
    if report.missed != 0 || patching == "report" {
        crate::report(format_args!("{report:?}"));
    }
}

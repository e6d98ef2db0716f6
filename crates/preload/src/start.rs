//! The constructor: what every program under `cuesta run` pays for, so nothing is attached here.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt as _;

use crate::{filter, inheritance, memory, patch, process, signals, thread};

const DEFAULT_PREFIX: &str = "/cuesta";
/// Variables the programs executed from here get, too.
const KEPT: [&str; 4] = ["LD_PRELOAD", "CUESTA_SOCKET", "CUESTA_AT", "CUESTA_PATCH"];

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    thread::enter();
    let _ = std::panic::catch_unwind(|| {
        let Some(socket) = std::env::var_os("CUESTA_SOCKET").filter(|path| !path.is_empty()) else { return };
        let prefix = std::env::var_os("CUESTA_AT").unwrap_or_else(|| DEFAULT_PREFIX.into());
        let Some(prefix) = crate::calls::path::normal(prefix.as_bytes()) else {
            crate::report(format_args!("CUESTA_AT must be an absolute path below the root"));
            return;
        };
        begin(socket.as_bytes(), &prefix);
    });
    memory::keep_what_is_given();
    thread::leave();
}

fn begin(socket: &[u8], prefix: &[u8]) {
    let patching = std::env::var_os("CUESTA_PATCH").unwrap_or_default();
    filter::set_prefix(prefix);
    thread::prepare();
    signals::prepare();
    let variables = KEPT.iter().filter_map(|name| {
        let mut text = name.as_bytes().to_vec();
        text.push(b'=');
        text.extend_from_slice(std::env::var_os(name)?.as_bytes());
        CString::new(text).ok()
    });
    process::configure(socket, prefix, library_path(), variables.collect());
    process::read_umask();
    inheritance::Table::adopt(std::env::var_os("CUESTA_TABLE"));
    let report = patch::install(process::forked_flag(), patching == "all");
    if report.missed != 0 || patching == "report" {
        crate::report(format_args!("{report:?}"));
    }
}

/// The file this library was loaded from.
fn library_path() -> Vec<u8> {
    // SAFETY: dladdr fills the structure in for an address of this library, with a string that lives as
    // long as it stays loaded.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(START as *const _, &mut info) == 0 || info.dli_fname.is_null() {
            return Vec::new();
        }
        CStr::from_ptr(info.dli_fname).to_bytes().to_vec()
    }
}

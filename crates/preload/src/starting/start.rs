//! The constructor: what every program under `cuesta run` pays for. Nothing is attached here, nothing
//! read that can wait, and the standard library's machinery is left alone: each page it would touch
//! costs a page fault in every program.

use std::ffi::CStr;
use std::mem::ManuallyDrop;

use crate::call::filter;
use crate::door::counting;
use crate::process::inheritance::table;
use crate::starting::environment::Environment;
use crate::starting::link_maps;
use crate::thread::{self, signals};
use crate::{interpose, memory, patch, process};

const DEFAULT_PREFIX: &CStr = c"/cuesta";

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    thread::enter();
    // SAFETY: in the constructor no other thread uses the environment.
    let environment = unsafe { Environment::look() };
    if let Some(socket) = environment.socket {
        let _ = std::panic::catch_unwind(|| begin(socket, &environment));
    }
    memory::keep_given_memory();
    thread::leave();
}

fn begin(socket: &CStr, environment: &Environment) {
    let Some(prefix) =
        crate::calls::paths::prefix::normal(environment.at.unwrap_or(DEFAULT_PREFIX).to_bytes())
    else {
        crate::process::report(format_args!("CUESTA_AT must be an absolute path below the root"));
        return;
    };
    filter::set_prefix(&prefix);
    crate::calls::paths::links::note_place(&prefix);
    thread::prepare();
    signals::prepare();
    process::configure(socket, prefix, environment);
    if let Some(doctor) = environment.doctor {
        counting::start(doctor);
    }
    // The start gives no memory back: each thing less to run is a page less to touch.
    let adopted = ManuallyDrop::new(environment.table.map(table::Table::adopt).unwrap_or_default());
    link_maps::correct(&adopted.libraries, environment.library_path.is_some());
    let patching = environment.patch.unwrap_or_default();
    patch::remember_cache(environment.runtime);
    let cache = patch::CacheOnDemand::new(environment.runtime);
    let program = match adopted.is_without_sites {
        true => patch::Program::IsWithoutSites,
        false => patch::Program::IsToBeSearched,
    };
    let report = patch::install(&cache, program, process::forked_flag(), patching == c"all");
    interpose::look_up();
    counting::note_missed_sites(report.missed + report.missed_elsewhere);
    if report.missed != 0 || patching == c"report" {
        crate::process::report(format_args!("{report:?}"));
    }
}

//! The machine that the figures were measured on. No names, no paths: nothing that tells its owner.

use std::ffi::CStr;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

/// The machine and the software measured.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Model of the CPU.
    pub cpu: String,
    /// CPUs we may use.
    pub cores: usize,
    /// Memory.
    pub memory_mib: u64,
    /// Kernel release.
    pub kernel: String,
    /// The C library.
    pub glibc: String,
    /// The system's SQLite.
    pub sqlite: String,
    /// What `cuesta --version` says.
    pub cuesta: Option<String>,
    /// What `fio --version` says, if it was used.
    pub fio: Option<String>,
}

impl Machine {
    /// Looks around.
    pub fn describe(cuesta: Option<&Path>, fio: Option<&Path>) -> Self {
        let facts = rustix::system::sysinfo();
        // SAFETY: glibc returns a static C string.
        let glibc = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
        Machine {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, |count| count.get()),
            memory_mib: (facts.totalram * u64::from(facts.mem_unit)) >> 20,
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            glibc: glibc.to_string_lossy().into_owned(),
            sqlite: rusqlite::version().to_owned(),
            cuesta: cuesta.and_then(version_of),
            fio: fio.and_then(version_of),
        }
    }
}

/// The value of the first line `name : value` of a file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let (_, value) =
        text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == name)?;
    Some(value.trim().to_owned())
}

fn version_of(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

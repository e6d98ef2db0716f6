//! In which boot of the machine a store was last open.
//!
//! A session's process is known by its number, and numbers start anew with each boot: a process with a number of
//! before is another one. So the store says which boot its sessions are of, in a file beside the others. A daemon
//! that opens it in another boot awaits no session. A file that is missing, or says nothing, leaves it unknown:
//! then the daemon looks for the processes. The session table's head says it, too: no old copy of the file makes
//! processes of this boot look dead.
//!
//! | order | so that |
//! |---|---|
//! | every session of before is ended; the file is taken away; the new one comes under its name, whole | no session of this boot stands in a store that names another |

use super::folders::sync_folder;
use crate::Error;
use cuesta_format::geometry::BOOT_FILE;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Where the kernel tells.
const KERNEL_BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// The length of its name: a UUID as people write it.
const LENGTH: usize = 36;

/// The boot a store says, and this one.
#[derive(Debug)]
pub(crate) struct Boot {
    path: PathBuf,
    said: Option<String>,
    now: Option<String>,
    /// The boot in the session table's head, or 0.
    known: u64,
}

/// A boot's name, as the session table has it: never 0.
fn short(name: &str) -> u64 {
    let digits: String = name.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0).max(1)
}

fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let name = text.trim_end();
    let is_name = name.len() == LENGTH && name.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    is_name.then(|| name.to_owned())
}

impl Boot {
    /// The boot that the store in `tier` names, and its session table, or 0.
    pub(crate) fn of(tier: &Path, known: u64) -> Boot {
        let path = tier.join(BOOT_FILE);
        Boot { said: read(&path), now: read(Path::new(KERNEL_BOOT)), path, known }
    }

    /// Whether no process can live that had the store open.
    pub(crate) fn is_another(&self) -> bool {
        let Some(now) = &self.now else { return false };
        let is_known_as_this = self.known == short(now);
        matches!(&self.said, Some(said) if said != now) && !is_known_as_this
    }

    /// This boot, for the session table.
    pub(crate) fn short_name(&self) -> u64 {
        self.now.as_deref().map_or(0, short)
    }

    /// From now on the store has sessions of this boot. Without room for the file it is unknown which that was.
    pub(crate) fn remember(&self, tier: &Path) -> Result<(), Error> {
        if self.said.is_some() && self.said == self.now {
            return Ok(());
        }
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::io("take away what says the boot of before")(error));
            }
            _ => {}
        }
        let unfinished = self.path.with_extension("new");
        let written = self.now.as_ref().map_or(Ok(()), |now| {
            let mut file = File::create(&unfinished)?;
            writeln!(file, "{now}")?;
            file.sync_all()?;
            std::fs::rename(&unfinished, &self.path)
        });
        if let Err(error) = written {
            tracing::warn!(%error, "which boot this is cannot be noted: after the next, programs of now are looked for");
        }
        sync_folder(tier)
    }
}

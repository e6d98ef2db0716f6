//! How a mount is: options by the words that `/etc/fstab` and mount(8) have for them, the kernel's flags, and what the kernel's list of
//! mounts says. No I/O.
//!
//! The kernel sees to most of them. Three are the door's: when reads move times of last access, as the kernel leaves that to the file
//! system (`S_NOATIME`); that changes of directories are durable when a call returns (`dirsync`, `sync`); and that of writes past its cache
//! (`sync`). The door goes by the list, so a remount takes effect by whatever command it is made.

use cuesta_libfs::{AccessTimes, When};
use rustix::mount::MountFlags;

/// How a mount is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Its source as the kernel shows it.
    pub source: String,
    /// Other users may use it, too.
    pub allow_other: bool,
    /// Nothing is written.
    pub read_only: bool,
    /// No programs are executed from it,
    pub no_exec: bool,
    /// no set-id bits count,
    pub no_set_id: bool,
    /// no devices are opened,
    pub no_devices: bool,
    /// no symbolic links are followed.
    pub no_symlinks: bool,
    /// When reads move times of last access.
    pub accessed: When,
    /// Those of directories stay.
    pub no_accessed_of_directories: bool,
    /// Times need not be durable at once.
    pub lazy_times: bool,
    /// The changes of a call are durable when it returns,
    pub synchronous: bool,
    /// or what it changes in directories is.
    pub synchronous_directories: bool,
}

impl Options {
    /// Sets the option that `/etc/fstab` has for this word. `false`: there is none.
    pub fn set(&mut self, word: &str) -> bool {
        match word {
            "atime" | "relatime" | "nostrictatime" => self.accessed = When::Relative,
            "strictatime" | "norelatime" => self.accessed = When::Always,
            "noatime" => self.accessed = When::Never,
            word => match self.flag(word) {
                Some((option, is_set)) => *option = is_set,
                None => return means_nothing(word),
            },
        }
        true
    }

    /// The option that a word sets or takes back.
    fn flag(&mut self, word: &str) -> Option<(&mut bool, bool)> {
        Some(match word {
            "allow_other" => (&mut self.allow_other, true),
            "ro" | "rw" => (&mut self.read_only, word == "ro"),
            "exec" | "noexec" => (&mut self.no_exec, word == "noexec"),
            "suid" | "nosuid" => (&mut self.no_set_id, word == "nosuid"),
            "dev" | "nodev" => (&mut self.no_devices, word == "nodev"),
            "symfollow" | "nosymfollow" => (&mut self.no_symlinks, word == "nosymfollow"),
            "diratime" | "nodiratime" => (&mut self.no_accessed_of_directories, word == "nodiratime"),
            "lazytime" | "nolazytime" => (&mut self.lazy_times, word == "lazytime"),
            "sync" | "async" => (&mut self.synchronous, word == "sync"),
            "dirsync" => (&mut self.synchronous_directories, true),
            _ => return None,
        })
    }

    /// Words that make the same of a mount without options.
    #[must_use]
    pub fn words(&self) -> Vec<&'static str> {
        let accessed = match self.accessed {
            When::Relative => None,
            When::Always => Some("strictatime"),
            When::Never => Some("noatime"),
        };
        let flags = [
            (self.allow_other, "allow_other"),
            (self.read_only, "ro"),
            (self.no_exec, "noexec"),
            (self.no_set_id, "nosuid"),
            (self.no_devices, "nodev"),
            (self.no_symlinks, "nosymfollow"),
            (self.no_accessed_of_directories, "nodiratime"),
            (self.lazy_times, "lazytime"),
            (self.synchronous, "sync"),
            (self.synchronous_directories, "dirsync"),
        ];
        flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, word)| word).chain(accessed).collect()
    }

    pub(crate) fn kernel_flags(&self) -> MountFlags {
        let accessed = match self.accessed {
            When::Relative => MountFlags::RELATIME,
            When::Always => MountFlags::STRICTATIME,
            When::Never => MountFlags::NOATIME,
        };
        let flags = [
            (self.read_only, MountFlags::RDONLY),
            (self.no_exec, MountFlags::NOEXEC),
            (self.no_set_id, MountFlags::NOSUID),
            (self.no_devices, MountFlags::NODEV),
            (self.no_symlinks, MountFlags::NOSYMFOLLOW),
            (self.no_accessed_of_directories, MountFlags::NODIRATIME),
            (self.lazy_times, MountFlags::LAZYTIME),
            (self.synchronous, MountFlags::SYNCHRONOUS),
            (self.synchronous_directories, MountFlags::DIRSYNC),
        ];
        flags.iter().filter(|(is_set, _)| *is_set).fold(accessed, |sum, &(_, flag)| sum | flag)
    }

    /// Those of a mount, by its line in the kernel's list: the sixth field has those of the mount, the last one those of the file
    /// system.
    pub(crate) fn of_mounted(line: &[u8]) -> Options {
        let line = String::from_utf8_lossy(line);
        let mut fields = line.split(' ');
        let (of_mount, of_file_system) =
            (fields.nth(5).unwrap_or_default(), fields.next_back().unwrap_or_default());
        // Strict is what the kernel has no word for.
        let mut options = Options { accessed: When::Always, ..Options::default() };
        for word in of_mount.split(',') {
            options.set(word);
        }
        for word in of_file_system.split(',').filter(|word| *word != "rw") {
            options.set(word);
        }
        options
    }

    pub(crate) fn access_times(&self) -> AccessTimes {
        // A mount for reading only changes nothing.
        let when = if self.read_only { When::Never } else { self.accessed };
        AccessTimes { when, not_of_directories: self.no_accessed_of_directories }
    }

    /// Whether what a call changes in directories is durable when it returns, and whether all else is, too.
    pub(crate) fn synchronous(&self) -> (bool, bool) {
        (self.synchronous || self.synchronous_directories, self.synchronous)
    }
}

/// Words of `/etc/fstab`, and of a mount that is shown, that say nothing here.
fn means_nothing(word: &str) -> bool {
    const WORDS: [&str; 12] = [
        "defaults",
        "auto",
        "noauto",
        "user",
        "nouser",
        "nofail",
        "_netdev",
        "default_permissions",
        "mand",
        "nomand",
        "iversion",
        "noiversion",
    ];
    const BEGINNINGS: [&str; 6] = ["x-", "X-", "comment=", "user_id=", "group_id=", "max_read="];
    WORDS.contains(&word) || BEGINNINGS.iter().any(|beginning| word.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_fstab() {
        let mut options = Options::default();
        for word in ["ro", "noexec", "nosuid", "suid", "allow_other", "x-systemd.automount", "defaults"] {
            assert!(options.set(word), "{word}");
        }
        assert!(!options.set("rot"));
        assert_eq!(options.words(), ["allow_other", "ro", "noexec"]);
        for word in ["nodiratime", "lazytime", "sync", "dirsync", "nosymfollow", "strictatime"] {
            let mut options = Options::default();
            assert!(options.set(word), "{word}");
            assert_eq!(options.words(), [word]);
        }
    }

    #[test]
    fn access_times_stay_where_nothing_is_written() {
        let mut options = Options { accessed: When::Always, ..Options::default() };
        assert_eq!(options.access_times().when, When::Always);
        options.read_only = true;
        assert_eq!(options.access_times().when, When::Never);
    }

    #[test]
    fn a_line_of_the_kernel_s_list_says_how_a_mount_is() {
        let of = |of_mount: &str, of_file_system: &str| {
            let line = format!("97 66 0:51 / /mnt {of_mount} shared:5 - fuse.cuesta /store {of_file_system}");
            Options::of_mounted(line.as_bytes()).words()
        };
        assert_eq!(of("rw,relatime", "rw,user_id=0,group_id=0,default_permissions"), [""; 0]);
        assert_eq!(
            of("ro,nosuid,noatime,nodiratime", "rw,sync"),
            ["ro", "nosuid", "nodiratime", "sync", "noatime"]
        );
        assert_eq!(
            of("rw,nosymfollow", "ro,dirsync,lazytime,allow_other"),
            ["allow_other", "ro", "nosymfollow", "lazytime", "dirsync", "strictatime"]
        );
    }
}

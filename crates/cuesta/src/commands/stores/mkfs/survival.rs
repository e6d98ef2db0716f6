//! The losses that a store in memory does not survive on this machine, told when it is made.

use crate::messages::output;
use std::path::Path;

/// Users below are the system's: logind leaves their memory alone.
const FIRST_LOGIN_UID: u32 = 1000;

/// Says what the user must know before trusting the store in `tier` with anything.
pub fn warn(tier: &Path, has_lower_tiers: bool) {
    output::warning(
        "this store lives in memory. It survives the death of programs and of the daemon; it does NOT survive \
         a power loss, a reboot or a kernel crash.",
    );
    if has_lower_tiers {
        output::warning(
            "its names lie in memory, too: what it has in lower tiers is lost with them at a reboot, and is discarded.",
        );
    }
    if tier.starts_with("/dev/shm") && logind_cleans_up() {
        output::warning(
            "logind removes your files in /dev/shm when your last session ends. Keep them with `loginctl \
             enable-linger`, or RemoveIPC=no in /etc/systemd/logind.conf, or another --nvm-path.",
        );
    }
    if Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists() {
        output::warning(
            "this is a container: its memory goes with it, and its /dev/shm is often only 64 MiB.",
        );
    }
}

fn logind_cleans_up() -> bool {
    let logind_runs = Path::new("/run/systemd/seats").exists();
    let login_user = rustix::process::getuid().as_raw() >= FIRST_LOGIN_UID;
    logind_runs && login_user && remove_ipc(&configuration())
}

fn configuration() -> String {
    let mut texts = vec![std::fs::read_to_string("/etc/systemd/logind.conf").unwrap_or_default()];
    if let Ok(folder) = std::fs::read_dir("/etc/systemd/logind.conf.d") {
        let mut parts: Vec<_> = folder.flatten().map(|entry| entry.path()).collect();
        parts.sort();
        texts.extend(parts.iter().filter_map(|path| std::fs::read_to_string(path).ok()));
    }
    texts.join("\n")
}

/// The last setting counts; the default is yes.
fn remove_ipc(configuration: &str) -> bool {
    let setting =
        |line: &str| line.trim().strip_prefix("RemoveIPC=").map(|value| value.trim().to_lowercase());
    let last = configuration.lines().filter_map(setting).next_back();
    !last.is_some_and(|value| ["no", "false", "off", "0"].contains(&value.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logind_removes_unless_told_not_to() {
        assert!(remove_ipc(""));
        assert!(remove_ipc("[Login]\n#RemoveIPC=no\n"));
        assert!(!remove_ipc("RemoveIPC=yes\nRemoveIPC=no\n"));
        assert!(remove_ipc("RemoveIPC=no\nRemoveIPC=yes"));
    }
}

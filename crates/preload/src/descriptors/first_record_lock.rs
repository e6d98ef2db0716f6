//! Before the first record lock on an inode: its placeholders become references, so that the kernel sees each close.

use crate::descriptors::record_locks::{Setting, inodes, may_be_held, note};
use crate::descriptors::{Pin, references};
use crate::thread::{self, gate};

/// A record lock is about to be set on the inode of `pin`.
pub fn setting(pin: &Pin) -> Setting {
    let inode = pin.inode();
    if let Some(calls) = inodes().get_mut(&inode) {
        *calls += 1;
        return Setting(inode);
    }
    let begin = || {
        if !may_be_held(inode) {
            references::keep(|_, other| other.inode() == inode && !other.is_path());
        }
        *note(&mut inodes(), inode) += 1;
    };
    if thread::is_vforked() {
        begin()
    } else {
        gate::alone(begin)
    }
    Setting(inode)
}

//! Places where no store is made.

use crate::messages::failure::Failure;
use cuesta_format::geometry::CONFIGURATION_FILE;
use cuesta_sharedfs::namespace_of_device;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// A store is made of files: a device needs a file system first, and persistent memory that is one of bytes first of all another mode.
pub(super) fn refuse_device(path: &Path) -> Result<(), Failure> {
    if std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device()) {
        return Err(Failure::on(
            path,
            "is a block device, and a store is made of files; mkfs overwrites nothing. On a file system there (mkfs.ext4, \
             mkfs.xfs), which is mounted, any directory will do: cuesta mkfs DIR",
        ));
    }
    let Some(namespace) = namespace_of_device(path) else { return Ok(()) };
    let namespace = if namespace.is_empty() { "NAMESPACE" } else { &namespace };
    Err(Failure::on(
        path,
        format!(
            "is persistent memory without a file system; a store is a directory, which may have it for its fast tier:\n  \
             cuesta mkfs STORE --nvm-path {}\n\
             Or make it one with a file system (what it holds is lost):\n  \
             ndctl create-namespace -f -e {namespace} --mode=fsdax\n  \
             mkfs.ext4 -b 4096 /dev/pmemN; mount -o dax=always /dev/pmemN DIR   (ndctl says which N)\n\
             and then: cuesta mkfs STORE --medium pmem --nvm-path DIR/nvm",
            path.display()
        ),
    ))
}

pub(super) fn refuse_to_overwrite(folder: &Path) -> Result<(), Failure> {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            Some(_) if folder.join(CONFIGURATION_FILE).exists() => Err(Failure::on(
                folder,
                "holds a store, and is not empty; mkfs overwrites nothing (cuesta destroy removes it)",
            )),
            Some(_) => {
                Err(Failure::on(folder, "exists and is not empty; mkfs overwrites nothing (remove it first)"))
            }
            None => Ok(()),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Err(Failure::on(folder, "exists and is no directory; mkfs overwrites nothing"))
        }
        Err(error) => Err(Failure::on(folder, error)),
    }
}

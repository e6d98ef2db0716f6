//! The mounts of stores that this command believes in, and paths on the command line that name files of a store.

use crate::messages::failure::{Failure, WRONG_USAGE};
use crate::stores::places::normal;
use crate::stores::store::{STORE_VARIABLE, Store};
use cuesta_fuse::Mounted;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where the store appears when nothing else is said.
pub const DEFAULT_AT: &str = "/cuesta";

/// The mounts of stores that this process can see and may believe, the innermost of each place last.
pub fn believed() -> Vec<Mounted> {
    let mut mounts = cuesta_fuse::mounts().unwrap_or_default();
    mounts.retain(is_believed);
    mounts
}

/// Whether a mount is of the store it says. Its maker may say anything, unless that is us, root, or the store's user.
fn is_believed(mounted: &Mounted) -> bool {
    let folder = Path::new(&mounted.source);
    let owner = || folder.metadata().map(|folder| folder.uid()).ok();
    let us = rustix::process::geteuid().as_raw();
    folder.is_absolute() && (mounted.user == us || mounted.user == 0 || Some(mounted.user) == owner())
}

/// Where `store` is mounted, if it is: the mount on top.
pub fn place_of(store: &Store) -> Option<PathBuf> {
    let of_store = |mounted: &Mounted| Path::new(&mounted.source) == store.folder();
    believed().into_iter().rev().find(of_store).map(|mounted| mounted.at)
}

/// The store that an option or the environment names, or the one on whose mount `path` lies.
pub fn store_of(option: Option<&Path>, path: &Path) -> Result<Store, Failure> {
    let is_named = option.is_some() || std::env::var_os(STORE_VARIABLE).is_some_and(|name| !name.is_empty());
    let absolute = std::path::absolute(path).ok().and_then(|path| normal(&path));
    let on_mount = |mounted: &Mounted| absolute.as_ref().is_some_and(|path| path.starts_with(&mounted.at));
    match believed().iter().rev().find(|mounted| !is_named && on_mount(mounted)) {
        Some(mounted) => Store::find(Path::new(&mounted.source)),
        None => Store::find_named(option),
    }
}

/// The path below the root of `store` that `path` names: as programs under `cuesta run` name it (under `at`), by the store's
/// mount, or relative to the store's root.
pub fn inside(store: &Store, path: &Path, at: Option<&Path>) -> Result<PathBuf, Failure> {
    let mount = place_of(store);
    let roots: Vec<&Path> = match (at, &mount) {
        (Some(at), _) => vec![at],
        (None, Some(mount)) => vec![mount, Path::new(DEFAULT_AT)],
        (None, None) => vec![Path::new(DEFAULT_AT)],
    };
    let folder = std::env::current_dir().ok();
    let is_on_mount =
        folder.as_ref().zip(mount.as_ref()).is_some_and(|(folder, mount)| folder.starts_with(mount));
    let named = match folder.filter(|_| path.is_relative() && is_on_mount) {
        Some(folder) => folder.join(path),
        None => path.to_path_buf(),
    };
    roots.iter().find_map(|root| below(&named, root)).ok_or_else(|| {
        let roots: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
        let why = format!("is not under {} (--at says where the store appears)", roots.join(" or "));
        Failure::on(path, why).exiting(WRONG_USAGE)
    })
}

/// The path below the store's root, where that is at `at`.
fn below(path: &Path, at: &Path) -> Option<PathBuf> {
    if path.is_relative() {
        return Some(path.to_path_buf());
    }
    let inner = |path: &Path| Some(normal(path)?.strip_prefix(normal(at)?).ok()?.to_path_buf());
    // A symbolic link outside may lead to the mount. The last name is not followed: it may be a link of the store.
    let resolved = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    inner(path).or_else(|| inner(&resolved()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_below_the_store() {
        let at = Path::new("/cuesta");
        assert_eq!(below(Path::new("/cuesta/a/../b"), at), Some("b".into()));
        assert_eq!(below(Path::new("/cuesta"), at), Some("".into()));
        assert_eq!(below(Path::new("a/b"), at), Some("a/b".into()));
        assert_eq!(below(Path::new("/etc/passwd"), at), None);
        assert_eq!(below(Path::new("/cuestas/a"), at), None);
    }
}

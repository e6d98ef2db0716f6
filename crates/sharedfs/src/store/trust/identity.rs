//! A store's identity in its two folders: each copy mends the other, and a fast tier proves itself by its own.

use super::folder::{TrustError, TrustedFolder};
use super::purpose::Purpose;
use cuesta_format::StoreId;
use cuesta_format::geometry::IDENTITY_FILE;
use cuesta_format::identity::{DeviceNumber, FolderMark, IDENTITY_BYTES, Identity};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, fsync, openat, renameat, statx, unlinkat};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::io::Read as _;

/// The name of a record that is not whole yet.
const UNFINISHED: &str = "identity.new";

/// Finds out which store it is, and completes what lacks. `store` is what the superblock says, if it can be read.
///
/// | the store's record | the tier's record | |
/// |---|---|---|
/// | whole | whole | they must hold the same secret |
/// | whole | missing or damaged | mended; a tier elsewhere is refused by a daemon |
/// | missing or damaged | whole | mended: the tier's owner was checked |
/// | missing | missing | a store of an earlier version gets an identity now |
pub(crate) fn settle(
    folder: &TrustedFolder,
    tier: &TrustedFolder,
    store: Option<StoreId>,
    purpose: Purpose,
    is_elsewhere: bool,
) -> Result<Identity, TrustError> {
    let (own, of_tier) = (read(folder)?, read(tier)?);
    let mark = mark(folder);
    let mut identity = match (own, of_tier) {
        (Some(own), Some(of_tier)) if !own.is_of_same_store(&of_tier) => {
            return Err(TrustError::Foreign(tier.named().to_owned()));
        }
        (Some(_), None) if is_elsewhere && purpose == Purpose::Serve => {
            return Err(TrustError::Unproven(tier.named().to_owned()));
        }
        (Some(own), _) => own,
        (None, Some(of_tier)) => of_tier,
        (None, None) => {
            let store = store.unwrap_or(StoreId([0; 16]));
            Identity { store, secret: random(folder)?, device: device_of(store), folder: mark }
        }
    };
    if store.is_some_and(|store| store != identity.store) {
        return Err(TrustError::Foreign(tier.named().to_owned()));
    }
    if identity.folder != mark {
        // A copy of the folder is another file system than the original.
        let bits = random(folder)?;
        identity.device = DeviceNumber::from_random(u64::from_le_bytes(bits));
        identity.folder = mark;
    }
    for (place, found) in [(tier, of_tier), (folder, own)] {
        if found != Some(identity)
            && store.is_some()
            && purpose != Purpose::Look
            && let Err(error) = write(place, &identity)
        {
            tracing::warn!(%error, "the store's identity cannot be written: it is tried again by the next daemon");
        }
    }
    Ok(identity)
}

/// Writes the identity of a new store.
pub(crate) fn create(folder: &TrustedFolder, tier: &TrustedFolder, store: StoreId) -> Result<(), TrustError> {
    let secret = random(folder)?;
    let identity = Identity { store, secret, device: device_of(store), folder: mark(folder) };
    write(tier, &identity)?;
    write(folder, &identity)
}

/// A store's number is random, and so is what is taken of it.
fn device_of(store: StoreId) -> DeviceNumber {
    let [a, b, c, d, e, f, g, h, ..] = store.0;
    DeviceNumber::from_random(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
}

fn random<const BYTES: usize>(folder: &TrustedFolder) -> Result<[u8; BYTES], TrustError> {
    let mut bytes = [0; BYTES];
    match getrandom(&mut bytes[..], GetRandomFlags::empty()) {
        Ok(count) if count == BYTES => Ok(bytes),
        Ok(_) => Err(TrustError::system(folder.named())(Errno::AGAIN)),
        Err(errno) => Err(TrustError::system(folder.named())(errno)),
    }
}

/// What tells the folder from a copy of it.
fn mark(folder: &TrustedFolder) -> FolderMark {
    let Ok(found) = statx(folder, c"", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME) else {
        return FolderMark::default();
    };
    let says_born = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    let seconds = u64::try_from(found.stx_btime.tv_sec).unwrap_or(0);
    let born_ns = seconds.saturating_mul(1_000_000_000).saturating_add(u64::from(found.stx_btime.tv_nsec));
    FolderMark { inode: found.stx_ino, born_ns: if says_born { born_ns } else { 0 } }
}

/// The store that a folder says it is of, if it does.
pub fn store_of(folder: &TrustedFolder) -> Option<StoreId> {
    read(folder).ok().flatten().map(|identity| identity.store)
}

/// The record in a folder; none where it is missing or damaged.
fn read(folder: &TrustedFolder) -> Result<Option<Identity>, TrustError> {
    let file = match folder.open_file(IDENTITY_FILE) {
        Ok(file) => file,
        Err(TrustError::Missing(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    // Bytes that the medium does not give are damage like any other.
    let read = std::fs::File::from(file).take(IDENTITY_BYTES as u64).read_to_end(&mut bytes);
    Ok(read.ok().and_then(|_| Identity::decode(&bytes)))
}

fn write(folder: &TrustedFolder, identity: &Identity) -> Result<(), TrustError> {
    let failed = TrustError::system(folder.named());
    match unlinkat(folder, UNFINISHED, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(failed(errno)),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(folder, UNFINISHED, flags, Mode::RUSR | Mode::WUSR).map_err(&failed)?;
    let written = rustix::io::write(&file, &identity.encode()).and_then(|bytes| match bytes {
        IDENTITY_BYTES => fsync(&file),
        _ => Err(Errno::NOSPC),
    });
    let named = written.and_then(|()| renameat(folder, UNFINISHED, folder, IDENTITY_FILE));
    if let Err(errno) = named {
        // The error to report is the first one.
        let _ = unlinkat(folder, UNFINISHED, AtFlags::empty());
        return Err(failed(errno));
    }
    fsync(folder).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    const STORE: StoreId = StoreId([5; 16]);

    fn open(path: &Path) -> TrustedFolder {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
        TrustedFolder::open(path, rustix::process::geteuid().as_raw()).unwrap()
    }

    #[test]
    fn each_copy_mends_the_other_and_another_store_is_noticed() {
        let (store, tier, other) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (folder, fast, foreign) = (open(store.path()), open(tier.path()), open(other.path()));
        create(&folder, &fast, STORE).unwrap();
        let made = settle(&folder, &fast, Some(STORE), Purpose::Serve, true).unwrap();

        std::fs::remove_file(tier.path().join(IDENTITY_FILE)).unwrap();
        let unproven = settle(&folder, &fast, Some(STORE), Purpose::Serve, true);
        assert!(matches!(unproven, Err(TrustError::Unproven(_))));
        assert_eq!(settle(&folder, &fast, Some(STORE), Purpose::Repair, true).unwrap(), made);
        std::fs::write(store.path().join(IDENTITY_FILE), "damaged").unwrap();
        assert_eq!(settle(&folder, &fast, Some(STORE), Purpose::Serve, true).unwrap(), made);
        assert_eq!(read(&folder).unwrap(), Some(made));

        // With the same number even: a store's number is in names that others see.
        create(&open(store.path()), &foreign, STORE).unwrap();
        assert!(matches!(
            settle(&folder, &fast, Some(STORE), Purpose::Serve, true),
            Err(TrustError::Foreign(_))
        ));
        assert!(matches!(
            settle(&folder, &foreign, Some(StoreId([6; 16])), Purpose::Serve, true),
            Err(TrustError::Foreign(_))
        ));
    }

    #[test]
    fn a_store_of_an_earlier_version_gets_an_identity_that_stays() {
        let (store, tier) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (folder, fast) = (open(store.path()), open(tier.path()));
        let given = settle(&folder, &fast, Some(STORE), Purpose::Serve, true).unwrap();
        assert_eq!(settle(&folder, &fast, Some(STORE), Purpose::Serve, true).unwrap(), given);
    }

    #[test]
    fn a_copied_folder_has_a_device_number_of_its_own() {
        let (store, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for place in [store.path(), copy.path()] {
            std::fs::create_dir(place.join("nvm")).unwrap();
        }
        let folder = open(store.path());
        create(&folder, &open(&store.path().join("nvm")), STORE).unwrap();
        let made =
            settle(&folder, &open(&store.path().join("nvm")), Some(STORE), Purpose::Serve, true).unwrap();
        for name in [IDENTITY_FILE, "nvm/identity"] {
            std::fs::copy(store.path().join(name), copy.path().join(name)).unwrap();
        }
        let copied =
            settle(&open(copy.path()), &open(&copy.path().join("nvm")), Some(STORE), Purpose::Serve, true)
                .unwrap();
        assert_ne!(copied.device, made.device);
        let again =
            settle(&open(copy.path()), &open(&copy.path().join("nvm")), Some(STORE), Purpose::Serve, true)
                .unwrap();
        assert_eq!(copied.device, again.device);
    }
}

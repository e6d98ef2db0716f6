//! The kernel's device model: its knowledge of the persistent memory that a folder or a device lies on.
//!
//! It is looked at whenever a daemon starts, and written down nowhere: a store may be carried to another machine, or its
//! firmware be set up anew.

use cuesta_format::PersistenceDomain;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// A region of persistent memory, or several that a file system lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where stores to all of it are durable.
    pub domain: PersistenceDomain,
    /// The node of the machine's memory that all of it is on.
    pub node: Option<u32>,
}

impl Region {
    /// The region the folder lies on. `None`: on no persistent memory, or the kernel does not say.
    #[must_use]
    pub fn of(folder: &Path) -> Option<Region> {
        Region::of_device(Path::new("/sys"), fs::metadata(folder).ok()?.dev())
    }

    /// The region a character device is a part of.
    #[must_use]
    pub fn of_device_of_bytes(path: &Path) -> Option<Region> {
        let device = fs::metadata(path).ok()?.rdev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        Region::above(&fs::canonicalize(format!("/sys/dev/char/{major}:{minor}")).ok()?)
    }

    fn of_device(sys: &Path, device: u64) -> Option<Region> {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        Region::of_disk(&fs::canonicalize(sys.join(format!("dev/block/{major}:{minor}"))).ok()?)
    }

    /// Of a disk, or a part of one; `disk` is its folder.
    fn of_disk(disk: &Path) -> Option<Region> {
        let parts: Vec<PathBuf> = fs::read_dir(disk.join("slaves"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|part| part.path())
            .collect();
        if parts.is_empty() {
            return Region::above(disk);
        }
        let mut regions = parts.iter().map(|part| Region::of_disk(&fs::canonicalize(part).ok()?));
        let first = regions.next()??;
        regions.try_fold(first, |all, part| {
            let part = part?;
            let node = all.node.filter(|_| all.node == part.node);
            Some(Region { domain: all.domain.min(part.domain), node })
        })
    }

    fn above(disk: &Path) -> Option<Region> {
        let domain = |folder: &Path| fs::read_to_string(folder.join("persistence_domain")).ok();
        let (region, text) = disk.ancestors().find_map(|folder| Some((folder, domain(folder)?)))?;
        let is_cache = text.trim() == PersistenceDomain::CpuCache.name();
        let domain = if is_cache { PersistenceDomain::CpuCache } else { PersistenceDomain::MemoryController };
        let node = fs::read_to_string(region.join("numa_node")).ok();
        Some(Region { domain, node: node.and_then(|node| node.trim().parse().ok()) })
    }
}

/// The namespace of persistent memory that is a character device (`/dev/dax0.0`), if `path` is one; empty: the kernel does not
/// say which.
#[must_use]
pub fn namespace_of_device(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok().filter(|found| found.file_type().is_char_device())?;
    namespace_in(Path::new("/sys"), found.rdev())
}

fn namespace_in(sys: &Path, device: u64) -> Option<String> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = fs::canonicalize(sys.join(format!("dev/char/{major}:{minor}"))).ok()?;
    let subsystem = fs::canonicalize(device.join("subsystem")).ok()?;
    if subsystem.file_name().is_none_or(|name| name != "dax") {
        return None;
    }
    let namespace = |folder: &Path| fs::read_to_string(folder.join("namespace")).ok();
    let found = device.ancestors().find_map(namespace).unwrap_or_default();
    Some(found.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const DEVICE: u64 = 0x10305;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A folder as /sys is, with regions as they say of themselves.
    fn sys(regions: &[(&str, &str)]) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        for (number, (domain, node)) in regions.iter().enumerate() {
            let region = sys.path().join(format!("devices/ndbus0/region{number}"));
            write(region.join("persistence_domain"), domain);
            write(region.join("numa_node"), node);
            fs::create_dir_all(region.join(format!("pfn{number}.1/block/pmem{number}"))).unwrap();
        }
        fs::create_dir_all(sys.path().join("dev/block")).unwrap();
        fs::create_dir_all(sys.path().join("dev/char")).unwrap();
        sys
    }

    fn disk(sys: &Path, number: usize) -> PathBuf {
        sys.join(format!("devices/ndbus0/region{number}/pfn{number}.1/block/pmem{number}"))
    }

    fn name(sys: &Path, kind: &str, target: &Path) {
        let name = format!("dev/{kind}/{}:{}", rustix::fs::major(DEVICE), rustix::fs::minor(DEVICE));
        symlink(target, sys.join(name)).unwrap();
    }

    #[test]
    fn a_disk_or_a_part_of_one_is_of_the_region_above_it() {
        let of = |text, node, part: &str| {
            let sys = sys(&[(text, node)]);
            let disk = disk(sys.path(), 0).join(part);
            fs::create_dir_all(&disk).unwrap();
            name(sys.path(), "block", &disk);
            Region::of_device(sys.path(), DEVICE).unwrap()
        };
        let (cache, controller) = (PersistenceDomain::CpuCache, PersistenceDomain::MemoryController);
        assert_eq!(of("cpu_cache\n", "1\n", ""), Region { domain: cache, node: Some(1) });
        assert_eq!(of("memory_controller\n", "0\n", "pmem0p1"), Region { domain: controller, node: Some(0) });
        // Where the firmware does not say, lines are written back.
        assert_eq!(of("\n", "-1\n", ""), Region { domain: controller, node: None });
    }

    #[test]
    fn of_several_regions_the_weakest_counts() {
        for (second, domain, node) in [
            (("cpu_cache", "1"), PersistenceDomain::CpuCache, Some(1)),
            (("memory_controller", "0"), PersistenceDomain::MemoryController, None),
        ] {
            let sys = sys(&[("cpu_cache", "1"), second]);
            let joined = sys.path().join("devices/virtual/block/dm-0");
            fs::create_dir_all(joined.join("slaves")).unwrap();
            for number in 0..2 {
                symlink(disk(sys.path(), number), joined.join(format!("slaves/pmem{number}"))).unwrap();
            }
            name(sys.path(), "block", &joined);
            assert_eq!(Region::of_device(sys.path(), DEVICE), Some(Region { domain, node }));
        }
    }

    #[test]
    fn a_folder_on_no_persistent_memory_is_of_no_region() {
        let sys = sys(&[("cpu_cache", "0")]);
        assert_eq!(Region::of_device(sys.path(), DEVICE), None);
        let other = sys.path().join("devices/pci/block/sda");
        fs::create_dir_all(&other).unwrap();
        name(sys.path(), "block", &other);
        assert_eq!(Region::of_device(sys.path(), DEVICE), None);
    }

    #[test]
    fn a_device_of_bytes_is_known_with_its_namespace() {
        let sys = sys(&[("cpu_cache", "0")]);
        let parent = sys.path().join("devices/ndbus0/region0/dax0.1");
        write(parent.join("namespace"), "namespace0.0\n");
        let device = parent.join("dax0.0");
        fs::create_dir_all(&device).unwrap();
        name(sys.path(), "char", &device);
        let subsystem = |name: &str| {
            let bus = sys.path().join("bus").join(name);
            fs::create_dir_all(&bus).unwrap();
            let _ = fs::remove_file(device.join("subsystem"));
            symlink(bus, device.join("subsystem")).unwrap();
        };
        subsystem("tty");
        assert_eq!(namespace_in(sys.path(), DEVICE), None);
        subsystem("dax");
        assert_eq!(namespace_in(sys.path(), DEVICE).as_deref(), Some("namespace0.0"));
    }
}

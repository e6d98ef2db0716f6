//! How much is written to a disk for what programs write.

mod common;

use common::can_mount;
use common::disk::Disk;

const MIB: u64 = 1 << 20;

/// The kernel takes as much as it keeps in one folio, up to 2 MiB, for changed where a mapping of a file was stored to.
#[test]
fn pages_that_are_overwritten_here_and_there_have_the_disk_write_little_else() {
    if !can_mount() {
        return;
    }
    let disk = Disk::with_store_of("192M");
    let ran = |script: &str| {
        let ended = common::Ended(disk.program(script).output().unwrap());
        assert_eq!(ended.status(), 0, "{}", ended.errors());
        disk.place.cuesta(&["stop", "disk/store"]);
        disk.written()
    };
    let before = ran("file = os.open('/cuesta/pages', os.O_RDWR | os.O_CREAT)
for _ in range(96): os.write(file, bytes(1 << 20))
os.fsync(file)
");
    let after = ran("file = os.open('/cuesta/pages', os.O_RDWR)
for page in range(0, 96 << 20, 192 << 10):
  os.pwrite(file, bytes(4096), page)
  os.fsync(file)
");
    // 2 MiB of pages, once in the log, with a header each, and once in their place.
    let written = after - before;
    assert!(written < 16 * MIB, "{} KiB for 512 pages", written >> 10);
}

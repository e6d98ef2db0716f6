//! How much is written to a disk for what programs write.

use crate::common::can_mount;
use crate::common::disk::Disk;

const MIB: u64 = 1 << 20;

/// The bytes written to the disk when a program has ended, and all of it is digested.
fn written_behind(disk: &Disk, script: &str) -> u64 {
    let ended = crate::common::Ended(disk.program(script).output().unwrap());
    assert_eq!(ended.status(), 0, "{}", ended.errors());
    disk.place.cuesta(&["stop", "disk/store"]);
    disk.written()
}

/// The kernel takes as much as it keeps in one folio, up to 2 MiB, for changed where a mapping of a file was stored to.
#[test]
fn pages_that_are_overwritten_here_and_there_have_the_disk_write_little_else() {
    if !can_mount() {
        return;
    }
    let disk = Disk::with_store_of("192M");
    let before = written_behind(
        &disk,
        "file = os.open('/cuesta/pages', os.O_RDWR | os.O_CREAT)
for _ in range(96): os.write(file, bytes(1 << 20))
os.fsync(file)
",
    );
    let after = written_behind(
        &disk,
        "file = os.open('/cuesta/pages', os.O_RDWR)
for page in range(0, 96 << 20, 192 << 10):
  os.pwrite(file, bytes(4096), page)
  os.fsync(file)
",
    );
    // 2 MiB of pages, once in the log, with a header each, and once in their place.
    let written = after - before;
    assert!(written < 16 * MIB, "{} KiB for 512 pages", written >> 10);
}

/// Synced bytes are on the disk once, past the log's pages: neither a digest nor a wait has those pages written, too.
#[test]
fn a_page_that_is_overwritten_and_waited_for_again_and_again_is_written_once_each_time() {
    if !can_mount() {
        return;
    }
    let disk = Disk::with_store_of("192M");
    let script = "file = os.open('/cuesta/page', os.O_RDWR | os.O_CREAT)
for turn in range(2000):
  os.pwrite(file, bytes([turn % 256]) * 4032, 0)
  os.fsync(file)
";
    // The first time, the log's segments are made.
    let before = written_behind(&disk, script);
    // With its header each is a block of the log.
    let written = written_behind(&disk, script) - before;
    assert!(written < 12 * MIB, "{} KiB for 2000 waits", written >> 10);
}

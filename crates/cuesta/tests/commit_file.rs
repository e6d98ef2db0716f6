//! An fsync goes to the program's commit file, whenever it can have one.

use crate::common::can_mount;
use crate::common::disk::Disk;

/// Whether the program has one is seen from outside: its own descriptors are all that it is shown.
const SCRIPT: &str = "import resource
def files_past_the_cache():
  flags = os.popen('cat /proc/%d/fdinfo/* | grep flags' % os.getpid()).read().split()[1::2]
  return sum(int(flag, 8) & os.O_DIRECT != 0 for flag in flags)
def waits(count):
  for turn in range(count):
    os.pwrite(file, bytes(100), 0)
    os.fsync(file)
file = os.open('/cuesta/file', os.O_RDWR | os.O_CREAT)
os.pwrite(file, bytes(100), 0)
limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
taken = []
resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
try:
  while True: taken.append(os.dup(0))
except OSError: pass
waits(10)
for one in taken: os.close(one)
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
print(files_past_the_cache())
waits(100)
print(files_past_the_cache())
";

#[test]
fn a_program_that_was_out_of_descriptors_when_it_first_waited_has_one_later() {
    if !can_mount() {
        return;
    }
    let disk = Disk::with_store_of("64M");
    let ended = crate::common::Ended(disk.program(SCRIPT).output().unwrap());
    assert_eq!((ended.status(), ended.text().trim()), (0, "0\n1"), "{}", ended.errors());
    disk.place.cuesta(&["stop", "disk/store"]);
}

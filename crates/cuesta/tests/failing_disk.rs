//! Stores on a disk that fails: an ext4 of its own on a loop device, which is shut down under the programs as by a loss of
//! power. Unwritten data is gone, and the file system takes and gives nothing any more until it is mounted anew.

use crate::common::disk::Disk;
use crate::common::{TestFolder, can_mount};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

#[test]
fn on_a_disk_that_takes_no_writes_syncs_fail_and_all_that_was_can_be_read() {
    if !can_mount() {
        return;
    }
    let disk = Disk::with_store_of("64M");
    let mut program = disk.program(
        "def say(what, act):
  try: print(what, act())
  except OSError as error: print(what, error.strerror)
for number in range(20):
  with open(f'/cuesta/{number}', 'w') as file: file.write(f'file {number}')
kept = os.open('/cuesta/kept', os.O_RDWR | os.O_CREAT)
os.write(kept, b'acknowledged')
say('sync', lambda: os.fsync(kept))
cut()
os.write(kept, b', and more')
say('sync', lambda: os.fsync(kept))
say('once more', lambda: os.fsync(kept))
say('read', lambda: os.pread(kept, 12, 0))
say('another', lambda: open('/cuesta/7').read())
say('names', lambda: len(os.listdir('/cuesta')))
try:
  while True: os.write(kept, bytes(1 << 20))
except OSError as error: print('full', error.strerror)
say('read', lambda: os.pread(kept, 12, 0))
say('size', lambda: os.stat('/cuesta/9').st_size)
",
    );
    let ended = crate::common::Ended(program.output().unwrap());
    let failed = "Input/output error";
    let said = format!(
        "sync None\nsync {failed}\nonce more {failed}\nread b'acknowledged'\nanother file 7\nnames 21\nfull {failed}\n\
         read b'acknowledged'\nsize 6\n"
    );
    assert_eq!(ended.text(), said, "{}", ended.errors());
    let asked = disk.place.cuesta(&["status", "disk/store"]);
    let status = asked.text();
    assert!(status.contains("nothing is written any more: a write failed"), "{status} {}", asked.errors());
    disk.unmount();
    disk.mount();
    assert_eq!(disk.place.cuesta(&["fsck", "disk/store"]).status(), 0);
    let after = disk.program("print(open('/cuesta/kept').read()[:12], open('/cuesta/19').read())").output();
    assert_eq!(crate::common::Ended(after.unwrap()).text(), "acknowledged file 19\n");
}

#[test]
fn what_threads_synced_together_survives_a_loss_of_power() {
    if !can_mount() {
        return;
    }
    let disk = Disk::with_store_of("64M");
    let threads = 4;
    let mut program = disk.program(&format!(
        "def append(thread):
  file = os.open(f'/cuesta/{{thread}}', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
  number = 0
  try:
    while True:
      os.write(file, b'%d\\n' % number)
      os.fsync(file)
      os.write(1, b'%d %d\\n' % (thread, number))
      number += 1
  except OSError: pass
for thread in range({threads}): threading.Thread(target=append, args=[thread]).start()
sys.stdin.readline()
cut()
"
    ));
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut power = program.stdin.take();
    let mut acknowledged: BTreeMap<String, usize> = BTreeMap::new();
    for line in BufReader::new(program.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let (thread, number) = line.split_once(' ').unwrap();
        acknowledged.insert(thread.to_owned(), number.parse().unwrap());
        if acknowledged.len() == threads && acknowledged.values().all(|&number| number > 50) {
            drop(power.take());
        }
    }
    assert!(program.wait().unwrap().success());
    disk.unmount();
    disk.mount();
    for (thread, last) in &acknowledged {
        let found = disk.program(&format!("print(open('/cuesta/{thread}').read(), end='')")).output();
        let found = crate::common::Ended(found.unwrap()).text();
        let numbers: Vec<usize> = found.lines().map(|line| line.parse().unwrap()).collect();
        assert!(numbers.iter().copied().eq(0..numbers.len()), "{found}");
        assert!(
            numbers.len() > *last,
            "thread {thread}: {last} was acknowledged, {} are there",
            numbers.len()
        );
    }
    assert_eq!(acknowledged.len(), threads, "{acknowledged:?}");
}

/// Its own disk, not the store's, may be what is full: the daemon's log cannot be written there.
#[test]
fn a_daemon_whose_log_cannot_be_written_goes_on() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let place = TestFolder::with_store();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut daemon = place.command(&["serve", "store"]).stderr(full).spawn().unwrap();
    let run = |script: &str| place.cuesta(&["run", "--store", "store", "--", "sh", "-c", script]);
    while place.cuesta(&["status", "store"]).status() == 3 {
        assert_eq!(daemon.try_wait().unwrap(), None, "it ended before it was there");
    }
    assert_eq!(run("echo hello > /cuesta/a").status(), 0);
    assert_eq!(run("cat /cuesta/a").text(), "hello\n");
    assert_eq!(daemon.try_wait().unwrap(), None);
    place.cuesta(&["stop", "store"]);
    assert!(daemon.wait().unwrap().success());
}

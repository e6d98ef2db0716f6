//! A store on a disk that another program fills: files are still read and removed, writes answer ENOSPC, and once there is room again
//! all goes on.

use crate::common::disk::Disk;
use crate::common::{Ended, can_mount};
use std::io::{ErrorKind, Write};

/// Takes all that the disk has left, to the last block.
fn fill(disk: &Disk) {
    let mut filler = std::fs::File::create(disk.place.path("disk/filler")).unwrap();
    for bytes in [1 << 16, 512] {
        let piece = vec![1; bytes];
        loop {
            match filler.write_all(&piece) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    filler.sync_all().unwrap();
}

fn shell(disk: &Disk, script: &str) -> Ended {
    disk.place.cuesta(&["run", "--store", "disk/store", "--", "sh", "-c", script])
}

/// Writes a file of each length anew until the store has no room, and says which errors there were.
const WRITE_UNTIL_FULL: &str = r#"
import collections, os
answers = collections.Counter()
for number in range(100000):
    try:
        with open(f"/cuesta/new{number}", "wb") as file:
            file.write(os.urandom(1 + number * 977 % 60000)); file.flush(); os.fsync(file.fileno())
    except OSError as error:
        answers[os.strerror(error.errno)] += 1
        if sum(answers.values()) == 5: break
print(dict(answers))
"#;

#[test]
fn what_is_there_is_read_and_removed() {
    if !can_mount() {
        return;
    }
    let disk = Disk::with_store_of("64M");
    let made = shell(&disk, "head -c 20000000 /dev/urandom >/cuesta/big; echo kept >/cuesta/kept; sync");
    assert_eq!(made.status(), 0, "{}", made.errors());
    disk.place.cuesta(&["stop", "disk/store"]);
    fill(&disk);
    // May be refused: it is its end that must not be in the way of others.
    shell(&disk, "echo new >/cuesta/new");
    let read = shell(
        &disk,
        "cat /cuesta/kept && ls /cuesta/big && rm /cuesta/big && rm -f /cuesta/new && ls /cuesta",
    );
    assert_eq!((read.status(), read.text().as_str()), (0, "kept\n/cuesta/big\nkept\n"), "{}", read.errors());
    assert_eq!(disk.place.cuesta(&["stop", "disk/store"]).status(), 0);
    let checked = disk.place.cuesta(&["fsck", "disk/store"]);
    assert_eq!(checked.status(), 0, "{}{}", checked.text(), checked.errors());
    disk.unmount();
}

#[test]
fn writes_answer_that_there_is_no_room_until_there_is() {
    if !can_mount() {
        return;
    }
    let disk = Disk::with_store_of("200M");
    assert_eq!(shell(&disk, "echo kept >/cuesta/kept").status(), 0);
    fill(&disk);
    let script = disk.place.path("write.py");
    std::fs::write(&script, WRITE_UNTIL_FULL).unwrap();
    let program = script.display().to_string();
    let run = ["run", "--store", "disk/store", "--", "python3", &program];
    let filled = disk.place.cuesta(&run);
    assert_eq!(filled.text(), "{'No space left on device': 5}\n", "{}", filled.errors());
    let again = disk.place.cuesta(&run);
    assert_eq!(again.text(), "{'No space left on device': 5}\n", "{}", again.errors());
    std::fs::remove_file(disk.place.path("disk/filler")).unwrap();
    let written = shell(&disk, "cat /cuesta/kept && head -c 5000000 /dev/zero >/cuesta/more && sync");
    assert_eq!((written.status(), written.text().as_str()), (0, "kept\n"), "{}", written.errors());
    disk.unmount();
}

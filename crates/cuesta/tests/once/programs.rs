//! Programs as they are, of another user and of the store's own where an address space is too small for a session (`ulimit -v`): no
//! call fails while daemons die, and none is done twice.

use super::{Daemons, NOBODY, Planted};
use cuesta_media::planted::{CAN_PLANT, Death};
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::Duration;

const ROUNDS: &str = "150";

/// Makes, renames, appends and removes; each call that is done twice fails, or shows at the end.
const PROGRAM: &str = r#"
import os, sys
at, rounds = sys.argv[1], int(sys.argv[2])
os.mkdir(at)
os.chdir(at)
for number in range(rounds):
    os.mkdir('made')
    os.rename('made', 'directory-%d' % number)
    os.close(os.open('new', os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.link('new', 'file-%d' % number)
    os.unlink('new')
    os.setxattr('file-%d' % number, 'user.once', b'x', os.XATTR_CREATE)
    lines = os.open('lines', os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(lines, b'%d\n' % number)
    os.close(lines)
    if number % 2:
        os.rmdir('directory-%d' % number)
        os.removexattr('file-%d' % number, 'user.once')
assert open('lines').read().split() == [str(number) for number in range(rounds)]
files = ['file-%d' % number for number in range(rounds)]
assert sorted(os.listdir('.')) == sorted(['lines'] + files + ['directory-%d' % number for number in range(0, rounds, 2)])
print('whole')
"#;

#[test]
fn programs_meet_no_error_while_daemons_die() {
    let Some(daemons) = Daemons::new() else { return };
    for (user, limit) in [(NOBODY, ":"), (0, "ulimit -v 900000")] {
        let script = format!("{limit}; exec python3 -c \"$0\" /cuesta/of-{user} {ROUNDS}");
        let mut command =
            daemons.place.command(&["run", "--store", "store", "--", "sh", "-c", &script, PROGRAM]);
        command.uid(user).gid(user).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = command.spawn().unwrap();
        for daemon in 0.. {
            let planted = Planted { death: Death::ALL[daemon % Death::ALL.len()], count: 20 + daemon as u64 };
            // Not to wait for something, but for a daemon to die at whatever it does then.
            std::thread::sleep(Duration::from_millis(30));
            daemons.kill();
            daemons.start(CAN_PLANT.then_some(planted));
            if CAN_PLANT && daemons.dies_before(&mut program) {
                daemons.start(None);
            }
            if program.try_wait().unwrap().is_some() {
                break;
            }
        }
        let ended = program.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(String::from_utf8_lossy(&ended.stdout), "whole\n", "user {user}: {errors}");
    }
}

//! Programs of another user than the store's, started by that user.

mod common;

use common::{Ended, Place};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;

const NOBODY: u32 = 65534;

fn as_nobody(place: &Place, script: &str) -> Ended {
    let mut command = place.command(&["run", "--store", "store", "--", "/bin/sh", "-c", script]);
    Ended(command.uid(NOBODY).gid(NOBODY).output().unwrap())
}

#[test]
fn a_store_that_others_may_reach_serves_them_while_its_user_serves_it() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root becomes somebody else");
        return;
    }
    let place = Place::with_store();
    set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
    let made = place.cuesta(&[
        "run",
        "--store",
        "store",
        "--",
        "sh",
        "-c",
        "umask 077; echo s > /cuesta/secret; mkdir -m 777 /cuesta/all",
    ]);
    assert_eq!(made.status(), 0, "{}", made.errors());
    as_nobody(&place, "true").refused(125, &["store", "another user"]);

    set_permissions(place.path("store"), Permissions::from_mode(0o711)).unwrap();
    let script = "id -u; cat /cuesta/secret; echo mine > /cuesta/all/mine && stat -c '%u %a' /cuesta/all/mine; ls /cuesta";
    let served = as_nobody(&place, script);
    assert_eq!(served.text(), "65534\n65534 644\nall\nsecret\n", "{}", served.errors());
    assert_eq!(served.errors(), "cat: /cuesta/secret: Permission denied\n");

    assert_eq!(place.cuesta(&["stop", "store"]).status(), 0);
    as_nobody(&place, "true").refused(125, &["store", "another user", "not served"]);
}
